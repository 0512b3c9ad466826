"""A model's reasoning, kept beside a client that does not send it back (spec/cline.md 7).

Models with interleaved thinking need their own reasoning inside one tool loop. `Collector` notes it while an
answer passes, `restored` puts it into a later request of the same loop. Pure: the store is the gateway's.
"""

from collections.abc import Callable, Iterator

import msgspec

from translators.carrier import unseal
from translators.conversation import Conversation, Reasoning, ToolCall, Turn
from translators.epoch import epoch_start
from translators.events import BlockStart, Delta, Event, Failed, Finish
from translators.identifiers import call_id_for_messages

__all__ = ["MAX_TEXT_BYTES", "Collector", "Restored", "finished_calls", "restored", "shadow_id"]

MAX_TEXT_BYTES = 1024 * 1024
"""Longer reasoning is not kept: cut reasoning would be worse than none."""
MAX_CALLS = 256


def shadow_id(call_id: str) -> str:
    """Return a call id in the spelling that all clients can send back; the same for one already so spelled."""
    return call_id_for_messages(call_id)


class Collector:
    """Observe the decoder events of one answer. `keep(calls, text)` comes at a good end, before the client sees it.

    A text over the limit comes as "": it is not to be kept.
    """

    def __init__(self, keep: Callable[[tuple[str, ...], str], None], limit_bytes: int = MAX_TEXT_BYTES) -> None:
        self._keep = keep
        self._left = limit_bytes
        self._keys: set[int] = set()
        self._pieces: list[str] = []
        self._ids: list[str] = []

    def __call__(self, event: Event) -> None:
        """Take one event."""
        match event:
            case Delta(key=key, text=text) if key in self._keys:
                self._take(text)
            case BlockStart(key=key, kind="reasoning"):
                self._keys.add(key)
            case BlockStart(kind="tool", call_id=call_id) if call_id and len(self._ids) < MAX_CALLS:
                self._ids.append(shadow_id(call_id))
            case Finish():
                self._end()
            case Failed():
                self._pieces.clear()
            case _:
                pass

    def _take(self, text: str) -> None:
        self._left -= len(text.encode("utf-8", "surrogatepass"))
        if self._left < 0:
            self._pieces.clear()
        else:
            self._pieces.append(text)

    def _end(self) -> None:
        if self._ids and self._keys and (self._pieces or self._left < 0):
            self._keep(tuple(self._ids), "".join(self._pieces) if self._left >= 0 else "")


class Restored(msgspec.Struct, frozen=True):
    """A request with reasoning put back: into how many turns, and how many had none to be found."""

    conversation: Conversation
    found: int = 0
    missed: int = 0


def finished_calls(turns: tuple[Turn, ...]) -> Iterator[str]:
    """Yield the calls of earlier human turns, whose reasoning nobody will ask for again."""
    for turn in turns[: epoch_start(turns)]:
        for part in turn.parts:
            if isinstance(part, ToolCall):
                yield shadow_id(part.id)


def restored(conversation: Conversation, origin: str, look_up: Callable[[str], str | None]) -> Restored:
    """Return the request with kept reasoning in the turns of the present tool loop that call tools and have none.

    `look_up` takes a call's `shadow_id`. Reasoning that the client sent, as text or as state of this origin, stays.
    """
    turns = list(conversation.turns)
    found = missed = 0
    for run in _runs(conversation.turns):
        if any(_has_own(turns[index], origin) for index in run):
            continue
        for index in run:
            calls = [part for part in turns[index].parts if isinstance(part, ToolCall)]
            if not calls:
                continue
            text = next((kept for call in calls if (kept := look_up(shadow_id(call.id)))), None)
            if text is None:
                missed += 1
            else:
                found += 1
                turns[index] = msgspec.structs.replace(turns[index], parts=(Reasoning(text), *turns[index].parts))
    if not found:
        return Restored(conversation, 0, missed)
    return Restored(msgspec.structs.replace(conversation, turns=tuple(turns)), found, missed)


def _runs(turns: tuple[Turn, ...]) -> Iterator[list[int]]:
    """Yield the runs of assistant turns in the present epoch: Responses clients send one answer as several items."""
    run: list[int] = []
    for index in range(epoch_start(turns), len(turns)):
        if turns[index].role == "assistant":
            run.append(index)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _has_own(turn: Turn, origin: str) -> bool:
    return any(
        isinstance(part, Reasoning) and (part.text or unseal(part.state, ("rd",), origin) is not None)
        for part in turn.parts
    )
