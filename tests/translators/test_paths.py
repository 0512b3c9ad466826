"""Errors and notes name what the client sent: its own item, and its own word for a field."""

import json

import pytest

from tests.translators.readings import requested
from translators.fault import Fault
from translators.pair import Prepared


def test_errors_name_the_item_of_a_responses_client():
    """Three items make one turn; arguments that are no object are the last one's."""
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    items = [{"role": "user", "content": "hi"}, call, call | {"call_id": "b", "arguments": "[]"}]
    items += [{"type": "function_call_output", "call_id": name, "output": "x"} for name in "ab"]
    fault = requested("responses", "messages", json.dumps({"model": "m", "input": items}).encode(), strict=True)
    assert isinstance(fault, Fault)
    assert ("invalid_tool_arguments", "input.2") == (fault.code, fault.param)


@pytest.mark.parametrize("upstream", ["chat", "messages"])
def test_what_only_responses_knows_of_a_tool_is_noted(upstream):
    """Code may not call it, and what it returns cannot be told (1.4)."""
    tool = {"type": "function", "name": "f", "allowed_callers": ["direct", "programmatic"], "output_schema": {}}
    plain = {"type": "function", "name": "g", "allowed_callers": ["direct"]}
    space = {"type": "namespace", "name": "n", "tools": [tool]}
    body = json.dumps({"model": "m", "input": "hi", "tools": [plain, tool, space]}).encode()
    found = requested("responses", upstream, body)
    assert isinstance(found, Prepared)
    wanted = [f"{at}.{name}" for at in ("tools.1", "tools.2.tools.0") for name in ("allowed_callers", "output_schema")]
    assert wanted == [note.field for note in found.notes.kept if note.kind == "omitted"]
    fault = requested("responses", upstream, body, strict=True)
    assert isinstance(fault, Fault)
    assert ("unsupported_parameter", "tools.1.allowed_callers") == (fault.code, fault.param)


def test_prompt_cache_options_go_from_either_openai_protocol_to_the_other():
    """They are the same object in both (1.9)."""
    options = {"prompt_cache_options": {"mode": "x"}}
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **options}
    for client, upstream, body in (
        ("chat", "responses", chat),
        ("responses", "chat", {"model": "m", "input": "hi"} | options),
    ):
        found = requested(client, upstream, json.dumps(body).encode(), model="gpt-4.1")
        assert isinstance(found, Prepared)
        assert {"mode": "x"} == json.loads(found.body)["prompt_cache_options"]


def test_annotations_of_a_chat_history_are_noted_once():
    """Cited pages of earlier answers are not sent on."""
    said = {"role": "assistant", "content": "a", "annotations": [{"type": "url_citation"}]}
    messages = [
        {"role": "user", "content": "hi"},
        said,
        said,
        said | {"annotations": []},
        {"role": "user", "content": "b"},
    ]
    found = requested("chat", "responses", json.dumps({"model": "m", "messages": messages}).encode())
    assert isinstance(found, Prepared)
    assert ["messages.1.annotations"] == [note.field for note in found.notes.kept]


def test_notes_of_a_whole_request_have_the_clients_words():
    """The writers' words are Chat's, the client's are its own."""
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], "stop_sequences": ["x"]}
    found = requested("messages", "responses", json.dumps(body).encode())
    assert isinstance(found, Prepared)
    assert ["max_tokens", "stop_sequences"] == [note.field for note in found.notes.kept]
