"""The reasoning that clients did not send back, in memory only and never on disk (spec/cline.md 7; S24, S30).

Kept per tenant, session fingerprint and call. Bounded in sessions, entries, bytes and time; when a bound is met the
session that was used longest ago goes first. A request without a session has no shadow.
"""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from translators.shadow import MAX_TEXT_BYTES

__all__ = ["MAX_BYTES", "MAX_ENTRIES", "MAX_SESSIONS", "TTL_S", "Shadow", "ShadowCounts"]

MAX_SESSIONS = 256
MAX_ENTRIES = 16_384
MAX_BYTES = 64 * 1024 * 1024
TTL_S = 3600.0
"""Seconds since a session's last request or answer; a tool may wait long for its human's approval."""
ENTRY_COST_BYTES = 256
"""What an entry is charged beside its text."""


class ShadowCounts(msgspec.Struct):
    """Count what became of entries since the start."""

    stores: int = 0
    restores: int = 0
    misses: int = 0
    evicted: int = 0
    oversized: int = 0


class _Session:
    __slots__ = ("cost", "texts", "used")

    def __init__(self) -> None:
        self.texts: OrderedDict[str, str] = OrderedDict()
        self.cost = 0
        self.used = 0.0


class Shadow:
    """Map (tenant, session, call) to the reasoning before that call; `now` is monotonic seconds."""

    def __init__(
        self,
        *,
        sessions: int = MAX_SESSIONS,
        entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        entry_bytes: int = MAX_TEXT_BYTES,
        ttl_s: float = TTL_S,
    ) -> None:
        self.counts = ShadowCounts()
        self.bytes = 0
        self.entries = 0
        self._max_sessions = sessions
        self._max_entries = entries
        self._max_bytes = max_bytes
        self._entry_bytes = entry_bytes
        self._ttl_s = ttl_s
        self._sessions: OrderedDict[tuple[str, str], _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def put(self, tenant: str, session: str, calls: Iterable[str], text: str, now: float) -> None:
        """Keep a text under each of the calls that it came before; one too long to keep may come as ""."""
        if not session:
            return
        size = len(text.encode("utf-8", "surrogatepass"))
        if not text or size > self._entry_bytes:
            self.counts.oversized += 1
            return
        kept = self._sessions.setdefault((tenant, session), _Session())
        self._use((tenant, session), kept, now)
        # The calls of one answer share one text, which is charged once.
        cost = size
        for call in calls:
            self._forget(kept, call)
            kept.texts[call] = text
            kept.cost += cost + ENTRY_COST_BYTES
            self.bytes += cost + ENTRY_COST_BYTES
            self.entries += 1
            cost = 0
        self.counts.stores += 1
        self._bound(now)

    def get(self, tenant: str, session: str, call: str, now: float) -> str | None:
        """Return the text kept for a call."""
        kept = self._sessions.get((tenant, session))
        if kept is None or now - kept.used >= self._ttl_s:
            return None
        self._use((tenant, session), kept, now)
        return kept.texts.get(call)

    def forget(self, tenant: str, session: str, calls: Iterable[str]) -> None:
        """Drop the texts of calls that are over; the rest of the session stays (its other agents may need it)."""
        kept = self._sessions.get((tenant, session))
        if kept is None:
            return
        for call in calls:
            self._forget(kept, call)
        if not kept.texts:
            self._drop((tenant, session))

    def _forget(self, kept: _Session, call: str) -> None:
        text = kept.texts.pop(call, None)
        if text is None:
            return
        shared = any(other is text for other in kept.texts.values())
        cost = ENTRY_COST_BYTES + (0 if shared else len(text.encode("utf-8", "surrogatepass")))
        kept.cost -= cost
        self.bytes -= cost
        self.entries -= 1

    def _use(self, key: tuple[str, str], kept: _Session, now: float) -> None:
        kept.used = now
        self._sessions.move_to_end(key)

    def _bound(self, now: float) -> None:
        """Drop what has expired, then whole sessions in order of their last use, until all bounds hold."""
        while self._sessions:
            oldest, kept = next(iter(self._sessions.items()))
            expired = now - kept.used >= self._ttl_s
            full = len(self._sessions) > self._max_sessions
            if not (expired or full or self.bytes > self._max_bytes or self.entries > self._max_entries):
                return
            self.counts.evicted += len(kept.texts)
            self._drop(oldest)

    def _drop(self, key: tuple[str, str]) -> None:
        kept = self._sessions.pop(key)
        self.bytes -= kept.cost
        self.entries -= len(kept.texts)
