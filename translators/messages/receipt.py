"""An MCP call that the provider ran itself, as the two blocks that Messages has for it."""

from typing import Any

from msgspec import Raw

from translators.adjacency import NO_RESULT
from translators.conversation import Receipt
from translators.identifiers import call_id_for_messages
from translators.jsonio import is_object
from translators.toolbox import wrap

__all__ = ["UNNAMED", "receipt_blocks"]

UNNAMED = "unnamed_tool"
"""Name of a call that came without one: the API and its clients take no empty name back."""


def receipt_blocks(receipt: Receipt) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return mcp_tool_use and mcp_tool_result; an outcome that nobody told is an error that says so."""
    call_id = call_id_for_messages(receipt.id)
    failed = receipt.error is not None or receipt.output is None
    told = receipt.error if receipt.error is not None else receipt.output
    arguments = receipt.arguments.strip() or "{}"
    call = {
        "type": "mcp_tool_use",
        "id": call_id,
        "name": receipt.name or UNNAMED,
        "server_name": receipt.server,
        "input": Raw((arguments if is_object(arguments) else wrap(arguments)).encode()),
    }
    text = NO_RESULT if told is None else told
    result = {
        "type": "mcp_tool_result",
        "tool_use_id": call_id,
        "is_error": failed,
        "content": [{"type": "text", "text": text}] if text else [],
    }
    return call, result
