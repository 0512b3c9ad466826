"""The summary record and the name of each ending."""

from pathlib import Path

import msgspec
import pytest

from gateway.record import OUTCOMES, Record, outcome_of
from translators.events import Usage
from translators.fault import Fault
from translators.tally import Tally

TALLY = Tally(
    events=5,
    text_bytes=10,
    reasoning_bytes=20,
    tool_bytes=30,
    tool_calls=1,
    usage=Usage(uncached=6, cache_read=2, cache_write=0, output=4, reasoning=1, cost_usd=0.5),
)


def test_what_is_unknown_is_absent():
    """A record of nothing is an empty document, so an absent number is never 0."""
    assert {"ts": "now"} == msgspec.to_builtins(Record(ts="now"))


def test_an_answer_fills_the_record():
    """Counts, usage and cache share are copied; a streamed answer is the same in the log."""
    record = Record()
    record.take(TALLY, native=False)
    assert {
        "input_tokens": 8,
        "cached_tokens": 2,
        "cache_write_tokens": 0,
        "output_tokens": 4,
        "reasoning_tokens": 1,
        "cache_ratio": 0.25,
        "cost_usd": 0.5,
        "events": 5,
        "text_bytes": 10,
        "reasoning_bytes": 20,
        "tool_bytes": 30,
        "tool_calls": 1,
    } == msgspec.to_builtins(record)


def test_native_streams_are_not_measured():
    """Bytes that are passed on have no sizes of text or tools, rather than wrong ones."""
    record = Record()
    record.take(TALLY, native=True)
    assert (5, None, None) == (record.events, record.text_bytes, record.tool_calls)


@pytest.mark.parametrize("usage", [Usage(), Usage(output=3), Usage(uncached=0, cache_read=0)])
def test_a_share_of_nothing_is_no_share(usage):
    """Without a prompt, or without knowing of the cache, there is no ratio."""
    record = Record()
    record.take(Tally(usage=usage), native=False)
    assert (None, None) == (record.cache_ratio, record.events)


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [
        ("end", "complete"),
        ("tool", "complete"),
        ("stop_sequence", "complete"),
        (None, "complete"),
        ("length", "incomplete"),
        ("context", "incomplete"),
        ("refusal", "incomplete"),
        ("pause", "incomplete"),
    ],
)
def test_an_answer_is_complete_or_not(stop, outcome):
    """Limits, refusals and pauses are endings, but incomplete ones."""
    assert outcome == outcome_of(None, stop)


@pytest.mark.parametrize(
    ("kind", "cause", "outcome"),
    [
        ("invalid_request", "client", "client_error"),
        ("rate_limited", "client", "client_error"),
        ("rate_limited", "upstream", "rate_limited"),
        ("api", "upstream", "upstream_error"),
        ("api", "protocol", "protocol_error"),
        ("api", "eof", "upstream_eof"),
        ("api", "limit", "limit"),
        ("timeout", "stall", "stalled_first_event"),
        ("overloaded", "shutdown", "shutdown"),
        ("api", "gateway", "upstream_error"),
    ],
)
def test_a_fault_names_the_ending(kind, cause, outcome):
    """Each cause has one name, and every name is one of the contract."""
    assert outcome == outcome_of(Fault(kind=kind, message="x", cause=cause), None)
    assert outcome in OUTCOMES


@pytest.mark.promise("S32")
def test_a_record_has_no_place_for_content():
    """All fields are scalars; the ones that hold text are names, ids, times and hashes."""
    texts = {field.name for field in msgspec.structs.fields(Record) if "str" in str(field.type)}
    assert {
        "ts", "request_id", "client", "dialect", "alias", "provider", "upstream_dialect", "upstream_model", "outcome",
        "error_kind", "key", "session", "effort", "prefix_hash", "prefix_broken_at",
    } == texts  # fmt: skip
