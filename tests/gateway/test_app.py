"""The HTTP surface: routes, ids, envelopes, limits, health, reload and drain of a running gateway."""

import asyncio
import contextlib
import gzip
import hashlib
import json
import zlib

import pytest
from backports import zstd

from gateway import app
from gateway.app import MAX_REQUEST_ID_CHARS
from gateway.config import Client, Config, Model, Route
from tests.gateway.live import CLIENT_KEY, DEADLINE_S, PATHS, config, provider, request, running
from tests.gateway.wire import JSON, KEY, LOCAL, connect, head, talk, whole
from tests.streams import STREAM, WHOLE, Say, Turn
from tests.upstream import End, Head, Upstream, Wait, reply_json, sse

AUTH = {"authorization": f"Bearer {CLIENT_KEY}"}
TURN = Turn([Say("It is warm.")])
STREAMED = sse(STREAM["chat"](TURN))
ANSWER = reply_json(WHOLE["chat"](TURN))
ENDS = {"chat": b"data: [DONE]", "responses": b"response.completed", "messages": b"event: message_stop"}
FAILS = {"chat": b'data: {"error"', "responses": b"response.failed", "messages": b"event: error"}
every_client = pytest.mark.parametrize("client", PATHS)


def nowhere(**server):
    """A configuration whose upstream nobody asks."""
    return config(provider("http://127.0.0.1:1"), **server)


async def until(true):
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.005)


# ids and headers


@every_client
@pytest.mark.parametrize("given", ["a", "x" * MAX_REQUEST_ID_CHARS, "Req 1: ~!"])
async def test_a_clients_request_id_is_kept(client, given):
    """On answers as on errors; Messages clients find it under their own name too."""
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url))) as live:
        replies = [await live.send(client, model=model, headers={"x-request-id": given}) for model in ("m1", "m2")]
        records = await live.records(2)
    assert [200, 404] == [reply.status for reply in replies]
    assert {given} == {reply.headers["x-request-id"] for reply in replies}
    assert {given if client == "messages" else None} == {reply.headers.get("request-id") for reply in replies}
    assert {given} == {record["request_id"] for record in records}


@pytest.mark.promise("S33")
@pytest.mark.parametrize("given", [None, b"", b"x" * (MAX_REQUEST_ID_CHARS + 1), b"caf\xc3\xa9", b"a\tb", b"\xff"])
async def test_any_other_request_id_is_ours(given):
    """Too long, not printable or none: the id is made here and is different each time."""
    extra = b"" if given is None else b"x-request-id: " + given + b"\r\n"
    async with running(nowhere()) as live:
        plain = head("GET /livez", LOCAL, ("connection", "close"))
        ids = [(await talk(live.url, plain[:-2] + extra + b"\r\n")).header("x-request-id") for _ in range(2)]
    assert [24, 24] == [len(one) for one in ids]
    assert 2 == len(set(ids))


@pytest.mark.parametrize(
    "path", ["/", "/livez", "/readyz", "/v1/models", "/v1/models/m1", "/v1/models/unknown", "/unknown"]
)
async def test_every_response_names_its_request(path):
    """Also those that need no key and those that are not there."""
    async with running(nowhere()) as live:
        reply = await live.ask("GET", path, headers=AUTH | {"x-request-id": "r1"})
    assert "r1" == reply.headers["x-request-id"]


@pytest.mark.promise("S11")
async def test_our_version_is_not_told():
    """No response names the libraries underneath."""
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url))) as live:
        replies = [await live.send("chat"), await live.ask("GET", "/livez"), await live.ask("GET", "/nothing")]
        broken = await talk(live.url, b"nonsense\r\n\r\n")
    assert {"dragoman"} == {reply.headers["server"] for reply in replies} | {broken.header("server")}


@pytest.mark.parametrize(("more", "notes"), [({}, None), ({"logit_bias": {"1": 2}}, "1")])
@pytest.mark.parametrize("stream", [True, False])
async def test_notes_are_counted_for_the_client(more, notes, stream):
    """How many fields were dropped or changed stands in a header, when there are any."""
    answer = sse(STREAM["messages"](TURN)) if stream else reply_json(WHOLE["messages"](TURN))
    async with Upstream([answer]) as upstream, running(config(provider(upstream.url, "messages"))) as live:
        reply = await live.send("chat", stream=stream, **more)
    assert (200, notes) == (reply.status, reply.headers.get("x-dragoman-notes"))


