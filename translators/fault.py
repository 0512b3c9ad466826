"""The one error value that all layers speak.

A Fault is data: it is returned, stored and rendered, never shown with its origin's text beyond the short,
sanitised message. `Refused` carries a Fault through deep pure code; `Pair` turns it back into a value.
"""

from typing import Literal

import msgspec

__all__ = ["MESSAGE_LIMIT_CHARS", "Cause", "Fault", "Kind", "Refused", "broken", "refuse"]

MESSAGE_LIMIT_CHARS = 2048

Kind = Literal[
    "invalid_request",
    "context_length",
    "authentication",
    "billing",
    "permission",
    "not_found",
    "too_large",
    "unsupported_media",
    "rate_limited",
    "api",
    "overloaded",
    "timeout",
    "policy",
]
"""What went wrong, in the terms that a client can act on (spec/translation.md 1.2)."""

Cause = Literal["client", "upstream", "protocol", "eof", "limit", "stall", "shutdown", "gateway"]
"""Who broke the exchange: what the summary record's outcome is made from."""

STATUS: dict[Kind, int] = {
    "invalid_request": 400,
    "context_length": 400,
    "policy": 400,
    "authentication": 401,
    "billing": 402,
    "permission": 403,
    "not_found": 404,
    "too_large": 413,
    "unsupported_media": 415,
    "rate_limited": 429,
    "api": 502,
    "overloaded": 503,
    "timeout": 504,
}


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Say what failed: kind, HTTP status, a message safe to show, and what a client needs to react."""

    kind: Kind
    message: str
    status: int = 0
    """HTTP status for a reply that has not begun; 0 takes the kind's own."""
    cause: Cause = "upstream"
    code: str | None = None
    """The code that the client gets; None takes the kind's own, "" is none at all."""
    param: str | None = None
    """Path of the offending request field, such as `messages.3.content`."""
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        if not self.status:
            msgspec.structs.force_setattr(self, "status", STATUS[self.kind])
        if len(self.message) > MESSAGE_LIMIT_CHARS:
            msgspec.structs.force_setattr(self, "message", self.message[: MESSAGE_LIMIT_CHARS - 1] + "…")


class Refused(Exception):
    """Carry a Fault out of nested pure code; caught where a value is expected."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.kind)
        self.fault = fault


def refuse(
    message: str, *, param: str | None = None, code: str | None = None, kind: Kind = "invalid_request"
) -> Refused:
    """Return the exception for a client request that cannot be served (HTTP 4xx, no upstream call; I31)."""
    return Refused(Fault(kind=kind, message=message, param=param, code=code, cause="client"))


def broken(message: str, *, code: str | None = None, cause: Cause = "protocol") -> Fault:
    """Return the Fault for an upstream that violates its own protocol (HTTP 502; poisons a stream)."""
    return Fault(kind="api", message=message, code=code, cause=cause)
