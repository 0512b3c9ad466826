"""Connections are counted by peer and in all; those beyond are turned away (S22)."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import app
from gateway.app import Server
from gateway.peers import PER_ADDRESS, TOTAL, Peers, network
from tests.gateway.live import DEADLINE_S, config, provider, running
from tests.gateway.wire import LOCAL, connect, head, talk

CLOSE = ("connection", "close")
HEALTH = head("GET /livez", LOCAL, CLOSE)


@pytest.mark.promise("S22")
def test_a_peer_has_so_many_connections():
    """Others still get in; a closed one makes room."""
    peers = Peers(per_address=2, total=10)
    assert [None, None, "address", None] == [peers.enter(peer) for peer in ("a", "a", "a", "b")]
    peers.leave("a")
    assert [None, "address"] == [peers.enter("a"), peers.enter("a")]


@pytest.mark.promise("S22")
def test_all_together_have_so_many():
    """Whoever comes."""
    peers = Peers(per_address=2, total=3)
    assert [None, None, None, "total", "total"] == [peers.enter(peer) for peer in "abcda"]


def test_the_defaults_are_generous():
    """A team behind a proxy does not meet them."""
    assert 1000 <= PER_ADDRESS < TOTAL


@pytest.mark.promise("S22", "S24")
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"))))
def test_counts_agree_with_what_is_open(steps):
    """After any coming and going the limits hold, and nothing is kept of who has left."""
    peers, held = Peers(per_address=3, total=5), []
    for comes, peer in steps:
        if comes:
            full = peers.enter(peer)
            expected = "total" if len(held) == 5 else "address" if held.count(peer) == 3 else None
            assert expected == full
            held += [peer] if full is None else []
        elif peer in held:
            held.remove(peer)
            peers.leave(peer)
        assert len(held) == peers.open
    for peer in held:
        peers.leave(peer)
    assert (0, {}) == (peers.open, peers._counts)


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_an_ipv6_host_is_one_peer(address, peer):
    """It may use any address of its /64."""
    assert peer == network(address)


async def closed(live, count):
    """Wait until the gateway has so many connections."""
    async with asyncio.timeout(DEADLINE_S):
        while len(live.connections) != count:
            await asyncio.sleep(0.005)


@pytest.fixture
def server(monkeypatch):
    """The server of the gateway that the test runs, with room for two connections."""
    made = []
    begin = Server.__init__

    def init(self, *args, **options):
        begin(self, *args, **options)
        self.peers = Peers(per_address=2, total=2)
        made.append(self)

    monkeypatch.setattr(Server, "__init__", init)
    return made


@pytest.mark.promise("S22")
async def test_a_connection_beyond_gets_a_503_and_is_closed(server):
    """It is told at once; when another is gone there is room again, and the log has one line."""
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        held = [await connect(live.url) for _ in range(2)]
        await closed(server[0], 2)
        for _ in range(3):
            answer = await talk(live.url, HEALTH)
            assert (503, "5", "close") == (answer.status, answer.header("retry-after"), answer.header("connection"))
            assert b"too many connections\n" == answer.body
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        await closed(server[0], 0)
        assert 200 == (await talk(live.url, HEALTH)).status
        await closed(server[0], 0)
        assert 0 == server[0].peers.open
    assert 1 == live.out.getvalue().count("connections_full")


@pytest.mark.promise("S22")
async def test_one_that_is_turned_away_and_says_nothing_is_closed(server, monkeypatch):
    """Soon, so that it holds no descriptor either."""
    monkeypatch.setattr(app, "TURNED_AWAY_S", 0.05)
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        held = [await connect(live.url) for _ in range(2)]
        await closed(server[0], 2)
        assert 503 == (await talk(live.url)).status
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
