"""A Messages request, read."""

import json

import pytest

from translators.conversation import Choice, Opaque, Receipt, Schema, Text, Thinking, Tool, ToolCall, ToolResult, Turn
from translators.fault import Refused
from translators.messages.request import parse, peek
from translators.notes import Notes

HI = [{"role": "user", "content": "hi"}]


def read(notes=None, **members):
    body = {"model": "m1", "max_tokens": 8, "messages": HI, **members}
    return parse(json.dumps(body).encode(), notes or Notes())


def refused(**members):
    with pytest.raises(Refused) as caught:
        read(**members)
    assert 400 == caught.value.fault.status
    return caught.value.fault


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        ('{"device_id":"d","session_id":"s-1"}', "s-1"),
        ("user_ab_account__session_s-2", "s-2"),
        ('{"session_id":""}', None),
        ('{"session_id":7}', None),
        ("{session_", None),
        ("alice", None),
        ('{"session_id":"', None),
        ("_session_" + "x" * 300, None),
    ],
)
def test_a_session_is_what_the_client_names(user_id, session):
    """Claude Code names its session inside user_id; nothing is guessed (S31)."""
    body = {"model": "m1", "stream": True, "metadata": {"user_id": user_id}}
    seen = peek(json.dumps(body).encode())
    assert ("m1", True, session, user_id) == (seen.model, seen.stream, seen.session, seen.user)


def test_a_session_of_its_own_field_is_read():
    """`metadata.session_id` names the session where user_id does not (spec/cline.md 8)."""
    for user_id, session in (("alice", "s1"), ("user_session_s2", "s2")):
        metadata = {"user_id": user_id, "session_id": "s1"}
        seen = peek(json.dumps({"model": "m1", "metadata": metadata}).encode())
        assert (session, user_id) == (seen.session, seen.user)


@pytest.mark.parametrize("metadata", [None, "session_", {"user_id": ["session_"]}])
def test_odd_metadata_names_no_session(metadata):
    """Routing does not fail for metadata of another shape."""
    assert peek(json.dumps({"model": "m1", "metadata": metadata}).encode()).session is None


@pytest.mark.parametrize(
    ("body", "param"), [(b"{}", "model"), (b'{"model":""}', "model"), (b'{"model":7}', "model"), (b"{", None)]
)
def test_a_request_without_model_cannot_be_routed(body, param):
    """The model is what picks the route."""
    with pytest.raises(Refused) as caught:
        peek(body)
    assert param == caught.value.fault.param


def test_the_request_of_an_agent_is_read():
    """System blocks, a role-system message, thinking, parallel calls and results come out in order."""
    conversation = read(
        system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "system", "content": "notes"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "7C"}]},
            {"role": "assistant", "content": "done"},
        ],
        stream=True,
        unheard_of={"a": 1},
    )
    assert ("messages", "m1", True) == (conversation.dialect, conversation.model, conversation.stream)
    assert (Text("a"), Text("b")) == conversation.system
    assert (
        Turn("user", (Text("go"),), "messages.0"),
        Turn("system", (Text("notes"),), "messages.1"),
        Turn("assistant", (ToolCall("c", "f", "{}"),), "messages.2"),
        Turn("user", (ToolResult("c", (Text("7C"),)),), "messages.3"),
        Turn("assistant", (Text("done"),), "messages.4"),
    ) == conversation.turns
    assert () == conversation.extras


def test_blocks_of_this_protocol_keep_their_bytes():
    """A server tool's block is the bytes that the client sent, wherever it stands."""
    body = b"""{"model":"m1","max_tokens":8,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
        {"type":"text","text":"b"},{"type":"server_tool_use", "id":"s","name":"web_search","input":{"q": 1.50}},
        {"type":"novel"}]},{"role":"user","content":[{"type":"other"}]}]}"""
    turns = parse(body, Notes()).turns
    raw = b'{"type":"server_tool_use", "id":"s","name":"web_search","input":{"q": 1.50}}'
    novel = Opaque("messages", "novel", b'{"type":"novel"}')
    assert (Text("b"), Opaque("messages", "server_tool_use", raw), novel) == turns[1].parts
    assert (Opaque("messages", "other", b'{"type":"other"}'),) == turns[2].parts


