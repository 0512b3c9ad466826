"""One record for every request, whatever happened to it: outcome, attempts and timings of each kind of end."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
import pytest

from gateway.config import Model, Route
from tests.gateway.live import CLIENT_KEY, PATHS, config, provider, request, running
from tests.streams import STREAM, Call, Say, Think, Turn, chat, chat_whole
from tests.upstream import Delay, End, Head, Upstream, Wait, closed_port, reply_json, sse

TURN = Turn([Think("Let me see."), Say("Seven degrees in Gent."), Call("get_weather", '{"city":"Gent"}')])
FRAMES = chat(TURN)
LIMITED = reply_json({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, 429)
DEAD = f"http://127.0.0.1:{closed_port()}"
every_client = pytest.mark.parametrize("client", PATHS)


@dataclass
class Case:
    """What an upstream does, and what the record has to say of it."""

    name: str
    script: list[Any]
    outcome: str
    status: int = 200
    attempts: int = 1
    keys: int = 1
    stream: bool = True
    timeouts: dict[str, float] = field(default_factory=dict)
    has: tuple[str, ...] = ()
    flight: tuple[str, ...] = ()


FIRST = ("headers_ms", "first_byte_ms", "first_event_ms", "first_meaning_ms", "first_text_ms")
CASES = [
    Case("whole stream", [sse(FRAMES)], "complete", has=(*FIRST, "first_tool_ms", "input_tokens", "text_bytes")),
    Case("whole answer", [reply_json(chat_whole(TURN))], "complete", stream=False, has=("headers_ms", "input_tokens")),
    Case("cut by its length", [sse(chat(Turn([Say("Seven degrees.")], cut=True)))], "incomplete", has=FIRST),
    Case("second key", [LIMITED, sse(FRAMES)], "complete", attempts=2, keys=2, has=FIRST),
    Case(
        "all keys limited",
        [LIMITED, LIMITED],
        "rate_limited",
        429,
        attempts=2,
        keys=2,
        flight=("send up k1", "headers 429", "judged rate_limited", "send up k2"),
    ),
    Case(
        "server error",
        [reply_json({"error": {"message": "oh"}}, 500)],
        "upstream_error",
        500,
        has=("headers_ms",),
        flight=("headers 500",),
    ),
    Case(
        "refused request",
        [reply_json({"error": {"message": "no such field"}}, 400)],
        "upstream_error",
        400,
        flight=("headers 400",),
    ),
    Case("end before anything", [[Head(), End.CLOSE]], "upstream_eof", 502, has=("headers_ms",)),
    Case(
        "end in the middle",
        [[Head(), *FRAMES[:4], End.CLOSE]],
        "upstream_eof",
        has=FIRST[:4],
        flight=("headers 200", "first_event", "first_meaning"),
    ),
    Case("reset in the middle", [[Head(), *FRAMES[:4], Delay(0.1), End.RESET]], "upstream_eof", has=FIRST[:4]),
    Case("no terminal", [sse(FRAMES[:4])], "upstream_eof", has=FIRST[:4]),
    Case("no events at all", [sse([b'data: {"id": 7\n\n'])], "protocol_error", 502),
    Case(
        "never answers",
        [[End.STALL]],
        "stalled_first_event",
        504,
        timeouts={"first_event_s": 0.2},
        flight=("send up k1",),
    ),
    Case(
        "only headers",
        [[Head(), End.STALL]],
        "stalled_first_event",
        504,
        timeouts={"first_event_s": 0.2},
        has=("headers_ms",),
        flight=("stalled_first_event",),
    ),
    Case(
        "no content",
        [[Head(), FRAMES[0], End.STALL]],
        "stalled_first_meaning",
        -1,
        timeouts={"first_meaning_s": 0.3},
        flight=("stalled_first_meaning",),
    ),
    Case(
        "silence",
        [[Head(), *FRAMES[:4], End.STALL]],
        "stalled_idle",
        timeouts={"idle_s": 0.2},
        has=FIRST[:4],
        flight=("stalled_idle",),
    ),
    Case(
        "comments only",
        [[Head(), *FRAMES[:4], *[b": on\n\n", Delay(0.05)] * 40]],
        "stalled_meaning_idle",
        timeouts={"meaning_idle_s": 0.3},
        has=FIRST[:4],
        flight=("stalled_meaning_idle",),
    ),
]


def check(record: dict[str, Any]) -> None:
    """What holds for every record: who and when, times in their order, no empty values."""
    assert {"ts", "request_id", "status", "outcome", "duration_ms"} <= set(record) | {"status"}
    assert None not in record.values()
    order = ("headers_ms", "first_event_ms", "first_meaning_ms", "duration_ms")
    times = [record[name] for name in order if name in record]
    assert sorted(times) == times
    assert 0 <= record.get("overhead_ms", 0) <= record["duration_ms"] + 1


@pytest.mark.slow
@every_client
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_every_end_has_its_record(client, case):
    """Exactly one record, with the outcome of that end, its attempts, the times that there were, and no others."""
    async with Upstream(case.script) as upstream:
        settings = config(provider(upstream.url, keys=case.keys, **case.timeouts))
        async with running(settings) as live:
            reply = await live.send(client, stream=case.stream)
            [record] = await live.records()
            await asyncio.sleep(0)
            assert 1 == len(await live.records())
    check(record)
    assert (case.outcome, case.attempts) == (record["outcome"], record["attempts"])
    assert reply.status == record["status"]
    assert case.status in (-1, reply.status)
    names = {"client": "alice", "dialect": client, "alias": "m1", "provider": "up", "upstream_model": "up-m"}
    assert names == {name: record[name] for name in names}
    assert case.stream == record["stream"]
    assert f"k{case.attempts}" == record["key"]
    assert "overhead_ms" in record
    assert set() == set(case.has) - set(record) - (
        {"text_bytes", "first_text_ms", "first_tool_ms"} if client == "chat" else set()
    )
    kinds = [step["kind"] for step in record.get("flight", [])]
    if case.outcome in ("complete", "incomplete"):
        assert [] == kinds
    else:
        assert f"end {case.outcome}" in kinds
        assert list(case.flight) == [kind for kind in kinds if kind in case.flight][: len(case.flight)]
        assert "error_kind" in record


REFUSALS = [
    ("no key", {}, b"{}", "/v1/chat/completions", 401, "authentication"),
    ("wrong key", {"authorization": "Bearer nonsense-0001"}, b"{}", "/v1/messages", 401, "authentication"),
    ("no such path", {"authorization": f"Bearer {CLIENT_KEY}"}, b"{}", "/v1/none", 404, "not_found"),
    ("wrong method", {"authorization": f"Bearer {CLIENT_KEY}"}, b"{}", "/v1/models", 405, "invalid_request"),
    ("no JSON", {"authorization": f"Bearer {CLIENT_KEY}"}, b"nonsense", "/v1/responses", 400, "invalid_request"),
    (
        "other type",
        {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "text/plain"},
        b"{}",
        "/v1/responses",
        415,
        "unsupported_media",
    ),
    (
        "no such model",
        {"authorization": f"Bearer {CLIENT_KEY}"},
        b'{"model":"none","messages":[]}',
        "/v1/messages",
        404,
        "not_found",
    ),
    (
        "too large",
        {"authorization": f"Bearer {CLIENT_KEY}"},
        b'{"model":"m1","x":"' + b"y" * 3000 + b'"}',
        "/v1/messages",
        413,
        "too_large",
    ),
    (
        "foreign host",
        {"authorization": f"Bearer {CLIENT_KEY}", "host": "evil.example"},
        b"{}",
        "/v1/messages",
        403,
        "permission",
    ),
    (
        "foreign page",
        {"authorization": f"Bearer {CLIENT_KEY}", "origin": "https://evil.example"},
        b"{}",
        "/v1/messages",
        403,
        "permission",
    ),
]


@pytest.mark.parametrize(
    ("name", "headers", "body", "path", "status", "kind"), REFUSALS, ids=[row[0] for row in REFUSALS]
)
async def test_refusals_have_their_record(name, headers, body, path, status, kind):
    """A request that never went upstream is a client error, without attempts and without upstream times."""
    async with running(config(provider(DEAD), max_request_bytes=2048)) as live:
        reply = await live.ask("POST", path, body, {"content-type": "application/json", **headers})
        [record] = await live.records()
    check(record)
    assert (status, status) == (reply.status, record["status"])
    assert "client_error" == record["outcome"]
    assert kind == record["error_kind"]
    assert not {"attempts", "provider", "headers_ms", "key"} & set(record)


@every_client
async def test_an_unreachable_upstream_was_an_attempt(client):
    """Nobody listens there: one attempt, no headers."""
    async with running(config(provider(DEAD))) as live:
        reply = await live.send(client)
        [record] = await live.records()
    check(record)
    assert ("upstream_error", 1, reply.status) == (record["outcome"], record["attempts"], record["status"])
    assert "headers_ms" not in record
    assert "send up k1" in [step["kind"] for step in record["flight"]]


@every_client
async def test_a_client_that_leaves_has_its_record(client):
    """Disconnected in the middle of a stream: what came until then is in the record."""
    go = asyncio.Event()
    async with Upstream([[Head(), *FRAMES[:4], Wait(go)]]) as upstream, running(config(provider(upstream.url))) as live:
        headers = {"authorization": f"Bearer {CLIENT_KEY}"}
        async with live.session.post(live.url + PATHS[client], json=request(client), headers=headers) as response:
            await response.content.readany()
            response.close()
        [record] = await live.records()
        go.set()
    check(record)
    assert ("client_disconnected", 1) == (record["outcome"], record["attempts"])
    assert {"first_event_ms", "first_meaning_ms", "first_byte_ms"} <= set(record)
    assert "end client_disconnected" in [step["kind"] for step in record["flight"]]


@every_client
async def test_a_shutdown_has_its_record(client):
    """A stream that the gateway had to end says so."""
    go = asyncio.Event()
    async with Upstream([[Head(), *FRAMES[:4], Wait(go)]]) as upstream, running(config(provider(upstream.url))) as live:
        answer = asyncio.create_task(live.send(client))
        await upstream.received()
        async with asyncio.timeout(5):
            while not any(exchange.downstream.started for exchange in live.listening.gateway.exchanges):
                await asyncio.sleep(0.01)
        await live.listening.close(0)
        await answer
        [record] = await live.records()
        go.set()
    check(record)
    assert "shutdown" == record["outcome"]


async def test_a_second_route_is_a_failover():
    """The record names the route that answered, and how many were left before."""
    models = {"m1": Model(routes=(Route("first", "a"), Route("second", "b")))}
    async with Upstream([LIMITED]) as one, Upstream([sse(STREAM["messages"](TURN))]) as two:
        settings = config(provider(one.url, name="first"), provider(two.url, "messages", name="second"), models=models)
        async with running(settings) as live:
            assert 200 == (await live.send("chat")).status
            [record] = await live.records()
    check(record)
    assert ("complete", 2, 1, "second", "b", "messages") == tuple(
        record[name] for name in ("outcome", "attempts", "failovers", "provider", "upstream_model", "upstream_dialect")
    )


async def test_each_request_of_a_socket_has_its_record():
    """A WebSocket's requests are recorded one by one, those that fail too."""
    async with Upstream([sse(FRAMES), reply_json({"error": {"message": "oh"}}, 500)]) as upstream:
        async with running(config(provider(upstream.url))) as live:
            headers = {"authorization": f"Bearer {CLIENT_KEY}"}
            async with live.session.ws_connect(f"{live.url}/v1/responses", headers=headers) as ws:
                for number in range(2):
                    await ws.send_str(json.dumps({"type": "response.create", "model": "m1", "input": f"say {number}"}))
                    async with asyncio.timeout(5):
                        while json.loads((await ws.receive()).data)["type"] not in (
                            "response.completed",
                            "error",
                            "response.failed",
                        ):
                            pass
                records = await live.records(2)
    for record in records:
        check(record)
    assert ["complete", "upstream_error"] == [record["outcome"] for record in records]
    assert ["responses", "responses"] == [record["dialect"] for record in records]
    assert [200, 500] == [record["status"] for record in records]


