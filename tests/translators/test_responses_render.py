"""The body for a Responses upstream: tools and controls, each mapped, noted or refused."""

import hashlib
import json

import pytest

from translators.conversation import Choice, Controls, Conversation, Schema, Text, Thinking, Tool, Turn
from translators.dialect import Target
from translators.fault import Refused
from translators.notes import Notes
from translators.responses.render import render
from translators.toolbox import EMPTY_SCHEMA, build
from translators.traits import Traits

HI = (Turn("user", (Text("hi"),), "messages.0"),)
ALL = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


NONE, PLAIN = Controls(), Traits()


def rendered(controls=NONE, *, dialect="messages", notes=None, traits=PLAIN, native=True, **more):
    target = {name: more.pop(name) for name in ("default_effort", "max_output_tokens") if name in more}
    conversation = Conversation(dialect, "m", turns=HI, controls=controls, **more)
    box = build(conversation, Notes(), limit=64, custom_native=native, namespaces_native=native)
    return json.loads(render(conversation, box, Target("up", traits, **target), notes or Notes()))


def refused(*args, **more):
    with pytest.raises(Refused) as caught:
        rendered(*args, **more)
    return caught.value.fault


def test_bare_body():
    """The model is the route's, answers are not stored, and opaque reasoning is asked for."""
    assert {
        "model": "up",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "stream": False,
    } == rendered()


@pytest.mark.invariant("I30")
def test_same_request_gives_the_same_bytes():
    """Rendering is pure, so that the upstream's prompt cache keeps its prefix."""
    conversation = Conversation("messages", "m", system=(Text("s"),), turns=HI)
    box = build(conversation, Notes(), limit=64)
    target = Target("up", Traits())
    assert render(conversation, box, target, Notes()) == render(conversation, box, target, Notes())


def test_system_blocks_become_instructions():
    """System blocks join with a blank line; the billing line of Claude Code stays out."""
    system = (Text("x-anthropic-billing-header: h"), Text("One."), Text("Two."))
    assert "One.\n\nTwo." == rendered(system=system)["instructions"]


# ------------------------------------------------------------------ tools


def test_functions_are_written_with_explicit_strictness():
    """The API takes an absent strict for true, so it is always there; the schema's bytes stay."""
    tools = (
        Tool("function", "a", "does a", b'{"type":"object","z":1,"properties":{}}', strict=True),
        Tool("function", "b", deferred=True),
    )
    assert [
        {
            "type": "function",
            "name": "a",
            "description": "does a",
            "parameters": {"type": "object", "z": 1, "properties": {}},
            "strict": True,
        },
        {
            "type": "function",
            "name": "b",
            "parameters": json.loads(EMPTY_SCHEMA),
            "strict": False,
            "defer_loading": True,
        },
    ] == rendered(tools=tools)["tools"]


def test_custom_tools_are_native_with_a_flat_grammar():
    """A custom tool keeps its kind, and its grammar is flat in this protocol."""
    tools = (Tool("custom", "p", "patches", grammar=("lark", "start: X")), Tool("custom", "q"))
    assert [
        {
            "type": "custom",
            "name": "p",
            "description": "patches",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"},
        },
        {"type": "custom", "name": "q"},
    ] == rendered(tools=tools, dialect="responses")["tools"]


def test_custom_tools_of_a_plain_upstream_are_functions():
    """Where custom tools are unknown, a function with one string stands for them."""
    (tool,) = rendered(tools=(Tool("custom", "p"),), dialect="responses", native=False)["tools"]
    assert ("function", ["input"], False) == (tool["type"], tool["parameters"]["required"], tool["strict"])


def test_namespaces_are_nested_where_known():
    """Children go back under their namespace, at the place of the first of them."""
    tools = (
        Tool("function", "a", namespace="n", namespace_description="Notes"),
        Tool("function", "f"),
        Tool("function", "b", namespace="n", namespace_description="Notes"),
    )
    space, plain = rendered(tools=tools, dialect="responses")["tools"]
    assert ("namespace", "n", "Notes", ["a", "b"]) == (
        space["type"],
        space["name"],
        space["description"],
        [child["name"] for child in space["tools"]],
    )
    assert "f" == plain["name"]


