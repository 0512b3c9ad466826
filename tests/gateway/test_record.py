"""The summary record: outcomes, and the flight list of requests that went wrong."""

import msgspec
import pytest

from gateway.record import MAX_STEPS, OUTCOMES, Record, Step, outcome_of
from translators.events import Usage
from translators.fault import Fault
from translators.tally import Tally


def decoded(record: Record) -> dict:
    return msgspec.json.decode(msgspec.json.encode(record))


def test_what_is_not_known_is_absent():
    """An empty record has no field with 0 or null."""
    assert {"outcome": "complete"} == decoded(Record(outcome="complete"))


@pytest.mark.parametrize(
    ("fault", "stop", "expected"),
    [
        (None, "end", "complete"),
        (None, "tool", "complete"),
        (None, "length", "incomplete"),
        (None, "refusal", "incomplete"),
        (Fault(kind="rate_limited", message="x"), None, "rate_limited"),
        (Fault(kind="rate_limited", message="x", cause="client"), None, "client_error"),
        (Fault(kind="api", message="x", cause="eof"), None, "upstream_eof"),
        (Fault(kind="api", message="x", cause="limit"), None, "limit"),
        (Fault(kind="overloaded", message="x", cause="shutdown"), None, "shutdown"),
        (Fault(kind="api", message="x", cause="protocol"), None, "protocol_error"),
        (Fault(kind="api", message="x", cause="gateway"), None, "upstream_error"),
    ],
)
def test_outcomes_follow_from_the_fault_or_the_stop(fault, stop, expected):
    """Each end has one name of the public list."""
    assert expected == outcome_of(fault, stop)
    assert expected in OUTCOMES


def test_usage_and_sizes_come_from_the_tally():
    """Reported tokens, their ratio and measured sizes are copied; a native stream's content is not measured."""
    tally = Tally(events=4, text_bytes=9, usage=Usage(uncached=20, cache_read=80, output=5, cost_usd=0.25))
    record, native = Record(), Record()
    record.take(tally, native=False)
    native.take(tally, native=True)
    assert (100, 80, 0.8, 5, 0.25, 9, 4) == (
        record.input_tokens,
        record.cached_tokens,
        record.cache_ratio,
        record.output_tokens,
        record.cost_usd,
        record.text_bytes,
        record.events,
    )
    assert (100, None) == (native.input_tokens, native.text_bytes)


def test_a_request_without_trouble_leaves_no_flight_list():
    """Steps of an ordinary request are dropped."""
    record = Record(outcome="complete", first_meaning_ms=900, duration_ms=3000)
    record.step(1, "read")
    record.close()
    assert [] == record.flight


@pytest.mark.parametrize(
    "record",
    [
        Record(outcome="upstream_eof", duration_ms=20),
        Record(outcome="complete", first_meaning_ms=15_001, duration_ms=20_000),
        Record(outcome="complete", first_meaning_ms=1, duration_ms=60_001),
        Record(outcome="client_disconnected", duration_ms=20),
    ],
    ids=["failed", "slow to begin", "slow to end", "left"],
)
def test_an_anomalous_request_tells_its_steps_in_order(record):
    """Failures and slow requests keep what happened when, milestones and the end among it."""
    record.first_event_ms = 7.5
    record.step(1, "read")
    record.step(9, "judged overloaded")
    record.close()
    kinds = [step.kind for step in record.flight]
    assert ["read", "first_event"] == [kind for kind in kinds if kind in ("read", "first_event")]
    assert Step(record.duration_ms, f"end {record.outcome}") in record.flight
    assert sorted(step.at_ms for step in record.flight) == [step.at_ms for step in record.flight]


def test_a_refusal_without_steps_has_no_flight_list():
    """Where nothing was tried there is nothing to tell."""
    record = Record(outcome="client_error", duration_ms=1)
    record.close()
    assert [] == record.flight


@pytest.mark.promise("S24")
def test_a_flight_list_is_bounded():
    """Steps beyond the limit are counted, and milestones and the end still fit."""
    record = Record(outcome="upstream_error", duration_ms=1000)
    for name in ("first_event", "first_meaning", "first_text", "first_tool", "first_byte"):
        setattr(record, f"{name}_ms", 5.0)
    for at in range(100):
        record.step(at, "send up k1")
    record.close()
    assert MAX_STEPS == len(record.flight)
    assert 100 - (MAX_STEPS - 6) == record.flight_dropped == decoded(record)["flight_dropped"]
