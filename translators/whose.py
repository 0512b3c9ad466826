"""Whose request it is, by the body's own fields (S31): never guessed from content, never refused for its shape.

A session names one conversation; a user, who may have several, stands in only where no session is named
(spec/cline.md 8, spec/grok.md 10.2).
"""

from collections.abc import Callable

import msgspec

from translators.jsonio import ERRORS

__all__ = ["MAX_SESSION_CHARS", "named", "within"]

MAX_SESSION_CHARS = 256


class _Metadata(msgspec.Struct):
    session_id: msgspec.Raw = msgspec.Raw(b"")
    user_id: msgspec.Raw = msgspec.Raw(b"")


_metadata: Callable[[bytes | msgspec.Raw], _Metadata] = msgspec.json.Decoder(_Metadata).decode
_text: Callable[[bytes | msgspec.Raw], str] = msgspec.json.Decoder(str).decode


def _name(raw: msgspec.Raw) -> str | None:
    """Return a field's text, None when it is absent, empty or of another shape."""
    if not bytes(raw).startswith(b'"'):
        return None
    try:
        return _text(raw).strip() or None
    except ERRORS:
        return None


def within(metadata: msgspec.Raw) -> tuple[str | None, str | None]:
    """Return session and user of a `metadata` object; (None, None) for one of another shape."""
    if not bytes(metadata).startswith(b"{"):
        return None, None
    try:
        found = _metadata(metadata)
    except ERRORS:
        return None, None
    session = _name(found.session_id)
    return (session if session is not None and len(session) <= MAX_SESSION_CHARS else None), _name(found.user_id)


def named(cache_key: str | None, metadata: msgspec.Raw, user: msgspec.Raw) -> tuple[str | None, str | None]:
    """Return session and user of an OpenAI body: `prompt_cache_key` before metadata, `user` before metadata's."""
    session, known_as = within(metadata)
    return cache_key or session, _name(user) or known_as
