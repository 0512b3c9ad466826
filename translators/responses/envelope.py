"""A Fault as OpenAI's Responses clients read it: the HTTP error body, and the error of a failed response (1.2)."""

from translators.fault import Fault, Kind
from translators.openai_error import envelope

__all__ = ["envelope", "failed_code"]

_FAILED: dict[Kind, str] = {
    "invalid_request": "invalid_prompt",
    "context_length": "context_length_exceeded",
    "billing": "insufficient_quota",
    "not_found": "invalid_prompt",
    "too_large": "invalid_prompt",
    "unsupported_media": "invalid_prompt",
    "rate_limited": "rate_limit_exceeded",
}


def failed_code(fault: Fault) -> str:
    """Return `error.code` of a failed response: what Codex and the SDK know, a policy's own code kept."""
    if fault.kind == "policy":
        return fault.code or "invalid_prompt"
    return _FAILED.get(fault.kind, "server_error")
