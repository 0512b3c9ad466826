"""What a conversion dropped or changed: counted, shown by `dragoman translate`, never on the wire (I34)."""

from typing import Literal

import msgspec

from translators.fault import refuse

__all__ = ["KEPT", "WORDS", "Note", "Notes"]

KEPT = 200
"""Notes kept for one request; further ones are only counted."""

_LIMIT = "max_output_tokens"
WORDS = {
    "chat": {_LIMIT: "max_tokens"},
    "responses": {
        "max_tokens": _LIMIT,
        "max_completion_tokens": _LIMIT,
        "response_format": "text.format",
        "verbosity": "text.verbosity",
        "reasoning_effort": "reasoning.effort",
        "logprobs": "include",
    },
    "messages": {
        _LIMIT: "max_tokens",
        "max_completion_tokens": "max_tokens",
        "stop": "stop_sequences",
        "response_format": "output_config.format",
        "reasoning_effort": "thinking",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "user": "metadata.user_id",
    },
}
"""A client's own words for fields, by its dialect; the writers say Chat's."""


class Note(msgspec.Struct, frozen=True):
    """One dropped (`omitted`) or differently represented (`changed`) field, by its path."""

    field: str
    kind: Literal["omitted", "changed"]
    message: str


class Notes:
    """Collect the notes of one conversion; in strict mode a drop of meaning refuses the request instead."""

    def __init__(self, *, strict: bool = False, client: str = "") -> None:
        self.strict = strict
        self._words = WORDS.get(client, {})
        self.kept: list[Note] = []
        self.count = 0

    def _add(self, note: Note) -> None:
        self.count += 1
        if len(self.kept) < KEPT:
            self.kept.append(note)

    def changed(self, field: str, message: str) -> None:
        """Record that a field keeps its meaning in another form (MAP~)."""
        self._add(Note(self._words.get(field, field), "changed", message))

    def omitted(self, field: str, message: str) -> None:
        """Record that a field is left out though nothing refuses it (a DROP in both modes, or of a reply)."""
        self._add(Note(self._words.get(field, field), "omitted", message))

    def once(self, field: str, message: str) -> None:
        """Record the first of many equal omissions of an answer."""
        if not any(note.field == self._words.get(field, field) for note in self.kept):
            self.omitted(field, message)

    def dropped(self, field: str, message: str, code: str = "unsupported_parameter") -> None:
        """Record a DROP; in strict mode raise Refused with `code` and the field's path (the "DROP / REJECT" cells)."""
        field = self._words.get(field, field)
        if self.strict:
            raise refuse(f"{field}: {message}", param=field, code=code)
        self.omitted(field, message)
