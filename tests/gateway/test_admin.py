"""Admin routes: who may read them, what they show, and the feed over a real socket."""

import asyncio
import json
import time
from types import SimpleNamespace

import msgspec
import pytest

from gateway import admin
from gateway.admin import Status
from gateway.config import Client
from gateway.feed import MAX_FOLLOWERS
from gateway.record import Record
from providers.secret import Secret
from tests.gateway.live import CLIENT_KEY, config, provider, running
from tests.streams import Say, Turn, chat
from tests.upstream import Head, Upstream, Wait, closed_port, reply_json, sse

ADMIN_KEY = "admin-key-for-tests-0001"
ADMIN_ROUTES = ("/admin/status", "/admin/events", "/metrics")
DEAD = f"http://127.0.0.1:{closed_port()}"


def guarded(settings):
    """The same configuration with an admin key."""
    return msgspec.structs.replace(settings, admin=Secret(ADMIN_KEY).sha256())


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def status(live, **headers: str) -> Status:
    reply = await live.ask("GET", "/admin/status", headers=headers)
    assert 200 == reply.status
    return msgspec.json.decode(reply.body, type=Status)


async def first_bytes(live, headers: dict[str, str], query: str = "") -> tuple[int, bytes]:
    """Status and first chunk of the feed, which has no end."""
    async with live.session.get(f"{live.url}/admin/events{query}", headers=headers) as response:
        return response.status, await asyncio.wait_for(response.content.readany(), 5)


async def peek(live, path: str, headers: dict[str, str]) -> int:
    """The status of a route, without its body."""
    async with live.session.get(live.url + path, headers=headers) as response:
        return response.status


@pytest.mark.promise("S04")
@pytest.mark.parametrize("path", ADMIN_ROUTES)
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (bearer(ADMIN_KEY), 200),
        ({"x-api-key": ADMIN_KEY}, 200),
        (bearer(CLIENT_KEY), 404),
        ({"x-api-key": CLIENT_KEY}, 404),
        (bearer("wrong"), 401),
        ({}, 401),
        ({**bearer(ADMIN_KEY), "x-api-key": CLIENT_KEY}, 401),
    ],
    ids=["admin", "admin by x-api-key", "client", "client by x-api-key", "wrong", "none", "two keys"],
)
async def test_admin_routes_want_the_admin_key(path, headers, expected):
    """The admin's key opens them; a client's key finds nothing there; anything else is a 401."""
    async with running(guarded(config(provider(DEAD)))) as live:
        assert expected == await peek(live, path, headers)


@pytest.mark.promise("S04")
async def test_the_admin_key_is_no_client_key():
    """It opens no model."""
    async with running(guarded(config(provider(DEAD)))) as live:
        assert 401 == (await live.send("chat", key=ADMIN_KEY)).status


@pytest.mark.promise("S04")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("path", ADMIN_ROUTES)
async def test_admin_routes_are_read_only(path, method):
    """No method but GET is served there, with whatever key."""
    async with running(guarded(config(provider(DEAD)))) as live:
        reply = await live.ask(method, path, headers=bearer(ADMIN_KEY))
        assert reply.status in (401, 404, 405)


@pytest.mark.promise("S04")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"host": "localhost:8788"}, 200),
        ({"host": "[::1]:8788"}, 200),
        ({"host": "[::1]"}, 200),
        ({"host": "gateway.example"}, 401),
        ({"host": "gateway.example:8788"}, 401),
        ({"x-forwarded-for": "192.0.2.1"}, 401),
        ({"forwarded": "for=192.0.2.1"}, 401),
        ({"via": "1.1 proxy"}, 401),
        ({"host": "gateway.example", **bearer(CLIENT_KEY)}, 404),
        ({"origin": "https://evil.example"}, 403),
    ],
)
async def test_without_an_admin_key_only_this_machine_is_trusted(headers, expected):
    """Loopback without a proxy in between; a proxy on this machine does not make the world local."""
    settings = config(provider(DEAD), allowed_hosts=("gateway.example",))
    async with running(settings) as live:
        assert expected == (await live.ask("GET", "/admin/status", headers=headers)).status


async def test_without_clients_and_with_an_admin_key_a_key_is_needed():
    """A gateway for this machine alone still keeps its admin data for the admin."""
    settings = msgspec.structs.replace(guarded(config(provider(DEAD))), clients=())
    async with running(settings) as live:
        assert 401 == (await live.ask("GET", "/admin/status")).status
        assert 401 == (await live.ask("GET", "/admin/status", headers=bearer("anything"))).status
        assert 200 == (await live.ask("GET", "/admin/status", headers=bearer(ADMIN_KEY))).status


