"""A Fault as Chat clients read it: the HTTP error body, and the last frame of a stream that failed."""

from translators.fault import Fault, Kind
from translators.jsonio import encode
from translators.sse import data_frame

__all__ = ["envelope", "error_frame", "error_object"]

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
"""Error type and default code of each kind (spec/translation.md 1.2)."""


def error_object(fault: Fault, *, streamed: bool = False) -> dict[str, str | None]:
    """Return the members of `error`; the upstream's own code goes before our default for the kind."""
    type_, code = _TYPES[fault.kind]
    if streamed and fault.kind == "authentication":
        type_ = "authentication_error"
    return {"message": fault.message, "type": type_, "param": fault.param, "code": fault.code or code}


def envelope(fault: Fault, request_id: str) -> bytes:
    """Return the JSON body of an HTTP error reply."""
    return encode({"error": error_object(fault)})


def error_frame(fault: Fault) -> bytes:
    """Return the frame that ends a failed stream; no [DONE] follows it (spec/translation.md 2.3)."""
    return data_frame(encode({"error": error_object(fault, streamed=True)}))
