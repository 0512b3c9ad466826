"""A neutral request, written for a Messages upstream."""

import json

import msgspec
import pytest

from translators.conversation import (
    Choice,
    Controls,
    Conversation,
    Opaque,
    Schema,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from translators.dialect import Target
from translators.fault import Refused
from translators.messages.render import render
from translators.messages.request import parse
from translators.notes import Notes
from translators.toolbox import build
from translators.traits import Traits

HI = (Turn("user", (Text("hi"),), "input.0"),)
BASE = Traits(efforts=("low", "medium", "high"))
F = Tool("function", "f", "does f", b'{"type": "object", "properties": {}}', at="tools.0")
G = Tool("function", "g", at="tools.1")
SEARCH = Tool("hosted", "web_search", hosted=b'{"type":"web_search_20250305","name":"web_search"}', at="tools.2")


def asked(controls=None, *, tools=(), turns=HI, dialect="responses", **members):
    return Conversation(dialect, "m1", turns=turns, tools=tools, controls=controls or Controls(), **members)


def write(conversation, traits=BASE, *, notes=None, **target):
    notes = notes or Notes(strict=target.get("strict", False))
    box = build(conversation, notes, limit=traits.tool_name_limit)
    raw = render(conversation, box, Target("up-m", traits, **target), notes)
    return json.loads(raw)


def refused(conversation, traits=BASE, **target):
    with pytest.raises(Refused) as caught:
        write(conversation, traits, **target)
    assert 400 == caught.value.fault.status
    return caught.value.fault


def test_the_smallest_request():
    """The upstream's model, a limit and one message; nothing that the client did not say."""
    body = {"model": "up-m", "max_tokens": 32_000, "messages": [{"role": "user", "content": "hi"}]}
    assert body == write(asked())
    assert {**body, "stream": True} == write(asked(stream=True))


@pytest.mark.invariant("I30")
def test_the_same_request_gives_the_same_bytes():
    """Rendering is pure, so that the upstream's prompt cache keeps its prefix."""
    conversation = asked(Controls(temperature=0.5), tools=(F, G))
    made = [
        render(conversation, build(conversation, Notes(), limit=64), Target("up-m", BASE), Notes()) for _ in range(2)
    ]
    assert made[0] == made[1]
    assert b'"input_schema":{"type": "object", "properties": {}}' in made[0]


@pytest.mark.parametrize(
    ("asked_for", "target", "traits", "sent"),
    [
        (None, None, Traits(), 32_000),
        (None, None, Traits(default_max_tokens=8000), 8000),
        (None, 5000, Traits(), 5000),
        (100, 5000, Traits(), 100),
        (9000, 5000, Traits(), 5000),
        (9000, None, Traits(max_output_cap=4000), 4000),
        (None, None, Traits(max_output_cap=4000), 4000),
    ],
)
def test_the_limit_that_the_protocol_requires(asked_for, target, traits, sent):
    """The client's limit, else the route's, else the model's, and never above a cap (3.4)."""
    notes = Notes()
    body = write(asked(Controls(max_output_tokens=asked_for)), traits, notes=notes, max_output_tokens=target)
    assert sent == body["max_tokens"]
    assert (asked_for is not None and asked_for > sent) == (notes.count == 1)


def test_system_blocks_stay_apart():
    """Blocks keep their order; the billing line goes to Anthropic for its own clients only (1.11)."""
    system = (Text("x-anthropic-billing-header: 1"), Text("a"), Text(""), Text("b"))
    early = (Turn("developer", (Text("c"),), "input.0"), *HI)
    blocks = [{"type": "text", "text": said} for said in ("a", "b", "c")]
    assert blocks == write(asked(system=system, turns=early))["system"]
    native = write(asked(system=system, turns=early, dialect="messages"))["system"]
    assert ["x-anthropic-billing-header: 1", "a", "b", "c"] == [block["text"] for block in native]


def test_a_request_of_instructions_alone_gets_a_message():
    """A blank user message stands in (1.11)."""
    body = write(asked(system=(Text("a"),), turns=()))
    assert [{"role": "user", "content": " "}] == body["messages"]


def test_tools_are_declared():
    """Name, description, schema and strictness; no cache_control, no type (1.4)."""
    strict = msgspec.structs.replace(G, strict=True)
    assert [
        {"name": "f", "description": "does f", "input_schema": {"type": "object", "properties": {}}},
        {"name": "g", "input_schema": {"type": "object", "properties": {}}, "strict": True},
    ] == write(asked(tools=(F, strict)))["tools"]


def test_a_custom_tool_is_a_function_with_one_string():
    """Free-text tools are wrapped, their grammar told in words (1.4)."""
    custom = Tool("custom", "patch", "edits", grammar=("lark", "start: x"), at="tools.0")
    (tool,) = write(asked(tools=(custom,)))["tools"]
    assert ["input"] == tool["input_schema"]["required"]
    assert "start: x" in tool["description"]


def test_a_namespace_is_part_of_the_name():
    """Children of a namespace become functions with qualified names, in the choice as well (1.4)."""
    child = Tool("function", "run", namespace="shell", at="tools.0")
    body = write(asked(Controls(choice=Choice("tool", (("shell", "run"),))), tools=(child,)))
    assert ("shell__run", "shell__run") == (body["tools"][0]["name"], body["tool_choice"]["name"])


def test_a_deferred_tool_needs_somebody_to_load_it():
    """defer_loading is kept beside the upstream's own tool search, else the tool is offered at once."""
    deferred = msgspec.structs.replace(F, deferred=True)
    notes = Notes()
    assert "defer_loading" not in write(asked(tools=(deferred,)), notes=notes)["tools"][0]
    assert ("tools.0", "changed") == (notes.kept[0].field, notes.kept[0].kind)
    finder = Tool("hosted", "tool_search_tool_regex_20251119", hosted=b'{"type":"tool_search_tool_regex_20251119"}')
    assert write(asked(tools=(deferred, finder), dialect="messages"))["tools"][0]["defer_loading"] is True


def test_server_tools_stay_in_their_protocol():
    """A Messages client's server tools are sent as they came, other hosted tools are dropped or refused (1.4)."""
    own = write(asked(tools=(F, SEARCH), dialect="messages"))
    assert {"type": "web_search_20250305", "name": "web_search"} == own["tools"][1]
    alone = write(asked(tools=(SEARCH,), dialect="messages"))
    assert 1 == len(alone["tools"])
    notes = Notes()
    assert ["f"] == [tool["name"] for tool in write(asked(tools=(F, SEARCH)), notes=notes)["tools"]]
    assert ["tools.2"] == [note.field for note in notes.kept]
    assert "unsupported_tool" == refused(asked(tools=(F, SEARCH)), strict=True).code


def test_without_tools_nothing_is_said_about_them():
    """When every tool is dropped, choice and parallelism go with them (1.4)."""
    notes = Notes()
    body = write(asked(Controls(choice=Choice("required"), parallel=False), tools=(SEARCH,)), notes=notes)
    assert {"model", "max_tokens", "messages"} == set(body)
    assert ["tools.2", "tool_choice"] == [note.field for note in notes.kept]
    assert "tool_choice" not in write(asked(Controls(choice=Choice("auto"))))


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        (None, None, None),
        (None, True, {"type": "auto", "disable_parallel_tool_use": False}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (Choice("auto"), None, {"type": "auto"}),
        (Choice("required"), False, {"type": "any", "disable_parallel_tool_use": True}),
        (Choice("none"), False, {"type": "none"}),
        (Choice("tool", ((None, "g"),)), None, {"type": "tool", "name": "g"}),
        (Choice("allowed", ((None, "g"),)), None, {"type": "auto"}),
        (Choice("allowed", ((None, "g"),), required=True), None, {"type": "any"}),
        (Choice("allowed", ((None, "gone"),)), None, {"type": "none"}),
    ],
)
def test_the_tool_choice(choice, parallel, wire):
    """Choice and parallelism come together in one object (1.5)."""
    body = write(asked(Controls(choice=choice, parallel=parallel), tools=(F, G)))
    assert wire == body.get("tool_choice")
    offered = ["g"] if choice is not None and (None, "g") in choice.names and choice.mode == "allowed" else ["f", "g"]
    assert offered == [tool["name"] for tool in body["tools"]]