async def test_refusals_leave_a_record():
    """Whoever tries the admin routes is seen."""
    async with running(guarded(config(provider(DEAD)))) as live:
        await live.ask("GET", "/admin/status", headers=bearer("wrong"))
        [record] = await live.records()
    assert (401, "client_error", "authentication") == (record["status"], record["outcome"], record["error_kind"])


async def test_status_tells_routes_keys_and_stores():
    """What is configured and how it does, by name."""
    limited = reply_json({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, 429)
    async with Upstream([limited, sse(chat(Turn([Say("Good morning, all.")])))]) as upstream:
        async with running(config(provider(upstream.url, keys=3))) as live:
            assert 200 == (await live.send("chat")).status
            now = await status(live)
    assert [("m1", ("up/up-m",), ("chat",))] == [(route.alias, route.targets, route.dialects) for route in now.routes]
    assert [("k1", "cooling"), ("k2", "healthy"), ("k3", "healthy")] == [(key.name, key.state) for key in now.keys]
    assert [False, True, False] == [key.active for key in now.keys]
    assert now.keys[0].until > now.now + 60
    assert ({"limited": 1}, {"ok": 1}) == (now.keys[0].outcomes, now.keys[1].outcomes)
    assert ("memory", True, True, False, 0) == (now.state, now.state_kept, now.ready, now.draining, now.log_dropped)
    assert {"replay", "conversations", "shadow", "prefixes", "tokens", "feed"} == {store.name for store in now.stores}
    assert [1] == [minute.requests for minute in now.hour]
    assert ("alice",) == now.clients
    assert (None, ()) == (now.reloaded, now.reload_problems)
    assert 0 <= now.uptime_s < 60


async def test_a_rest_for_one_model_is_shown_with_its_key():
    """A key can be healthy and rest for one model."""
    async with running(config(provider(DEAD))) as live:
        pool = live.listening.gateway.runtime.pools()["up"]
        lease = pool.acquire(time.monotonic(), "big\x1b[2Jmodel", set(), None)
        pool.report(lease, "limited", time.monotonic(), wait_s=60, model="big\x1b[2Jmodel")
        [key] = (await status(live)).keys
    assert ["big\ufffd[2Jmodel"] == [rest.model for rest in key.models]


async def test_a_running_stream_is_in_flight():
    """Age, bytes, key and client of a stream are shown until it ends."""
    go = asyncio.Event()
    frames = chat(Turn([Say("Good morning, all.")]))
    async with Upstream([[Head(), *frames[:3], Wait(go), *frames[3:]]]) as upstream:
        async with running(config(provider(upstream.url))) as live:
            answer = asyncio.create_task(live.send("messages"))
            async with asyncio.timeout(5):
                while not (now := await status(live)).in_flight or not now.in_flight[0].answering:
                    await asyncio.sleep(0.01)
            [flying] = now.in_flight
            assert 1 == now.in_flight_count == now.keys[0].in_flight
            go.set()
            assert 200 == (await answer).status
            assert 0 == (await status(live)).in_flight_count
    assert ("alice", "messages", "m1", "up", "k1", True) == (
        flying.client,
        flying.dialect,
        flying.alias,
        flying.provider,
        flying.key,
        flying.stream,
    )
    assert flying.sent_bytes > 0
    assert 0 <= flying.age_s < 5


async def test_a_reload_and_its_refusal_are_shown():
    """When the configuration changed, its hash, and what was wrong with one that was refused."""
    from gateway.problems import Problem

    async with running(config(provider(DEAD))) as live:
        gateway = live.listening.gateway
        gateway.reload(msgspec.structs.replace(gateway.runtime.config, digest="abcdef0123456789"))
        gateway.reload_problems = (Problem("config.toml", 3, "server.prot", "unknown key", "did you mean port?"),)
        now = await status(live)
    assert "abcdef012345" == now.config
    assert now.reloaded is not None
    assert [("server.prot", "unknown key")] == [(refusal.key, refusal.what) for refusal in now.reload_problems]


async def test_answers_are_private():
    """No cache keeps admin data, and no foreign page embeds them."""
    async with running(config(provider(DEAD))) as live:
        for path in ("/admin/status", "/metrics"):
            headers = (await live.ask("GET", path)).headers
            assert "no-store" == headers["cache-control"]
            assert "same-origin" == headers["cross-origin-resource-policy"]


async def test_the_feed_tells_of_requests_as_they_end():
    """A summary follows its request within moments, with the fields of the log."""
    async with Upstream([sse(chat(Turn([Say("Good morning, all.")])))]) as upstream:
        async with running(config(provider(upstream.url))) as live:
            async with live.session.get(f"{live.url}/admin/events") as feed:
                assert "text/event-stream" == feed.content_type
                assert b"event: hello" in await feed.content.readany()
                await live.send("chat")
                data = await asyncio.wait_for(feed.content.readuntil(b"\n\n"), 5)
            [logged] = await live.records()
    told = json.loads(data.decode().split("data: ")[1])
    assert "complete" == told["outcome"]
    assert logged == {"event": "request", **told}


async def test_the_feed_resumes_after_the_last_id():
    """Last-Event-ID continues, `newest` limits a first look."""
    async with running(config(provider(DEAD))) as live:
        feed = live.listening.gateway.watchers.feed
        for number in range(5):
            feed.put(Record(request_id=f"r{number}"))

        async def names(headers: dict[str, str], query: str = "") -> list[str]:
            async with live.session.get(f"{live.url}/admin/events{query}", headers=headers) as response:
                data = b""
                async with asyncio.timeout(5):
                    while b"r4" not in data:
                        data += await response.content.readany()
            return [line.split('"')[3] for line in data.decode().splitlines() if "request_id" in line]

        assert ["r3", "r4"] == await names({"last-event-id": f"{feed.boot}-3"})
        assert ["r2", "r3", "r4"] == await names({}, "?newest=3")
        assert ["r0", "r1", "r2", "r3", "r4"] == await names({}, "?newest=x")


@pytest.mark.promise("S24")
async def test_too_many_followers_are_refused():
    """The number of open feeds is bounded; one that leaves makes room."""
    async with running(config(provider(DEAD))) as live:
        feed = live.listening.gateway.watchers.feed
        responses = [await live.session.get(f"{live.url}/admin/events") for _ in range(MAX_FOLLOWERS)]
        refused = await live.ask("GET", "/admin/events")
        assert (503, "5") == (refused.status, refused.headers["retry-after"])
        responses.pop().close()
        async with asyncio.timeout(5):
            while feed.followers == MAX_FOLLOWERS:
                await asyncio.sleep(0.01)
        assert 200 == (await first_bytes(live, {}))[0]
        for response in responses:
            response.close()


@pytest.mark.slow
@pytest.mark.promise("S23", "S24")
async def test_a_follower_that_never_reads_is_dropped(monkeypatch):
    """It costs no memory but the kernel's, and its connection ends."""
    monkeypatch.setattr(admin, "WRITE_S", 0.2)
    async with running(config(provider(DEAD))) as live:
        feed = live.listening.gateway.watchers.feed
        feed._gather_s = 0
        host, port = live.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(b"GET /admin/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await reader.readexactly(1)
        reader._transport.pause_reading()
        async with asyncio.timeout(20):
            while not feed.followers:
                await asyncio.sleep(0.01)
            while feed.followers:
                for _ in range(200):
                    feed.put(Record(alias="a" * 200, request_id="r" * 128, upstream_model="b" * 200))
                await asyncio.sleep(0.01)
        writer.transport.abort()


async def test_a_shutdown_ends_the_feed():
    """An open page does not hold the gateway up, and its feed ends properly."""
    async with running(config(provider(DEAD))) as live:
        async with live.session.get(f"{live.url}/admin/events") as response:
            await response.content.readany()
            began = time.monotonic()
            await live.listening.close(5)
            assert time.monotonic() - began < 3
            assert b"" == await asyncio.wait_for(response.content.read(), 5)


async def test_a_malformed_request_leaves_a_record():
    """What never became a request is seen too, without anything of what was sent (S01)."""
    async with running(config(provider(DEAD))) as live:
        host, port = live.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\nauthorization : Bearer sk-canary-0001\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
        [record] = await live.records()
    assert (400, "client_error", "invalid_request") == (record["status"], record["outcome"], record["error_kind"])
    assert "canary" not in live.out.getvalue()


async def test_the_clients_are_named_but_not_their_keys():
    """The snapshot has names; neither keys nor digests."""
    settings = guarded(config(provider(DEAD, keys=2), clients=(Client("bob", Secret(CLIENT_KEY).sha256()),)))
    async with running(settings) as live:
        text = (await live.ask("GET", "/admin/status", headers=bearer(ADMIN_KEY))).body.decode()
    assert '"bob"' in text
    for secret in (CLIENT_KEY, ADMIN_KEY, "upstream-key-0001"):
        assert secret not in text
        assert Secret(secret).sha256() not in text


@pytest.mark.promise("S04")
@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (("127.0.0.1", 5), True),
        (("::1", 5, 0, 0), True),
        (("::ffff:127.0.0.1", 5), True),
        (("192.0.2.1", 5), False),
        (("2001:db8::1", 5), False),
        (None, False),
    ],
)
def test_only_loopback_peers_are_of_this_machine(peer, expected):
    """Whatever host a request names, it has to come from here."""
    transport = SimpleNamespace(get_extra_info=lambda name: peer)
    assert expected == admin.trusted_peer(SimpleNamespace(transport=transport, headers={"host": "localhost:8788"}))
