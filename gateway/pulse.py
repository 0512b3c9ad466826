"""One coarse timer for an exchange: fires stall timers, sends keepalives, drops clients that never read.

It re-arms at the nearest deadline when it fires, so a busy stream costs no timer per read.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

from gateway.downstream import Downstream
from gateway.watch import Stall, Watch
from translators.sse import COMMENT

__all__ = ["WRITE_STALL_S", "Pulse"]

WRITE_STALL_S = 60.0
"""A write that is blocked longer than this ends the exchange (S23)."""


class Pulse:
    """Watch over one exchange. `stalled` names the timer that fired; `on_stall` then aborts the upstream."""

    def __init__(
        self, downstream: Downstream, *, keepalive_s: float, streaming: bool, on_stall: Callable[[], None]
    ) -> None:
        self.stalled: Stall | None = None
        self.watch: Watch | None = None
        self.keepalive: Callable[[], bytes] | None = None
        """What keeps the client alive at this point; None before an upstream answers."""
        self._downstream = downstream
        self._keepalive_s = keepalive_s if streaming else 0
        self._on_stall = on_stall
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._writes: set[asyncio.Task[None]] = set()
        self._held = False

    def arm(self) -> None:
        """Set the timer to the nearest deadline, unless it fires before that anyway; called when a watch begins."""
        due = monotonic() + self._delay()
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(due - monotonic(), self._beat)

    def stop(self) -> None:
        """Stop the timer and pending keepalives."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._writes:
            task.cancel()

    def _delay(self) -> float:
        now = monotonic()
        times = [now + WRITE_STALL_S]
        if self.watch is not None and (deadline := self.watch.deadline()) is not None:
            times.append(deadline)
            # A timer that begins only later ends no sooner than this, and is then waited for exactly.
            times.append(now + self.watch.shortest_s)
        if self._keepalive_s:
            due = self._downstream.last_write + self._keepalive_s
            times.append(due if due > now else now + self._keepalive_s)
        # Never in the past: a deadline that is being waited out behind a slow write must not spin.
        return max(min(times) - now, 0.001)

    def _beat(self) -> None:
        self._timer = None
        now = monotonic()
        writing = self._downstream.writing_since
        if writing is not None:
            self._held = True
            if now - writing >= WRITE_STALL_S:
                self._downstream.abort()
                return
        elif self._held:
            # The upstream was not read while the client was slow, so its silence proves nothing.
            self._held = False
            if self.watch is not None:
                self.watch.resume(now)
        elif self.watch is not None and (name := self.watch.stalled(now)) is not None:
            self.stalled = name
            self._on_stall()
            return
        elif self._keepalive_s and now - self._downstream.last_write >= self._keepalive_s - 0.005:
            self._send(COMMENT if self.keepalive is None else self.keepalive())
        self.arm()

    def _send(self, data: bytes) -> None:
        self._downstream.last_write = monotonic()
        if data:
            task = self._loop.create_task(self._write(data))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def _write(self, data: bytes) -> None:
        try:
            await self._downstream.write(data)
        except (ConnectionError, RuntimeError):
            # The client left; the handler is being cancelled and settles the exchange.
            return
