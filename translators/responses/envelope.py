"""A Fault as OpenAI's clients read it: the HTTP error body, and the error of a failed response (1.2)."""

from translators.fault import Fault, Kind
from translators.jsonio import encode

__all__ = ["envelope", "failed_code"]

_TOLD: dict[Kind, tuple[str, str | None]] = {
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

_FAILED: dict[Kind, str] = {
    "invalid_request": "invalid_prompt",
    "context_length": "context_length_exceeded",
    "billing": "insufficient_quota",
    "not_found": "invalid_prompt",
    "too_large": "invalid_prompt",
    "unsupported_media": "invalid_prompt",
    "rate_limited": "rate_limit_exceeded",
}


def envelope(fault: Fault, _request_id: str) -> bytes:
    """Return the JSON error body; the request id travels in a header."""
    kind, code = _TOLD[fault.kind]
    return encode(
        {
            "error": {"message": fault.message, "type": kind, "param": fault.param, "code": fault.code or code},
        }
    )


def failed_code(fault: Fault) -> str:
    """Return `error.code` of a failed response: what Codex and the SDK know, a policy's own code kept."""
    if fault.kind == "policy":
        return fault.code or "invalid_prompt"
    return _FAILED.get(fault.kind, "server_error")
