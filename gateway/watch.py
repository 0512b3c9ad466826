"""The four stall timers of an upstream stream (spec/cline.md 6).

Pure: the caller tells what arrived and when, in monotonic seconds, and asks for the next deadline. What the gateway
itself sends, keepalives above all, never touches a timer, and there is no limit on a stream that makes progress.
"""

import math
from typing import Literal

import msgspec

__all__ = ["Stall", "Timeouts", "Watch"]

Stall = Literal["stalled_first_event", "stalled_first_meaning", "stalled_idle", "stalled_meaning_idle"]
"""The outcome of the summary record."""


class Timeouts(msgspec.Struct, frozen=True):
    """Set the timers, in seconds; 0 turns one off."""

    first_event_s: float = 180.0
    first_meaning_s: float = 180.0
    idle_s: float = 120.0
    meaning_idle_s: float = 180.0


class Watch:
    """Watch one stream from its headers on.

    Until the first byte only the two `first` timers run: with `idle_s` from the start, a model that thinks before
    it speaks would be cut at 120 s instead of 180 s. Notes are cheap; ask for the deadline when a timer fires, not for
    each chunk.
    """

    __slots__ = ("_byte_at", "_event_seen", "_meaning_at", "_started", "_timeouts")

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._started = now
        self._event_seen = False
        self._byte_at: float | None = None
        self._meaning_at: float | None = None

    def alive(self, now: float) -> None:
        """Note upstream bytes of any kind, such as a comment or a part of an event."""
        self._byte_at = now

    def event(self, now: float) -> None:
        """Note a complete event, meaningful or not."""
        self._byte_at = now
        self._event_seen = True

    def meaning(self, now: float) -> None:
        """Note an event with text, reasoning or a part of a tool call."""
        self.event(now)
        self._meaning_at = now

    def resume(self, now: float) -> None:
        """Begin the running silences anew after a time in which the upstream was not read."""
        if self._byte_at is not None:
            self._byte_at = now
        if self._meaning_at is not None:
            self._meaning_at = now

    @property
    def shortest_s(self) -> float:
        """Return the shortest of all timers, running or not; infinite when all are off."""
        limits = msgspec.structs.astuple(self._timeouts)
        return min((limit for limit in limits if limit), default=math.inf)

    def deadline(self) -> float | None:
        """Return when the next timer ends, or None when none runs."""
        return min((end for _, end in self._running()), default=None)

    def stalled(self, now: float) -> Stall | None:
        """Return the first timer, in the order of the specification, that has ended."""
        return next((stall for stall, end in self._running() if now >= end), None)

    def _running(self) -> list[tuple[Stall, float]]:
        timeouts = self._timeouts
        running: list[tuple[Stall, float, float | None]] = [
            ("stalled_first_event", timeouts.first_event_s, None if self._event_seen else self._started),
            ("stalled_first_meaning", timeouts.first_meaning_s, self._started if self._meaning_at is None else None),
            ("stalled_idle", timeouts.idle_s, self._byte_at),
            ("stalled_meaning_idle", timeouts.meaning_idle_s, self._meaning_at),
        ]
        return [(stall, since + limit) for stall, limit, since in running if limit and since is not None]
