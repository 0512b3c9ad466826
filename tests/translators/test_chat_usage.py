"""Token counts in Chat's terms: every server's spelling, and the sums that we write."""

import json

import pytest

from translators.chat.usage import all_zero, read_usage, usage_object
from translators.events import Usage


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(uncached=10, output=5)),
        ({"prompt_tokens": 10.0, "completion_tokens": 5}, Usage(uncached=10, output=5)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None, "completion_tokens_details": None}, Usage(uncached=10)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
            },
            Usage(uncached=5, cache_read=4, cache_write=1, output=5),
        ),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_creation_tokens": 3}},
            Usage(uncached=7, cache_write=3),
        ),
        ({"prompt_tokens": 10, "cached_tokens": 3}, Usage(uncached=7, cache_read=3)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 3}, Usage(uncached=7, cache_read=3)),
        ({"prompt_tokens": 10, "cache_creation_input_tokens": 3}, Usage(uncached=7, cache_write=3)),
        ({"prompt_tokens": 2, "cached_tokens": 3}, Usage(uncached=0, cache_read=2)),
        ({"prompt_tokens": 9, "cached_tokens": 6, "cache_creation_input_tokens": 6}, Usage(0, 6, 3)),
        ({"completion_tokens": 5, "cached_tokens": 3}, Usage(cache_read=3, output=5)),
        ({"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 4}}, Usage(output=5, reasoning=4)),
        ({"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 9}}, Usage(output=5)),
        ({"prompt_tokens": -1, "completion_tokens": 5}, Usage(output=5)),
        ({"prompt_tokens": True, "completion_tokens": 5}, Usage(output=5)),
        ({"input_tokens": 10, "output_tokens": 5}, Usage(uncached=10, output=5)),
        ({"prompt_tokens": 1, "cost": 0.5}, Usage(uncached=1, cost_usd=0.5)),
        ({"prompt_tokens": 1, "cost": "0.5"}, Usage(uncached=1, cost_usd=0.5)),
        ({"prompt_tokens": 1, "cost": "much"}, Usage(uncached=1)),
        ({"prompt_tokens": 1, "cost": -1}, Usage(uncached=1)),
        (
            {"prompt_tokens": 1, "cost": 0, "cost_details": {"upstream_inference_cost": 0.2}},
            Usage(uncached=1, cost_usd=0.2),
        ),
        (
            {"prompt_tokens": 1, "cost": 0.1, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.25}},
            Usage(uncached=1, cost_usd=0.35),
        ),
        ({"prompt_tokens": 1, "cost": 0, "market_cost": 0.3}, Usage(uncached=1, cost_usd=0.3)),
        ({"prompt_tokens": 1, "cost": 0}, Usage(uncached=1, cost_usd=0.0)),
    ],
)
def test_counts_are_read(wire, usage):
    """Each spelling ends in the same record, unknown members as None."""
    assert usage == read_usage(json.dumps(wire).encode())


@pytest.mark.parametrize("raw", [b"{}", b"null", b"5", b"{", b'{"prompt_tokens_details":5}', b'{"total_tokens":5}'])
def test_what_tells_nothing_is_none(raw):
    """No counts, no record."""
    assert read_usage(raw) is None


def test_placeholders_are_recognised():
    """All zeros look like nothing."""
    assert all_zero(Usage(uncached=0, output=0))
    assert not all_zero(Usage(uncached=0, cache_read=1))
    assert not all_zero(Usage(output=1))


def test_sums_are_recomputed():
    """The prompt includes the cache, the total both sides, details only what is known."""
    assert {
        "prompt_tokens": 6,
        "completion_tokens": 4,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 0},
    } == usage_object(Usage(uncached=1, cache_read=2, cache_write=3, output=4, reasoning=0))
    assert {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0} == usage_object(Usage())
