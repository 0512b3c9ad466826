"""Tool calls in a Chat stream: which fragment belongs to which call, and when a call begins and ends.

Servers differ in what they repeat, leave out and reuse; the repairs are those of spec/translation.md 5.2.
"""

import hashlib
import re
from collections.abc import Callable

from translators.chat.wire import CallDelta, FunctionDelta
from translators.events import BlockEnd, BlockStart, Delta, Event
from translators.identifiers import made_call_id
from translators.jsonio import is_object, text_of
from translators.notes import Notes

__all__ = ["Calls", "Contradiction"]

_LEGACY = -1
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_SEED_CHARS = 40
_EMPTY = ("{}", "null")
"""No arguments, as servers spell them: some write out a map that is not there."""


class Contradiction(Exception):
    """Say that the upstream's fragments contradict each other; becomes a Failed event in the decoder."""


class _Slot:
    """One call: what is known of it, and its arguments so far (for the check whether they are complete)."""

    __slots__ = ("blank", "custom", "ended", "held", "id", "key", "legacy", "name", "pieces")

    def __init__(self, *, legacy: bool = False) -> None:
        self.key: int | None = None
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.held: list[str] = []
        self.ended = False
        self.custom = False
        self.legacy = legacy
        self.blank = False
        """Its only fragment so far is empty: all of the arguments, or a placeholder before them."""

    @property
    def complete(self) -> bool:
        return self.custom or (self.blank and not self.pieces) or is_object("".join(self.pieces))

    def fresh(self, text: str) -> str:
        """Return what a fragment adds: not a placeholder, and nothing when it tells complete arguments again."""
        if not _maybe_whole(text) or self.custom:
            return text
        if not self.pieces and text in _EMPTY:
            self.blank = True
            return ""
        return "" if text == "".join(self.pieces) and self.complete else text

    def end(self, key: int, *, complete: bool = True) -> list[Event]:
        """Return the events of the call's end; a placeholder that nothing followed was all of its arguments."""
        self.ended = True
        alone: list[Event] = [Delta(key, "{}")] if self.blank and not self.pieces else []
        return [*alone, BlockEnd(key, complete)]


