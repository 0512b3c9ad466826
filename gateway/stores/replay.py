"""What the gateway remembers of answers for clients that continue by reference (spec/grok.md 11.2).

In this process alone, bounded in entries, bytes and idle time, each client apart from the others (an HMAC of its
name is part of every key) and keyed by the model name that the client asked for. No clock in here: callers pass
`now` in monotonic seconds. Values are frozen, so nobody can change what is kept.
"""

import hmac
from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

from translators.conversation import ToolCall
from translators.replay import Memory, Past

__all__ = ["ENTRIES", "MAX_BYTES", "PAST_BYTES", "PAST_ENTRIES", "TTL_S", "Replay", "Shelf", "Slot"]

TTL_S = 3600.0
"""Seconds without a look-up after which an entry is forgotten."""
ENTRIES = 10_240
MAX_BYTES = 32 * 1024 * 1024
"""Compact JSON of all remembered calls."""
PAST_ENTRIES = 1024
PAST_BYTES = 64 * 1024 * 1024
"""Compact JSON of all remembered conversations."""
MAX_ID_CHARS = 512
"""A longer id is no id of ours; keeping it would evade the byte budget."""

V = TypeVar("V")
Key = tuple[bytes, str, str]


class Shelf(Generic[V]):
    """Values with a sliding life, within a number of entries and bytes; the least recently used goes first."""

    def __init__(self, entries: int, max_bytes: int, ttl_s: float = TTL_S) -> None:
        self.bytes = 0
        self._entries = entries
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        # A use moves an entry to the end and renews it, so the order of use is the order of expiry too.
        self._kept: OrderedDict[Key, tuple[V, int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key, now: float) -> V | None:
        """Return a value and renew it, None when it is unknown or has expired."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now >= kept[2]:
            self._drop(key)
            return None
        self._kept[key] = (kept[0], kept[1], now + self._ttl_s)
        self._kept.move_to_end(key)
        return kept[0]

    def put(self, key: Key, value: V, size: int, now: float) -> None:
        """Keep a value of `size` bytes in place of an older one; one that is larger than the shelf is not kept."""
        if key in self._kept:
            self._drop(key)
        if size > self._max_bytes:
            return
        self._kept[key] = (value, size, now + self._ttl_s)
        self.bytes += size
        while self._kept and now >= next(iter(self._kept.values()))[2]:
            self._drop(next(iter(self._kept)))
        while len(self._kept) > self._entries or self.bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        self.bytes -= self._kept.pop(key)[1]


class Replay:
    """The store of one gateway: calls by item, response and session key, and whole conversations if configured."""

    def __init__(self, calls: Shelf[tuple[ToolCall, ...]] | None = None, pasts: Shelf[Past] | None = None) -> None:
        self.calls: Shelf[tuple[ToolCall, ...]] = Shelf(ENTRIES, MAX_BYTES) if calls is None else calls
        self.pasts: Shelf[Past] = Shelf(PAST_ENTRIES, PAST_BYTES) if pasts is None else pasts

    def slot(self, secret: bytes, tenant: str, model: str) -> "Slot":
        """Return the part of one client under one model name; `secret` is random to this gateway."""
        return Slot(self, hmac.digest(secret, tenant.encode("utf-8", "surrogatepass"), "sha256"), model)


class Slot:
    """One client's view of the store: it cannot name a key of another."""

    def __init__(self, replay: Replay, tenant: bytes, model: str) -> None:
        self._replay = replay
        self._tenant = tenant
        self._model = model

    def memory(self, now: float) -> Memory:
        """Return the look-ups for a request that came at `now`."""

        def calls(kind: str, name: str) -> tuple[ToolCall, ...]:
            return self._replay.calls.get(self._key(kind, name), now) or ()

        return Memory(
            item=lambda name: calls("item:", name),
            response=lambda name: calls("prev-resp:", name),
            session=lambda name: calls("cache:", name),
            whole=lambda name: self._replay.pasts.get(self._key("past:", name), now),
        )

    def item(self, names: tuple[str, ...], call: ToolCall, now: float) -> None:
        """Remember one call by its ids."""
        size = len(msgspec.json.encode(call))
        for name in names:
            self._put("item:", name, (call,), size, now)

    def answer(self, responses: tuple[str, ...], session: str, calls: tuple[ToolCall, ...], now: float) -> None:
        """Remember a complete answer's calls by its ids and as its session's latest; without calls nothing changes."""
        if not calls:
            return
        size = len(msgspec.json.encode(calls))
        for response in responses:
            self._put("prev-resp:", response, calls, size, now)
        self._put("cache:", session, calls, size, now)

    def past(self, response: str, past: Past, now: float) -> None:
        """Remember a whole conversation by the id of its last answer."""
        if response and self._model and len(response) <= MAX_ID_CHARS:
            self._replay.pasts.put(self._key("past:", response), past, len(msgspec.json.encode(past)), now)

    def _put(self, kind: str, name: str, calls: tuple[ToolCall, ...], size: int, now: float) -> None:
        name = name.strip()
        if name and self._model and len(name) <= MAX_ID_CHARS:
            self._replay.calls.put(self._key(kind, name), calls, size, now)

    def _key(self, kind: str, name: str) -> Key:
        return self._tenant, self._model, kind + name
