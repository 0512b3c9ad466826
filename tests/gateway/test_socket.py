"""Responses over a WebSocket: what is new in, events out, one answer at a time, under the rules of POST."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from gateway import socket
from tests.gateways import gateway
from tests.streams import STREAM, Call, Say, Turn
from tests.upstream import Delay, End, Request, Upstream, reply_json, sse

TABLE = '[providers.up]\nplugin = "openai"\nbase_url = "{url}/v1"\ndialect = "{dialect}"\nkeys = [{{ name = "k", value = "x" }}]'
MODELS = '\n[models."*"]\nprovider = "up"\n'
CALL = Call("lookup", '{"q":"a"}', "call_1")
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
ASK = {"type": "message", "role": "user", "content": "How is the weather?"}
TOOL = {"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {}}}


class Script:
    def __init__(self, dialect, turns):
        self.dialect, self.turns, self.bodies = dialect, turns, []

    def __call__(self, request: Request):
        self.bodies.append(request.json)
        turn = self.turns[len(self.bodies) - 1]
        return sse(STREAM[self.dialect](turn)) if isinstance(turn, Turn) else turn


@asynccontextmanager
async def talking(tmp_path: Path, turns, dialect="chat", extra="", **options):
    script = Script(dialect, turns)
    async with Upstream(script) as upstream:
        text = TABLE.format(url=upstream.url, dialect=dialect) + MODELS + extra
        async with gateway(tmp_path, text) as served:
            async with served.session.ws_connect(served.url + "/v1/responses", **options) as ws:
                yield script, served, ws


def create(items, **more):
    return {"type": "response.create", "model": "m", "input": items, "tools": [TOOL], "store": False, **more}


async def answer(ws) -> list[dict]:
    """All events up to the terminal one."""
    found = []
    while not found or found[-1]["type"] not in (
        "response.completed",
        "response.failed",
        "response.incomplete",
        "error",
    ):
        found.append(await ws.receive_json(timeout=5))
    return found


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_only_new_items_are_sent(tmp_path: Path, dialect):
    """The socket keeps the conversation: after a warm-up and a call, the upstream sees the whole of it."""
    async with talking(tmp_path, [Turn([CALL]), Turn([Say("Fine.")], tag="2")], dialect) as (script, served, ws):
        await ws.send_json(create([ASK], generate=False))
        warm = await answer(ws)
        assert ["response.created", "response.completed"] == [event["type"] for event in warm]
        assert [] == warm[-1]["response"]["output"]
        assert [] == script.bodies
        await ws.send_json(create([], previous_response_id=warm[-1]["response"]["id"]))
        first = await answer(ws)
        await ws.send_json(create([OUTPUT], previous_response_id=first[-1]["response"]["id"]))
        second = await answer(ws)
        records = await served.records(3)
    assert "Fine." == second[-1]["response"]["output"][0]["content"][0]["text"]
    told = json.dumps(script.bodies[1])
    for words in ("How is the weather?", "lookup", "sunny"):
        assert words in told
    assert "previous_response_id" not in script.bodies[1]
    assert ["complete"] * 3 == [record["outcome"] for record in records]
    assert 3 == len({record["request_id"] for record in records})


async def test_failed_answer_can_be_repeated(tmp_path: Path):
    """A broken answer does not move the conversation on: the same frame may be sent again."""
    broken = [*sse(STREAM["chat"](Turn([Say("Half of it")]))[:3]), End.CLOSE]
    async with talking(tmp_path, [Turn([CALL]), broken, Turn([Say("Fine.")], tag="2")]) as (script, _, ws):
        await ws.send_json(create([ASK]))
        first = await answer(ws)
        for expected in ("response.failed", "response.completed"):
            await ws.send_json(create([OUTPUT], previous_response_id=first[-1]["response"]["id"]))
            assert expected == (await answer(ws))[-1]["type"]
    assert script.bodies[1]["messages"] == script.bodies[2]["messages"]


async def test_errors_are_frames(tmp_path: Path):
    """What would be an HTTP error is one error event with its status, and the socket stays open."""
    busy = reply_json({"error": {"message": "slow down"}}, 429, headers=[("retry-after", "7")])
    async with talking(tmp_path, [busy, reply_json({"error": {"message": "no"}}, 400)]) as (_, served, ws):
        await ws.send_json(create([ASK]))
        (limited,) = await answer(ws)
        assert (429, "7") == (limited["status"], limited["headers"]["retry-after"])
        await ws.send_str("no json")
        assert 400 == (await answer(ws))[0]["status"]
        await ws.send_json({"type": "response.cancel", "model": "m"})
        assert 400 == (await answer(ws))[0]["status"]
        await ws.send_bytes(b"{}")
        assert 400 == (await answer(ws))[0]["status"]
        await ws.send_json(create([OUTPUT], previous_response_id="resp_unknown"))
        (unknown,) = await answer(ws)
        assert "previous_response_not_found" == unknown["error"]["code"]
        assert 4 == len(await served.records(4))


async def test_one_answer_at_a_time(tmp_path: Path):
    """A second request while an answer runs is refused, and disturbs nothing."""
    frames = STREAM["chat"](Turn([Say("Slowly said.")]))
    slow = [*sse(frames[:2]), Delay(0.3), *frames[2:]]
    async with talking(tmp_path, [slow]) as (script, _, ws):
        await ws.send_json(create([ASK]))
        began = await ws.receive_json(timeout=5)
        assert "response.created" == began["type"]
        await ws.send_json(create([ASK]))
        found = await answer(ws)
        refused = next(event for event in (began, *found) if event["type"] == "error")
        assert 400 == refused["status"]
        rest = found if found[-1]["type"] == "response.completed" else await answer(ws)
        assert "response.completed" == rest[-1]["type"]
    assert 1 == len(script.bodies)


async def test_leaving_ends_the_upstream_call(tmp_path: Path):
    """A client that closes the socket stops its answer upstream."""
    frames = STREAM["chat"](Turn([Say("Endless.")]))
    script = Script("chat", [[*sse(frames[:3]), End.STALL]])
    async with Upstream(script) as upstream:
        async with gateway(tmp_path, TABLE.format(url=upstream.url, dialect="chat") + MODELS) as served:
            async with served.session.ws_connect(served.url + "/v1/responses") as ws:
                await ws.send_json(create([ASK]))
                await ws.receive_json(timeout=5)
            assert (await upstream.requests[0].hung_up()).early
            (record,) = await served.records()
    assert "client_disconnected" == record["outcome"]


async def test_requests_are_bounded(tmp_path: Path):
    """A conversation that outgrows the body limit is refused; a frame that does, ends the socket."""
    extra = "\n[server]\nmax_request_bytes = 2048\n"
    async with talking(tmp_path, [Turn([CALL])], extra=extra) as (_, _served, ws):
        await ws.send_json(create([ASK | {"content": "x" * 1200}], generate=False))
        warm = await answer(ws)
        await ws.send_json(create([ASK | {"content": "y" * 1200}], previous_response_id=warm[-1]["response"]["id"]))
        assert 413 == (await answer(ws))[0]["status"]
        await ws.send_json(create([ASK | {"content": "z" * 4000}]))
        message = await ws.receive(timeout=5)
        assert aiohttp.WSMsgType.CLOSE == message.type


async def test_a_silent_socket_is_closed(tmp_path: Path, monkeypatch):
    """A socket on which nothing is asked for is not kept for ever."""
    monkeypatch.setattr(socket, "IDLE_S", 0.1)
    async with talking(tmp_path, []) as (_, _served, ws):
        assert aiohttp.WSMsgType.CLOSE == (await ws.receive(timeout=5)).type


async def test_a_running_answer_is_no_silence(tmp_path: Path, monkeypatch):
    """The limit of silence does not cut an answer that takes longer."""
    monkeypatch.setattr(socket, "IDLE_S", 0.05)
    frames = STREAM["chat"](Turn([Say("Slow.")]))
    async with talking(tmp_path, [[*sse(frames[:3]), Delay(0.3), *frames[3:]]]) as (_, _served, ws):
        await ws.send_json(create([ASK]))
        assert "response.completed" == (await answer(ws))[-1]["type"]


@pytest.mark.promise("S24")
async def test_conversations_share_a_budget(tmp_path: Path, monkeypatch):
    """Beyond the budget of all sockets the one that was longest silent starts anew."""
    async with talking(tmp_path, [Turn([Say("Hi.")], tag="1")] * 3) as (_, served, first):
        async with served.session.ws_connect(served.url + "/v1/responses") as second:
            told = {}
            for ws in (first, second):
                await ws.send_json(create([ASK]))
                told[ws] = (await answer(ws))[-1]["response"]["id"]
            monkeypatch.setattr(socket, "MAX_BYTES", 400)
            await second.send_json(create([ASK], previous_response_id=told[second]))
            assert "response.completed" == (await answer(second))[-1]["type"]
            await served.records(3)
            await first.send_json(create([ASK], previous_response_id=told[first]))
            (unknown,) = await answer(first)
    assert "previous_response_not_found" == unknown["error"]["code"]


@pytest.mark.promise("S13")
async def test_foreign_origin_and_wrong_key_get_no_socket(tmp_path: Path):
    """The upgrade is under the same checks as a request: Origin, then the client's key."""
    clients = '\n[[clients]]\nname = "a"\nkey = "key-of-a"\n'
    async with gateway(tmp_path, TABLE.format(url="http://127.0.0.1:9", dialect="chat") + MODELS + clients) as served:
        for headers, status in (({"origin": "https://evil.example"}, 403), ({"authorization": "Bearer no"}, 401)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await served.session.ws_connect(served.url + "/v1/responses", headers=headers)
            assert status == refused.value.status


async def test_plain_get_is_told_to_use_post(tmp_path: Path, monkeypatch):
    """Without a proper upgrade, or without room for one more socket, the answer is a 426."""
    async with gateway(tmp_path, TABLE.format(url="http://127.0.0.1:9", dialect="chat") + MODELS) as served:
        async with served.session.get(served.url + "/v1/responses") as reply:
            assert 426 == reply.status
        monkeypatch.setattr(socket, "MAX_SOCKETS", 0)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.session.ws_connect(served.url + "/v1/responses")
        assert 426 == refused.value.status


async def test_a_key_that_was_taken_away_ends_the_service(tmp_path: Path):
    """A reload that removes the client's key counts for the sockets that are open."""
    clients = '\n[[clients]]\nname = "a"\nkey = "key-of-a"\n'
    options = {"headers": {"authorization": "Bearer key-of-a"}}
    async with talking(tmp_path, [Turn([Say("Hi.")])], extra=clients, **options) as (_, served, ws):
        running = served.listening.gateway
        await ws.send_json(create([ASK]))
        assert "response.completed" == (await answer(ws))[-1]["type"]
        import msgspec

        running.reload(
            msgspec.structs.replace(
                running.runtime.config, clients=(running.runtime.config.clients[0].__class__("b", "0" * 64),)
            )
        )
        await ws.send_json(create([ASK]))
        assert 401 == (await answer(ws))[0]["status"]


async def test_a_bug_costs_one_answer(tmp_path: Path, monkeypatch):
    """An exception in the gateway is an error event and a line in the log, and the socket goes on."""
    async with talking(tmp_path, [Turn([Say("Hi.")])]) as (_, served, ws):
        broken = lambda text: 1 / 0
        with monkeypatch.context() as patch:
            patch.setattr(socket, "read", broken)
            await ws.send_json(create([ASK]))
            assert 500 == (await answer(ws))[0]["status"]
        await ws.send_json(create([ASK]))
        assert "response.completed" == (await answer(ws))[-1]["type"]
        assert 2 == len(await served.records(2))


async def test_draining_gateway_takes_no_more(tmp_path: Path):
    """A gateway that is about to stop says so to sockets that ask."""
    async with talking(tmp_path, []) as (_, served, ws):
        served.listening.gateway.draining = True
        await ws.send_json(create([ASK]))
        assert 503 == (await answer(ws))[0]["status"]
        await asyncio.sleep(0)


async def test_a_cut_answer_is_followed_over_the_socket(tmp_path: Path):
    """An answer that ended at its limit may be named as the previous one."""
    cut = [*sse(STREAM["chat"](Turn([Say("Half of")], cut=True)))]
    async with talking(tmp_path, [cut, Turn([Say("it.")], tag="2")]) as (script, _, ws):
        await ws.send_json(create([ASK]))
        first = (await answer(ws))[-1]
        assert "response.incomplete" == first["type"]
        await ws.send_json(create([ASK], previous_response_id=first["response"]["id"]))
        assert "response.completed" == (await answer(ws))[-1]["type"]
    assert ["user", "assistant", "user"] == [message["role"] for message in script.bodies[1]["messages"]]


async def test_a_warm_up_is_refused_like_its_request(tmp_path: Path):
    """A model that the client may not use is not warmed up, and a warm-up counts for the client's limits."""
    clients = '\n[[clients]]\nname = "a"\nkey = "key-of-a"\nmodels = ["m"]\nrequests_per_minute = 3\n'
    options = {"headers": {"authorization": "Bearer key-of-a"}}
    async with talking(tmp_path, [], extra=clients, **options) as (_, served, ws):
        for model, expected in (("n", 404), ("n", 404), ("m", None), ("m", 429)):
            await ws.send_json(create([ASK], generate=False) | {"model": model})
            assert expected == (await answer(ws))[-1].get("status"), model
        assert 0 == served.listening.gateway.admission.running()
