"""The client's own session id, from headers and body fields that name one; never guessed from content (S31)."""

from collections.abc import Mapping

from translators.dialect import Peek

__all__ = ["MAX_SESSION_CHARS", "session_of"]

MAX_SESSION_CHARS = 512

HEADERS = (
    "x-claude-code-session-id",  # Claude Code
    "session-id",  # Codex
    "session_id",
    "x-grok-conv-id",  # Grok Build
    "x-grok-session-id",
    "x-session-id",  # opencode
    "x-session-affinity",
)


def session_of(headers: Mapping[str, str], peek: Peek) -> str:
    """Return the session id, "" when the client gives none: the body's, else the first known header, else its user."""
    for value in (peek.session, *(headers.get(name) for name in HEADERS), peek.user):
        if value and len(value) <= MAX_SESSION_CHARS:
            return value
    return ""
