"""The clock of one exchange: moments in the record, and whose time it was."""

from time import monotonic, sleep

import pytest

from gateway.record import Record
from gateway.timing import Timing, milliseconds
from translators.tally import Tally


@pytest.fixture
def record():
    return Record()


@pytest.fixture
def timing(record):
    return Timing(record)


def test_milliseconds_have_two_places():
    """The record's times are milliseconds, rounded."""
    assert 1234.57 == milliseconds(1.234567)


def test_a_step_says_when_it_was(timing):
    """A step's time counts from the beginning of the exchange."""
    timing.began -= 2
    assert 2000 <= timing.step("read") < 60_000


def test_only_the_first_event_counts(record, timing):
    """Later events change nothing."""
    timing.first_event(timing.began + 1)
    timing.first_event(timing.began + 2)
    assert 1000 == record.first_event_ms


@pytest.mark.parametrize(
    ("tally", "expected"),
    [
        (Tally(reasoning_bytes=3), (1000, None, None)),
        (Tally(text_bytes=3), (1000, 1000, None)),
        (Tally(tool_calls=1), (1000, None, 1000)),
    ],
)
def test_the_first_content_is_told_apart(record, timing, tally, expected):
    """Any content is the first meaning; text and tool calls have times of their own."""
    timing.first_meaning(tally, timing.began + 1)
    assert expected == (record.first_meaning_ms, record.first_text_ms, record.first_tool_ms)


def test_first_times_stay(record, timing):
    """Text behind reasoning has its own time, and none of the times moves again."""
    timing.first_meaning(Tally(reasoning_bytes=1), timing.began + 1)
    timing.first_meaning(Tally(reasoning_bytes=1, text_bytes=1), timing.began + 2)
    timing.first_meaning(Tally(reasoning_bytes=1, text_bytes=2, tool_calls=1), timing.began + 3)
    timing.first_meaning(Tally(reasoning_bytes=1, text_bytes=3, tool_calls=2), timing.began + 4)
    assert (1000, 2000, 3000) == (record.first_meaning_ms, record.first_text_ms, record.first_tool_ms)


def test_waiting_for_the_upstream_is_no_overhead(record, timing):
    """What passed inside `with` is the upstream's, also when it raises; only the rest is ours."""
    with pytest.raises(ValueError, match="gone"), timing:
        sleep(0.05)
        raise ValueError("gone")
    timing.close(None)
    whole = milliseconds(monotonic() - timing.began)
    assert timing.waited_s >= 0.05
    assert record.overhead_ms <= whole - 49
    assert record.first_byte_ms is None


def test_the_first_byte_is_told_at_the_end(record, timing):
    """The moment of the first write, and an overhead that is never below nothing."""
    timing.waited_s = 3600
    timing.close(timing.began + 0.5)
    assert (500, 0) == (record.first_byte_ms, record.overhead_ms)
