"""The one pump: an upstream's chunks in, a client's bytes out, timers beside it. It knows events and bytes, never JSON.

Promises: one write per chunk read (S23: each awaited); what an upstream had finished stays finished however its
connection ends (F2); what it had not finished ends in the error form of the client's protocol (S37).
"""

from collections.abc import AsyncIterator, Callable
from time import monotonic

from gateway.downstream import Downstream
from gateway.pulse import Pulse
from gateway.record import Record
from gateway.timing import Timing
from gateway.watch import Watch
from providers.transport import ERRORS, explain
from translators.events import Event
from translators.fault import Fault, broken
from translators.native import NativeWhole
from translators.pair import MAX_ANSWER_BYTES, Pair, Prepared, Stream

__all__ = ["STALLS", "Pump"]

STALLS = {
    "stalled_first_event": "the upstream sent no event in time",
    "stalled_first_meaning": "the upstream sent no content in time",
    "stalled_idle": "the upstream fell silent",
    "stalled_meaning_idle": "the upstream stopped sending content",
}

BLANK = b"\xef\xbb\xbf \t\r\n"
"""What may stand before a body: white space and a byte order mark."""

Observe = Callable[[Event], None] | None


class Pump:
    """Carry upstream replies of one exchange to its client, one at a time.

    `machine` is the translation of the reply that came last; `interrupt` is set from outside to end it.
    """

    def __init__(self, downstream: Downstream, pulse: Pulse, timing: Timing, record: Record) -> None:
        self.machine: Stream | NativeWhole | None = None
        self.interrupt: Fault | None = None
        self._downstream = downstream
        self._pulse = pulse
        self._timing = timing
        self._record = record
        self._events = self._meanings = 0

    @property
    def begun(self) -> bool:
        """Tell whether anything of an answer went to the client: from then on nothing is tried again."""
        return self.machine is not None and self.machine.begun

    def reset(self) -> None:
        """Forget the reply of an earlier attempt, of which the client saw nothing."""
        self.machine = None
        self._events = self._meanings = 0

    async def answer(
        self,
        chunks: AsyncIterator[bytes],
        content_type: str,
        pair: Pair,
        prepared: Prepared,
        watch: Watch,
        observe: Observe,
    ) -> Fault | None:
        """Read a reply to its end; returns what broke it, None when the client has, or can get, the whole answer."""
        pulse = self._pulse
        pulse.watch, pulse.keepalive = watch, None
        pulse.arm()
        try:
            first = await self._first(chunks, watch)
            if _is_document(first, content_type):
                return await self._document(first, chunks, pair, prepared, watch, observe)
            return await self._stream(first, chunks, pair.stream(prepared, observe), watch)
        except ERRORS as error:
            return await self._broken(error)
        finally:
            pulse.watch, pulse.keepalive = None, None

    async def _first(self, chunks: AsyncIterator[bytes], watch: Watch) -> bytes:
        """Return the first bytes of the body that are not white space, b"" at its end."""
        with self._timing:
            async for chunk in chunks:
                watch.alive(monotonic())
                if chunk.strip():
                    return chunk
            return b""

    async def _stream(self, first: bytes, chunks: AsyncIterator[bytes], machine: Stream, watch: Watch) -> Fault | None:
        self.machine = machine
        self._pulse.keepalive = machine.keepalive
        await self._feed(machine, machine.feed(first), watch)
        timing = self._timing
        while not machine.done:
            try:
                with timing:
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                break
            await self._feed(machine, machine.feed(chunk), watch)
        if self.interrupt is not None or self._pulse.stalled is not None:
            return await self._broken(ConnectionError())
        await self._write(machine.finish())
        return machine.fault

    async def _feed(self, machine: Stream, out: bytes, watch: Watch) -> None:
        """Take one chunk's outcome: timers first, then one write."""
        now = monotonic()
        tally = machine.tally
        watch.alive(now)
        if tally.events != self._events:
            self._events = tally.events
            watch.event(now)
            self._timing.first_event(now)
        if tally.meanings != self._meanings:
            self._meanings = tally.meanings
            watch.meaning(now)
            self._timing.first_meaning(tally, now)
        if out:
            await self._downstream.write(out)

    async def _document(
        self,
        first: bytes,
        chunks: AsyncIterator[bytes],
        pair: Pair,
        prepared: Prepared,
        watch: Watch,
        observe: Observe,
    ) -> Fault | None:
        """Take a reply that is one JSON body, whether the client asked for a stream or not (E27)."""
        parts, size = [first], len(first)
        with self._timing:
            async for chunk in chunks:
                watch.meaning(monotonic())
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    return broken("the upstream's answer is too large", cause="limit")
                parts.append(chunk)
        if self.interrupt is not None or self._pulse.stalled is not None:
            return await self._broken(ConnectionError())
        body = b"".join(parts)
        if (odd := _no_json(body)) is not None:
            return broken(odd)
        machine = self.machine = pair.whole(prepared, body, observe)
        now = monotonic()
        self._timing.first_event(now)
        self._timing.first_meaning(machine.tally, now)
        if prepared.stream and machine.begun:
            await self._downstream.write(machine.output)
        return machine.fault

    async def _broken(self, error: Exception) -> Fault | None:
        """End the machine of a reply that broke off; returns None when its terminal had been seen before."""
        machine = self.machine
        ours = self.interrupt or self._stall()
        if machine is None or isinstance(machine, NativeWhole):
            return ours or explain(error)
        await self._write(machine.fail(ours) if ours is not None else machine.finish())
        return machine.fault

    def _stall(self) -> Fault | None:
        name = self._pulse.stalled
        if name is None:
            return None
        self._record.outcome = name
        self._timing.step(name)
        return Fault(kind="timeout", message=STALLS[name], cause="stall")

    async def _write(self, out: bytes) -> None:
        if out:
            await self._downstream.write(out)


def _no_json(body: bytes) -> str | None:
    """Say what a body is that is no JSON at all, None for any other."""
    start = body.lstrip(BLANK)[:1]
    if not start:
        return "the upstream answered with an empty body"
    if start == b"<":
        return "the upstream answered with a web page instead of JSON; its base_url may be wrong"
    return None


def _is_document(first: bytes, content_type: str) -> bool:
    """Tell whether a body is one document rather than an event stream, whatever its headers claim."""
    start = first.lstrip(BLANK)[:1]
    return start in (b"{", b"[", b"<") or (not first and "event-stream" not in content_type)
