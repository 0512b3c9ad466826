"""What one request takes from the replay store and leaves in it (spec/grok.md 11); nothing for other dialects.

Only clients of Responses can refer to what they were told. On native routes the upstream keeps that itself, unless
the route says that it does not (`traits.server_state`).
"""

from collections.abc import AsyncIterator, Callable
from time import monotonic

import msgspec

from gateway.stores.replay import Slot
from translators.conversation import Conversation, ToolCall, Turn
from translators.dialect import Source, Target
from translators.dialects import DIALECTS
from translators.events import Event
from translators.fault import Refused
from translators.harvest import Harvest
from translators.pair import Prepared
from translators.replay import Past, Restored, restore
from translators.sse import Splitter

__all__ = ["Recall", "leans"]

_REFERENCES = (b'"previous_response_id"', b'"item_reference"')


def leans(body: bytes) -> bool:
    """Tell whether a Responses body may refer to what was said before (never misses one, may be wrong otherwise)."""
    return any(mark in body for mark in _REFERENCES)


class Recall:
    """One request's dealings with the store. `whole` keeps the conversation, not only its calls."""

    def __init__(self, slot: Slot, *, session: str, seed: str, target: Target, whole: bool) -> None:
        self._slot = slot
        self._session = session
        self._target = target
        self._whole = whole
        self._conversation: Conversation | None = None
        self._harvest = Harvest(seed, target.origin, self._call, self._end, whole=whole)
        self.restored: Restored | None = None

    def restore(self, conversation: Conversation) -> Conversation:
        """Return the request with what it refers to; raises Refused when nothing of it is left."""
        self.restored = restore(conversation, self._slot.memory(monotonic()), strict=self._target.strict)
        self._conversation = self.restored.conversation
        return self._conversation

    def observe(self, event: Event) -> None:
        """Take one event of the answer."""
        self._harvest(event)

    def tapped(self, chunks: AsyncIterator[bytes], prepared: Prepared) -> AsyncIterator[bytes]:
        """Return a reply's bytes, read on their way where they are forwarded as they are and nobody keeps them."""
        if not prepared.native or self._target.traits.server_state:
            return chunks
        return self._read(chunks)

    async def _read(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        look = _reader(self._harvest, Source(origin=self._target.origin))
        async for chunk in chunks:
            look(chunk)
            yield chunk

    def _call(self, names: tuple[str, ...], call: ToolCall) -> None:
        self._slot.item(names, call, monotonic())

    def _end(self, names: tuple[str, ...], calls: tuple[ToolCall, ...], turn: Turn) -> None:
        now = monotonic()
        self._slot.answer(names, self._session, calls, now)
        if self._whole and self._conversation is not None:
            past = _past(self._conversation, turn)
            for name in names:
                self._slot.past(name, past, now)


def _reader(harvest: Harvest, source: Source) -> Callable[[bytes], None]:
    splitter, decoder = Splitter(), DIALECTS["responses"].decoder(source)

    def look(chunk: bytes) -> None:
        try:
            for frame in splitter.feed(chunk):
                for event in decoder.push(frame):
                    harvest(event)
        except Refused:
            return  # an event over the limit, which ends the stream elsewhere

    return look


def _past(conversation: Conversation, turn: Turn) -> Past:
    told, system = conversation.echo.get("instructions"), conversation.system
    if told and system and system[0].text == told:
        system = system[1:]
    turns = (*conversation.turns, turn) if turn.parts else conversation.turns
    tools = tuple(tool for tool in conversation.tools if tool.at.startswith("input."))
    return Past(system, tuple(msgspec.structs.replace(one, at="previous_response_id") for one in turns), tools)