def test_provider_run_calls_are_receipts():
    """An MCP call with its result is history, not a call to run."""
    ran = {"type": "mcp_tool_use", "id": "m", "name": "n", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "m", "content": "o", "is_error": False}
    conversation = read(messages=[*HI, {"role": "assistant", "content": [ran, result]}])
    assert (Receipt("m", "s", "n", "{}", "o"),) == conversation.turns[1].parts


def test_tools_keep_their_schemas():
    """Functions keep the bytes of their schema; server tools keep their declaration."""
    body = b"""{"model":"m1","max_tokens":8,"messages":[{"role":"user","content":"a"}],"tools":[
        {"name":"f","description":"d","input_schema":{"type": "object", "b":1},"strict":true,"cache_control":{}},
        {"type":"custom","name":"g","defer_loading":true,"input_examples":[]},
        {"type":"web_search_20250305","name":"web_search","max_uses":8}]}"""
    assert (
        Tool("function", "f", "d", b'{"type": "object", "b":1}', strict=True, at="tools.0"),
        Tool("function", "g", deferred=True, at="tools.1"),
        Tool(
            "hosted",
            "web_search_20250305",
            hosted=b'{"type":"web_search_20250305","name":"web_search","max_uses":8}',
            at="tools.2",
        ),
    ) == parse(body, Notes()).tools


def test_the_placeholder_of_claude_code_is_not_offered():
    """A tool that must never be called is left out; other deferred tools stay (clients.md 1)."""
    notes = Notes()
    tools = [
        {"name": "DeferredToolPlaceholder", "input_schema": {}, "defer_loading": True},
        {"name": "WebFetch", "input_schema": {}, "defer_loading": True},
    ]
    assert ["WebFetch"] == [tool.name for tool in read(notes, tools=tools).tools]
    assert ["tools.0"] == [note.field for note in notes.kept]


def test_what_has_an_effect_elsewhere_unknown_is_told():
    """Fields that only Anthropic's API has are listed for the writer to note or refuse (3.1)."""
    conversation = read(
        context_management={"edits": []},
        container="c",
        mcp_servers=[{"name": "s"}],
        speed="fast",
        inference_geo="eu",
        fallbacks=[1],
        compaction={},
        output_config={"task_budget": {"total": 1}},
        tools=[{"name": "f", "input_schema": {}, "allowed_callers": ["code_execution_20260120"]}],
    )
    assert [
        "context_management",
        "container",
        "mcp_servers",
        "speed",
        "inference_geo",
        "fallbacks",
        "compaction",
        "output_config.task_budget",
        "tools.0.allowed_callers",
    ] == [path for path, _ in conversation.extras]


def test_absent_and_idle_fields_are_not_told():
    """Null, empty and standard values, and advisory fields, need no note."""
    conversation = read(
        container=None,
        mcp_servers=[],
        speed="standard",
        output_config={"task_budget": None},
        cache_control={"type": "ephemeral"},
        diagnostics={},
        tools=[{"name": "f", "input_schema": {}, "allowed_callers": ["direct"]}],
    )
    assert () == conversation.extras


def test_controls_are_read():
    """Sampling, stops, tier and user have their neutral places (1.9)."""
    controls = read(
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stop_sequences=["END"],
        service_tier="standard_only",
        metadata={"user_id": "u"},
    ).controls
    assert (8, 0.5, 0.9, 3, ("END",), "default", "u") == (
        controls.max_output_tokens,
        controls.temperature,
        controls.top_p,
        controls.top_k,
        controls.stop,
        controls.service_tier,
        controls.user,
    )
    assert "auto" == read(service_tier="auto").controls.service_tier


@pytest.mark.parametrize(
    ("wire", "choice", "parallel"),
    [
        (None, None, None),
        ({"type": "auto"}, Choice("auto"), None),
        ({"type": "any", "disable_parallel_tool_use": True}, Choice("required"), False),
        ({"type": "auto", "disable_parallel_tool_use": False}, Choice("auto"), True),
        ({"type": "none"}, Choice("none"), None),
        ({"type": "tool", "name": "f"}, Choice("tool", ((None, "f"),)), None),
    ],
)
def test_the_tool_choice_is_read(wire, choice, parallel):
    """Choice and parallelism come apart (1.5)."""
    controls = read(tool_choice=wire).controls
    assert (choice, parallel) == (controls.choice, controls.parallel)


