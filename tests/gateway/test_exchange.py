"""One request through the real gateway, and everything that an upstream or a client can do to it."""

import asyncio
import json

import msgspec
import pytest

from gateway.config import Model, Route
from tests.gateway.live import PATHS, config, provider, request, running
from tests.streams import Call, Say, Think, Turn, chat_whole, messages, messages_whole, responses, responses_whole
from tests.streams import chat as chat_stream
from tests.translators import grammar_chat, grammar_messages, grammar_responses
from tests.upstream import Delay, End, Head, Raw, Upstream, Wait, closed_port, reply_json, sse

STREAMS = {"chat": chat_stream, "responses": responses, "messages": messages}
WHOLES = {"chat": chat_whole, "responses": responses_whole, "messages": messages_whole}
GRAMMARS = {"chat": grammar_chat, "responses": grammar_responses, "messages": grammar_messages}
DIALECTS = tuple(PATHS)
TURN = Turn([Think("Let me see."), Say("It is seven degrees in Gent."), Call("get_weather", '{"city":"Gent"}')])
TOOLS = {
    "chat": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}],
    "messages": [{"name": "get_weather", "input_schema": {"type": "object"}}],
}
LIMITED = reply_json({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, 429)

ERRORS = {"chat": b'data: {"error"', "responses": b"event: response.failed\n", "messages": b"event: error"}
ENDS = {"chat": b"data: [DONE]\n", "responses": b"event: response.completed\n", "messages": b"event: message_stop\n"}


def ended(client: str, up: str, raw: bytes) -> str:
    """How a client's stream ended: `success` or `error`. A native stream has its upstream's shape, so only its
    terminal is looked at; a translated one has to obey its grammar.
    """
    if client != up:
        return "error" if GRAMMARS[client].check(raw).terminal in ("error", "failed") else "success"
    assert 1 == raw.count(ERRORS[client]) + raw.count(ENDS[client])
    return "error" if ERRORS[client] in raw else "success"


every_pair = pytest.mark.parametrize(
    ("client", "up"), [(client, up) for client in DIALECTS for up in DIALECTS], ids=lambda name: name
)
every_client = pytest.mark.parametrize("client", DIALECTS)


async def until(condition) -> None:
    """Wait for a condition, at most five seconds."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def error_kind(client: str, reply) -> str:
    """The error type of a whole error reply, whatever its envelope."""
    return reply.json["error"]["type"]


@every_pair
async def test_a_streamed_turn_arrives_whole(client, up):
    """Reasoning, text and a call cross every pair and leave one complete record."""
    async with Upstream([sse(STREAMS[up](TURN))]) as upstream, running(config(provider(upstream.url, up))) as live:
        reply = await live.send(client, tools=TOOLS[client])
        [record] = await live.records()
    assert (200, None) == (reply.status, reply.broken)
    assert "success" == ended(client, up, reply.body)
    if client != up:
        assert "It is seven degrees in Gent." == "".join(GRAMMARS[client].check(reply.body).texts)
    assert "complete" == record["outcome"]
    assert (1, client, up, "alice", "k1") == (
        record["attempts"],
        record["dialect"],
        record["upstream_dialect"],
        record["client"],
        record["key"],
    )


@every_pair
async def test_a_whole_answer_arrives_whole(client, up):
    """Without a stream the client gets one JSON body of its own protocol."""
    async with (
        Upstream([reply_json(WHOLES[up](TURN))]) as upstream,
        running(config(provider(upstream.url, up))) as live,
    ):
        reply = await live.send(client, stream=False, tools=TOOLS[client])
        [record] = await live.records()
    assert 200 == reply.status
    assert "It is seven degrees in Gent." in reply.body.decode()
    assert "m1" == reply.json["model"]
    assert "complete" == record["outcome"]


@every_pair
@pytest.mark.edge("E27")
async def test_a_body_instead_of_a_stream_is_streamed(client, up):
    """An upstream that ignores `stream: true` costs the client nothing."""
    async with (
        Upstream([reply_json(WHOLES[up](TURN))]) as upstream,
        running(config(provider(upstream.url, up))) as live,
    ):
        reply = await live.send(client, tools=TOOLS[client])
    assert "text/event-stream" in reply.headers["content-type"]
    assert "It is seven degrees in Gent." == "".join(GRAMMARS[client].check(reply.body).texts)


@every_pair
@pytest.mark.promise("S37")
@pytest.mark.edge("E23")
@pytest.mark.parametrize("end", [End.CLOSE, End.RESET, None], ids=["cut", "reset", "clean"])
async def test_an_answer_without_its_end_is_never_a_success(client, up, end):
    """However the upstream breaks off, the client's stream ends in its error form, once."""
    frames = STREAMS[up](TURN)
    half = [Head(), *frames[: len(frames) // 2], *([end] if end else [])]
    async with Upstream([half]) as upstream, running(config(provider(upstream.url, up))) as live:
        reply = await live.send(client, tools=TOOLS[client])
        [record] = await live.records()
    assert "error" == ended(client, up, reply.body)
    assert "upstream_eof" == record["outcome"]
    assert 1 == record["attempts"]


@every_pair
async def test_a_reset_after_the_terminal_changes_nothing(client, up):
    """What the source had completed stays complete (F2)."""
    steps = [*sse(STREAMS[up](TURN)), Delay(0.02), End.RESET]
    async with Upstream([steps]) as upstream, running(config(provider(upstream.url, up))) as live:
        reply = await live.send(client, tools=TOOLS[client])
        [record] = await live.records()
    assert "success" == ended(client, up, reply.body)
    assert "complete" == record["outcome"]


@every_client
@pytest.mark.promise("S35", "S36")
async def test_a_rate_limit_moves_the_request_to_the_next_key(client):
    """A 429 before anything was sent costs the client nothing, and the same body goes out again."""
    script = [LIMITED, sse(chat_stream(TURN))]
    async with Upstream(script) as upstream, running(config(provider(upstream.url, keys=2))) as live:
        reply = await live.send(client, tools=TOOLS[client])
        [record] = await live.records()
    first, second = upstream.requests
    assert "success" == ended(client, "chat", reply.body)
    assert ("Bearer upstream-key-0001", "Bearer upstream-key-0002") == (
        first.header("authorization"),
        second.header("authorization"),
    )
    assert first.body == second.body
    assert (2, 1, "k2", "complete") == (
        record["attempts"],
        record["failovers"],
        record["key"],
        record["outcome"],
    )


OVER_AT_ONCE = reply_json({"error": {"message": "slow down"}}, 429, headers=[("retry-after", "0")])


@every_client
@pytest.mark.promise("S36")
async def test_a_probe_refuses_nobody(client):
    """While one request finds out whether a key works again the others wait for it, kept alive, and are served."""
    gate = asyncio.Event()

    def script(request):
        if 1 == len(upstream.requests):
            return OVER_AT_ONCE
        return [Wait(gate), *sse(chat_stream(TURN))] if 2 == len(upstream.requests) else sse(chat_stream(TURN))

    async with Upstream(script) as upstream, running(config(provider(upstream.url), keepalive_s=0.1)) as live:
        assert 429 == (await live.send(client, tools=TOOLS[client])).status
        sends = [asyncio.create_task(live.send(client, tools=TOOLS[client])) for _ in range(8)]
        turns = live.listening.gateway.runtime.upstreams["up"].turns
        await until(lambda: 7 == len(turns))
        assert 2 == len(upstream.requests)
        await asyncio.sleep(0.25)
        gate.set()
        replies = await asyncio.gather(*sends)
    assert ["success"] * 8 == [ended(client, "chat", reply.body) for reply in replies]
    assert all(reply.body.startswith(b": keepalive") for reply in replies)


@every_client
@pytest.mark.promise("S24")
async def test_more_requests_than_a_key_takes_wait_for_a_slot(client):
    """With `max_in_flight` none is refused that can be served in time."""
    at_once = 0

    def script(request):
        nonlocal at_once
        at_once = max(at_once, live.listening.gateway.runtime.upstreams["up"].pool.snapshot(0, 0).keys[0].in_flight)
        return [Head(), Delay(0.03), *chat_stream(TURN)]

    async with Upstream(script) as upstream:
        table = provider(upstream.url)
        table = msgspec.structs.replace(table, keys=(msgspec.structs.replace(table.keys[0], max_in_flight=1),))
        async with running(config(table)) as live:
            replies = await asyncio.gather(*(live.send(client, tools=TOOLS[client]) for _ in range(5)))
            records = await live.records(5)
    assert ["success"] * 5 == [ended(client, "chat", reply.body) for reply in replies]
    assert 1 == at_once
    assert {1} == {record["attempts"] for record in records}


@every_client
@pytest.mark.promise("S24", "S36")
async def test_a_wait_without_end_is_a_truthful_429(client, monkeypatch):
    """Who waited in vain hears that the keys are busy, not that they rest; who leaves, leaves the line."""
    monkeypatch.setattr("gateway.exchange.WAIT_S", 0.2)
    async with Upstream(lambda _: [Head(), End.STALL]) as upstream:
        table = provider(upstream.url)
        table = msgspec.structs.replace(table, keys=(msgspec.structs.replace(table.keys[0], max_in_flight=1),))
        async with running(config(table)) as live:
            first = asyncio.create_task(live.send(client))
            await upstream.received()
            reply = await live.send(client)
            monkeypatch.setattr("gateway.exchange.WAIT_S", 30)
            left = asyncio.create_task(live.send(client))
            turns = live.listening.gateway.runtime.upstreams["up"].turns
            await until(lambda: 1 == len(turns))
            left.cancel()
            await until(lambda: 0 == len(turns))
            first.cancel()
            await live.records(3)
            assert [0] == [key.in_flight for key in turns.pool.snapshot(0, 0).keys]
    assert (429, "1") == (reply.status, reply.headers["retry-after"])
    assert b"busy" in reply.body
    assert 1 == len(upstream.requests)


async def test_a_models_limit_leaves_the_sessions_other_models():
    """A session's requests for another model stay with the key that has their prompt cached."""

    def script(request):
        if "haiku" == request.json["model"] and "Bearer upstream-key-0001" == request.header("authorization"):
            message = "Daily free limit reached on model haiku. Try again in 3h"
            return reply_json({"error": {"message": message}}, 429)
        return sse(chat_stream(TURN))

    models = {"big": Model(routes=(Route("up", "opus"),)), "small": Model(routes=(Route("up", "haiku"),))}
    async with (
        Upstream(script) as upstream,
        running(config(provider(upstream.url, keys=2), models=models)) as live,
    ):
        for model in ("big", "small", "big", "small"):
            assert 200 == (await live.send("chat", model=model, prompt_cache_key="session")).status
        keys = [record["key"] for record in await live.records(4)]
    assert ["k1", "k2", "k1", "k2"] == keys


@every_client
@pytest.mark.promise("S24")
async def test_an_endless_model_name_is_a_400(client):
    """A name is kept in many tables, so it has a bound; at the bound it is served."""
    models = {"*": Model(routes=(Route("up"),))}
    async with (
        Upstream([sse(chat_stream(TURN))]) as upstream,
        running(config(provider(upstream.url), models=models)) as live,
    ):
        reply = await live.send(client, model="m" * 513)
        assert 200 == (await live.send(client, model="m" * 512)).status
        kept = live.listening.gateway.runtime._resolved
    assert (400, True) == (reply.status, b"512 characters" in reply.body)
    assert {512, 200} >= {len(name) for name in kept}


@every_client
async def test_a_request_without_a_session_has_its_prompts_hash(client):
    """Hash and size are in every record, so that equal prompts can be told."""
    async with Upstream([sse(chat_stream(TURN))] * 2) as upstream, running(config(provider(upstream.url))) as live:
        for _ in range(2):
            await live.send(client, tools=TOOLS[client])
        first, second = await live.records(2)
    assert 64 == len(first["prefix_hash"])
    assert (first["prefix_hash"], first["prefix_bytes"]) == (second["prefix_hash"], second["prefix_bytes"])
    assert "prefix_kept_bytes" not in second


RATE_LIMIT = {
    "chat": b'data: {"error":{"message":"Rate limit reached","type":"rate_limit_error","code":429}}\n\n',
    "responses": b'data: {"type":"error","code":"rate_limit_exceeded","message":"Rate limit reached"}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"x"}}\n\n',
}


@every_pair
@pytest.mark.promise("S35", "S36")
async def test_a_rate_limit_behind_the_handshake_moves_the_request_too(client, up):
    """Some upstreams say it inside a 200, after their first empty event: nothing was sent yet, so the next key serves."""
    frames = STREAMS[up](TURN)
    script = [sse([frames[0], RATE_LIMIT[up]]), sse(frames)]
    async with Upstream(script) as upstream, running(config(provider(upstream.url, up, keys=2))) as live:
        reply = await live.send(client, tools=TOOLS[client])
        [record] = await live.records()
    assert "success" == ended(client, up, reply.body)
    assert (2, "k2", "complete") == (record["attempts"], record["key"], record["outcome"])


@pytest.mark.slow
@every_client
@pytest.mark.promise("S36")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 500, 502, 503, 529])
async def test_no_other_status_moves_a_request(client, status):
    """Everything but a rate limit is answered after one attempt, in the client's envelope."""
    refusal = reply_json({"error": {"message": "no", "type": "x"}}, status)
    async with Upstream([refusal]) as upstream, running(config(provider(upstream.url, keys=3))) as live:
        reply = await live.send(client)
        [record] = await live.records()
    assert 1 == len(upstream.requests)
    assert status == reply.status
    assert error_kind(client, reply)
    assert (1, "upstream_error") == (record["attempts"], record["outcome"])


@every_client
async def test_all_keys_resting_is_a_429_with_the_earliest_time(client):
    """The client learns when the first key is free again, and a second request makes no call."""
    slow = reply_json({"error": {"message": "slow down"}}, 429, headers=[("retry-after", "40")])
    fast = reply_json({"error": {"message": "slow down"}}, 429, headers=[("retry-after", "7")])
    async with Upstream([slow, fast]) as upstream, running(config(provider(upstream.url, keys=2))) as live:
        first = await live.send(client)
        second = await live.send(client)
        records = await live.records(2)
    assert (429, 429) == (first.status, second.status)
    assert {"7"} == {first.headers["retry-after"], second.headers["retry-after"]}
    assert 2 == len(upstream.requests)
    assert ["rate_limited", "rate_limited"] == [record["outcome"] for record in records]


@every_pair
@pytest.mark.promise("S35")
@pytest.mark.invariant("I37")
async def test_nothing_is_replayed_once_something_was_sent(client, up):
    """An error after the first text stays with its client, though another key is free."""
    frames = STREAMS[up](TURN)
    error = RATE_LIMIT[up]
    keep = next(n for n, frame in enumerate(frames) if b"It is" in frame) + 1
    script = [sse([*frames[:keep], error]), sse(frames)]
    async with Upstream(script) as upstream, running(config(provider(upstream.url, up, keys=2))) as live:
        reply = await live.send(client, tools=TOOLS[client])
        [record] = await live.records()
    assert 1 == len(upstream.requests)
    assert "error" == ended(client, up, reply.body)
    assert "rate_limited" == record["outcome"]


@every_client
@pytest.mark.promise("S25")
@pytest.mark.edge("E28")
async def test_a_client_that_leaves_takes_the_upstream_call_with_it(client):
    """The upstream connection closes within a second, and the record says who left."""
    frames = chat_stream(TURN)
    script = [[Head(), *frames[:4], End.STALL]]
    async with Upstream(script) as upstream, running(config(provider(upstream.url))) as live:
        body = json.dumps(request(client)).encode()
        headers = {"content-type": "application/json", "authorization": "Bearer client-key-for-tests-0001"}
        response = await live.session.post(live.url + PATHS[client], data=body, headers=headers)
        await response.content.readany()
        response.close()
        left = await upstream.requests[0].hung_up(within_s=2)
        [record] = await live.records()
    assert left.early
    assert "client_disconnected" == record["outcome"]
    assert 0 == live.listening.gateway.admission.running()


@pytest.mark.slow
@every_client
@pytest.mark.parametrize(
    ("timer", "script", "outcome"),
    [
        ("first_event_s", [Head(), End.STALL], "stalled_first_event"),
        ("first_event_s", [Delay(30)], "stalled_first_event"),
        ("first_meaning_s", [Head(), chat_stream(TURN)[0], End.STALL], "stalled_first_meaning"),
        ("idle_s", [Head(), *chat_stream(TURN)[:3], End.STALL], "stalled_idle"),
        ("meaning_idle_s", [Head(), *chat_stream(TURN)[:3], End.STALL], "stalled_meaning_idle"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_each_stall_is_named_and_told(client, timer, script, outcome):
    """A silent upstream ends in an error of the client's protocol, under the name of the timer that ran out."""
    async with Upstream([script]) as upstream, running(config(provider(upstream.url, **{timer: 0.2}))) as live:
        reply = await live.send(client)
        [record] = await live.records()
    assert outcome == record["outcome"]
    if "event-stream" in reply.headers["content-type"]:
        assert "error" == ended(client, "chat", reply.body)
    else:
        assert 504 == reply.status


@pytest.mark.slow
@every_client
async def test_silence_is_bridged_by_comments(client):
    """After `keepalive_s` the headers go out with a comment, which is no event and commits to nothing."""
    script = [[Delay(0.5), *LIMITED], [Delay(0.3), *sse(chat_stream(TURN))]]
    async with Upstream(script) as upstream:
        async with running(config(provider(upstream.url, keys=2), keepalive_s=0.1)) as live:
            reply = await live.send(client, tools=TOOLS[client])
    assert reply.body.startswith(b": keepalive\n\n")
    assert "success" == ended(client, "chat", reply.body)
    assert 2 == len(upstream.requests)


@every_client
async def test_an_error_after_early_headers_is_told_inside_the_stream(client):
    """Once a comment is out there is no HTTP error any more, so the stream tells it."""
    script = [[Delay(0.4), *reply_json({"error": {"message": "broken", "type": "server_error"}}, 500)]]
    async with Upstream(script) as upstream:
        async with running(config(provider(upstream.url), keepalive_s=0.1)) as live:
            reply = await live.send(client)
            [record] = await live.records()
    assert 200 == reply.status
    assert "error" == ended(client, "chat", reply.body)
    assert "upstream_error" == record["outcome"]


@every_client
@pytest.mark.parametrize(
    ("script", "status"),
    [
        ([Raw(b"HTTP/1.1 banana\r\n\r\n"), End.CLOSE], 502),
        ([End.RESET], 502),
        ([End.CLOSE], 502),
        ([Head(headers=[("content-type", "text/html")]), b"<html>sorry</html>"], 502),
        ([Head(), End.CLOSE], 502),
        (reply_json({}), 502),
        (reply_json({"error": {"message": "overloaded", "type": "overloaded_error"}}), 503),
        ([Head(302, [("location", "http://127.0.0.1:1/"), ("content-length", "0")])], 502),
        ([Head(204, [("content-length", "0")])], 502),
        ([Head(headers=[("content-type", "text/event-stream")]), b"data: {not json\n\n"], 502),
    ],
    ids=["garbage", "reset", "close", "html", "empty", "object", "error-in-200", "redirect", "no-content", "bad-frame"],
)
async def test_a_broken_reply_is_an_http_error(client, script, status):
    """Before anything was sent, every kind of broken reply is a 5xx in the client's envelope, after one attempt (F4)."""
    async with Upstream([script]) as upstream, running(config(provider(upstream.url, keys=2))) as live:
        reply = await live.send(client)
        [record] = await live.records()
    assert status == reply.status
    assert error_kind(client, reply)
    assert (1, 1) == (len(upstream.requests), record["attempts"])


@every_client
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            [Head(308, [("location", "http://127.0.0.1:1/"), ("content-length", "0")])],
            "redirected the request (HTTP 308)",
        ),
        ([Head(headers=[("content-type", "text/html")]), b"\n<!doctype html><p>hello"], "a web page instead of JSON"),
        ([Head(headers=[("content-length", "0")])], "an empty body"),
    ],
    ids=["redirect", "html", "empty"],
)
async def test_a_reply_that_is_no_json_is_called_what_it_is(client, stream, script, words):
    """The operator finds a wrong base_url by it; nothing of the page and of the address is told (S02)."""
    async with Upstream([script]) as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.send(client, stream=stream)
    assert 502 == reply.status
    assert words in reply.json["error"]["message"]
    assert b"127.0.0.1" not in reply.body
    assert b"doctype" not in reply.body


@every_client
async def test_a_refused_connection_is_a_502(client):
    """Nobody listens: 502 at once, no address in the message (F1, S02)."""
    url = f"http://127.0.0.1:{closed_port()}"
    async with running(config(provider(url, keys=2))) as live:
        reply = await live.send(client)
        [record] = await live.records()
    assert 502 == reply.status
    assert b"127.0.0.1" not in reply.body
    assert (1, "upstream_error") == (record["attempts"], record["outcome"])


@pytest.mark.promise("S02")
@every_client
async def test_an_upstream_that_echoes_the_key_is_masked(client):
    """Neither the client nor the log ever sees a provider key, whatever the upstream says."""
    told = {"error": {"message": "bad key upstream-key-0001 at http://10.1.2.3/x", "type": "invalid_request_error"}}
    async with Upstream([reply_json(told, 400)]) as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.send(client)
        await live.records()
        log = live.out.getvalue()
    assert b"upstream-key-0001" not in reply.body
    assert b"10.1.2.3" not in reply.body
    assert "upstream-key-0001" not in log


@pytest.mark.parametrize("reason", ["rate_limited", "unavailable"])
async def test_the_next_route_is_tried_for_the_listed_reasons_only(reason):
    """A fallback happens before a commit and for its own reason; the record counts it."""
    async with Upstream([LIMITED]) as first, Upstream([sse(chat_stream(TURN))]) as second:
        tables = (provider(first.url, name="one"), provider(second.url, name="two"))
        routes = (Route("one", "a"), Route("two", "b"))
        settings = config(*tables, models={"m1": Model(routes=routes, fallback_on=(reason,))})
        async with running(settings) as live:
            reply = await live.send("chat")
            [record] = await live.records()
    if reason == "rate_limited":
        assert (200, 1, "two", "b") == (reply.status, record["failovers"], record["provider"], record["upstream_model"])
    else:
        assert (429, []) == (reply.status, second.requests)


@pytest.mark.promise("S23")
async def test_a_client_that_never_reads_stops_the_upstream_from_being_read():
    """Memory stays bounded: the gateway does not read faster than its client does."""
    frame = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"' + b"y" * 60_000 + b'"}}]}\n\n'
    sent = 0

    async def pieces(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for _ in range(1000):
            writer.write(frame)
            await writer.drain()
            sent += len(frame)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await pieces(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with running(config(provider(url))) as live:
        body = json.dumps(request("chat")).encode()
        host, port = live.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        head = (
            f"POST {PATHS['chat']} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer client-key-for-tests-0001\r\n"
        )
        writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await reader.readexactly(100)
        before, same = -1, 0
        while same < 10:
            await asyncio.sleep(0.05)
            same = same + 1 if sent == before else 0
            before = sent
        writer.close()
    server.close()
    assert sent < 40_000_000
