"""What a model's traits make of a request: GLM's tables, the history it gets, and the room in its window."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Conversation, Reasoning, Text, Thinking, ToolCall, ToolResult, Turn
from translators.dialect import Peek, Target
from translators.dialects import DIALECTS
from translators.effort import openai_effort
from translators.fault import Fault, Refused
from translators.instructions import without_billing
from translators.notes import Notes
from translators.pair import Asked, Pair
from translators.policy import applied, guarded, room, shaping, with_foreign
from translators.traits import Traits, traits_for

GLM = traits_for("z-ai/glm-5.3-flash")
HUMAN = Turn("user", (Text("do it"),))
SAID = Turn("assistant", (Reasoning("old"), Text("done")))
RESULT = Turn("user", (ToolResult("c", (Text("ok"),)),))


def called(arguments: str, *, custom: bool = False) -> Turn:
    return Turn("assistant", (Reasoning("why"), ToolCall("c", "A", arguments, custom=custom)))


@pytest.mark.parametrize(
    ("model", "glm"),
    [
        *(
            (name, True)
            for name in ("z-ai/glm-5.3-flash", "GLM53", "glm4.7", "openai/glm-4.6", "glm", "cline-pass/glm-5")
        ),
        *((name, False) for name in ("aglm-4", "gpt-glmish", "kaggle", "qwen3-coder", "glmish", "glm/kimi")),
    ],
)
def test_glm_is_known_by_a_part_of_its_name(model, glm):
    """The family is a whole word of the last path part, digits may follow (spec/cline.md 9.1)."""
    assert glm == (traits_for(model) == GLM)


EFFORTS = {
    "silence": (Thinking(), "high"),
    "minimal": (Thinking(effort="minimal"), "low"),
    "low": (Thinking(effort="low"), "low"),
    "medium": (Thinking(effort="medium"), "high"),
    "high": (Thinking(effort="high"), "high"),
    "xhigh": (Thinking(effort="xhigh"), "high"),
    "max": (Thinking(effort="max"), "max"),
    "disabled": (Thinking("disabled"), "low"),
    "adaptive": (Thinking("adaptive"), "high"),
    "small budget": (Thinking("enabled", budget=64), "low"),
    "budget below": (Thinking("enabled", budget=8191), "low"),
    "budget at": (Thinking("enabled", budget=8192), "high"),
    "large budget": (Thinking("enabled", budget=60_000), "high"),
    "effort beats budget": (Thinking("enabled", budget=64, effort="max"), "max"),
}


@pytest.mark.parametrize(("thinking", "sent"), EFFORTS.values(), ids=EFFORTS)
def test_glm_effort_is_always_explicit(thinking, sent):
    """GLM takes silence for the most expensive level, so a level is always sent (spec/cline.md 9.2)."""
    assert sent == openai_effort(thinking, Target("glm", GLM), Notes(), "effort")


def test_the_route_may_set_the_default():
    """A route's own default stands before the family's."""
    assert "max" == openai_effort(Thinking(), Target("glm", GLM, default_effort="max"), Notes(), "effort")


def test_old_reasoning_is_left_out():
    """Reasoning of earlier human turns goes, that of the present loop stays; a turn of nothing else goes whole."""
    only = Turn("assistant", (Reasoning("old"),))
    asked = Conversation("chat", "m", turns=(HUMAN, only, SAID, HUMAN, called("{}"), RESULT))
    kept = applied(asked, Traits(history_reasoning=False)).turns
    assert (HUMAN, Turn("assistant", (Text("done"),)), HUMAN, called("{}"), RESULT) == kept


def test_nothing_to_change_is_the_same_value():
    """A request that already fits is not copied."""
    asked = Conversation("chat", "m", turns=(HUMAN, called("{}"), RESULT))
    assert asked is applied(asked, GLM)
    assert asked is applied(asked, Traits())


SHUFFLED = (
    '{"b":2,"a":1,"nested":{"z":true,"a":[4,{"d":4,"c":3},"x"]},"s":"text, untouched","n":1.5,"nil":null}',
    '{"a":1,"b":2,"n":1.5,"nested":{"a":[4,{"c":3,"d":4},"x"],"z":true},"nil":null,"s":"text, untouched"}',
)


def arguments_of(turn: Turn) -> str:
    return next(part.arguments for part in turn.parts if isinstance(part, ToolCall))


def test_arguments_become_canonical():
    """Keys are sorted recursively, lists keep their order, and a second time changes nothing (spec/cline.md 8)."""
    asked = Conversation("chat", "m", turns=(HUMAN, called(SHUFFLED[0]), RESULT))
    once = applied(asked, GLM)
    assert SHUFFLED[1] == arguments_of(once.turns[1])
    assert once is applied(once, GLM)


@pytest.mark.parametrize(
    "turns",
    [
        (HUMAN, called("{broken"), RESULT),
        (HUMAN, called('{"b":1,"a":2}', custom=True), RESULT),
        (HUMAN, called(SHUFFLED[0])),
    ],
    ids=["malformed", "free text", "nothing follows"],
)
def test_other_arguments_stay(turns):
    """What is no JSON, is free text, or belongs to an answer that is being continued is not touched."""
    asked = Conversation("chat", "m", turns=turns)
    assert asked is applied(asked, GLM)


@pytest.mark.parametrize(
    ("tokens", "wished", "left"), [(10_000, 1000, 1000), (30_000, 8000, 1744), (32_000, 8000, None)]
)
def test_room_in_the_window(tokens, wished, left):
    """The values of the specification (9.6), with a window of 32,768 tokens."""
    assert left == room(tokens, wished, 32_768)


def guard(body: dict, tokens: int) -> dict:
    return json.loads(guarded(json.dumps(body).encode(), 32_768, lambda _: tokens, Notes()))


def test_guard_lowers_whatever_limit_the_dialect_has():
    """Each protocol's own limit field is lowered, and nothing else."""
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        body = {"m": "x" * 40_000, name: 8000}
        assert {**body, name: 1744} == guard(body, 30_000)
        assert body == guard(body, 10_000)


