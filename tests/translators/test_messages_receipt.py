"""Provider-run MCP calls in Messages."""

import pytest

from translators.conversation import Receipt
from translators.jsonio import encode
from translators.messages.receipt import receipt_blocks


def test_a_receipt_is_a_call_and_its_result():
    """Both blocks have one legal id, and the arguments keep their spelling."""
    call, result = receipt_blocks(Receipt("mcp.1", "docs", "find", '{"b":1.50,"a":2}', "found"))
    assert call["id"] == result["tool_use_id"]
    assert "." not in call["id"]
    assert b'"input":{"b":1.50,"a":2}' in encode(call)
    assert ("docs", "find", "mcp_tool_use") == (call["server_name"], call["name"], call["type"])
    assert (False, [{"type": "text", "text": "found"}]) == (result["is_error"], result["content"])


@pytest.mark.parametrize(
    ("output", "error", "failed", "content"),
    [
        ("", None, False, []),
        (None, "broke", True, [{"type": "text", "text": "broke"}]),
        (None, None, True, [{"type": "text", "text": "[no result]"}]),
    ],
)
def test_an_outcome_is_never_made_up(output, error, failed, content):
    """An empty result stays empty, a missing one is an error that says so."""
    _, result = receipt_blocks(Receipt("m", "s", "n", "{}", output, error))
    assert (failed, content) == (result["is_error"], result["content"])


@pytest.mark.parametrize(("arguments", "wire"), [(" ", b"{}"), ("[1]", b'{"input":"[1]"}'), ("{", b'{"input":"{"}')])
def test_arguments_are_an_object(arguments, wire):
    """What is no object is told under "input" (1.13)."""
    call, _ = receipt_blocks(Receipt("m", "s", "n", arguments))
    assert wire == bytes(call["input"])


def test_a_call_without_a_name_gets_one():
    """No client takes an empty name, and no upstream takes it back."""
    call, _ = receipt_blocks(Receipt("m", "s", "", "{}", "found"))
    assert "unnamed_tool" == call["name"]