@pytest.mark.slow
@every_client
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_overhead_leaves_waiting_out(client, stream):
    """Silences of the upstream, before its headers and within its body, are none of our time."""
    if stream:
        script = [[Delay(0.25), Head(), *FRAMES[:4], Delay(0.25), *FRAMES[4:]]]
    else:
        whole = json.dumps(chat_whole(TURN)).encode()
        head = Head(headers=(("content-type", "application/json"),))
        script = [[Delay(0.25), head, whole[:40], Delay(0.25), whole[40:]]]
    async with Upstream(script) as upstream, running(config(provider(upstream.url))) as live:
        assert 200 == (await live.send(client, stream=stream)).status
        [record] = await live.records()
    assert record["duration_ms"] > 490
    assert record["overhead_ms"] < 200


async def test_overhead_leaves_out_the_wait_of_a_client_that_left():
    """Also when the wait did not end by itself."""
    async with (
        Upstream([[Head(), *FRAMES[:4], End.STALL]]) as upstream,
        running(config(provider(upstream.url))) as live,
    ):
        timeout = aiohttp.ClientTimeout(total=0.6)
        headers = {"authorization": f"Bearer {CLIENT_KEY}"}
        with pytest.raises(TimeoutError):
            async with live.session.post(
                live.url + PATHS["chat"], json=request("chat"), headers=headers, timeout=timeout
            ) as response:
                await response.read()
        [record] = await live.records()
    assert record["duration_ms"] > 550
    assert record["overhead_ms"] < 250


