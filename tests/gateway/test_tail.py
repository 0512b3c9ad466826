"""`dragoman tail` and `dragoman status` before a real gateway, and over its restarts."""

import argparse
import asyncio
import json
import socket
from contextlib import aclosing, asynccontextmanager, suppress

import msgspec
import pytest

from gateway import follow as following
from gateway.cli import EXIT_CONFIG, EXIT_PROBLEM, main
from gateway.follow import Refused, follow
from gateway.lifecycle import bind, listen
from gateway.options import parser
from gateway.record import Record
from gateway.status import _ask, show
from gateway.tail import _follow, wanted
from gateway.target import Target, refusal, target
from gateway.telemetry import Telemetry
from providers.secret import Secret
from tests.gateway.live import CLIENT_KEY, config, provider, running
from tests.streams import Say, Turn, chat
from tests.upstream import Upstream, closed_port, reply_json, sse

ADMIN_KEY = "admin-key-for-tests-0001"
DEAD = f"http://127.0.0.1:{closed_port()}"
TOML = """
[server]
port = {port}
[admin]
key = "{key}"
[providers.up]
plugin = "openai"
base_url = "http://127.0.0.1:9/v1"
keys = [ {{ name = "k1", value = "upstream-key-0001" }} ]
[models."*"]
provider = "up"
"""


def options(*argv: str) -> argparse.Namespace:
    return parser().parse_args(argv)


def guarded(settings):
    return msgspec.structs.replace(settings, admin=Secret(ADMIN_KEY).sha256())


@asynccontextmanager
async def serving(settings, port: int):
    """A gateway on a fixed port, so that it can come back there."""
    telemetry = Telemetry(msgspec.structs.replace(settings.log, level="error"))
    listening = await listen(settings, telemetry, bind("127.0.0.1", port))
    try:
        yield listening.gateway
    finally:
        await listening.close(0)
        telemetry.close()


async def lines_of(capsys, count: int) -> list[str]:
    """The first lines on stdout, once there are that many."""
    got = ""
    async with asyncio.timeout(10):
        while got.count("\n") < count:
            got += capsys.readouterr().out
            await asyncio.sleep(0.01)
    return got.splitlines()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ((), True),
        (("--client", "alice"), True),
        (("--client", "al*"), True),
        (("--client", "bob"), False),
        (("--alias", "claude-*"), True),
        (("--alias", "gpt-?"), False),
        (("--outcome", "stalled_idle"), True),
        (("--outcome", "complete"), False),
        (("--outcome", "complete", "--outcome", "failed"), True),
        (("--client", "alice", "--outcome", "complete"), False),
    ],
)
def test_filters_are_joined(argv, expected):
    """Client and alias are patterns, outcomes are alternatives, and all kinds of filters have to agree."""
    record = Record(client="alice", alias="claude-sonnet", outcome="stalled_idle")
    assert expected == wanted(record, options("tail", *argv))


async def test_tail_prints_requests_as_they_end(capsys):
    """The latest ones first, then each as it ends; one line each."""
    async with Upstream([sse(chat(Turn([Say("Good morning, all.")])))] * 2) as upstream:
        async with running(config(provider(upstream.url))) as live:
            await live.send("chat")
            await live.records()
            tail = asyncio.create_task(_follow(Target(live.url, {}), options("tail")))
            [first] = await lines_of(capsys, 1)
            await live.send("messages")
            [second] = await lines_of(capsys, 1)
            tail.cancel()
            with suppress(asyncio.CancelledError):
                await tail
    assert " ✓ alice m1 → up/up-m key=k1 in=11 cache=27.3% out=7 " in first
    assert " ✓ alice m1 → up/up-m key=k1 " in second


async def test_tail_gives_json_for_programs(capsys):
    """`--json` prints the record itself, filters apply, `--last` limits the look back."""
    async with running(config(provider(DEAD))) as live:
        feed = live.listening.gateway.watchers.feed
        for number in range(8):
            feed.put(Record(request_id=f"r{number}", client="alice" if number % 2 else "bob", outcome="complete"))
        asked = options("tail", "--json", "--client", "alice", "--last", "5")
        tail = asyncio.create_task(_follow(Target(live.url, {}), asked))
        found = [json.loads(line) for line in await lines_of(capsys, 3)]
        tail.cancel()
        with suppress(asyncio.CancelledError):
            await tail
    assert ["r3", "r5", "r7"] == [record["request_id"] for record in found]