def test_namespaces_are_flattened_elsewhere():
    """An upstream without namespaces gets one name."""
    tools = (Tool("function", "a", namespace="n"),)
    assert ["n__a"] == [tool["name"] for tool in rendered(tools=tools, dialect="responses", native=False)["tools"]]


def test_hosted_tools_stay_with_their_own_protocol():
    """A Responses client's hosted tool is native here; one of another protocol is dropped with a note."""
    hosted = Tool("hosted", "web_search", hosted=b'{"type":"web_search"}', at="tools.0")
    assert [{"type": "web_search"}] == rendered(tools=(hosted,), dialect="responses")["tools"]
    notes = Notes()
    body = rendered(Controls(choice=Choice("auto"), parallel=True), tools=(hosted,), notes=notes)
    assert set() == {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()
    assert ["tools.0"] == [note.field for note in notes.kept]
    assert "unsupported_tool" == refused(tools=(hosted,), notes=Notes(strict=True)).code


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        (Choice("auto"), "auto"),
        (Choice("none"), "none"),
        (Choice("required"), "required"),
        (Choice("tool", ((None, "f"),)), {"type": "function", "name": "f"}),
        (Choice("tool", ((None, "p"),)), {"type": "custom", "name": "p"}),
        (Choice("tool", ((None, "web_search"),)), {"type": "web_search"}),
        (
            Choice("allowed", ((None, "f"), (None, "p"), (None, "gone")), required=True),
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "p"}],
            },
        ),
        (
            Choice("allowed", ((None, "f"),)),
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        ),
    ],
)
def test_tool_choice(choice, expected):
    """A choice names tools by their kind."""
    tools = (
        Tool("function", "f"),
        Tool("custom", "p"),
        Tool("hosted", "web_search", hosted=b'{"type":"web_search"}'),
    )
    body = rendered(Controls(choice=choice), tools=tools, dialect="responses")
    assert expected == body.get("tool_choice")


def test_forcing_a_tool_that_is_not_offered_is_refused():
    """A forced tool that is not there cannot be forced."""
    hosted = Tool("hosted", "web_search", hosted=b"{}")
    fault = refused(Controls(choice=Choice("tool", ((None, "web_search"),))), tools=(hosted,))
    assert ("unsupported_tool", "tool_choice") == (fault.code, fault.param)


@pytest.mark.parametrize(
    "choice", [Choice("required"), Choice("tool", ((None, "f"),)), Choice("allowed", ((None, "f"),), required=True)]
)
def test_model_without_forced_choice_decides_itself(choice):
    """A model that takes only auto and none gets auto, with a note."""
    notes = Notes()
    traits = Traits(forced_tool_choice=False)
    body = rendered(Controls(choice=choice), tools=(Tool("function", "f"),), traits=traits, notes=notes)
    assert "auto" == body["tool_choice"]
    assert ["tool_choice"] == [note.field for note in notes.kept]


@pytest.mark.parametrize(("traits", "expected"), [(Traits(), False), (Traits(parallel_control=False), None)])
def test_parallelism(traits, expected):
    """The wish for sequential calls goes along where the model knows it."""
    body = rendered(Controls(parallel=False), tools=(Tool("function", "f"),), traits=traits)
    assert expected == body.get("parallel_tool_calls")


@pytest.mark.parametrize(("dialect", "stream"), [("chat", False), ("responses", True)])
def test_custom_tools_where_they_can_come_back(dialect, stream):
    """A custom call can come back to a Chat client that does not stream, and to a Responses client."""
    assert "tools" in rendered(dialect=dialect, stream=stream, tools=(Tool("custom", "p"),))


def test_streamed_custom_tools_of_a_chat_client_are_refused():
    """The Chat stream has no form for a custom call."""
    fault = refused(dialect="chat", stream=True, tools=(Tool("function", "f"), Tool("custom", "p", at="tools.3")))
    assert ("unsupported_tool", "tools.3") == (fault.code, fault.param)


# ------------------------------------------------------------------ controls


@pytest.mark.parametrize(
    ("asked", "target", "traits", "sent"),
    [
        (None, None, Traits(), None),
        (None, None, Traits(max_output_cap=50), None),
        (100, None, Traits(), 100),
        (1, None, Traits(), 16),
        (None, 200, Traits(), 200),
        (300, 200, Traits(), 200),
        (300, None, Traits(max_output_cap=50), 50),
    ],
)
def test_output_limit(asked, target, traits, sent):
    """The smallest limit counts, and never less than the API takes."""
    body = rendered(Controls(max_output_tokens=asked), traits=traits, max_output_tokens=target)
    assert sent == body.get("max_output_tokens")


