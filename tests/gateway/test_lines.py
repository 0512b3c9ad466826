"""The console line of a record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.lines import clean, request_line, short_count, short_ms
from gateway.record import Record

FULL = Record(
    ts="2026-01-01T10:20:30.000Z",
    request_id="0123456789abcdef0123",
    client="alice",
    alias="sonnet",
    provider="up",
    upstream_model="glm-5.3",
    key="k1",
    status=200,
    outcome="complete",
    attempts=2,
    input_tokens=199_634,
    output_tokens=312,
    cache_ratio=0.998,
    first_meaning_ms=8400,
    first_tool_ms=9100,
    duration_ms=11_700,
)


def test_a_line_names_route_tokens_and_times():
    """What is known stands in the line, in the order of the question: who, what, of whom, how much, how long."""
    expected = (
        "10:20:30 ✓ alice sonnet → up/glm-5.3 key=k1 in=199.6K cache=99.8% out=312 first=8.4s tool=9.1s dur=11.7s "
        "tries=2 0123456789abcdef"
    )
    assert expected == request_line(FULL)


def test_what_is_not_known_is_left_out():
    """An empty record has no zeros in its line."""
    assert "10:20:30 ✗ - - → - end=shutdown r1" == request_line(
        Record(ts="2026-01-01T10:20:30.000Z", request_id="r1", outcome="shutdown")
    )


def test_a_failure_says_how_and_with_which_status():
    """Outcome, kind and status stand in the line of a request that failed."""
    record = Record(
        ts="2026-01-01T10:20:30.000Z", request_id="r", outcome="stalled_idle", error_kind="timeout", status=200
    )
    assert request_line(record).endswith("end=stalled_idle err=timeout status=200 r")


def test_an_answer_that_was_cut_says_so():
    """An incomplete answer is no failure, and not quite fine."""
    assert " ✓ " in request_line(Record(outcome="incomplete"))
    assert "end=incomplete" in request_line(Record(outcome="incomplete"))


@pytest.mark.parametrize(("outcome", "code"), [("complete", "32"), ("incomplete", "33"), ("upstream_eof", "31")])
def test_color_says_how_it_ended(outcome, code):
    """Green, yellow and red, and only when asked for."""
    assert f"\x1b[{code}m" in request_line(Record(outcome=outcome), color=True)
    assert "\x1b" not in request_line(Record(outcome=outcome))


@pytest.mark.promise("S15")
@given(st.text(), st.text(), st.text())
def test_no_name_leaves_its_line(alias, model, request_id):
    """Whatever a client calls its model, the line is one line and holds no escape sequence."""
    line = request_line(Record(alias=alias, upstream_model=model, request_id=request_id, outcome="complete"))
    assert 1 == len(line.splitlines())
    assert "\x1b" not in line
    line.encode()


@given(st.text(st.characters()))
def test_clean_text_is_printable_and_bounded(text):
    """No control character and no lone surrogate stays, and nothing else changes."""
    shown = clean(text, 10)
    assert len(shown) <= 10
    shown.encode()
    assert all(ours in (theirs, "\ufffd") for ours, theirs in zip(shown, text, strict=False))


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (999, "999"), (1000, "1.0K"), (199_634, "199.6K"), (999_949, "999.9K"), (999_950, "1.0M")],
)
def test_counts_read_well(number, expected):
    """Three digits and a unit."""
    assert expected == short_count(number)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(0.4, "0ms"), (312, "312ms"), (999.6, "1.0s"), (8400, "8.4s"), (99_949, "99.9s"), (185_000, "3m05s")],
)
def test_times_read_well(ms, expected):
    """Milliseconds, seconds, minutes: the unit that fits."""
    assert expected == short_ms(ms)