@pytest.mark.slow
async def test_waiting_for_a_retry_is_no_overhead():
    """A 503 that is tried again costs the client time, and not by our work."""
    from gateway.config import Pool

    async with Upstream([reply_json({}, 503), sse(FRAMES)]) as upstream:
        async with running(config(provider(upstream.url, pool=Pool(retries=1)))) as live:
            assert 200 == (await live.send("chat")).status
            [record] = await live.records()
    assert ("complete", 2) == (record["outcome"], record["attempts"])
    assert record["duration_ms"] > 950
    assert record["overhead_ms"] < 300


async def test_a_hidden_session_is_a_fingerprint():
    """The same session has the same short name, and its own never appears (S32)."""
    async with Upstream([sse(FRAMES)] * 2) as upstream, running(config(provider(upstream.url))) as live:
        for _ in range(2):
            await live.send("responses", prompt_cache_key="session-of-alice")
        first, second = await live.records(2)
    assert first["session"] == second["session"]
    assert "alice" not in first["session"]
    assert "session-of-alice" not in live.out.getvalue()


def test_the_record_has_the_public_names():
    """interface.md lists them; scripts rely on them."""
    from gateway.record import Record

    public = """ts, request_id, client, dialect, alias, provider, upstream_dialect, upstream_model, stream, status, outcome,
    error_kind, attempts, failovers, key, session, effort, reasoning_shown, request_bytes, upstream_request_bytes,
    input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cache_ratio, cost_usd, headers_ms,
    first_byte_ms, first_event_ms, first_meaning_ms, first_text_ms, first_tool_ms, duration_ms, overhead_ms, text_bytes,
    reasoning_bytes, tool_bytes, tool_calls, events, notes, prefix_hash, prefix_bytes, prefix_kept_bytes"""
    assert set() == {name.strip() for name in public.split(",")} - {
        one.encode_name for one in msgspec.structs.fields(Record)
    }