@pytest.mark.parametrize(
    "choice", [Choice("tool", ((None, "gone"),)), Choice("allowed", ((None, "gone"),), required=True)]
)
def test_a_tool_that_is_not_there_cannot_be_forced(choice):
    """Forcing a dropped tool is refused in both modes (1.4)."""
    assert ("tool_choice", "unsupported_tool") == (
        refused(asked(Controls(choice=choice), tools=(F,))).param,
        refused(asked(Controls(choice=choice), tools=(F,))).code,
    )


def test_a_server_tool_can_be_forced_by_its_own_clients():
    """A Messages client's choice of a server tool is passed on."""
    choice = Choice("tool", ((None, "web_search"),))
    body = write(asked(Controls(choice=choice), tools=(F, SEARCH), dialect="messages"))
    assert {"type": "tool", "name": "web_search"} == body["tool_choice"]


def test_a_model_that_cannot_be_forced_chooses_itself():
    """The choice is relaxed with a note, refused in strict mode (1.5)."""
    free = Traits(forced_tool_choice=False)
    notes = Notes()
    assert {"type": "auto"} == write(asked(Controls(choice=Choice("required")), tools=(F,)), free, notes=notes)[
        "tool_choice"
    ]
    assert 1 == notes.count
    assert "tool_choice" == refused(asked(Controls(choice=Choice("required")), tools=(F,)), free, strict=True).param


