"""A Fault as both OpenAI protocols write it in an HTTP error body (spec/translation.md 1.2)."""

from translators.fault import Fault, Kind
from translators.jsonio import encode

__all__ = ["envelope", "error_object"]

_TYPES: dict[Kind, tuple[str, str | None]] = {
    "invalid_request": ("invalid_request_error", None),
    "context_length": ("invalid_request_error", "context_length_exceeded"),
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "billing": ("insufficient_quota", "insufficient_quota"),
    "permission": ("permission_error", None),
    "not_found": ("invalid_request_error", "model_not_found"),
    "too_large": ("invalid_request_error", None),
    "unsupported_media": ("invalid_request_error", None),
    "rate_limited": ("rate_limit_error", "rate_limit_exceeded"),
    "api": ("server_error", None),
    "overloaded": ("server_error", "overloaded"),
    "timeout": ("server_error", "timeout"),
    "policy": ("invalid_request_error", None),
}
"""Error type and default code of each kind."""


def error_object(fault: Fault) -> dict[str, str | None]:
    """Return the members of `error`; the fault's own code goes before the kind's default, "" stands for none."""
    type_, default = _TYPES[fault.kind]
    code = default if fault.code is None else fault.code
    return {"message": fault.message, "type": type_, "param": fault.param, "code": code or None}


def envelope(fault: Fault, _request_id: str) -> bytes:
    """Return the JSON error body; the request id travels in a header."""
    return encode({"error": error_object(fault)})
