"""Counts of an answer: bytes per kind in UTF-8, calls, and the last facts that the upstream told."""

import pytest

from translators.events import BlockEnd, BlockStart, Carried, Delta, Failed, Finish, Mark, Start, Usage
from translators.fault import broken
from translators.tally import Tally


def test_bytes_are_counted_by_kind():
    """Text, refusals, reasoning and arguments have their own counts, in bytes and not in characters."""
    tally = Tally()
    for key, kind, text in [(1, "text", "ab"), (2, "reasoning", "ä"), (3, "tool", "{}"), (4, "refusal", "😀")]:
        tally.count(BlockStart(key, kind))
        tally.count(Delta(key, text))
        tally.count(BlockEnd(key))
    tally.count(Delta(9, "\ud800"))
    assert (2 + 4 + 3, 2, 2) == (tally.text_bytes, tally.reasoning_bytes, tally.tool_bytes)
    assert (1, 13) == (tally.tool_calls, tally.events)


def test_meanings_are_content_and_calls():
    """Starts, marks, ends and counts do not reset the timers that wait for content."""
    tally = Tally()
    for event in [Start("i"), BlockStart(1, "text"), Mark(1, Carried("th", "s")), BlockEnd(1), Usage(1), Finish("end")]:
        tally.count(event)
    assert 0 == tally.meanings
    tally.count(BlockStart(2, "tool"))
    tally.count(Delta(2, "{"))
    assert 2 == tally.meanings


@pytest.mark.invariant("I16")
def test_the_last_counts_win():
    """Usage of the start holds until later counts replace it; identity and stop are kept."""
    tally = Tally()
    tally.count(Start("up", "model", usage=Usage(uncached=5)))
    assert (Usage(uncached=5), "up", "model") == (tally.usage, tally.upstream_id, tally.upstream_model)
    tally.count(Usage(uncached=6, output=7))
    tally.count(Start("up", "model"))
    tally.count(Finish("length"))
    tally.count(Failed(broken("m")))
    assert (Usage(uncached=6, output=7), "length", None) == (tally.usage, tally.stop, tally.fault)


def test_two_tallies_share_nothing():
    """Each answer has its own map of blocks."""
    one, other = Tally(), Tally()
    one.count(BlockStart(1, "tool"))
    other.count(Delta(1, "text"))
    assert 4 == other.text_bytes