def test_guard_refuses_what_cannot_fit():
    """A prompt without room is a client error that clients know as too long; it is never cut."""
    with pytest.raises(Refused) as caught:
        guard({"m": "x" * 40_000}, 32_000)
    fault: Fault = caught.value.fault
    assert ("context_length", 400, "context_length_exceeded") == (fault.kind, fault.status, fault.code)


@given(st.binary(max_size=50))
def test_guard_counts_only_what_may_be_too_much(body):
    """A body with fewer bytes than the window has tokens is not counted, nor is one that cannot be read."""
    assert body == guarded(body, 32_768, lambda _: pytest.fail("counted"), Notes())
    assert b"[" * 40_000 == guarded(b"[" * 40_000, 32_768, lambda _: 10**9, Notes())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("x-anthropic-billing-header: a\nrest", "rest"),
        ("x-anthropic-billing-header: a\r\nrest", "rest"),
        ("x-anthropic-billing-header: a\rrest", "rest"),
        ("x-anthropic-billing-header: a", ""),
        ("x-anthropic-billing-header: a\n\nrest", "\nrest"),
        ("x x-anthropic-billing-header: a\nrest", None),
        ("\nx-anthropic-billing-header: a\nrest", None),
        ("X-Anthropic-Billing-Header: a\nrest", None),
        ("x-anthropic-billing-headers: a\nrest", None),
        ("", None),
    ],
)
def test_billing_line(text, left):
    """Exactly the one leading line goes, with its line end, and nothing that only looks like it (spec/cline.md 8)."""
    assert (text if left is None else left) == without_billing(text)


def upstream_body(client: str, body: dict, traits: Traits, **target) -> dict:
    asked = Asked("alias", native=False)
    pair = Pair(DIALECTS[client], DIALECTS["chat"])
    prepared = pair.request(json.dumps(body).encode(), Peek("alias"), Target("glm", traits, **target), asked)
    assert not isinstance(prepared, Fault), prepared
    return json.loads(prepared.body)


ASKS = {
    "chat": {"model": "alias", "messages": [{"role": "user", "content": "hi"}]},
    "responses": {"model": "alias", "input": "hi"},
    "messages": {"model": "alias", "max_tokens": 64_000, "messages": [{"role": "user", "content": "hi"}]},
}


@pytest.mark.parametrize("client", ASKS)
def test_glm_policy_is_the_same_for_every_client(client):
    """Effort and output cap are on the wire whatever protocol the client speaks."""
    body = upstream_body(client, ASKS[client], GLM)
    assert ("high", 16_384) == (body["reasoning_effort"], body["max_tokens"])


