"""The Responses request parser: what Codex, Grok Build and the SDKs send, and what is refused with its path."""

import json

import msgspec
import pytest

from translators.conversation import Choice, Schema, Text, Thinking, Tool, Turn
from translators.dialect import Peek
from translators.fault import Refused
from translators.notes import Notes
from translators.responses.request import MAX_ITEMS, parse, peek


def parsed(**body):
    return parse(json.dumps({"model": "m", **body}).encode(), Notes())


def refused(**body):
    with pytest.raises(Refused) as caught:
        parsed(**body)
    return caught.value.fault


def test_peek_reads_model_stream_and_session():
    """Routing needs the model, the stream flag and the session id that Codex keeps in prompt_cache_key."""
    body = b'{"input": [{"type": "message"}], "model": "m", "stream": true, "prompt_cache_key": "s-1"}'
    assert Peek("m", stream=True, session="s-1") == peek(body)


def test_peek_takes_null_for_absent():
    """Null stands for an absent stream flag and session."""
    assert Peek("m") == peek(b'{"model": "m", "stream": null, "prompt_cache_key": null}')


@pytest.mark.parametrize("body", [b"{}", b'{"model": 1}', b"[", b'{"model": null}'])
def test_peek_refuses_a_body_without_a_model(body):
    """A body that names no model cannot be routed."""
    with pytest.raises(Refused) as caught:
        peek(body)
    assert 400 == caught.value.fault.status


def test_string_input_is_one_user_turn():
    """A string input is what the user says."""
    assert (Turn("user", (Text("hi"),), "input"),) == parsed(input="hi").turns


@pytest.mark.parametrize("body", [{}, {"input": None}, {"input": ""}, {"input": []}])
def test_absent_input_is_no_turn(body):
    """A request without input has no turns."""
    assert () == parsed(**body).turns


def test_instructions_and_the_leading_run_are_system():
    """Instructions come first, then the leading system and developer messages in order; later ones stay turns."""
    conversation = parsed(
        instructions="One.",
        input=[
            {"role": "system", "content": "Two."},
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Three."}]},
            {"role": "user", "content": "hi"},
            {"role": "developer", "content": "Four."},
        ],
    )
    assert (Text("One."), Text("Two."), Text("Three.")) == conversation.system
    assert [("user", "input.3"), ("developer", "input.4")] == [(turn.role, turn.at) for turn in conversation.turns]


def test_controls_are_read():
    """Every control with a neutral place arrives there."""
    conversation = parsed(
        stream=True,
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.9,
        top_logprobs=3,
        parallel_tool_calls=False,
        include=["reasoning.encrypted_content", "message.output_text.logprobs"],
        stream_options={"include_obfuscation": False},
        service_tier="flex",
        user="u",
        safety_identifier="s",
        metadata={"b": "1", "a": "2"},
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        store=False,
        text={"verbosity": "low"},
    )
    controls = conversation.controls
    assert conversation.stream
    assert conversation.include_encrypted
    assert (100, 0.5, 0.9, 3) == (
        controls.max_output_tokens,
        controls.temperature,
        controls.top_p,
        controls.top_logprobs,
    )
    assert controls.logprobs
    assert (False, False, False) == (controls.parallel, controls.obfuscation, controls.store)
    assert ("flex", "u", "s", "k", "24h", "low") == (
        controls.service_tier,
        controls.user,
        controls.safety_identifier,
        controls.prompt_cache_key,
        controls.prompt_cache_retention,
        controls.verbosity,
    )
    assert b'{"b": "1", "a": "2"}' == controls.metadata
    assert () == conversation.extras


@pytest.mark.parametrize(
    ("reasoning", "expected"),
    [
        (None, Thinking()),
        ({"effort": "low", "context": None}, Thinking(effort="low", visible=False)),
        ({"summary": "auto"}, Thinking(visible=True, summary="auto")),
        ({"effort": None, "summary": "none"}, Thinking(visible=False)),
        ({"generate_summary": "concise"}, Thinking(visible=True, summary="concise")),
    ],
)
def test_reasoning_wish_is_read(reasoning, expected):
    """A summary makes reasoning visible, a wish without one hides it, and silence says nothing."""
    assert expected == parsed(reasoning=reasoning).controls.thinking


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, Schema()),
        (
            {"type": "json_schema", "name": "a", "description": "d", "schema": {"z": 1, "a": 2}, "strict": True},
            Schema(b'{"z": 1, "a": 2}', "a", "d", True),
        ),
    ],
)
def test_output_format_is_read(form, expected):
    """Structured output keeps its schema's bytes."""
    assert expected == parsed(text={"format": form}).controls.output


def test_tool_choice_and_tools_are_read():
    """Tools and the choice between them are read together."""
    conversation = parsed(
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
        tool_choice={"type": "function", "name": "f"},
    )
    assert (Tool("function", "f", parameters=b'{"type": "object"}', strict=True, at="tools.0"),) == conversation.tools
    assert Choice("tool", ((None, "f"),)) == conversation.controls.choice


