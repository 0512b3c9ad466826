"""Secrets and content stay where they belong, whatever an upstream, a client or a bug says (S01, S02, S15, S32)."""

import io
import json

import aiohttp
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config import Model, Route
from gateway.lifecycle import bind, listen
from gateway.telemetry import Telemetry
from providers.transport import ERRORS
from tests.gateway.live import CLIENT_KEY, PATHS, config, provider, request, running
from tests.gateway.wire import JSON, KEY, talk, whole
from tests.streams import STREAM, Call, Say, Think, Turn
from tests.upstream import End, Head, Raw, Upstream, reply_json, sse

UP_KEYS = ("upstream-key-0001", "upstream-key-0002")
SECRETS = (CLIENT_KEY, *UP_KEYS)
every_client = pytest.mark.parametrize("client", PATHS)


def seen(live, *replies):
    """Everything that a gateway said: its log, and bodies and headers of its answers."""
    parts = [live.out.getvalue()]
    for reply in replies:
        parts += [reply.body.decode("utf-8", "replace"), json.dumps(dict(reply.headers))]
    return "\n".join(parts)


def echo(received):
    """An upstream that tells all it was sent, as helpful servers do."""
    return dict(received.headers) | {"body": received.body.decode("utf-8", "replace")}


@every_client
@pytest.mark.promise("S01", "S02")
@pytest.mark.parametrize("status", [200, 400, 401, 403, 429, 500])
async def test_an_upstream_that_echoes_headers_tells_no_secret(client, status):
    """Keys of either side are nowhere in the answer or the log, however the error is wrapped."""

    def script(received):
        told = f"invalid header {received.headers!r} at https://10.1.2.3:8443/v1?key={UP_KEYS[0]}"
        return reply_json({"error": {"message": told, "type": "x", "debug": echo(received)}}, status)

    async with Upstream(script) as upstream, running(config(provider(upstream.url, keys=2))) as live:
        reply = await live.send(client)
        await live.records()
        text = seen(live, reply)
    assert [] == [secret for secret in SECRETS if secret in text]
    assert "10.1.2.3" not in text
    assert upstream.url not in text


@every_client
@pytest.mark.promise("S01", "S02")
async def test_an_error_inside_a_stream_tells_no_secret(client):
    """Also when it comes after the first text."""
    frames = STREAM["chat"](Turn([Say("It is warm.")]))[:4]

    def script(received):
        error = {
            "error": {"message": f"key {received.header('authorization')} of http://10.1.2.3/", "type": "server_error"}
        }
        return sse([*frames, b"data: " + json.dumps(error).encode() + b"\n\n"])

    async with Upstream(script) as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.send(client)
        await live.records()
        text = seen(live, reply)
    assert [] == [secret for secret in SECRETS if secret in text]
    assert "10.1.2.3" not in text


@pytest.mark.promise("S01", "S02")
@pytest.mark.parametrize(
    "script",
    [
        [Raw(b"HTTP/1.1 200 OK\r\nx-bad : upstream-key-0001\r\n\r\n"), End.CLOSE],
        [Raw(b"upstream-key-0001\r\n\r\n"), End.CLOSE],
        [Head(), Raw(b"zz upstream-key-0001\r\n"), End.CLOSE],
        [Head(headers=[("content-type", "text/html")]), b"<html>upstream-key-0001</html>"],
        [Head(headers=[("content-type", "text/event-stream")]), b"data: {upstream-key-0001\n\n"],
        [Head(302, [("location", "http://upstream-key-0001/"), ("content-length", "0")])],
    ],
    ids=["header", "status-line", "chunk", "html", "frame", "redirect"],
)
async def test_a_broken_upstream_is_not_quoted(script):
    """The library's exceptions have its lines in them; clients and log get our own words."""
    async with Upstream([script]) as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.send("chat")
        await live.records()
        text = seen(live, reply)
    assert 502 == reply.status
    assert UP_KEYS[0] not in text


@pytest.mark.promise("S01")
async def test_a_client_key_in_the_wrong_place_is_not_logged():
    """In the address, in an unknown header, in the user agent: the log has none of it."""
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        for path in (f"/v1/models?key={CLIENT_KEY}", f"/v1/{CLIENT_KEY}", f"/{CLIENT_KEY}"):
            await talk(live.url, whole(f"GET {path}", b"", ("user-agent", CLIENT_KEY), ("x-key", CLIENT_KEY)))
            await talk(live.url, whole(f"GET {path}", b"", KEY))
        await live.records(5)
        assert CLIENT_KEY not in live.out.getvalue()


@pytest.mark.promise("S01")
def test_a_configuration_shows_no_secret():
    """Its text and its JSON have masks where secrets are."""
    made = config(provider("http://127.0.0.1:1", keys=2))
    assert [] == [secret for secret in SECRETS if secret in repr(made)]
    with pytest.raises(TypeError):
        msgspec.json.encode(made)


@pytest.mark.promise("S01")
def test_library_errors_would_have_told():
    """What we keep out of texts is really in there: their repr has headers and addresses."""
    error = aiohttp.ClientConnectorError
    assert issubclass(error, ERRORS)
    info = aiohttp.RequestInfo("http://h/?key=canary", "POST", {"authorization": "canary"}, "http://h/?key=canary")
    assert "canary" in repr(aiohttp.ClientResponseError(info, ()))


