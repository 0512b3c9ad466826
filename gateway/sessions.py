"""The client's own session id, from headers and body fields that name one; never guessed from content (S31)."""

from collections.abc import Mapping

__all__ = ["MAX_SESSION_CHARS", "session_of"]

MAX_SESSION_CHARS = 512

HEADERS = (
    "x-claude-code-session-id",  # Claude Code
    "session-id",  # Codex
    "session_id",
    "x-grok-conv-id",  # Grok Build
    "x-session-id",  # opencode
    "x-session-affinity",
)


def session_of(headers: Mapping[str, str], from_body: str | None) -> str:
    """Return the session id, "" when the client gives none: what the body says, else the first known header."""
    for value in (from_body, *(headers.get(name) for name in HEADERS)):
        if value and len(value) <= MAX_SESSION_CHARS:
            return value
    return ""
