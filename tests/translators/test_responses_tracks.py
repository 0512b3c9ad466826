"""What the decoder remembers of items: kinds, strands, association."""

import pytest

from translators.events import BlockEnd, BlockStart, Delta
from translators.responses import wire
from translators.responses.repairs import Repairs
from translators.responses.tracks import Strand, Track, Tracks, kind_of


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (wire.Item(type="message"), "message"),
        (wire.Item(type="function_call"), "function"),
        (wire.Item(type="custom_tool_call", call_id="call_1", name="x_files"), "custom"),
        (wire.Item(type="custom_tool_call", call_id="xs_call_1", name="x_user_search"), "other"),
        (wire.Item(type="reasoning"), "reasoning"),
        (wire.Item(type="mcp_call"), "receipt"),
        (wire.Item(type="web_search_call"), "other"),
        (wire.Item(), "other"),
    ],
)
def test_kinds(item, kind):
    """Items have a kind; hosted ones, xAI's disguised searches included, are none of ours."""
    assert kind == kind_of(item)


def test_strand_keeps_early_text_until_it_starts():
    """What comes before the block is known follows its start, and a strand ends once."""
    strand, out = Strand(4, "tool"), []
    strand.add("a", out)
    strand.end(out)
    assert [] == out
    start = BlockStart(4, "tool", "c", "f")
    strand.start(start, out)
    strand.add("", out)
    strand.add("b", out)
    strand.end(out, complete=False)
    strand.end(out)
    assert [start, Delta(4, "a"), Delta(4, "b"), BlockEnd(4, complete=False)] == out


def tracks(*entries):
    box = Tracks(Repairs(strict=False))
    return box, [box.put(Track(kind, wire.Item(id=id_, call_id=call)), index) for kind, id_, call, index in entries]


def test_association_is_by_index_then_item_id_then_call_id():
    """The first of the three that is known decides."""
    box, (one, two) = tracks(("message", "a", None, 0), ("function", "b", "call_b", None))
    assert one is box.find(0, "b", "call_b")
    assert two is box.find(9, "b")
    assert two is box.find(None, "zzz", "call_b")
    assert box.find(9, "zzz", "call_z") is None
    assert box.find(None) is None


@pytest.mark.parametrize(
    ("item", "index", "expected"),
    [
        (wire.Item(type="function_call", id="fc_2"), 0, 2),
        (wire.Item(type="function_call", id="new", call_id="call_1"), 5, 1),
        (wire.Item(type="function_call", id="new", call_id="call_9"), 1, None),
        (wire.Item(type="message", id="new"), 3, 3),
        (wire.Item(type="message", id="new"), 9, 0),
        (wire.Item(type="reasoning"), 0, None),
    ],
)
def test_final_items_are_matched(item, index, expected):
    """By id, by call id, by place, else the first of the kind; a call id that is new is a new call."""
    box, known = tracks(
        ("message", "m_0", None, 0),
        ("function", "fc_1", "call_1", 1),
        ("function", "fc_2", "call_2", 2),
        ("message", "m_3", None, 3),
    )
    assert (None if expected is None else known[expected]) is box.match(item, index, set())


def test_matched_items_are_taken_once():
    """Two entries of the final output never stand for the same item."""
    box, (one,) = tracks(("message", "m_0", None, 0))
    assert box.match(wire.Item(type="message"), 0, {id(one)}) is None