@pytest.mark.invariant("I34")
async def test_notes_of_a_whole_answer_are_counted_too():
    """What the client's protocol cannot tell of the answer is known before its headers go out."""
    answer = WHOLE["messages"](TURN)
    answer["content"].insert(0, {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})
    async with Upstream([reply_json(answer)]) as upstream, running(config(provider(upstream.url, "messages"))) as live:
        reply = await live.send("chat", stream=False, logit_bias={"1": 2})
        [record] = await live.records()
    assert 200 == reply.status
    assert 1 < record["notes"] == int(reply.headers["x-dragoman-notes"])


@pytest.mark.parametrize("client", ["chat", "responses"])
@pytest.mark.parametrize("model", [{}, {"model": ""}, {"model": None}], ids=["none", "empty", "null"])
async def test_a_request_without_a_model_names_the_field(client, model):
    """400, and `param` says which."""
    body = {name: value for name, value in request(client).items() if name != "model"} | model
    async with running(nowhere()) as live:
        reply = await live.post(PATHS[client], json.dumps(body).encode())
    assert (400, "model", None) == (reply.status, reply.json["error"]["param"], reply.json["error"]["code"])


# health


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "text"), [("/livez", b"ok\n"), ("/readyz", b"ready\n"), ("/", b"Dragoman is running")]
)
async def test_health_needs_no_key(method, path, text):
    """Probes get a short line, or with HEAD its headers alone."""
    async with running(nowhere()) as live:
        reply = await live.ask(method, path)
    assert 200 == reply.status
    assert reply.body.startswith(text if method == "GET" else b"")
    assert (method == "HEAD") == (reply.body == b"")


async def test_not_ready_without_a_key_that_can_serve():
    """After every key was rejected there is nothing to send requests to; the process is alive all the same."""
    refused = reply_json({"error": {"message": "bad key"}}, 401)
    async with Upstream([refused]) as upstream, running(config(provider(upstream.url))) as live:
        before = await live.ask("GET", "/readyz")
        await live.send("chat")
        after, alive = await live.ask("GET", "/readyz"), await live.ask("GET", "/livez")
    assert [200, 503, 200] == [before.status, after.status, alive.status]
    assert b"no key can serve\n" == after.body


async def test_not_ready_without_providers():
    """An empty configuration serves nobody."""
    async with running(Config()) as live:
        assert 503 == (await live.ask("GET", "/readyz")).status


# models


async def test_models_in_all_shapes():
    """OpenAI's, Anthropic's and Codex's, as a list and one by one, with a slash in a name too."""
    models = {
        "m1": Model(routes=(Route("up"),)),
        "z-ai/glm-5": Model(routes=(Route("up"),)),
        "p*": Model(routes=(Route("up"),)),
    }
    async with running(config(provider("http://127.0.0.1:1"), models=models)) as live:
        for path in ("/v1/models", "/models"):
            openai = await live.ask("GET", path, headers=AUTH)
            anthropic = await live.ask(
                "GET", path, headers={"x-api-key": CLIENT_KEY, "anthropic-version": "2023-06-01"}
            )
            codex = await live.ask("GET", f"{path}?client_version=0.99", headers=AUTH)
            one = await live.ask("GET", f"{path}/z-ai/glm-5", headers=AUTH)
            encoded = await live.ask("GET", f"{path}/z-ai%2Fglm-5", headers=AUTH)
            assert ["m1", "z-ai/glm-5"] == [model["id"] for model in openai.json["data"]]
            assert ("m1", "z-ai/glm-5") == (anthropic.json["first_id"], anthropic.json["last_id"])
            assert isinstance(codex.json["models"], list)
            assert {"z-ai/glm-5"} == {one.json["id"], encoded.json["id"]}


@pytest.mark.parametrize("name", ["unknown", "p*"])
@pytest.mark.parametrize(
    ("headers", "kind"), [({}, "invalid_request_error"), ({"anthropic-version": "1"}, "not_found_error")]
)
async def test_a_model_that_is_not_served_is_a_404(name, headers, kind):
    """In the shape that was asked for; a prefix alias is no model, a name behind it is."""
    models = {"p*": Model(routes=(Route("up"),))}
    async with running(config(provider("http://127.0.0.1:1"), models=models)) as live:
        reply = await live.ask("GET", f"/v1/models/{name}", headers=AUTH | headers)
        served = await live.ask("GET", "/v1/models/p1", headers=AUTH | headers)
    assert (200, "p1") == (served.status, served.json["id"])
    assert (404, kind) == (reply.status, reply.json["error"]["type"])


