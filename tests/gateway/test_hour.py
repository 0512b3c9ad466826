"""The last hour in minutes: sums, percentiles, bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.hour import GROWTH, MAX_BUCKET, MINUTES, Hour, MinuteView, Sketch
from gateway.record import Record

NOON = 1_767_268_800.0
DONE = Record(
    outcome="complete",
    input_tokens=10,
    cached_tokens=4,
    output_tokens=3,
    cost_usd=0.5,
    first_meaning_ms=100,
    duration_ms=200,
)


def test_a_minute_sums_its_requests():
    """Counts, tokens, cost and percentiles of one minute."""
    hour = Hour()
    hour.note(DONE, NOON + 1)
    hour.note(DONE, NOON + 59)
    hour.note(Record(outcome="upstream_eof", duration_ms=5), NOON + 59)
    [minute] = hour.view(NOON + 60)
    assert (NOON, 3, 1, 20, 8, 6, 1.0) == (
        minute.at,
        minute.requests,
        minute.failed,
        minute.input_tokens,
        minute.cached_tokens,
        minute.output_tokens,
        minute.cost_usd,
    )
    assert 100 <= minute.first_p50 <= 100 * GROWTH
    assert 200 <= minute.whole_p95 <= 200 * GROWTH


def test_an_empty_hour_has_no_minutes():
    """Nothing is shown where nothing was."""
    assert [] == Hour().view(NOON)


def test_minutes_without_content_have_no_percentiles():
    """What was not measured is absent."""
    hour = Hour()
    hour.note(Record(outcome="client_error", duration_ms=1), NOON)
    assert [MinuteView(int(NOON), requests=1, failed=1)] == hour.view(NOON)


def test_what_is_older_than_an_hour_is_not_shown():
    """The window moves with the clock."""
    hour = Hour()
    hour.note(DONE, NOON)
    assert 1 == len(hour.view(NOON + 59 * 60))
    assert 0 == len(hour.view(NOON + 60 * 60))


@pytest.mark.promise("S24")
def test_memory_is_bounded():
    """Days of requests leave MINUTES minutes, each with a bounded number of buckets."""
    hour = Hour()
    for n in range(3000):
        hour.note(Record(outcome="complete", duration_ms=math.exp(n % 40), first_meaning_ms=1), NOON + n * 30)
    assert MINUTES == len(hour._minutes)
    assert all(len(minute.whole.buckets) <= MAX_BUCKET for minute in hour._minutes.values())


def test_a_view_is_made_anew_when_its_minute_changes():
    """Views are kept, but never stale."""
    hour = Hour()
    hour.note(DONE, NOON)
    assert hour.view(NOON)[0] is hour.view(NOON)[0]
    hour.note(DONE, NOON)
    assert 2 == hour.view(NOON)[0].requests


@given(st.lists(st.floats(1, 1e8), min_size=1, max_size=60), st.floats(0, 1))
def test_quantiles_are_right_to_within_the_growth(times, share):
    """A quantile is that of the sorted list, rounded up to a bucket."""
    sketch = Sketch()
    for ms in times:
        sketch.add(ms)
    exact = sorted(times)[max(1, math.ceil(share * len(times))) - 1]
    found = sketch.quantile(share)
    assert found is not None
    assert exact * 0.999 - 0.1 <= found <= exact * GROWTH * 1.001 + 0.1


def test_no_times_have_no_quantile():
    """An empty distribution says so."""
    assert None is Sketch().quantile(0.5)
