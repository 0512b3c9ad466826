"""The live feed of summaries: a ring of the latest records, and followers that read it at their own pace.

A follower is a position in the ring and nothing more, so a slow one costs no memory: what the ring has dropped
by the time it reads on, it has missed, and is told how much (S24). Ids name the process and a number, so that a
follower of an earlier process gets all that the new one has.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

from gateway.record import Record
from translators.sse import COMMENT

__all__ = ["KEPT", "Feed", "Full"]

KEPT = 1000
MAX_FOLLOWERS = 16
HEARTBEAT_S = 10.0
GATHER_S = 0.1
"""Records of this time go out in one write: a page cannot show more, and each write wakes two processes."""
BATCH = 200
"""Records in one write."""


class Full(Exception):
    """There are MAX_FOLLOWERS already."""


class _Entry(msgspec.Struct):
    number: int
    record: Record
    frame: bytes = b""


class Feed:
    """Records as server-sent events."""

    def __init__(self, kept: int = KEPT, *, gather_s: float = GATHER_S, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.boot = secrets.token_hex(4)
        self.closed = False
        self._ring: deque[_Entry] = deque(maxlen=kept)
        self._next = 1
        self._gather_s = gather_s
        self._heartbeat_s = heartbeat_s
        self._followers: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def followers(self) -> int:
        """Return how many read the feed now."""
        return len(self._followers)

    def put(self, record: Record) -> None:
        """Add a record; it must not change any more."""
        self._ring.append(_Entry(self._next, record))
        self._next += 1
        for fresh in self._followers:
            fresh.set()

    def close(self) -> None:
        """End all followers; they come back to the next process with their last id."""
        self.closed = True
        for fresh in self._followers:
            fresh.set()

    def position(self, last_id: str, newest: int) -> int:
        """Return the number after which a follower reads on: for an id of another process all that is kept.

        Without an id it gets the `newest` records.
        """
        if not last_id:
            return max(0, self._next - 1 - max(0, newest))
        boot, _, number = last_id.partition("-")
        if boot != self.boot or not number.isascii() or not number.isdecimal() or len(number) > 15:
            return 0
        return min(int(number), self._next - 1)

    def take(self, after: int) -> tuple[bytes, int]:
        """Return the frames that follow a position, at most BATCH of them, and the position behind them."""
        if not self._ring or after >= self._next - 1:
            return b"", after
        first = self._ring[0].number
        parts = []
        if after and after + 1 < first:
            parts.append(b'event: missed\ndata: {"count":%d}\n\n' % (first - after - 1))
        begin = max(after + 1, first)
        for index in range(begin - first, min(begin - first + BATCH, len(self._ring))):
            entry = self._ring[index]
            if not entry.frame:
                entry.frame = self._frame(entry)
            parts.append(entry.frame)
            after = entry.number
        return b"".join(parts), after

    def _frame(self, entry: _Entry) -> bytes:
        # JSON has no raw line breaks, so no value can end the event early (S15).
        return b"id: %s-%d\nevent: request\ndata: %s\n\n" % (
            self.boot.encode(),
            entry.number,
            msgspec.json.encode(entry.record),
        )

    async def follow(self, last_id: str, newest: int = KEPT) -> AsyncGenerator[bytes]:
        """Yield frames from an id on, comments in silence, until the feed closes; raises Full."""
        if len(self._followers) >= MAX_FOLLOWERS:
            raise Full
        fresh = asyncio.Event()
        self._followers.add(fresh)
        try:
            at = self.position(last_id, newest)
            # A browser reconnects by itself after this time.
            yield b"retry: 1000\nevent: hello\ndata: {}\n\n"
            while not self.closed:
                fresh.clear()
                data, at = self.take(at)
                if data:
                    yield data
                    continue
                try:
                    async with asyncio.timeout(self._heartbeat_s):
                        await fresh.wait()
                except TimeoutError:
                    yield COMMENT
                else:
                    await asyncio.sleep(self._gather_s)
        finally:
            self._followers.discard(fresh)