async def test_a_tenant_has_its_own_models():
    """What it may not use it can neither see nor ask."""
    digest = hashlib.sha256(CLIENT_KEY.encode()).hexdigest()
    models = {name: Model(routes=(Route("up"),)) for name in ("m1", "m2")}
    settings = config(provider("http://127.0.0.1:1"), models=models, clients=[Client("alice", digest, models=("m2",))])
    async with running(settings) as live:
        listed = await live.ask("GET", "/v1/models", headers=AUTH)
        asked = await live.send("chat", model="m1")
        counted = await live.post("/v1/messages/count_tokens", json.dumps(request("messages")).encode())
    assert ["m2"] == [model["id"] for model in listed.json["data"]]
    assert [404, 404] == [asked.status, counted.status]


@every_client
async def test_an_unknown_model_is_a_404(client):
    """In the client's envelope, with a name no longer than need be; nothing goes upstream."""
    async with Upstream() as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.send(client, model="n" * 500)
        [record] = await live.records()
    assert 404 == reply.status
    assert len(reply.body) < 500
    assert ("client_error", 200) == (record["outcome"], len(record["alias"]))
    assert [] == upstream.requests


# paths and methods


@every_client
async def test_routes_answer_without_the_version(client):
    """The same handler stands behind both paths."""
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.post(PATHS[client].removeprefix("/v1"), json.dumps(request(client)).encode())
    assert ENDS[client] in reply.body


async def test_query_strings_are_accepted():
    """Claude Code asks with `?beta=true`."""
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url))) as live:
        assert 200 == (await live.post("/v1/messages?beta=true", json.dumps(request("messages")).encode())).status


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/messages", "POST"),
        ("PUT", "/v1/chat/completions", "POST"),
        ("DELETE", "/v1/responses", "GET, POST"),
        ("POST", "/v1/models", "GET"),
        ("POST", "/livez", "GET, HEAD"),
        ("HEAD", "/v1/models", "GET"),
        ("OPTIONS", "/v1/messages", "POST"),
    ],
)
async def test_another_method_is_a_405(method, path, allow):
    """The methods that are served stand in the header where HTTP wants them."""
    async with running(nowhere()) as live:
        reply = await live.ask(method, path, headers=AUTH)
    assert (405, allow) == (reply.status, reply.headers["allow"])


@pytest.mark.parametrize(
    ("path", "headers", "kind"),
    [
        ("/v2/nothing", {}, "invalid_request_error"),
        ("/v1/messages/nothing", {}, "not_found_error"),
        ("/v1/responses/resp_1", {}, "invalid_request_error"),
        ("/v1/models/", {}, "invalid_request_error"),
        ("/nothing", {"anthropic-version": "1"}, "not_found_error"),
    ],
)
async def test_another_path_is_a_404(path, headers, kind):
    """In the envelope of the protocol that the path, or a header, belongs to."""
    async with running(nowhere()) as live:
        reply = await live.ask("GET", path, headers=AUTH | headers)
        [record] = await live.records()
    assert (404, kind) == (reply.status, reply.json["error"]["type"])
    assert reply.json["error"].get("code") is None  # the code of an unknown model would mislead
    assert ("client_error", 404) == (record["outcome"], record["status"])


async def test_a_get_of_responses_is_told_to_post():
    """Without an upgrade the 426 makes Codex fall back to POST at once."""
    async with running(nowhere()) as live:
        reply = await live.ask("GET", "/v1/responses", headers=AUTH)
        [record] = await live.records()
    assert (426, "websocket", "client_error") == (reply.status, reply.headers["upgrade"], record["outcome"])


# bodies


@pytest.mark.promise("S13")
@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/messages/count_tokens"])
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "x" * 500]
)
async def test_only_json_is_read(path, kind):
    """A web page can send these types without asking, so none of them is accepted."""
    async with running(nowhere()) as live:
        reply = await live.post(path, b"{}", headers={"content-type": kind})
    assert 415 == reply.status
    assert len(reply.body) < 400


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"])
async def test_json_has_many_names(kind):
    """A charset, another case and vendors' types are JSON."""
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url))) as live:
        assert 200 == (await live.send("chat", headers={"content-type": kind})).status


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress)]
)
async def test_compressed_requests_are_served(encoding, pack):
    """The upstream gets the plain body."""
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url))) as live:
        body = pack(json.dumps(request("chat")).encode())
        reply = await live.post(PATHS["chat"], body, headers={"content-encoding": encoding})
    assert ENDS["chat"] in reply.body
    assert "hi" == upstream.requests[0].json["messages"][0]["content"]
    assert upstream.requests[0].header("content-encoding") is None