@pytest.mark.parametrize(("wished", "sent"), [(None, 16_384), (4096, 4096), (16_384, 16_384), (64_000, 16_384)])
def test_glm_output_cap(wished, sent):
    """A wish over the cap is lowered, none becomes the cap, in the one field that GLM knows (spec/cline.md 9.3)."""
    body = upstream_body("chat", ASKS["chat"] | {"max_completion_tokens": wished}, GLM)
    assert (sent, False) == (body["max_tokens"], "max_completion_tokens" in body)


def test_guard_works_for_every_path(monkeypatch):
    """The context guard stands behind translated and native requests."""
    tight = Traits(context_guard=1500)
    long = {"model": "alias", "messages": [{"role": "user", "content": "x" * 9000}], "max_tokens": 100}
    for client, native in (("chat", True), ("chat", False)):
        pair = Pair(DIALECTS[client], DIALECTS["chat"])
        fault = pair.request(
            json.dumps(long).encode(), Peek("alias"), Target("m", tight), Asked("alias", native=native)
        )
        assert isinstance(fault, Fault)
        assert "context_length" == fault.kind


def test_guard_leaves_small_requests_alone():
    """A request with fewer bytes than the window has tokens goes out as it is, uncounted."""
    body = {"m": "x", "max_tokens": 9}
    assert body == json.loads(guarded(json.dumps(body).encode(), 32_768, lambda _: pytest.fail("counted"), Notes()))


@pytest.mark.parametrize(
    "traits",
    [
        {"default_effort": "high"},
        {"always_limit": True},
        {"canonical_arguments": True},
        {"reasoning_replay": True},
        {"history_reasoning": False},
    ],
)
def test_policy_takes_the_neutral_model(traits):
    """Each trait that native bytes cannot be given has clients of every dialect translated."""
    assert not shaping(Traits(), "chat")
    assert shaping(Traits(**traits), "chat")


def test_memory_takes_the_neutral_model():
    """A Responses upstream without state is never native; what the trait says means nothing elsewhere."""
    assert not shaping(Traits(), "responses")
    assert shaping(Traits(server_state=False), "responses")
    assert not shaping(Traits(server_state=False), "chat")


def test_glm_policy_reaches_clients_of_its_own_dialect():
    """A Chat client of a Chat route gets the effort, the cap and the history that GLM wants (issue 4.4, 4.6)."""
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"b": 1, "a": 2}'}}
    thought = {"role": "assistant", "content": None, "reasoning_content": "old", "tool_calls": [call]}
    history = [{"role": "user", "content": "hi"}, thought, {"role": "tool", "tool_call_id": "c1", "content": "x"}]
    history += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "on"}]
    body = ASKS["chat"] | {"messages": history, "max_tokens": 64_000}
    tools = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]
    vendor = {"chat_template_kwargs": {"x": 1.0}, "prompt_cache_key": "k", "top_k": 4}
    pair = Pair(DIALECTS["chat"], DIALECTS["chat"])
    sent = json.dumps(body | vendor | {"tools": tools}).encode()
    prepared = pair.request(sent, Peek("alias"), Target("glm", GLM), Asked("alias"))
    assert not isinstance(prepared, Fault), prepared
    made = json.loads(prepared.body)
    assert not prepared.native
    assert ("high", 16_384) == (made["reasoning_effort"], made["max_tokens"])
    assert '{"a":2,"b":1}' == made["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert "reasoning_content" not in made["messages"][1]
    assert ({"x": 1.0}, "k") == (made["chat_template_kwargs"], made["prompt_cache_key"])


def test_foreign_members_stay():
    """Members that the protocol does not know go on, those that it knows only as they were rendered."""
    known = frozenset(("a", "b"))
    assert {"a": 1, "x": 2} == json.loads(with_foreign(b'{"a":1}', b'{"a":9,"b":3,"x":2}', known))
    assert {"a": 1, "x": 7} == json.loads(with_foreign(b'{"a":1,"x":7}', b'{"x":2}', known))
    assert b'{"a": 1}' == with_foreign(b'{"a": 1}', b'{"a":9,"b":3}', known)
