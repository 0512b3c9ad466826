"""Messages' usage on the wire, and the records that read it."""

import msgspec
import pytest

from translators.events import Usage
from translators.messages.wire import Counts, InputBlock, merged, usage_of
from translators.notes import Notes

counts = msgspec.json.Decoder(Counts).decode


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        (b"{}", Usage()),
        (b'{"input_tokens":7,"output_tokens":2}', Usage(uncached=7, output=2)),
        (
            b'{"input_tokens":7,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"output_tokens":2,'
            b'"output_tokens_details":{"thinking_tokens":1}}',
            Usage(uncached=7, cache_read=3, cache_write=4, output=2, reasoning=1),
        ),
        (b'{"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":2}}', Usage(cache_write=3)),
        (b'{"cache_creation":{},"cache_creation_input_tokens":9}', Usage(cache_write=9)),
        (b'{"input_tokens":null,"cache_creation":null,"output_tokens_details":null}', Usage()),
        (
            b'{"input_tokens":1,"service_tier":"standard","server_tool_use":{"web_search_requests":1}}',
            Usage(uncached=1),
        ),
    ],
)
def test_wire_counts_become_neutral_ones(raw, usage):
    """Input excludes the cache, output includes reasoning, the split of cache writes fills a missing sum (1.7)."""
    notes = Notes()
    assert usage == usage_of(counts(raw), notes)
    assert 0 == notes.count


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        (b'{"input_tokens":-1,"output_tokens":2}', Usage(output=2)),
        (b'{"output_tokens":2,"output_tokens_details":{"thinking_tokens":3}}', Usage(output=2)),
    ],
)
def test_impossible_counts_are_left_out(raw, usage):
    """Negative counts, and more reasoning than output, are unknown and noted."""
    notes = Notes()
    assert usage == usage_of(counts(raw), notes)
    assert ["usage"] == [note.field for note in notes.kept]


def test_newer_counts_overwrite_what_they_name():
    """Cumulative counts keep what the newer object leaves out."""
    newer = merged(Counts(input_tokens=1, output_tokens=1), Counts(output_tokens=5))
    assert Counts(input_tokens=1, output_tokens=5) == newer


def test_a_block_of_any_type_can_be_read():
    """One record reads every block, so that an unknown type is no error."""
    raw = b'{"type":"novel","source":"x","content":{"type":"y","content":[{"type":"z"}]},"extra":[1]}'
    block = msgspec.json.decode(raw, type=InputBlock)
    assert ("novel", "x", "y") == (block.type, block.source, block.content.type)