async def test_tokens_are_counted_here():
    """An honest estimate, without `max_tokens` and without a call upstream; the header says what it is."""
    async with Upstream() as upstream, running(config(provider(upstream.url))) as live:
        body = json.dumps({"model": "m1", "messages": [{"role": "user", "content": "hello " * 100}]}).encode()
        reply = await live.post("/v1/messages/count_tokens?beta=true", body)
        longer = await live.post("/messages/count_tokens", body.replace(b"hello", b"hello hello"))
    assert "estimate" == reply.headers["x-dragoman-token-count"]
    assert 80 < reply.json["input_tokens"] < 400
    assert longer.json["input_tokens"] > reply.json["input_tokens"]
    assert [] == upstream.requests


@pytest.mark.parametrize("translation", ["lenient", "strict"])
async def test_a_count_is_lenient(translation):
    """What a strict route would refuse is left out of the count, and null is no `max_tokens`."""
    models = {"m1": Model(routes=(Route("up", "up-m"),), translation=translation)}
    odd = {"max_tokens": None, "top_k": 5, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    async with running(config(provider("http://127.0.0.1:1"), models=models)) as live:
        plain = await live.post("/v1/messages/count_tokens", json.dumps(request("messages")).encode())
        reply = await live.post("/v1/messages/count_tokens", json.dumps(request("messages") | odd).encode())
    assert (200, 200) == (plain.status, reply.status)
    assert reply.json["input_tokens"] >= plain.json["input_tokens"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"model":"m1"}', 400),
        (b'{"model":"m1","messages":"x"}', 400),
        (b'{"model":"unknown","messages":[]}', 404),
        (b'{"model":"m1","messages":[' + b" " * 2000 + b"]}", 413),
    ],
)
async def test_what_cannot_be_counted_is_an_error(body, status):
    """In the envelope of Messages, like the request itself."""
    async with running(nowhere(max_request_bytes=1024)) as live:
        reply = await live.post("/v1/messages/count_tokens", body)
    assert (status, "error") == (reply.status, reply.json["type"])


# limits, bugs, disconnects


@every_client
async def test_a_clients_limit_is_a_429_of_ours(client):
    """In its envelope, with the time to wait, and no blame on the upstream."""
    digest = hashlib.sha256(CLIENT_KEY.encode()).hexdigest()
    clients = [Client("alice", digest, requests_per_minute=1)]
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url), clients=clients)) as live:
        first, second = await live.send(client), await live.send(client)
        records = await live.records(2)
    assert [200, 429] == [first.status, second.status]
    assert 55 <= int(second.headers["retry-after"]) <= 60
    assert ["complete", "client_error"] == [record["outcome"] for record in records]
    assert 1 == len(upstream.requests)


@pytest.mark.promise("S02")
@every_client
async def test_a_bug_costs_one_request(client, monkeypatch):
    """The client gets an id and no text of the exception; the log has its type and place."""

    async def broken(self):
        raise RuntimeError("sk-canary-0123456789")

    monkeypatch.setattr(app.Exchange, "run", broken)
    async with running(nowhere()) as live:
        reply = await live.send(client)
        [record] = await live.records()
        alive = await live.ask("GET", "/livez")
        log = live.out.getvalue()
    assert [500, 200] == [reply.status, alive.status]
    assert ("upstream_error", 500) == (record["outcome"], record["status"])
    assert "RuntimeError at test_app.py" in log
    assert "canary" not in log + reply.body.decode()
    assert 0 == live.listening.gateway.admission.running()


async def test_a_broken_pipe_is_no_bug(monkeypatch):
    """A connection that broke under a handler is a client that left."""

    async def broken(self):
        raise ConnectionResetError

    monkeypatch.setattr(app.Exchange, "run", broken)
    async with running(nowhere()) as live:
        await talk(live.url, whole("POST /v1/messages", b"{}", KEY, JSON))
        await live.ask("GET", "/nothing")
        outcomes = [record["outcome"] for record in await live.records(2)]
    assert ["client_disconnected", "client_error"] == outcomes


@pytest.mark.promise("S25")
@every_client
async def test_a_client_that_leaves_while_it_sends(client):
    """Half a body and then nobody: a record, no upstream call, nothing left running."""
    async with Upstream() as upstream, running(config(provider(upstream.url))) as live:
        _, writer = await connect(live.url)
        writer.write(head(f"POST {PATHS[client]}", LOCAL, KEY, JSON, ("content-length", "1000")) + b'{"model":')
        await writer.drain()
        await until(lambda: live.listening.gateway.exchanges)
        writer.transport.abort()
        [record] = await live.records()
        await until(lambda: not live.listening.gateway.exchanges)
    assert "client_disconnected" == record["outcome"]
    assert 0 == live.listening.gateway.admission.running()
    assert [] == upstream.requests


