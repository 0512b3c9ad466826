"""What one request takes from the replay store and leaves in it, also where bytes pass untranslated."""

import json
from pathlib import Path

import msgspec
import pytest

from gateway.recall import Recall
from gateway.stores.replay import Replay
from tests.gateways import gateway
from tests.streams import Call, Say, Turn, responses, responses_whole
from tests.upstream import Upstream, reply_json, sse
from translators.conversation import Controls, Conversation, Text, Tool, ToolCall
from translators.conversation import Turn as Said
from translators.dialect import Target
from translators.events import BlockEnd, BlockStart, Delta, Finish, Start
from translators.traits import Traits

CALL = ToolCall("call_1", "lookup", "{}")
TABLE = '[providers.up]\nplugin = "openai"\nbase_url = "{url}/v1"\ndialect = "responses"\nkeys = [{{ name = "k", value = "x" }}]'
STATELESS = '\n[models."*"]\nprovider = "up"\ntraits = {{ server_state = {state} }}\n'
ASK = {"type": "message", "role": "user", "content": "How is the weather?"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}


def recall(replay, *, whole=False) -> Recall:
    return Recall(replay.slot(b"s", "a", "m"), seed="0" * 24, target=Target("m", Traits(), "origin"), whole=whole)


def told(observe) -> None:
    for event in (Start("resp_1"), BlockStart(1, "tool", call_id="call_1", name="lookup"), Delta(1, "{}"), BlockEnd(1)):
        observe(event)
    observe(Finish("tool"))


def test_answer_is_remembered_for_the_next_request():
    """What one answer told, the next request gets by item, response and session."""
    replay = Replay()
    one = recall(replay)
    one.restore(Conversation("responses", "m", controls=Controls(prompt_cache_key=" thread ")))
    told(one.observe)
    memory = replay.slot(b"s", "a", "m").memory(0)
    assert [(CALL,)] * 3 == [memory.item("fc_call_1"), memory.response("resp_1"), memory.session("thread")]
    assert memory.whole("resp_1") is None


def test_whole_conversation_is_kept_without_its_instructions():
    """Turns, notes among them and lifted tools are kept; instructions belong to each request."""
    replay = Replay()
    one = recall(replay, whole=True)
    request = Conversation(
        "responses",
        "m",
        system=(Text("be kind"), Text("dev note")),
        turns=(Said("user", (Text("hi"),), "input.0"),),
        tools=(Tool("function", "f", at="tools.0"), Tool("function", "g", at="input.1.tools.0")),
        echo={"instructions": "be kind"},
    )
    assert request is one.restore(request)
    told(one.observe)
    past = replay.slot(b"s", "a", "m").memory(0).whole("resp_1")
    assert past is not None
    assert ((Text("dev note"),), ["g"]) == (past.system, [tool.name for tool in past.tools])
    assert [(Text("hi"),), (CALL,)] == [turn.parts for turn in past.turns]


def test_empty_answer_adds_no_turn():
    """An answer without content leaves the conversation as it was."""
    replay = Replay()
    one = recall(replay, whole=True)
    one.restore(Conversation("responses", "m", system=(Text("s"),), turns=(Said("user", (Text("hi"),)),)))
    one.observe(Start("resp_1"))
    one.observe(Finish("end"))
    past = replay.slot(b"s", "a", "m").memory(0).whole("resp_1")
    assert past is not None
    assert ((Text("s"),), 1) == (past.system, len(past.turns))


@pytest.mark.parametrize("stream", [True, False])
async def test_upstream_of_the_same_dialect_without_state(tmp_path: Path, stream):
    """It is translated for, so that a request that names its answers, by our ids or its own, is put together here."""
    turns, bodies = [Turn([Call("lookup", "{}")]), Turn([Say("Sunny.")], tag="2")], []

    def script(request):
        bodies.append(request.json)
        turn = turns[len(bodies) - 1]
        return sse(responses(turn)) if stream else reply_json(responses_whole(turn))

    async with Upstream(script) as upstream:
        text = TABLE.format(url=upstream.url) + STATELESS.format(state="false")
        async with gateway(tmp_path, text) as served:
            request = {"model": "m", "stream": stream, "input": [ASK]}
            status, answer = await served.post("/v1/responses", request)
            first = (
                next(event["response"] for event in answer if event["type"] == "response.completed")
                if stream
                else answer
            )
            assert (200, "resp_1", "fc_call_1") == (status, first["id"], first["output"][0]["id"])
            reference = {"type": "item_reference", "id": "fc_1_0"}
            for items in ([OUTPUT], [ASK, reference, OUTPUT]):
                more = {"previous_response_id": "resp_1"} if len(items) == 1 else {}
                turns.append(turns[1])
                status, answer = await served.post("/v1/responses", request | {"input": items} | more)
                assert 200 == status, answer
    for body in bodies[1:]:
        kinds = [item["type"] for item in body["input"] if item["type"] != "message"]
        assert ["function_call", "function_call_output"] == kinds
        assert "previous_response_id" not in body


