"""Reasoning items: text once, opaque state from the end."""

import json

import pytest

from translators.events import BlockEnd, BlockStart, Carried, Delta, Mark
from translators.responses import wire
from translators.responses.repairs import Repairs
from translators.responses.thoughts import Thoughts
from translators.responses.tracks import Track, Tracks

OPEN = BlockStart(1, "reasoning", item_id="rs_0")


class Stand:
    def __init__(self, kind="reasoning", *, known=True):
        self.repairs = Repairs(strict=False)
        self.tracks = Tracks(self.repairs)
        self.thoughts = Thoughts(self.tracks)
        self.track = Track(kind, wire.Item(id="rs_0"))
        if known:
            self.tracks.put(self.track, 0)

    def __call__(self, name, **members):
        data = json.dumps({"output_index": 0, "item_id": "rs_0", **members}).encode()
        return list(getattr(self.thoughts, name)(wire.decode_moment(data), data))

    def complete(self, **item):
        out = []
        self.thoughts.complete(self.track, wire.decode_item(json.dumps(item).encode()), out)
        return out


@pytest.mark.edge("E15")
def test_parts_join_with_a_blank_line():
    """Several summary parts are one block with a blank line between, and none at its end."""
    stand = Stand()
    assert [OPEN, Delta(1, "a")] == stand("summary_delta", summary_index=0, delta="a")
    assert [] == stand("summary_done", summary_index=0, text="a")
    assert [Delta(1, "\n\nb")] == stand("summary_delta", summary_index=1, delta="b")
    assert [Delta(1, "c")] == stand("summary_delta", summary_index=1, delta="c")
    assert [] == stand("summary_delta", summary_index=2, delta="")
    assert [BlockEnd(1)] == stand.complete(summary=[])


def test_parts_without_deltas_come_from_their_done_events():
    """A server that sends only finished parts is understood."""
    stand = Stand()
    assert [OPEN, Delta(1, "a")] == stand("summary_done", summary_index=0, text="a")
    assert [Delta(1, "\n\nb")] == stand("summary_done", summary_index=1, text="b")


def test_only_the_kind_that_came_first_counts():
    """Summary and full text tell the same thoughts, and nothing is told twice."""
    stand = Stand()
    stand("text_delta", content_index=0, delta="full")
    assert [] == stand("summary_delta", summary_index=0, delta="short")
    assert [] == stand("summary_done", summary_index=1, text="short")
    assert [Delta(1, " text")] == stand("text_delta", content_index=0, delta=" text")
    assert [] == stand("text_done", content_index=0, text="full text")


def test_first_text_may_be_in_a_later_part():
    """Empty parts before the first text leave no blank line."""
    stand = Stand()
    assert [OPEN, Delta(1, "b")] == stand("summary_delta", summary_index=1, delta="b")


def test_old_spelling_without_indexes():
    """Deltas need no part index."""
    stand = Stand()
    assert [OPEN, Delta(1, "a")] == stand("text_delta", delta="a")
    assert [Delta(1, "b")] == stand("text_delta", delta="b")


@pytest.mark.edge("E14")
def test_state_alone_makes_a_block():
    """An item with encrypted content but no text is carried all the same."""
    assert [OPEN, Mark(1, Carried("rs", "enc", "rs_0")), BlockEnd(1)] == Stand().complete(encrypted_content="enc")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"summary": [{"text": "a"}, {"text": "b"}], "content": [{"text": "full"}]}, "a\n\nb"),
        ({"summary": [], "content": [{"text": "full"}]}, "full"),
        ({"summary": None, "content": [{"text": "full"}]}, "full"),
    ],
)
def test_text_of_a_silent_item(item, text):
    """The done item's summary counts, else its content."""
    assert [OPEN, Delta(1, text), BlockEnd(1)] == Stand().complete(**item)


def test_empty_item_is_no_block():
    """An item without text and state leaves nothing."""
    assert [] == Stand().complete(summary=[], content="odd")


def test_streamed_text_is_not_repeated():
    """The done item adds only its state."""
    stand = Stand()
    stand("summary_delta", summary_index=0, delta="a")
    assert [Mark(1, Carried("rs", "enc", "rs_9")), BlockEnd(1)] == stand.complete(
        id="rs_9", summary=[{"text": "a"}], encrypted_content="enc"
    )
    assert [] == stand("summary_done", summary_index=1, text="late")


def test_unknown_and_other_items():
    """Reasoning without an announcement begins its item; in an item of another kind it is ignored."""
    stand = Stand(known=False)
    assert [OPEN, Delta(1, "a")] == stand("summary_delta", summary_index=0, delta="a")
    assert ["response.output_item.added"] == [note.field for note in stand.repairs.notes.kept]
    assert [] == Stand("other")("summary_delta", summary_index=0, delta="a")