WORDS = {"prompt": "canaryprompt", "system": "canarysystem", "tool": "canarytool", "thought": "canarythought",
         "answer": "canaryanswer", "argument": "canaryargument", "session": "canarysession", "agent": "canaryagent",
         "user": "canaryuser"}  # fmt: skip


@every_client
@pytest.mark.promise("S32")
@pytest.mark.parametrize("up", PATHS)
async def test_no_content_is_logged(client, up):
    """Prompt, system text, tools, reasoning, answer, arguments, session and agent: none of it, at any level."""
    turn = Turn([Think(WORDS["thought"]), Say(WORDS["answer"]), Call("lookup", json.dumps({"a": WORDS["argument"]}))])
    tool = {"name": "lookup", "description": WORDS["tool"]}
    parameters = {"type": "object"}
    more = {
        "chat": {
            "messages": [{"role": "system", "content": WORDS["system"]}, {"role": "user", "content": WORDS["prompt"]}],
            "tools": [{"type": "function", "function": tool | {"parameters": parameters}}],
            "user": WORDS["user"],
        },
        "responses": {
            "instructions": WORDS["system"],
            "input": WORDS["prompt"],
            "tools": [{"type": "function", **tool, "parameters": parameters}],
            "prompt_cache_key": WORDS["session"],
        },
        "messages": {
            "system": WORDS["system"],
            "messages": [{"role": "user", "content": WORDS["prompt"]}],
            "tools": [tool | {"input_schema": parameters}],
            "metadata": {"user_id": WORDS["user"]},
        },
    }[client]
    made = config(provider(up_url := "http://127.0.0.1:1", up))
    async with Upstream([sse(STREAM[up](turn)), reply_json({"error": {"message": WORDS["answer"]}}, 500)]) as upstream:
        made = msgspec.structs.replace(
            made, providers={"up": provider(upstream.url, up)}, log=msgspec.structs.replace(made.log, level="debug")
        )
        async with running(made) as live:
            for _ in range(2):
                await live.send(client, headers={"session-id": WORDS["session"], "user-agent": WORDS["agent"]}, **more)
            first, second = await live.records(2)
            log = live.out.getvalue()
    assert up_url not in log
    assert ["complete", "upstream_error"] == [first["outcome"], second["outcome"]]
    assert first["session"] == second["session"]
    assert [] == [word for word in WORDS.values() if word in log]


@pytest.mark.promise("S15", "S33")
async def test_names_from_outside_are_cut_and_escaped():
    """A model name with terminal codes and line ends is one short field of one line."""
    name = "m\x1b[2J\r\n\u2028{}" + "x" * 100_000
    settings = config(provider("http://127.0.0.1:1"), models={"*": Model(routes=(Route("up"),))})
    async with running(settings) as live:
        await live.send("chat", model=name)
        [record] = await live.records()
        log = live.out.getvalue()
    assert len(log) < 3000
    assert 1 == len([line for line in log.splitlines() if '"request"' in line])
    assert not [char for char in log if char in "\x1b\r\u2028"]
    assert max(len(value) for value in record.values() if isinstance(value, str)) <= 300


EVIL = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "\n\ndata: {}\n\n",
            "\r\n\r\nevent: error\r\ndata: x\r\n\r\n",
            "data: [DONE]\n\n",
            "\x00\x1b]0;x\x07",
            "\u2028\u2029\x85",
        ]
    ),
)


@pytest.mark.slow
@pytest.mark.promise("S15")
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(text=EVIL, thought=EVIL, argument=EVIL)
@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize("up", PATHS)
async def test_a_models_text_is_never_protocol(client, up, text, thought, argument):
    """Line ends, events and terminal codes in what a model says arrive as text, through every writer."""
    turn = Turn([Think("t" + thought), Say("a" + text), Call("lookup", json.dumps({"a": argument}))])
    parameters = {"type": "object"}
    tools = {
        "chat": [{"type": "function", "function": {"name": "lookup", "parameters": parameters}}],
        "responses": [{"type": "function", "name": "lookup", "parameters": parameters}],
        "messages": [{"name": "lookup", "input_schema": parameters}],
    }[client]
    async with Upstream([sse(STREAM[up](turn))]) as upstream:
        out = io.StringIO()
        made = config(provider(upstream.url, up))
        telemetry = Telemetry(made.log, out)
        listening = await listen(made, telemetry, bind("127.0.0.1", 0))
        try:
            body = json.dumps(request(client) | {"tools": tools}).encode()
            answer = await talk(listening.url, whole(f"POST {PATHS[client]}", body, KEY, JSON))
        finally:
            await listening.close(0)
            telemetry.close()
    events = [json.loads(data) for data in frames(answer) if data != b"[DONE]"]
    assert "a" + text == "".join(said(event) for event in events)
    assert 1 == len(out.getvalue().splitlines())


def frames(answer):
    """The data of each event, with chunk framing taken off."""
    rest, body = answer.body, b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    for block in body.split(b"\n\n"):
        lines = [line[6:] for line in block.split(b"\n") if line.startswith(b"data: ")]
        if lines:
            assert 1 == len(lines)
            yield lines[0]


def said(event):
    """The visible text in one event of any of the three protocols."""
    kind, delta = event.get("type", ""), event.get("delta")
    if kind == "response.output_text.delta":
        return delta
    if kind == "content_block_delta":
        return delta.get("text", "")
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))