async def test_upstream_with_state_is_asked_itself(tmp_path: Path):
    """Where the upstream keeps its answers, a reference goes there as it came."""
    bodies = []

    def script(request):
        bodies.append(request.json)
        return sse(responses(Turn([Say("Hi.")])))

    request = {"model": "m", "stream": True, "input": [OUTPUT], "previous_response_id": "resp_9"}
    async with Upstream(script) as upstream:
        async with gateway(tmp_path, TABLE.format(url=upstream.url) + STATELESS.format(state="true")) as served:
            assert 200 == (await served.post("/v1/responses", request))[0]
    assert request == bodies[0]


async def test_memory_outlives_a_reload(tmp_path: Path):
    """A new configuration does not make clients start anew."""
    bodies = []

    def script(request):
        bodies.append(request.json)
        return sse(responses(Turn([Call("lookup", "{}")] if len(bodies) == 1 else [Say("Hi.")], tag=str(len(bodies)))))

    async with Upstream(script) as upstream:
        async with gateway(tmp_path, TABLE.format(url=upstream.url) + STATELESS.format(state="false")) as served:
            await served.post("/v1/responses", {"model": "m", "stream": True, "input": [ASK]})
            running = served.listening.gateway
            running.reload(msgspec.structs.replace(running.runtime.config, digest="new"))
            request = {"model": "m", "stream": True, "input": [OUTPUT], "previous_response_id": "resp_1"}
            assert 200 == (await served.post("/v1/responses", request))[0]
    assert "lookup" in json.dumps(bodies[1])


async def stateless(tmp_path: Path, requests, turns, extra=""):
    """The answers to requests over a Responses upstream without state, and the bodies that it got."""
    bodies = []

    def script(request):
        bodies.append(request.json)
        return sse(responses(turns[len(bodies) - 1]))

    async with Upstream(script) as upstream:
        text = TABLE.format(url=upstream.url) + STATELESS.format(state="false") + extra
        async with gateway(tmp_path, text) as served:
            answers = [await served.post("/v1/responses", {"model": "m", "stream": True} | one) for one in requests]
    return answers, bodies


async def test_whole_answers_are_remembered_where_the_upstream_has_no_state(tmp_path: Path):
    """With `remember` a client of the upstream's own dialect loses nothing either, from its first turn on."""
    turns = [Turn([Say("It is sunny.")]), Turn([Say("Yes.")], tag="2")]
    requests = [{"input": [ASK]}, {"input": "Really?", "previous_response_id": "resp_1"}]
    state = '\n[state]\nurl = "memory:"\nremember = "responses"\n'
    answers, bodies = await stateless(tmp_path, requests, turns, state)
    assert [200, 200] == [status for status, _ in answers]
    told = json.dumps(bodies[1])
    assert all(words in told for words in ("How is the weather?", "It is sunny.", "Really?"))


@pytest.mark.parametrize(
    "more",
    [
        {"input": [ASK, {"id": "fc_call_1"}, OUTPUT]},
        {"input": [ASK, OUTPUT], "prompt_cache_key": "thread"},
    ],
)
async def test_every_way_to_lean_on_a_call_is_put_back(tmp_path: Path, more):
    """A bare id, and a cache key beside outputs alone, find their call (spec/grok.md 11.4 steps 1 and 2)."""
    turns = [Turn([Call("lookup", "{}")]), Turn([Say("Fine.")], tag="2")]
    answers, bodies = await stateless(tmp_path, [{"input": [ASK], "prompt_cache_key": "thread"}, more], turns)
    assert 200 == answers[1][0], answers[1]
    kinds = [item["type"] for item in bodies[1]["input"] if item["type"] != "message"]
    assert ["function_call", "function_call_output"] == kinds


async def test_what_is_not_kept_of_a_spoken_answer_is_said(tmp_path: Path):
    """A request that goes on from words alone is refused, and told what would keep them."""
    requests = [{"input": [ASK]}, {"input": [ASK], "previous_response_id": "resp_1"}]
    (_, (status, told)), bodies = await stateless(tmp_path, requests, [Turn([Say("Hi.")])])
    assert (400, "previous_response_not_found", 1) == (status, told["error"]["code"], len(bodies))
    assert 'remember = "responses"' in told["error"]["message"]
