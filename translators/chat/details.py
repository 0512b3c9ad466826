"""Chat's `reasoning_details`: an upstream's entries gathered over a stream, and entries that carry our state.

The formats are OpenRouter's, which agents keep and send back (spec/translation.md 1.6).
"""

from typing import Any

import msgspec

from translators.carrier import is_carrier, seal
from translators.conversation import State
from translators.events import Carried
from translators.jsonio import ERRORS, text_of
from translators.notes import Notes

__all__ = ["Gathered", "entry_of", "own_state", "text_of_details"]

_decode = msgspec.json.Decoder(list[dict[str, Any]] | None).decode
_GROWING = ("text", "summary")
_FINAL = ("data", "signature")
MAX_ENTRIES = 1024


class Gathered:
    """Put the pieces of an upstream's reasoning_details together: texts append, signatures and data replace."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._opaque = False

    def add(self, raw: bytes | msgspec.Raw) -> str | None:
        """Take one delta's entries and return their text; None for entries that contradict earlier ones."""
        try:
            entries = _decode(raw) or []
        except ERRORS:
            return ""
        for entry in entries:
            if not self._merge(entry):
                return None
        return text_of_details(entries)

    def take(self) -> Carried | None:
        """Return all entries as one opaque state if any of them has such, and forget them."""
        entries, opaque = self._entries, self._opaque
        self._entries, self._opaque = [], False
        return Carried("rd", text_of(entries)) if opaque else None

    def _merge(self, entry: dict[str, Any]) -> bool:
        self._opaque = self._opaque or any(entry.get(name) for name in _FINAL)
        known = self._same(entry)
        if known is None:
            if len(self._entries) >= MAX_ENTRIES:
                return False
            self._entries.append(dict(entry))
            return True
        if entry.get("id") and known.get("id") and entry["id"] != known["id"]:
            return False
        for name, value in entry.items():
            if name in _GROWING and isinstance(value, str) and isinstance(known.get(name), str):
                known[name] += value
            elif value is not None:
                known[name] = value
        return True

    def _same(self, entry: dict[str, Any]) -> dict[str, Any] | None:
        """Return the entry that this one continues: the latest of its index and type."""
        index = entry.get("index")
        if index is None:
            return None
        return next(
            (
                known
                for known in reversed(self._entries)
                if known.get("index") == index and known.get("type") == entry.get("type")
            ),
            None,
        )


def text_of_details(entries: list[dict[str, Any]]) -> str:
    """Return the readable text of entries, in order."""
    return "".join(value for entry in entries for name in _GROWING if isinstance(value := entry.get(name), str))


def entry_of(
    carried: Carried, origin: str, index: int, text: str = "", notes: Notes | None = None
) -> dict[str, Any] | None:
    """Return the entry that carries opaque state through a Chat client, or None when it is too large to carry."""
    carrier = seal(carried, origin, notes)
    if carrier is None:
        return None
    if carried.kind == "th":
        entry: dict[str, Any] = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": index}
        return {**entry, **({"text": text} if text else {}), "signature": carrier}
    format_ = {"rs": "openai-responses-v1", "rt": "anthropic-claude-v1"}.get(carried.kind, "unknown")
    entry = {"type": "reasoning.encrypted", "format": format_, "index": index, "data": carrier}
    return {**entry, "id": carried.id} if carried.id else entry


def own_state(entry: dict[str, Any]) -> State | None:
    """Return the carrier inside an entry that came back from a client, or None for entries of others."""
    for name in _FINAL:
        value = entry.get(name)
        if isinstance(value, str) and is_carrier(value):
            return State(value, redacted=value.split(".", 2)[1:2] == ["rt"])
    return None
