"""Wire types: what they take and what they leave."""

import msgspec
import pytest

from translators.events import Logprob
from translators.responses import wire


@pytest.mark.parametrize(
    ("raw", "expected"), [(wire.ABSENT, b""), (msgspec.Raw(b"null"), b""), (msgspec.Raw(b'{"a":1}'), b'{"a":1}')]
)
def test_null_is_absent(raw, expected):
    """A raw member that is null is as good as none."""
    assert expected == wire.given(raw)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (None, ()),
        ([], ()),
        ([{"token": "a"}], ()),
        ([{"token": "a", "logprob": -1, "bytes": [97], "extra": 1}], (Logprob("a", -1.0, [97]),)),
    ],
)
def test_log_probabilities(values, expected):
    """Log probabilities of the known shape are kept, others are none."""
    assert expected == wire.logprobs_of(values)


def test_delta_takes_null_everywhere():
    """Servers write null for what they do not know."""
    data = (
        b'{"type":"x","sequence_number":null,"output_index":null,"item_id":null,"content_index":null,'
        b'"summary_index":null,"delta":null,"logprobs":null,"unknown":{}}'
    )
    assert wire.Moment("x") == wire.decode_moment(data)
