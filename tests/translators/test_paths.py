"""Errors and notes name what the client sent: its own item, and its own word for a field."""

import json

from tests.translators.readings import requested


def test_errors_name_the_item_of_a_responses_client():
    """Three items make one turn; arguments that are no object are the last one's."""
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    items = [{"role": "user", "content": "hi"}, call, call | {"call_id": "b", "arguments": "[]"}]
    items += [{"type": "function_call_output", "call_id": name, "output": "x"} for name in "ab"]
    fault = requested("responses", "messages", json.dumps({"model": "m", "input": items}).encode(), strict=True)
    assert ("invalid_tool_arguments", "input.2") == (fault.code, fault.param)
