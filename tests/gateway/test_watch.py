"""The four stall timers, by a clock that the test moves."""

import math

import pytest

from gateway.watch import Timeouts, Watch

TIMEOUTS = Timeouts(first_event_s=10, first_meaning_s=30, idle_s=5, meaning_idle_s=20)


@pytest.fixture
def watch():
    """A stream whose headers came at second 100."""
    return Watch(TIMEOUTS, 100.0)


def test_silence_from_the_start_is_a_missing_first_event(watch):
    """Until the first byte the first-event timer counts, not the shorter idle timer."""
    assert 110.0 == watch.deadline()
    assert watch.stalled(109.9) is None
    assert "stalled_first_event" == watch.stalled(110.0)


def test_comments_are_no_event_but_they_are_not_silence(watch):
    """Comments restart the idle timer and leave the first-event timer running."""
    for now in (104.0, 108.0):
        watch.alive(now)
    assert 110.0 == watch.deadline()
    assert "stalled_first_event" == watch.stalled(110.0)


def test_bytes_that_stop_are_idle(watch):
    """After an event the idle timer counts from the last byte."""
    watch.event(101.0)
    watch.alive(103.0)
    assert 108.0 == watch.deadline()
    assert "stalled_idle" == watch.stalled(108.0)


def test_events_without_meaning_miss_the_first_meaning(watch):
    """A stream of heartbeats that never says anything stalls."""
    for now in range(101, 130, 4):
        watch.event(float(now))
    assert 130.0 == watch.deadline()
    assert watch.stalled(129.9) is None
    assert "stalled_first_meaning" == watch.stalled(130.0)


def test_heartbeats_after_text_are_a_meaning_idle(watch):
    """Once something was said, heartbeats alone do not keep the stream alive for ever."""
    watch.meaning(102.0)
    for now in range(104, 124, 4):
        watch.event(float(now))
    assert 122.0 == watch.deadline()
    assert "stalled_meaning_idle" == watch.stalled(122.0)


def test_progress_is_never_cut():
    """There is no limit in all on a stream that goes on."""
    watch = Watch(Timeouts(), 0.0)
    for now in range(0, 100_000, 100):
        assert watch.stalled(float(now)) is None
        watch.meaning(float(now))


def test_first_in_the_order_of_the_specification_is_named():
    """When several timers have ended the earliest in the list names the outcome."""
    watch = Watch(Timeouts(1, 1, 1, 1), 0.0)
    watch.alive(0.0)
    assert "stalled_first_event" == watch.stalled(9.0)
    watch.event(0.0)
    assert "stalled_first_meaning" == watch.stalled(9.0)
    watch.meaning(0.0)
    assert "stalled_idle" == watch.stalled(9.0)
    watch.alive(9.0)
    assert "stalled_meaning_idle" == watch.stalled(9.5)


def test_zero_turns_a_timer_off():
    """With all timers off nothing ever stalls and there is no deadline."""
    watch = Watch(Timeouts(0, 0, 0, 0), 0.0)
    watch.meaning(1.0)
    assert watch.deadline() is None
    assert watch.stalled(1e9) is None


def test_defaults_are_those_of_the_contract():
    """The defaults are interface.md's 180, 180, 120 and 180 seconds."""
    assert Timeouts(180, 180, 120, 180) == Timeouts()


def test_shortest_timer_of_all():
    """The caller learns within what time a deadline can appear that does not run yet."""
    assert 2.0 == Watch(Timeouts(9.0, 8.0, 2.0, 0.0), 0.0).shortest_s
    assert math.inf == Watch(Timeouts(0, 0, 0, 0), 0.0).shortest_s
