"""One exchange's dealings with the reasoning shadow: put back before sending, note while answering (spec/cline.md 7).

Nothing happens for a client without a session, and where the upstream does not want its reasoning back (its traits,
or the route's: `reasoning_replay`).
"""

from collections.abc import Callable
from time import monotonic

from gateway.stores.shadow import Shadow
from translators.conversation import Conversation
from translators.dialect import Target
from translators.events import Event
from translators.shadow import Collector, finished_calls, restored

__all__ = ["Thoughts"]


class Thoughts:
    """The shadow as one client's session sees it. `session` is its fingerprint."""

    def __init__(self, shadow: Shadow, tenant: str, session: str) -> None:
        self._shadow = shadow if session else None
        self._tenant = tenant
        self._session = session
        self._wanted = False

    def amend(self, conversation: Conversation, target: Target) -> Conversation:
        """Return the request with the reasoning that its client kept back."""
        self._wanted = target.traits.reasoning_replay
        shadow = self._shadow
        if shadow is None or not self._wanted:
            return conversation
        now = monotonic()
        shadow.forget(self._tenant, self._session, finished_calls(conversation.turns))
        look_up = lambda call: shadow.get(self._tenant, self._session, call, now)  # noqa: E731
        found = restored(conversation, target.origin, look_up)
        shadow.counts.restores += found.found
        shadow.counts.misses += found.missed
        return found.conversation

    def observer(self) -> Callable[[Event], None] | None:
        """Return what has to see the events of an answer, a new one for each attempt."""
        return Collector(self._keep) if self._shadow is not None and self._wanted else None

    def _keep(self, calls: tuple[str, ...], text: str) -> None:
        assert self._shadow is not None
        self._shadow.put(self._tenant, self._session, calls, text, monotonic())
