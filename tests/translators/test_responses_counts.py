"""Token counts of Responses, both ways."""

import pytest

from translators.events import Usage
from translators.responses.counts import spent, usage_of


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ({"input_tokens": None, "output_tokens": None}, None),
        ({"input_tokens": 20, "output_tokens": 7}, Usage(20, None, None, 7, None)),
        (
            {
                "input_tokens": 20,
                "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 999,
            },
            Usage(12, 5, 3, 7, 2),
        ),
        ({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 5}}, Usage(0, 3, None, None, None)),
        (
            {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 5}},
            Usage(0, 2, 1, None, None),
        ),
        ({"output_tokens": 3, "input_tokens_details": {"cached_tokens": 5}}, Usage(None, 5, None, 3, None)),
        ({"input_tokens": 3, "input_tokens_details": None, "output_tokens_details": None}, Usage(3)),
        ({"input_tokens": 3.0, "output_tokens": -1}, Usage(3)),
        ({"input_tokens": 3, "output_tokens": True}, Usage(3)),
        ({"output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 4}}, Usage(output=3)),
        ({"input_tokens": 1, "cost_in_usd_ticks": 37_756_000}, Usage(1, cost_usd=0.0037756)),
        ({"input_tokens": 1, "cost": 0.5}, Usage(1, cost_usd=0.5)),
        ({"input_tokens": 1, "cost": -1}, Usage(1)),
    ],
)
def test_counts_are_read(told, usage):
    """The prompt includes what the cache gave and took; senseless members are unknown (1.7)."""
    assert usage == usage_of(told)


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (Usage(), (0, 0, 0, 0, 0, 0)),
        (Usage(12, 5, 3, 7, 2), (20, 5, 3, 7, 2, 27)),
    ],
)
def test_counts_are_written_as_integers(usage, told):
    """Unknown members are zero on the wire, and totals are computed here."""
    written = spent(usage)
    assert told == (
        written["input_tokens"],
        written["input_tokens_details"]["cached_tokens"],
        written["input_tokens_details"]["cache_write_tokens"],
        written["output_tokens"],
        written["output_tokens_details"]["reasoning_tokens"],
        written["total_tokens"],
    )