async def test_tail_survives_restarts(monkeypatch):
    """What a new process tells comes after what the old one told: nothing twice, nothing left out."""
    monkeypatch.setattr(following, "FIRST_WAIT_S", 0.05)
    monkeypatch.setattr(following, "LONGEST_WAIT_S", 0.1)
    settings, port = config(provider(DEAD)), closed_port()
    signs: list[str] = []
    found: list[str] = []

    async def read() -> None:
        url = f"http://127.0.0.1:{port}/admin/events?newest=10"
        lost, back = (lambda: signs.append("lost")), (lambda: signs.append("found"))
        async with aclosing(follow(url, {}, lost=lost, found=back)) as items:
            async for item in items:
                assert isinstance(item, Record)
                found.append(item.request_id)

    async def until(*names: str) -> None:
        async with asyncio.timeout(15):
            while found != list(names):
                assert not reader.done() or reader.result()
                await asyncio.sleep(0.01)

    reader = asyncio.create_task(read())  # begins before there is a gateway
    async with asyncio.timeout(5):
        while not signs:
            await asyncio.sleep(0.01)
    async with serving(settings, port) as gateway:
        gateway.watchers.feed.put(Record(request_id="a"))
        await until("a")
        gateway.watchers.feed.put(Record(request_id="b"))
        await until("a", "b")
    async with serving(settings, port) as gateway:
        gateway.watchers.feed.put(Record(request_id="c"))
        await until("a", "b", "c")
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
    assert ["lost", "found", "lost", "found"] == signs


async def test_a_broken_connection_continues_behind_the_last_id(monkeypatch):
    """When the feed breaks off, the next one begins behind the last record; a missed number is told."""
    monkeypatch.setattr(following, "FIRST_WAIT_S", 0.01)
    feeds = [
        sse([b'id: x-1\nevent: request\ndata: {"request_id":"a"}\n\n', b'id: x-1\nevent: news\ndata: {"x":1}\n\n']),
        sse(
            [
                b'event: missed\ndata: {"count":4}\n\n',
                b"event: missed\ndata: {}\n\n",
                b'id: x-6\nevent: request\ndata: {"request_id":"b"}\n\n',
            ]
        ),
    ]
    items: list[Record | int] = []
    async with Upstream(feeds) as upstream:
        async with aclosing(follow(upstream.url, {}, lost=lambda: None, found=lambda: None)) as told:
            async for item in told:
                items.append(item)
                if len(items) == 3:
                    break
        first, second = upstream.requests
    assert [Record(request_id="a"), 4, Record(request_id="b")] == items
    assert (None, "x-1") == (first.header("last-event-id"), second.header("last-event-id"))


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refusal_ends_the_tail(status, capsys):
    """No second try for an answer that a retry cannot change; the exit code says so."""
    async with Upstream([reply_json({}, status)]) as upstream:
        assert EXIT_PROBLEM == await _follow(Target(upstream.url, {}), options("tail"))
        assert 1 == len(upstream.requests)
    assert upstream.url in capsys.readouterr().err


async def test_a_passing_refusal_is_tried_again(monkeypatch):
    """503, as of a full feed, is waited out."""
    monkeypatch.setattr(following, "FIRST_WAIT_S", 0.01)
    feed = sse([b'id: x-1\nevent: request\ndata: {"request_id":"a"}\n\n'])
    async with Upstream([reply_json({}, 503), feed]) as upstream:
        async with aclosing(follow(upstream.url, {}, lost=lambda: None, found=lambda: None)) as items:
            assert Record(request_id="a") == await anext(items)


@pytest.mark.promise("S04")
async def test_tail_needs_the_admin_key(capsys):
    """A client's key is refused, the admin's follows."""
    async with running(guarded(config(provider(DEAD)))) as live:
        for key in ("", CLIENT_KEY, "wrong"):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            with pytest.raises(Refused):
                await anext(follow(f"{live.url}/admin/events", headers, lost=lambda: None, found=lambda: None))
        live.listening.gateway.watchers.feed.put(Record(request_id="a"))
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        async with aclosing(
            follow(f"{live.url}/admin/events", headers, lost=lambda: None, found=lambda: None)
        ) as items:
            while not isinstance(item := await anext(items), Record) or item.request_id != "a":
                pass