def test_legacy_functions_are_tools():
    """The functions of old clients are tools, unless the request has tools."""
    body = {"functions": [{"name": "f", "parameters": {}}], "function_call": {"name": "f"}}
    conversation = parsed(**body)
    assert (Tool("function", "f", parameters=b"{}", at="functions.0"),) == conversation.tools
    assert Choice("tool", ((None, "f"),)) == conversation.controls.choice
    assert ["g"] == [tool.name for tool in parsed(tools=[{"type": "function", "name": "g"}], **body).tools]


def test_fields_that_only_responses_knows_become_extras():
    """What a writer of another protocol has to drop is listed with its path."""
    conversation = parsed(
        truncation="auto",
        max_tool_calls=3,
        context_management=[{}],
        moderation={"x": 1},
        reasoning={"context": "all_turns", "mode": "x"},
        include=["file_search_call.results"],
    )
    assert [
        "truncation",
        "max_tool_calls",
        "context_management",
        "moderation",
        "reasoning.context",
        "reasoning.mode",
        "include",
    ] == [path for path, _ in conversation.extras]


@pytest.mark.parametrize("body", [{"truncation": "disabled"}, {"context_management": None}, {"client_metadata": {}}])
def test_defaults_and_unknown_fields_are_no_extras(body):
    """Defaults change nothing, and fields that nobody knows are ignored (I35)."""
    assert () == parsed(**body).extras


@pytest.mark.invariant("I31")
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"conversation": "c"}, "missing_state", "conversation"),
        ({"prompt": {"id": "p"}}, "missing_state", "prompt"),
        ({"background": True}, "unsupported_parameter", "background"),
        ({"max_output_tokens": 0}, None, "max_output_tokens"),
        ({"max_output_tokens": "1"}, None, "max_output_tokens"),
        ({"text": {"format": {"type": "xml"}}}, None, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "schema": 1}}}, None, "text.format.schema"),
        ({"reasoning": {"effort": 1}}, None, "reasoning.effort"),
        ({"include": [1]}, None, "include.0"),
        ({"input": 1}, None, "input"),
        ({"function_call": "maybe"}, None, "function_call"),
    ],
)
def test_refusals_name_the_field(body, code, param):
    """What cannot be read or served is a 400 that names the field."""
    fault = refused(**body)
    assert (400, code, param) == (fault.status, fault.code, fault.param)
    assert "client" == fault.cause


@pytest.mark.parametrize("body", [{"conversation": None}, {"prompt": None}, {"background": False}])
def test_null_and_false_ask_for_nothing(body):
    """Null and false are as good as absent."""
    assert () == parsed(**body).turns


def test_previous_response_id_is_kept_for_replay():
    """A later step resolves the reference, so the parser only hands it on."""
    assert "resp_1" == parsed(previous_response_id="resp_1").previous_response_id
    assert parsed(previous_response_id="").previous_response_id is None


def test_deep_nesting_is_refused():
    """A document that nests too deep is refused before anything is built."""
    body = b'{"model":"m","metadata":' + b"[" * 200 + b"]" * 200 + b"}"
    with pytest.raises(Refused) as caught:
        parse(body, Notes())
    assert "nests deeper" in caught.value.fault.message


@pytest.mark.parametrize(("count", "accepted"), [(MAX_ITEMS, True), (MAX_ITEMS + 1, False)])
def test_items_are_bounded(count, accepted):
    """As many items as the limit allows are read, one more is refused."""
    body = b'{"model":"m","input":[%b]}' % b",".join([b'{"role":"user","content":"x"}'] * count)
    if accepted:
        assert count == len(parse(body, Notes()).turns)
    else:
        with pytest.raises(Refused):
            parse(body, Notes())


def test_echo_has_what_lifecycle_objects_repeat():
    """The fields that a client finds again in the answer are kept as it spelled them."""
    echo = parsed(
        instructions="Be brief.",
        max_output_tokens=5,
        tools=[{"type": "function", "name": "f", "x": 1}],
        tool_choice={"type": "function", "name": "f"},
        metadata={"a": "b"},
        reasoning={"effort": "low"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"a": 1}, "strict": False}, "verbosity": "low"},
        previous_response_id="resp_0",
        temperature=1,
    ).echo
    assert {
        "instructions": "Be brief.",
        "max_output_tokens": 5,
        "previous_response_id": "resp_0",
        "temperature": 1.0,
        "tools": [{"type": "function", "name": "f", "x": 1}],
        "tool_choice": {"type": "function", "name": "f"},
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low", "summary": None},
        "text": {"format": {"type": "json_schema", "name": "n", "strict": False, "schema": {"a": 1}}},
    } == json.loads(msgspec.json.encode(echo))


def test_echo_of_a_bare_request_is_almost_empty():
    """What a request does not say is not repeated."""
    assert {"tools"} == parsed(input="hi").echo.keys()


def test_peek_reads_who_asks():
    """Metadata name the session where no cache key does; `user` says who asks (spec/cline.md 8)."""
    body = b'{"model": "m", "user": "u", "metadata": {"session_id": "s", "user_id": "m"}}'
    assert Peek("m", session="s", user="u") == peek(body)