class Calls:
    """Sort fragments into calls. `next_key` gives block keys; `identify` what made-up ids are made of.

    Raises Contradiction, in strict mode also for indices and identities that are missing or senseless.
    """

    def __init__(self, notes: Notes, next_key: Callable[[], int], *, strict: bool = False) -> None:
        self._notes = notes
        self._strict = strict
        self._next_key = next_key
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._by_id: dict[str, _Slot] = {}
        self._ids: set[str] = set()
        self._waiting = 0
        self._seed = ""

    def identify(self, upstream_id: str, first: bytes) -> None:
        """Fix what made ids are made of: the answer's id, or a digest of its first event (a pure function; I30)."""
        cleaned = _ILLEGAL.sub("_", upstream_id.removeprefix("chatcmpl-"))[:_SEED_CHARS]
        self._seed = cleaned or hashlib.sha256(first).hexdigest()[:24]

    def push(self, calls: list[CallDelta], *, whole: bool) -> list[Event]:
        """Return the events of one delta's `tool_calls`; `whole` entries are complete calls, not fragments."""
        out: list[Event] = []
        for position, call in enumerate(calls):
            if self._strict and call.index is not None and call.index < 0:
                raise Contradiction("the upstream gave a tool call a negative index")
            out.extend(self._piece(call, position, whole=whole))
        return out

    def flow(self, call: CallDelta) -> Delta | None:
        """Return the delta of a fragment that only adds arguments to an open call; None for any other fragment."""
        function = call.function
        if call.index is None or call.id or function is None or function.name or call.custom is not None:
            return None
        slot = self._by_index.get(call.index)
        text = function.arguments
        if slot is None or slot.key is None or slot.ended or type(text) is not str or not text or _maybe_whole(text):
            return None
        slot.pieces.append(text)
        return Delta(slot.key, text)

    def legacy(self, call: FunctionDelta) -> list[Event]:
        """Return the events of a delta's `function_call`."""
        if not call.name and not call.arguments:
            return []
        return self._piece(CallDelta(index=_LEGACY, function=call), 0, whole=False)

    def leave(self) -> list[Event]:
        """End the calls whose arguments are complete, since the answer goes on with something else."""
        out: list[Event] = []
        for slot in self._slots:
            if slot.key is not None and not slot.ended and slot.complete:
                out.extend(slot.end(slot.key))
        return out

    def close(self, *, complete: bool) -> list[Event]:
        """Return the events that end all calls; what never got a name or id gets one."""
        out: list[Event] = []
        last = self._slots[-1] if self._slots else None
        for ordinal, slot in enumerate(self._slots):
            if slot.ended:
                continue
            slot.ended = True
            if not (slot.id or slot.name or slot.held or slot.blank):
                self._notes.omitted("tool_calls", "an empty tool call is left out")
                continue
            if not slot.name:
                slot.name = f"tool_{ordinal}"
                self._repair("a tool call without a name gets one")
            key = slot.key
            if key is None:
                key, events = self._open(slot)
                out.extend(events)
            out.extend(slot.end(key, complete=complete or slot is not last))
        self._waiting = len(self._slots)
        return out

    def _piece(self, call: CallDelta, position: int, *, whole: bool) -> list[Event]:
        name, text = _content(call)
        found = None if whole else self._find(call, name, text, position)
        out: list[Event] = []
        if found is None:
            out = self.leave()
            found = self._new(call)
        elif found.ended:
            if found.fresh(text).strip():
                raise Contradiction("the upstream added to a tool call that had ended")
            return out
        if call.custom is not None:
            found.custom = True
        self._identity(found, call.id or "", name)
        text = found.fresh(text)
        if text:
            found.pieces.append(text)
            if found.key is None:
                found.held.append(text)
            else:
                out.append(Delta(found.key, text))
        if found.key is None:
            out.extend(self._advance(whole=whole))
        return out

    def _new(self, call: CallDelta) -> _Slot:
        slot = _Slot(legacy=call.index == _LEGACY)
        if any(other.legacy != slot.legacy for other in self._slots):
            raise Contradiction("the upstream mixed function_call with tool_calls")
        self._slots.append(slot)
        if call.index is not None:
            self._by_index[call.index] = slot
        if call.id:
            self._by_id.setdefault(call.id, slot)
        return slot

    def _find(self, call: CallDelta, name: str, text: str, position: int) -> _Slot | None:
        """Return the call that a fragment continues, None when it begins a new one."""
        if call.index is not None:
            slot = self._by_index.get(call.index)
            if slot is None:
                return None
            # Some servers label every call of a turn with index 0.
            if call.id and slot.id and call.id != slot.id and name:
                return None
            restarts = name and text.strip() and not call.id and slot.name and slot.complete and call.index != _LEGACY
            return None if restarts else slot
        if call.id:
            return self._by_id.get(call.id)
        if not self._slots:
            return None
        last = self._slots[-1]
        if name and last.name and (position > 0 or (text.strip() and last.complete)):
            return None
        return last

    def _identity(self, slot: _Slot, call_id: str, name: str) -> None:
        if call_id and not slot.id:
            slot.id = call_id
            self._by_id.setdefault(call_id, slot)
        if not name or name == slot.name:
            return
        if slot.key is None:
            slot.name += name
        else:
            self._notes.omitted("tool_calls", "a part of a tool's name that came after its call had begun is left out")

    def _repair(self, message: str, *, listed: bool = True) -> None:
        """Note a made-up identity; strict mode takes it for a violation (5.2)."""
        if self._strict and listed:
            raise Contradiction(f"the upstream broke its protocol: {message}")
        self._notes.changed("tool_calls", message)

    def _advance(self, *, whole: bool) -> list[Event]:
        """Open the calls whose turn has come: in order, each once its name and id are known."""
        out: list[Event] = []
        while self._waiting < len(self._slots):
            slot = self._slots[self._waiting]
            later = self._waiting < len(self._slots) - 1
            # A server that sends arguments before an id will not send an id any more.
            if not slot.name or not (slot.id or slot.held or slot.blank or later or whole or slot.legacy):
                break
            out.extend(self._open(slot)[1])
            self._waiting += 1
        return out

    def _open(self, slot: _Slot) -> tuple[int, list[Event]]:
        if not slot.id:
            slot.id = made_call_id("call_", self._seed, self._slots.index(slot))
            # The older form of a call has no place for an id.
            self._repair("a tool call without an id gets one", listed=not slot.legacy)
        if slot.id in self._ids:
            raise Contradiction("two tool calls of the upstream have the same id")
        self._ids.add(slot.id)
        key = slot.key = self._next_key()
        out: list[Event] = [BlockStart(key, "tool", slot.id, slot.name, form="custom" if slot.custom else "function")]
        out.extend(Delta(key, text) for text in slot.held)
        slot.held.clear()
        return key, out


def _maybe_whole(text: str) -> bool:
    """Tell whether a fragment may be an object of its own; hardly one is, so only such are compared with the rest."""
    return (text[:1] == "{" and text[-1:] == "}") or text == "null"


def _content(call: CallDelta) -> tuple[str, str]:
    if call.custom is not None:
        return call.custom.name or "", call.custom.input or ""
    function = call.function
    if function is None:
        return "", ""
    arguments = function.arguments
    if type(arguments) is str:
        return function.name or "", arguments
    return function.name or "", "" if arguments is None else text_of(arguments)