@pytest.mark.parametrize(
    ("members", "thinking"),
    [
        ({}, Thinking()),
        ({"output_config": {"effort": "high"}}, Thinking(effort="high")),
        ({"thinking": {"type": "adaptive"}}, Thinking("adaptive", visible=True)),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Thinking("adaptive", visible=False)),
        (
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
            Thinking("adaptive", effort="low", visible=True, summary="auto"),
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, Thinking("enabled", 2048, visible=True)),
        ({"thinking": {"type": "disabled"}}, Thinking("disabled", visible=False)),
        ({"thinking": {"type": "between_tools"}}, Thinking("between_tools", visible=False)),
    ],
)
def test_thinking_is_read(members, thinking):
    """Mode, budget, effort and visibility (1.6)."""
    assert thinking == read(**members).controls.thinking


def test_an_explicit_effort_wins_over_a_budget():
    """The budget is dropped with a note (1.6)."""
    notes = Notes()
    thinking = read(
        notes, thinking={"type": "enabled", "budget_tokens": 2048}, output_config={"effort": "low"}
    ).controls.thinking
    assert Thinking("enabled", None, "low", visible=True) == thinking
    assert ["thinking.budget_tokens"] == [note.field for note in notes.kept]


def test_structured_output_is_read_in_both_forms():
    """The older output_format is accepted, and both together if they agree (1.14)."""
    wish = {"type": "json_schema", "schema": {"type": "object", "a": 1}}
    same = {"type": "json_schema", "schema": {"a": 1, "type": "object"}}
    schema = Schema(b'{"type": "object", "a": 1}')
    assert read().controls.output is None
    assert schema == read(output_config={"format": wish}).controls.output
    assert schema == read(output_format=wish).controls.output
    assert schema == read(output_config={"format": wish}, output_format=same).controls.output
    other = {"type": "json_schema", "schema": {}}
    assert "output_format" == refused(output_config={"format": wish}, output_format=other).param


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "8"}, "max_tokens"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [*HI, {"role": "tool", "content": "x"}]}, "messages.1.role"),
        ({"messages": [*HI, {"content": "x"}]}, "messages.1.role"),
        ({"messages": [*HI, {"role": "user", "content": 5}]}, "messages.1.content"),
        ({"messages": [*HI, {"role": "user", "content": [{"type": 5}]}]}, "messages.1.content.0.type"),
        ({"messages": [*HI, {"role": "user", "content": [{}]}]}, "messages.1.content.0.type"),
        ({"messages": [*HI, {"role": "system", "content": [{"type": "image"}]}]}, "messages.1.content.0.type"),
        ({"system": [{"type": "image"}]}, "system.0.type"),
        ({"tools": [{"input_schema": {}}]}, "tools.0.name"),
        ({"tools": [{"name": "f", "input_schema": "x"}]}, "tools.0.input_schema"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"output_format": {"type": "xml"}}, "output_format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"stop_sequences": [1]}, "stop_sequences.0"),
    ],
)
@pytest.mark.invariant("I31")
def test_a_bad_field_is_named(members, param):
    """Every refusal is a 400 that names the field's path."""
    assert param == refused(**members).param


def test_an_unknown_role_is_told_as_the_api_tells_it():
    """Claude Code recognises this wording and mends its request (clients.md 0.5)."""
    assert 'messages.0.role: Unexpected role "tool"' in refused(messages=[{"role": "tool", "content": "x"}]).message


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"model":"m1"', b'{"model":"\xff"}', b'{"a":' * 200 + b"1" + b"}" * 200]
)
def test_a_body_that_is_no_request_is_refused(body):
    """Malformed, mistyped and deeply nested JSON is the client's fault."""
    with pytest.raises(Refused) as caught:
        parse(body, Notes())
    assert ("client", 400) == (caught.value.fault.cause, caught.value.fault.status)