def test_sampling():
    """Sampling goes along, unless the model refuses it."""
    controls = Controls(temperature=0.5, top_p=0.9)
    body = rendered(controls)
    assert (0.5, 0.9) == (body["temperature"], body["top_p"])
    notes = Notes()
    assert set() == {"temperature", "top_p"} & rendered(controls, traits=Traits(sampling=False), notes=notes).keys()
    assert ["temperature", "top_p"] == [note.field for note in notes.kept]


@pytest.mark.parametrize(
    ("dialect", "thinking", "expected"),
    [
        ("messages", Thinking(), None),
        ("messages", Thinking(effort="xhigh"), {"effort": "xhigh"}),
        ("messages", Thinking("disabled"), {"effort": "none"}),
        ("messages", Thinking("enabled", budget=8000), {"effort": "medium", "summary": "auto"}),
        ("messages", Thinking("adaptive"), {"summary": "auto"}),
        ("messages", Thinking("adaptive", effort="max", visible=True), {"effort": "max", "summary": "auto"}),
        ("messages", Thinking("enabled", budget=2000, visible=False), {"effort": "medium"}),
        ("chat", Thinking(effort="high"), {"effort": "high", "summary": "auto"}),
        ("chat", Thinking(effort="none"), {"effort": "none"}),
        ("chat", Thinking(), None),
        (
            "responses",
            Thinking(effort="low", summary="detailed", visible=True),
            {"effort": "low", "summary": "detailed"},
        ),
        ("responses", Thinking(effort="low", visible=False), {"effort": "low"}),
    ],
)
def test_reasoning(dialect, thinking, expected):
    """Effort is mapped, and a summary is asked for where the client shall see reasoning (1.6)."""
    body = rendered(Controls(thinking=thinking), dialect=dialect, traits=Traits(efforts=ALL))
    assert expected == body.get("reasoning")


def test_default_effort_fills_an_absent_one():
    """The route's default counts only where the client said nothing."""
    assert {"effort": "high"} == rendered(default_effort="high")["reasoning"]
    assert {"effort": "low"} == rendered(Controls(thinking=Thinking(effort="low")), default_effort="high")["reasoning"]


def test_model_without_efforts_gets_no_reasoning():
    """The field is never sent to a model that does not know it."""
    body = rendered(Controls(thinking=Thinking("adaptive")), traits=Traits(efforts=()))
    assert "reasoning" not in body


@pytest.mark.parametrize(
    ("dialect", "output", "expected"),
    [
        ("chat", Schema(), {"type": "json_object"}),
        ("messages", Schema(b'{"a":1}'), {"type": "json_schema", "name": "output", "schema": {"a": 1}, "strict": True}),
        ("chat", Schema(b'{"a":1}', "n"), {"type": "json_schema", "name": "n", "schema": {"a": 1}}),
        (
            "chat",
            Schema(b"{}", "n", "d", strict=False),
            {"type": "json_schema", "name": "n", "schema": {}, "description": "d", "strict": False},
        ),
    ],
)
def test_output_format(dialect, output, expected):
    """Structured output keeps its schema; what Messages has no word for gets a fixed name and strictness."""
    assert expected == rendered(Controls(output=output), dialect=dialect)["text"]["format"]


def test_output_format_of_a_model_without_schemas():
    """A model that takes no schema is asked without, with a note."""
    notes = Notes()
    assert "text" not in rendered(Controls(output=Schema(b"{}")), traits=Traits(json_schema=False), notes=notes)
    assert ["response_format"] == [note.field for note in notes.kept]


def test_advisory_fields():
    """What both OpenAI protocols know goes along."""
    controls = Controls(
        verbosity="low",
        logprobs=True,
        top_logprobs=2,
        service_tier="standard_only",
        user="u",
        safety_identifier="s",
        metadata=b'{"a":"b"}',
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        store=True,
        obfuscation=False,
    )
    body = rendered(controls, dialect="chat", stream=True)
    assert {
        "text": {"verbosity": "low"},
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "top_logprobs": 2,
        "service_tier": "default",
        "user": "u",
        "safety_identifier": "s",
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "store": True,
        "stream": True,
        "stream_options": {"include_obfuscation": False},
    }.items() <= body.items()


