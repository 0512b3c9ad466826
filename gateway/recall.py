"""What one request takes from the replay store and leaves in it (spec/grok.md 11); nothing for other dialects.

Only clients of Responses can refer to what they were told. On native routes the upstream keeps that itself: one that
does not (`traits.server_state`) is no native route (`translators.policy.shaping`).
"""

from time import monotonic

import msgspec

from gateway.stores.replay import Slot
from translators.conversation import Conversation, ToolCall, Turn
from translators.dialect import Target
from translators.events import Event
from translators.harvest import Harvest
from translators.replay import Past, Restored, restore

__all__ = ["Recall"]


class Recall:
    """One request's dealings with the store. `whole` keeps the conversation, not only its calls."""

    def __init__(self, slot: Slot, *, seed: str, target: Target, whole: bool) -> None:
        self._slot = slot
        self._session = ""
        self._target = target
        self._whole = whole
        self._conversation: Conversation | None = None
        self._harvest = Harvest(seed, target.origin, self._call, self._end, whole=whole)
        self.restored: Restored | None = None

    def restore(self, conversation: Conversation) -> Conversation:
        """Return the request with what it refers to; raises Refused when nothing of it is left."""
        self._session = (conversation.controls.prompt_cache_key or "").strip()
        self.restored = restore(conversation, self._slot.memory(monotonic()), strict=self._target.strict)
        self._conversation = self.restored.conversation
        return self._conversation

    def observe(self, event: Event) -> None:
        """Take one event of the answer."""
        self._harvest(event)

    def _call(self, names: tuple[str, ...], call: ToolCall) -> None:
        self._slot.item(names, call, monotonic())

    def _end(self, names: tuple[str, ...], calls: tuple[ToolCall, ...], turn: Turn) -> None:
        now = monotonic()
        self._slot.answer(names, self._session, calls, now)
        if self._whole and self._conversation is not None:
            past = _past(self._conversation, turn)
            for name in names:
                self._slot.past(name, past, now)


def _past(conversation: Conversation, turn: Turn) -> Past:
    told, system = conversation.echo.get("instructions"), conversation.system
    if told and system and system[0].text == told:
        system = system[1:]
    turns = (*conversation.turns, turn) if turn.parts else conversation.turns
    tools = tuple(tool for tool in conversation.tools if tool.at.startswith("input."))
    return Past(system, tuple(msgspec.structs.replace(one, at="previous_response_id") for one in turns), tools)