@pytest.mark.parametrize(("parallel", "notes"), [(True, 0), (False, 1)])
def test_an_upstream_without_control_over_parallel_calls(parallel, notes):
    """The field is left out, and noted where it would have changed something."""
    kept = Notes()
    body = write(asked(Controls(parallel=parallel), tools=(F,)), Traits(parallel_control=False), notes=kept)
    assert {"type": "auto"} == body["tool_choice"]
    assert notes == kept.count


def test_effort_is_thinking():
    """An OpenAI effort becomes adaptive thinking with output_config.effort (1.6)."""
    body = write(asked(Controls(thinking=Thinking(effort="high", summary="auto"))))
    assert {"type": "adaptive", "display": "summarized"} == body["thinking"]
    assert {"effort": "high"} == body["output_config"]


def test_a_forced_call_excludes_thinking():
    """The forced choice stays, the thinking goes (1.5)."""
    notes = Notes()
    controls = Controls(thinking=Thinking(effort="high"), choice=Choice("required"), temperature=0.5)
    body = write(asked(controls, tools=(F,)), notes=notes)
    assert "thinking" not in body
    assert ({"type": "any"}, 0.5, {"effort": "high"}) == (
        body["tool_choice"],
        body["temperature"],
        body["output_config"],
    )
    assert ["reasoning_effort"] == [note.field for note in notes.kept]


@pytest.mark.parametrize(
    ("controls", "traits", "sent"),
    [
        (Controls(temperature=0.5, top_p=0.5, top_k=4), BASE, {"temperature": 0.5, "top_p": 0.5, "top_k": 4}),
        (Controls(temperature=1.5), BASE, {"temperature": 1}),
        (Controls(temperature=0.5, top_p=0.5, top_k=4), Traits(sampling=False), {}),
        (Controls(temperature=0.5, top_p=0.96, top_k=4, thinking=Thinking(effort="low")), BASE, {"top_p": 0.96}),
        (Controls(temperature=0.5, thinking=Thinking(effort="none")), BASE, {"temperature": 0.5}),
        (Controls(stop=("a", "b")), BASE, {"stop_sequences": ["a", "b"]}),
    ],
)
def test_sampling(controls, traits, sent):
    """Sent where the model takes it, clamped, and removed beside thinking (1.6, 3.4)."""
    names = ("temperature", "top_p", "top_k", "stop_sequences")
    assert sent == {name: value for name, value in write(asked(controls), traits).items() if name in names}


def test_sampling_that_the_model_does_not_take_is_refused_in_strict_mode():
    """A dropped control names itself."""
    assert "temperature" == refused(asked(Controls(temperature=0.5)), Traits(sampling=False), strict=True).param


def test_a_schema_for_the_output():
    """A schema becomes output_config.format; what Messages cannot say of it is noted (1.14)."""
    notes = Notes()
    schema = Schema(b'{"type":"object"}', name="n", strict=True)
    body = write(asked(Controls(output=schema)), notes=notes)
    assert {"format": {"type": "json_schema", "schema": {"type": "object"}}} == body["output_config"]
    assert ["response_format"] == [note.field for note in notes.kept]
    bare = Notes()
    write(asked(Controls(output=Schema(b"{}"))), notes=bare)
    assert 0 == bare.count


