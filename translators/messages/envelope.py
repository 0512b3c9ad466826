"""Faults as Messages clients know them: the JSON error body and the error event (spec/translation.md 1.2)."""

from translators.fault import Fault, Kind
from translators.jsonio import encode
from translators.sse import event_frame

__all__ = ["envelope", "error_event"]

_TYPES: dict[Kind, str] = {
    "invalid_request": "invalid_request_error",
    "context_length": "invalid_request_error",
    "policy": "invalid_request_error",
    "too_large": "invalid_request_error",
    "unsupported_media": "invalid_request_error",
    "authentication": "authentication_error",
    "billing": "billing_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "api": "api_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
}

OVERFLOW = "prompt is too long"
"""How Anthropic's API begins this error; Claude Code compacts its history when it reads these words."""


def _error(fault: Fault) -> dict[str, str]:
    message = fault.message
    if fault.kind == "context_length" and OVERFLOW not in message.lower():
        message = f"{OVERFLOW}: {message}"
    return {"type": _TYPES[fault.kind], "message": message}


def envelope(fault: Fault, request_id: str) -> bytes:
    """Return the JSON error body; `request_id` is left out when it is empty."""
    body: dict[str, object] = {"type": "error", "error": _error(fault)}
    if request_id:
        body["request_id"] = request_id
    return encode(body)


def error_event(fault: Fault) -> bytes:
    """Return the error event that ends a stream; nothing may follow it."""
    return event_frame("error", encode({"type": "error", "error": _error(fault)}))