def test_long_user_ids_are_hashed():
    """Claude Code's ids are longer than the API takes."""
    long = "u" * 65
    assert hashlib.sha256(long.encode()).hexdigest() == rendered(Controls(user=long))["user"]
    assert "u" * 64 == rendered(Controls(user="u" * 64))["user"]


@pytest.mark.invariant("I34")
@pytest.mark.parametrize(
    ("controls", "dialect", "field"),
    [
        (Controls(stop=("x",)), "messages", "stop"),
        (Controls(stop=("x",)), "chat", "stop"),
        (Controls(top_k=0), "messages", "top_k"),
        (Controls(seed=0), "chat", "seed"),
        (Controls(presence_penalty=0.5), "chat", "presence_penalty"),
        (Controls(frequency_penalty=-0.5), "chat", "frequency_penalty"),
        (Controls(logit_bias=b"{}"), "chat", "logit_bias"),
        (Controls(prediction=b"{}"), "chat", "prediction"),
    ],
)
def test_controls_without_a_place_are_noted_or_refused(controls, dialect, field):
    """Each leaves one note in lenient mode, and refuses the request in strict mode."""
    notes = Notes()
    assert rendered(dialect=dialect) == rendered(controls, dialect=dialect, notes=notes)
    assert [field] == [note.field for note in notes.kept]
    assert field == refused(controls, dialect=dialect, notes=Notes(strict=True)).param


def test_zero_penalties_say_nothing():
    """A penalty of zero is the default."""
    notes = Notes()
    rendered(Controls(presence_penalty=0, frequency_penalty=0.0, n=1), dialect="chat", notes=notes)
    assert 0 == notes.count


def test_extras_are_noted():
    """What the parser found no place for is noted here."""
    notes = Notes()
    rendered(extras=(("container", "only Messages knows this"),), notes=notes)
    assert ["container"] == [note.field for note in notes.kept]


def test_several_answers_are_refused():
    """A Responses upstream gives one answer."""
    assert "n" == refused(Controls(n=2), dialect="chat").param


@pytest.mark.invariant("I36")
@pytest.mark.parametrize("native", [True, False])
def test_a_tool_that_is_declared_twice_is_sent_once(native):
    """Equal declarations collapse, in a namespace too (1.4)."""
    tools = [Tool("function", "f", at=f"tools.{at}") for at in range(2)]
    tools += [Tool("function", "f", namespace="n", at=f"tools.2.tools.{at}") for at in range(2)]
    names = [tool["name"] for tool in rendered(tools=tuple(tools), native=native)["tools"]]
    assert (["f", "n"] if native else ["f", "n__f"]) == names


@pytest.mark.parametrize(
    ("wished", "cap", "sent", "message"),
    [
        (900, 400, 400, "lowered to 400, the most that this route allows"),
        (1, 400, 16, "raised to 16, the least that the API takes"),
        (300, 400, 300, None),
        (None, 400, 400, None),
    ],
)
def test_another_limit_than_the_wished_one_is_noted(wished, cap, sent, message):
    """The client is told when its answer may end before its own limit."""
    notes = Notes()
    assert sent == rendered(Controls(max_output_tokens=wished), max_output_tokens=cap, notes=notes)["max_output_tokens"]
    assert ([message] if message else []) == [note.message for note in notes.kept]


@pytest.mark.parametrize(("parallel", "count"), [(False, 1), (True, 0), (None, 0)])
def test_parallel_calls_that_cannot_be_forbidden_are_noted(parallel, count):
    """Allowing them is what the model does anyway."""
    notes = Notes()
    more = {"tools": (Tool("function", "f"),), "traits": Traits(parallel_control=False)}
    assert "parallel_tool_calls" not in rendered(Controls(parallel=parallel), notes=notes, **more)
    assert count == notes.count


def test_prompt_cache_options_pass():
    """They mean the same to Chat (1.9)."""
    assert {"mode": "x"} == rendered(Controls(prompt_cache_options=b'{"mode":"x"}'))["prompt_cache_options"]