@pytest.mark.parametrize(("schema", "traits"), [(Schema(), BASE), (Schema(b"{}"), Traits(json_schema=False))])
def test_output_forms_that_are_not_there(schema, traits):
    """Any JSON object, or a schema on a model without them, is dropped or refused (1.14)."""
    assert "output_config" not in write(asked(Controls(output=schema)), traits)
    assert "response_format" == refused(asked(Controls(output=schema)), traits, strict=True).param


@pytest.mark.parametrize(
    ("controls", "user_id"),
    [
        (Controls(user="u", safety_identifier="s"), "u"),
        (Controls(safety_identifier="s"), "s"),
    ],
)
def test_the_user_is_named(controls, user_id):
    """user, else safety_identifier, becomes metadata.user_id (1.9)."""
    assert {"user_id": user_id} == write(asked(controls))["metadata"]


@pytest.mark.parametrize(
    ("tier", "wire"),
    [(None, None), ("auto", "auto"), ("default", "standard_only"), ("standard_only", "standard_only"), ("flex", None)],
)
def test_the_service_tier(tier, wire):
    """The tiers auto and default have their like, other tiers are dropped (1.9)."""
    assert wire == write(asked(Controls(service_tier=tier))).get("service_tier")


LOST = {
    "verbosity": "low",
    "seed": 7,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": b"{}",
    "logprobs": True,
    "top_logprobs": 2,
    "prediction": b"{}",
    "store": True,
}


@pytest.mark.parametrize("name", LOST)
@pytest.mark.invariant("I34")
@pytest.mark.invariant("I35")
def test_controls_without_a_place_are_noted_or_refused(name):
    """One note each in lenient mode, a refusal in strict mode, and nothing on the wire (3.4, 3.6)."""
    notes = Notes()
    conversation = asked(Controls(**{name: LOST[name]}))
    assert write(asked()) == write(conversation, notes=notes)
    assert [name] == [note.field for note in notes.kept]
    assert (name, "unsupported_parameter") == (
        refused(conversation, strict=True).param,
        refused(conversation, strict=True).code,
    )


def test_advisory_fields_go_silently():
    """Zero penalties, metadata, cache keys and the like need no note."""
    notes = Notes()
    controls = Controls(
        n=1,
        presence_penalty=0,
        frequency_penalty=0,
        logprobs=False,
        store=False,
        metadata=b"{}",
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        obfuscation=False,
    )
    assert write(asked()) == write(asked(controls), notes=notes)
    assert 0 == notes.count


def test_several_choices_are_refused():
    """Messages has one answer (3.6)."""
    assert "n" == refused(asked(Controls(n=2))).param


def test_what_the_client_alone_knows_is_noted_or_refused():
    """Extras of the client's protocol are accounted for."""
    notes = Notes()
    conversation = asked(extras=(("truncation", "there is none"),))
    write(conversation, notes=notes)
    assert ["truncation"] == [note.field for note in notes.kept]
    assert "truncation" == refused(conversation, strict=True).param


@pytest.mark.invariant("I32")
def test_a_messages_request_comes_back_as_it_was():
    """Parse and render are the identity on what both sides know."""
    body = {
        "model": "up-m",
        "max_tokens": 64,
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "R", "signature": "sig"},
                    {"type": "text", "text": "T"},
                    {"type": "tool_use", "id": "c", "name": "f", "input": {"b": 1, "a": 2}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True},
                    {"type": "text", "text": "again"},
                ],
            },
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "service_tier": "standard_only",
        "stream": True,
    }
    notes = Notes()
    conversation = parse(json.dumps(body).encode(), notes)
    assert body == write(conversation, notes=notes)
    assert 0 == notes.count


def test_a_history_of_another_protocol_is_written():
    """Calls, results and hosted history of a Responses client have their Messages form (3.4)."""
    turns = (
        *HI,
        Turn(
            "assistant", (ToolCall("c", "patch", "raw", custom=True), Opaque("responses", "mcp_list_tools", b"{}")), "i"
        ),
        Turn("user", (ToolResult("c", (Text("ok"),), custom=True),), "i"),
    )
    messages = write(asked(turns=turns, tools=(Tool("custom", "patch"),)))["messages"]
    assert {"type": "tool_use", "id": "c", "name": "patch", "input": {"input": "raw"}} == messages[1]["content"][0]
    assert {"type": "tool_result", "tool_use_id": "c", "content": "ok"} == messages[2]["content"][0]
