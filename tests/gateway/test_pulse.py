"""The one timer of an exchange: stalls, keepalives, and clients that never read."""

import asyncio
from time import monotonic

import pytest

from gateway import pulse
from gateway.pulse import Pulse
from gateway.watch import Timeouts, Watch
from translators.sse import COMMENT

OFF = Timeouts(0, 0, 0, 0)


class Down:
    """A client: keeps what it is sent, or does not read at all."""

    def __init__(self, error=None):
        self.last_write, self.writing_since = monotonic(), None
        self.sent, self.aborted, self.error = [], False, error

    async def write(self, data):
        if self.error:
            raise self.error
        self.sent.append(data)
        self.last_write = monotonic()

    def abort(self):
        self.aborted = True


async def until(true, within_s=5.0):
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.002)


@pytest.fixture
async def pulses():
    """Make pulses that are stopped in the end."""
    made = []

    def make(down, *, keepalive_s=0.0, streaming=True, timeouts=None):
        stalls = []
        one = Pulse(down, keepalive_s=keepalive_s, streaming=streaming, on_stall=lambda: stalls.append(one.stalled))
        one.stalls = stalls
        if timeouts is not None:
            one.watch = Watch(timeouts, monotonic())
        made.append(one)
        one.arm()
        return one

    yield make
    for one in made:
        one.stop()


async def test_a_stall_is_named_once(pulses):
    """The upstream is let go, and the timer does not fire again."""
    one = pulses(Down(), timeouts=Timeouts(0.05, 0, 0, 0))
    await until(lambda: one.stalls)
    await asyncio.sleep(0.1)
    assert ["stalled_first_event"] == one.stalls


async def test_progress_moves_the_deadline(pulses):
    """A timer that was set before an event is asked again when it fires."""
    one = pulses(Down(), timeouts=Timeouts(0.08, 0, 0.2, 0))
    await asyncio.sleep(0.03)
    one.watch.event(monotonic())
    await asyncio.sleep(0.1)
    assert [] == one.stalls
    await until(lambda: one.stalls)
    assert ["stalled_idle"] == one.stalls


async def test_silence_is_bridged(pulses):
    """A comment for each keepalive_s of silence, and none while something is sent."""
    down = Down()
    pulses(down, keepalive_s=0.05)
    for _ in range(10):
        await asyncio.sleep(0.02)
        down.last_write = monotonic()
    assert [] == down.sent
    await until(lambda: len(down.sent) >= 3)
    assert {COMMENT} == set(down.sent)


async def test_the_stream_says_what_keeps_it_alive(pulses):
    """A machine may send an event of its protocol, or nothing."""
    down = Down()
    one = pulses(down, keepalive_s=0.03)
    one.keepalive = lambda: b"ping"
    await until(lambda: down.sent)
    assert b"ping" == down.sent[0]
    one.keepalive = lambda: b""
    count = len(down.sent)
    await asyncio.sleep(0.1)
    assert count == len(down.sent)


@pytest.mark.parametrize(("keepalive_s", "streaming"), [(0.0, True), (0.03, False)])
async def test_no_keepalive(pulses, keepalive_s, streaming):
    """When it is off, and in answers that are no stream."""
    down = Down()
    pulses(down, keepalive_s=keepalive_s, streaming=streaming, timeouts=OFF)
    await asyncio.sleep(0.1)
    assert [] == down.sent


@pytest.mark.promise("S23")
async def test_a_client_that_never_reads_is_dropped(pulses, monkeypatch):
    """A write that is blocked for WRITE_STALL_S ends the connection."""
    monkeypatch.setattr(pulse, "WRITE_STALL_S", 0.1)
    down = Down()
    down.writing_since = monotonic()
    one = pulses(down)
    await until(lambda: down.aborted)
    assert one.stalled is None


async def test_a_slow_client_is_no_silent_upstream(pulses):
    """While it is slow nobody reads the upstream; its silence begins anew afterwards."""
    down = Down()
    one = pulses(down, timeouts=Timeouts(0, 0, 0.1, 0.1))
    one.watch.meaning(monotonic())
    one.arm()
    down.writing_since = monotonic()
    await asyncio.sleep(0.25)
    assert [] == one.stalls
    down.writing_since = None
    await asyncio.sleep(0.05)
    one.watch.event(monotonic())
    await until(lambda: one.stalls)
    assert one.stalls[0] in ("stalled_idle", "stalled_meaning_idle")


async def test_a_slow_client_without_a_watch(pulses):
    """Before an upstream answers there is no silence to begin anew."""
    down = Down()
    down.writing_since = monotonic()
    one = pulses(down, keepalive_s=0.02)
    await asyncio.sleep(0.06)
    down.writing_since = None
    await until(lambda: down.sent)
    assert one.stalled is None


@pytest.mark.parametrize("error", [ConnectionResetError(), RuntimeError("Cannot write to closing transport")])
async def test_a_keepalive_for_a_client_that_left(pulses, error):
    """It is no error of ours; whoever serves the client will hear of it."""
    one = pulses(Down(error), keepalive_s=0.02)
    await until(lambda: one._writes)
    await until(lambda: not one._writes)
    assert one.stalled is None


async def test_a_stopped_pulse_is_silent(pulses):
    """Stopping twice is allowed, and a keepalive that is being written is cancelled."""
    down = Down()
    held = asyncio.Event()

    async def write(data):
        await held.wait()
        down.sent.append(data)

    down.write = write
    one = pulses(down, keepalive_s=0.02)
    await until(lambda: one._writes)
    one.stop()
    one.stop()
    held.set()
    await asyncio.sleep(0.05)
    assert [] == down.sent


async def test_arming_again_only_moves_forward(pulses):
    """A nearer deadline replaces the timer, a later one waits for it."""
    one = pulses(Down())
    first = one._timer
    one.arm()
    assert first is one._timer
    one.watch = Watch(Timeouts(0.05, 0, 0, 0), monotonic())
    one.arm()
    assert first is not one._timer
    await until(lambda: one.stalls)


async def test_a_deadline_in_the_past_does_not_spin(pulses):
    """While a slow write is waited out, the timer beats, but not without pause."""
    down = Down()
    one = pulses(down, timeouts=Timeouts(0.01, 0, 0, 0))
    down.writing_since = monotonic()
    beats = 0
    beat = one._beat

    def counted():
        nonlocal beats
        beats += 1
        beat()

    one._beat = counted
    one.arm()
    await asyncio.sleep(0.2)
    assert beats < 250