async def test_status_shows_keys_streams_and_routes(capsys):
    """One table each, for people."""
    limited = reply_json({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, 429)
    async with Upstream([limited, sse(chat(Turn([Say("Good morning, all.")])))]) as upstream:
        async with running(config(provider(upstream.url, keys=2))) as live:
            await live.send("chat")
            await live.records()
            assert 0 == await _ask(Target(live.url, {}), as_json=False)
    shown = capsys.readouterr().out
    assert "ready" in shown
    assert "last hour: 1 requests, 0 failed; 0 in flight" in shown
    assert ["up/k1", "cooling"] == next(line.split()[:2] for line in shown.splitlines() if line.startswith("up/k1"))
    assert ["up/k2*", "healthy", "-", "0", "1", "ok=1"] == next(
        line.split() for line in shown.splitlines() if line.startswith("up/k2")
    )
    assert ["m1", "up/up-m", "chat"] == shown.splitlines()[-1].split()


async def test_status_has_json_for_programs(capsys):
    """`--json` prints the gateway's own answer."""
    async with running(config(provider(DEAD))) as live:
        assert 0 == await _ask(Target(live.url, {}), as_json=True)
    assert "up" == json.loads(capsys.readouterr().out)["keys"][0]["provider"]


async def test_status_shows_what_runs_and_what_was_refused(capsys):
    """Streams in flight, rests of single models, a refused configuration, state that is not kept."""
    from gateway.admin import Flying, KeyState, ModelRest, Refusal, snapshot

    async with running(config(provider(DEAD))) as live:
        now = snapshot(live.listening.gateway)
    flying = Flying("r" * 24, "alice", "chat", "m1", "up", None, True, 75.0, 2048, True)
    key = KeyState(
        "up", "k9", "cooling", 1, 3, {}, until=now.now + 90, models=(ModelRest("big", "cooling", now.now + 9),)
    )
    show(
        msgspec.structs.replace(
            now,
            in_flight=(flying,),
            in_flight_count=1,
            keys=(key,),
            reload_problems=(Refusal("config.toml", "server.prot", "unknown key"),),
            state_kept=False,
            reloaded=now.now,
            draining=True,
        )
    )
    told = capsys.readouterr()
    for part in ("draining", "NOT KEPT", "75.0s", "2.0K", "up/-", "cooling (1 models resting)", "90.0s", "reloaded 20"):
        assert part in told.out
    assert "server.prot: unknown key" in told.err


@pytest.mark.parametrize(
    ("reply", "part"),
    [
        (None, "no gateway answers"),
        (reply_json({}, 401), "DRAGOMAN_ADMIN_KEY"),
        (reply_json({}), "no Dragoman of this version"),
        (reply_json({}, 500), "HTTP 500"),
    ],
)
async def test_status_says_what_is_wrong(reply, part, capsys):
    """Nobody there, the wrong key, something else at that address."""
    async with Upstream([] if reply is None else [reply]) as upstream:
        url = DEAD if reply is None else upstream.url
        assert EXIT_PROBLEM == await _ask(Target(url, {}), as_json=False)
    assert part in capsys.readouterr().err


def test_the_configuration_names_address_and_key(tmp_path, monkeypatch):
    """Host, port and a key that stands in the file; the environment's key goes first."""
    monkeypatch.delenv("DRAGOMAN_ADMIN_KEY", raising=False)
    path = tmp_path / "config.toml"
    path.touch(0o600)
    path.write_text(TOML.format(port=8799, key=ADMIN_KEY))
    found = target(options("status", "--config", str(path)))
    assert Target("http://127.0.0.1:8799", {"authorization": f"Bearer {ADMIN_KEY}"}) == found
    monkeypatch.setenv("DRAGOMAN_ADMIN_KEY", "other-key")
    assert {"authorization": "Bearer other-key"} == target(options("status", "--config", str(path))).headers
    assert "http://gate:1" == target(options("status", "--config", str(path), "--url", "http://gate:1/")).url


def test_an_address_alone_needs_no_configuration(monkeypatch):
    """`--url` is enough; without a key none is sent."""
    monkeypatch.delenv("DRAGOMAN_ADMIN_KEY", raising=False)
    assert Target("http://gate:1", {}) == target(options("tail", "--url", "http://gate:1"))


@pytest.mark.parametrize("command", ["status", "tail"])
def test_a_wrong_configuration_is_told(command, tmp_path, capsys):
    """Without an address from anywhere the exit code is that of the configuration."""
    assert EXIT_CONFIG == main([command, "--config", str(tmp_path / "none.toml")])
    assert "none.toml" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "tail"])
def test_the_commands_ask_the_gateway(command, capsys):
    """From the command line down to the socket: a server that refuses is told, with exit code 1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        import threading

        def refuse() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        assert EXIT_PROBLEM == main([command, "--url", f"http://127.0.0.1:{listener.getsockname()[1]}"])
        thread.join()
    assert "no Dragoman" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "part"), [(401, "wants the admin key"), (404, "no Dragoman"), (502, "HTTP 502")])
def test_refusals_say_what_to_do(status, part):
    """Each status has its words."""
    assert part in refusal(status, "http://gate")


async def test_tail_says_when_the_gateway_goes_and_comes(monkeypatch, capsys):
    """Talk goes to stderr, so that stdout holds records alone; a feed that ends ends the command."""

    async def told(url, headers, *, lost, found):
        lost()
        found()
        yield 3
        yield Record(ts="2026-01-01T10:20:30.000Z", request_id="r1", outcome="complete")

    monkeypatch.setattr("gateway.tail.follow", told)
    assert 0 == await _follow(Target("http://gate", {}), options("tail"))
    shown = capsys.readouterr()
    assert "10:20:30 ✓ - - → - r1\n" == shown.out
    assert ["is gone", "is back", "3 requests were missed"] == [
        part for part in ("is gone", "is back", "3 requests were missed") if part in shown.err
    ]