# drain and reload


@contextlib.asynccontextmanager
async def streaming(client, upstream_end, **server):
    """A gateway with one stream in the middle of its answer; yields it, the task that reads it, and its upstream."""
    frames = STREAM["chat"](TURN)
    async with Upstream([[Head(), *frames[:3], upstream_end, *frames[3:]], STREAMED]) as upstream:
        async with running(config(provider(upstream.url), **server)) as live:
            reading = asyncio.create_task(live.send(client))
            await upstream.received()
            gateway = live.listening.gateway
            await until(lambda: any(exchange.downstream.started for exchange in gateway.exchanges))
            yield live, reading, upstream


@every_client
@pytest.mark.promise("S38")
async def test_a_running_stream_ends_whole_while_draining(client):
    """New requests get a 503 with a time, readiness is false at once, and the stream is not touched."""
    go_on = asyncio.Event()
    async with streaming(client, Wait(go_on)) as (live, reading, _):
        draining = asyncio.create_task(live.listening.gateway.drain(DEADLINE_S))
        await asyncio.sleep(0)
        ready, refused = await live.ask("GET", "/readyz"), await live.send(client)
        assert [(503, b"draining\n"), 503] == [(ready.status, ready.body), refused.status]
        assert "5" == refused.headers["retry-after"]
        go_on.set()
        reply = await reading
        await asyncio.wait_for(draining, 2)
        records = await live.records(2)
    assert ENDS[client] in reply.body
    assert {"shutdown", "complete"} == {record["outcome"] for record in records}


@every_client
@pytest.mark.promise("S38")
async def test_a_stream_that_is_too_long_gets_its_error_form(client):
    """After drain_s it ends in its protocol's error, the connection ends properly, the upstream is let go."""
    async with streaming(client, End.STALL) as (live, reading, upstream):
        await live.listening.gateway.drain(0.05)
        reply = await reading
        await upstream.requests[0].hung_up()
        [record] = await live.records()
    assert reply.broken is None
    assert (1, 0) == (
        reply.body.count(FAILS[client] + (b'",' if client == "responses" else b"")),
        reply.body.count(ENDS[client]),
    )
    assert "shutdown" == record["outcome"]


@every_client
@pytest.mark.promise("S38")
async def test_a_request_that_still_waits_gets_a_503(client):
    """Nothing was sent yet, so the shutdown is an HTTP error."""
    async with Upstream([[End.STALL]]) as upstream, running(config(provider(upstream.url))) as live:
        reading = asyncio.create_task(live.send(client))
        await upstream.received()
        await live.listening.gateway.drain(0.05)
        reply = await reading
        [record] = await live.records()
    assert (503, "5", "shutdown") == (reply.status, reply.headers["retry-after"], record["outcome"])


async def test_an_idle_gateway_drains_at_once():
    """There is nobody to wait for."""
    async with running(nowhere()) as live:
        async with asyncio.timeout(1):
            await live.listening.gateway.drain(30)


@pytest.mark.promise("S39")
async def test_a_reload_leaves_running_requests_alone():
    """The old runtime serves to the end of its last request and is then closed; new requests use the new one."""
    go_on = asyncio.Event()
    async with streaming("chat", Wait(go_on)) as (live, reading, upstream):
        gateway = live.listening.gateway
        old = gateway.runtime
        changed = config(provider(upstream.url), models={"m2": Model(routes=(Route("up", "new"),))})
        gateway.reload(changed)
        missing, found = await live.send("chat", model="m1"), await live.send("chat", model="m2")
        assert [404, 200] == [missing.status, found.status]
        assert 1 == old.running
        go_on.set()
        reply = await reading
        await until(lambda: not old.running)
        assert old.upstreams["up"].provider._client.session.closed
    assert ENDS["chat"] in reply.body
    assert "new" == upstream.requests[1].json["model"]


@pytest.mark.promise("S39")
async def test_an_idle_runtime_is_closed_when_it_is_replaced():
    """Its connections go at once."""
    async with Upstream([STREAMED]) as upstream, running(config(provider(upstream.url))) as live:
        await live.send("chat")
        gateway = live.listening.gateway
        old = gateway.runtime
        await until(lambda: not old.running)
        gateway.reload(config(provider(upstream.url)))
        await until(lambda: old.upstreams["up"].provider._client.session.closed)
        assert old is not gateway.runtime
