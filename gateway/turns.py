"""The line before a pool: requests that wait a moment for a key that others are using (S24, S36).

A key that is being probed or is full will be free soon, so its requests wait instead of being refused: first come,
first served, bounded in number and in time. Leases are handed over here, so that nobody slips in between; those
that wait for one recovered key get it a few at a time, else all would run into its next limit together.
"""

import asyncio
from collections.abc import Collection
from time import monotonic

from gateway.keypool import BUSY_WAIT_S, Lease, Outcome, Pool, Resting

__all__ = ["MAX_WAITING", "RAMP_S", "WAIT_S", "Turns"]

WAIT_S = 10.0
"""Longest wait for a turn; shorter than any client's patience."""
MAX_WAITING = 256
"""Requests in one line; more are told at once that the keys are busy."""
AT_ONCE = 2
"""Leases given when one is accepted or handed back, so that a line doubles its pace with each success."""
RAMP_S = 0.25
"""Pause until more are given while an upstream is slow to accept those."""
LEAST_S = 0.01


class _Waiter:
    __slots__ = ("answer", "kind", "prefer")

    def __init__(self, model: str, tried: frozenset[str], prefer: str | None) -> None:
        self.kind = (model, tried)
        self.prefer = prefer
        self.answer: asyncio.Future[Lease | Resting] = asyncio.get_running_loop().create_future()


class Turns:
    """Lend the keys of one pool in turn; every lease of the pool comes from here and goes back here."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._line: dict[_Waiter, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._line)

    async def take(
        self, model: str, tried: Collection[str], prefer: str | None = None, wait_s: float = WAIT_S
    ) -> Lease | Resting:
        """Return a lease, at once or when it is this request's turn, else why there was none within `wait_s`."""
        now = monotonic()
        waiter = None
        if self._line:
            self._serve(now)
            kind = (model, frozenset(tried))
            if any(kind == other.kind for other in self._line):
                waiter = _Waiter(model, kind[1], prefer)
        if waiter is None:
            answer = self.pool.acquire(now, model, tried, prefer)
            if isinstance(answer, Lease) or answer.reason != "busy":
                return answer
            waiter = _Waiter(model, frozenset(tried), prefer)
        if len(self._line) >= MAX_WAITING:
            return Resting(BUSY_WAIT_S, "busy")
        return await self._wait(waiter, wait_s)

    def accept(self, lease: Lease) -> None:
        """Note that the upstream took a request; a probe so opens its key for those in line."""
        self.pool.accept(lease)
        self.wake()

    def report(self, lease: Lease, outcome: Outcome, *, wait_s: float | None = None, model: str | None = None) -> None:
        """Take a lease back with its outcome, and give what it frees to the next in line."""
        self.pool.report(lease, outcome, monotonic(), wait_s=wait_s, model=model)
        self.wake()

    def wake(self) -> None:
        """Look whether somebody in line can be served."""
        if self._line:
            self._serve(monotonic())

    async def _wait(self, waiter: _Waiter, wait_s: float) -> Lease | Resting:
        self._line[waiter] = None
        self._arm(RAMP_S)
        try:
            await asyncio.wait((waiter.answer,), timeout=wait_s)
        except asyncio.CancelledError:
            # The turn may have come in the same moment in which the client left.
            if waiter.answer.done() and isinstance(lease := waiter.answer.result(), Lease):
                self.report(lease, "cancelled")
            raise
        finally:
            self._line.pop(waiter, None)
        if waiter.answer.done():
            return waiter.answer.result()
        # Nobody is refused for its place in line while a key is free.
        return self.pool.acquire(monotonic(), *waiter.kind, waiter.prefer)

    def _serve(self, now: float) -> None:
        """Answer those in line, in order: a few with leases, all for whom waiting has become vain."""
        left, pause = AT_ONCE, BUSY_WAIT_S
        busy: set[tuple[str, frozenset[str]]] = set()
        for waiter in list(self._line):
            if waiter.kind in busy:
                continue
            if not left:
                pause = RAMP_S
                break
            answer = self.pool.acquire(now, *waiter.kind, waiter.prefer)
            if isinstance(answer, Lease):
                left -= 1
            elif answer.reason == "busy":
                busy.add(waiter.kind)
                pause = min(pause, answer.retry_after_s or pause)
                continue
            del self._line[waiter]
            waiter.answer.set_result(answer)
        self._arm(pause)

    def _arm(self, pause: float) -> None:
        """Look again after a pause at the latest: rests end by the clock alone, and some upstreams accept late."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._line:
            self._timer = asyncio.get_running_loop().call_later(max(pause, LEAST_S), self.wake)
