"""What the content blocks of an answer hold: the parts of decoding that need no state.

Promises: upstream data that violates the protocol raises Refused with a Fault of cause `protocol`, or a msgspec error.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw

from translators.conversation import Receipt
from translators.events import BlockEnd, BlockStart, Citation, Event, Mark
from translators.fault import Refused, broken
from translators.jsonio import compact

__all__ = ["Open", "citation", "citations", "given_input", "outcome", "receipt_events", "violated"]

_ABSENT = (b"", b"null")
_NO_CALL = Receipt("", "", "", "{}")


class _Cited(msgspec.Struct):
    type: str = ""
    url: str | None = None
    title: str | None = None


class _Piece(msgspec.Struct):
    text: str | None = None


_cited = msgspec.json.Decoder(_Cited).decode
_all_cited = msgspec.json.Decoder(list[_Cited]).decode
_outcome = msgspec.json.Decoder(str | list[_Piece]).decode


class Open:
    """A block of the source that has begun and not ended."""

    __slots__ = ("call", "filled", "fragments", "kind", "signature", "whole")

    def __init__(self, kind: Literal["text", "thinking", "redacted", "tool", "mcp", "result", "ignored"]) -> None:
        self.kind = kind
        self.signature = ""
        self.whole = False
        """The call's arguments came with its start, so that fragments would be ambiguous."""
        self.filled = False
        """The call has arguments so far."""
        self.fragments: list[str] = []
        self.call = _NO_CALL
        """What an MCP call is, which the provider ran; its arguments gather in `fragments`."""


def violated(message: str) -> Refused:
    """Return the exception for an upstream that breaks its protocol."""
    return Refused(broken(message))


def citation(index: int, raw: Raw) -> Sequence[Event]:
    """Return the mark of a cited web page; other citations point into blocks that the client does not have."""
    return () if bytes(raw) in _ABSENT else _mark(index, _cited(raw))


def citations(index: int, raw: Raw) -> Sequence[Event]:
    """Return the marks of the citations that a text block starts with."""
    return () if bytes(raw) in _ABSENT else [mark for each in _all_cited(raw) for mark in _mark(index, each)]


def _mark(index: int, cited: _Cited) -> Sequence[Event]:
    if cited.type != "web_search_result_location" or not cited.url:
        return ()
    return (Mark(index, Citation(cited.url, cited.title or "")),)


def given_input(raw: Raw) -> str:
    """Return the arguments that a call's start already holds, "" when it leaves them to fragments."""
    if bytes(raw) in _ABSENT:
        return ""
    try:
        given = compact(raw)
    except Refused:
        raise violated("the upstream sent malformed tool arguments") from None
    return "" if given == "{}" else given


def outcome(raw: Raw) -> str:
    """Return what an MCP call gave back, as text."""
    if bytes(raw) in _ABSENT:
        return ""
    told = _outcome(raw)
    return told if isinstance(told, str) else "\n".join(piece.text or "" for piece in told)


def receipt_events(index: int, receipt: Receipt) -> Sequence[Event]:
    """Return a whole receipt block."""
    return (BlockStart(index, "receipt", receipt.id, receipt.name), Mark(index, receipt), BlockEnd(index))
