"""Text and refusal parts of message items."""

import json

import pytest

from translators.events import BlockEnd, BlockStart, Citation, Delta, Logprob, Mark
from translators.responses import wire
from translators.responses.repairs import Repairs
from translators.responses.speech import Speech
from translators.responses.tracks import Track, Tracks

HERE = {"output_index": 0, "content_index": 0, "item_id": "msg_0"}


class Stand:
    """A Speech with one announced message under index 0."""

    def __init__(self, kind="message", *, known=True):
        self.repairs = Repairs(strict=False)
        self.tracks = Tracks(self.repairs)
        self.speech = Speech(self.tracks)
        self.track = Track(kind, wire.Item(id="msg_0"))
        if known:
            self.tracks.put(self.track, 0)

    def __call__(self, name, **members):
        data = json.dumps({**HERE, **members}).encode()
        return list(getattr(self.speech, name)(wire.decode_moment(data), data))

    def noted(self):
        return [note.field for note in self.repairs.notes.kept]


def test_part_opens_a_block_and_its_end_closes_it():
    """A content part is one block."""
    stand = Stand()
    assert [BlockStart(1, "text", item_id="msg_0")] == stand("part_added", part={"type": "output_text", "text": ""})
    assert [Delta(1, "a")] == stand("text_delta", delta="a")
    assert [] == stand("text_delta", delta="")
    assert [] == stand("text_done", text="a")
    assert [BlockEnd(1)] == stand("part_done", part={"type": "output_text", "text": "a"})
    assert [] == stand("part_done", part={"type": "output_text", "text": "a"})
    assert [] == stand.noted()


def test_announced_text_counts():
    """Text in the announcement itself is text; announcing the part again is nothing."""
    stand = Stand()
    assert [BlockStart(1, "refusal", item_id="msg_0"), Delta(1, "No")] == stand(
        "part_added", part={"type": "refusal", "refusal": "No"}
    )
    assert [] == stand("part_added", part={"type": "refusal", "refusal": "No"})


@pytest.mark.parametrize("part", [{"type": "reasoning_text", "text": ""}, {}, None])
def test_parts_of_other_types_open_nothing(part):
    """Only text and refusals are speech."""
    assert [] == Stand()("part_added", part=part)


@pytest.mark.edge("E19")
def test_two_parts_are_two_blocks():
    """Every part survives (I15)."""
    stand = Stand()
    stand("part_added", part={"type": "output_text"})
    assert [BlockStart(2, "text", item_id="msg_0")] == stand(
        "part_added", part={"type": "output_text"}, content_index=1
    )
    assert [Delta(2, "b")] == stand("text_delta", delta="b", content_index=1)
    assert [Delta(1, "a")] == stand("text_delta", delta="a")


def test_missing_announcements_are_repairs():
    """Text for an unknown part, or an unknown item, begins them."""
    stand = Stand()
    assert [BlockStart(1, "refusal", item_id="msg_0"), Delta(1, "No")] == stand("refusal_delta", delta="No")
    assert ["response.content_part.added"] == stand.noted()
    stand = Stand(known=False)
    assert [BlockStart(1, "text", item_id="msg_0"), Delta(1, "a")] == stand("text_delta", delta="a")
    assert ["response.output_item.added", "response.content_part.added"] == stand.noted()


@pytest.mark.edge("E32")
@pytest.mark.parametrize(
    ("sent", "final", "more", "noted"),
    [
        ("", "abc", "abc", []),
        ("ab", "abc", "c", []),
        ("abc", "abc", None, []),
        ("abc", "ab", None, ["done"]),
        ("abc", "xyz", None, ["done"]),
        ("abc", "", None, []),
    ],
)
def test_final_text_only_adds_what_is_missing(sent, final, more, noted):
    """A final text never repeats: it adds its rest, or contradicts and adds nothing."""
    stand = Stand()
    stand("part_added", part={"type": "output_text", "text": sent})
    assert ([] if more is None else [Delta(1, more)]) == stand("text_done", text=final)
    assert noted == stand.noted()


def test_final_texts_after_the_end_add_nothing():
    """A part that is closed stays closed."""
    stand = Stand()
    stand("part_added", part={"type": "output_text", "text": "a"})
    stand("part_done", part={"type": "output_text", "text": "a"})
    assert [] == stand("text_done", text="ab")
    assert [] == stand("annotation", annotation={"type": "url_citation", "url": "https://x"})


def test_only_done_events_have_the_text():
    """A server without deltas is understood."""
    stand = Stand()
    assert [BlockStart(1, "refusal", item_id="msg_0"), Delta(1, "No.")] == stand("text_done", refusal="No.")
    stand = Stand()
    stand("part_added", part={"type": "output_text"})
    assert [Delta(1, "a"), BlockEnd(1)] == stand("part_done", part={"type": "output_text", "text": "a"})


NOTE = {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 1, "end_index": 2}
CITED = Mark(1, Citation("https://x", "X", 1, 2))


def test_citations_are_told_once():
    """A citation that came alone is not told again by the part's end; others are."""
    stand = Stand()
    stand("part_added", part={"type": "output_text", "text": "abc"})
    assert [CITED] == stand("annotation", annotation=NOTE)
    other = {"type": "url_citation", "url": "https://y"}
    assert [Mark(1, Citation("https://y")), BlockEnd(1)] == stand(
        "part_done", part={"type": "output_text", "text": "abc", "annotations": [NOTE, other]}
    )


@pytest.mark.parametrize("note", [{"type": "file_citation", "url": "u"}, {"type": "url_citation"}, {"url": 5}, "x"])
def test_other_annotations_are_left_out(note):
    """Annotations without a web address have no place in the neutral model."""
    stand = Stand()
    stand("part_added", part={"type": "output_text", "text": "abc"})
    assert [] == stand("annotation", annotation=note)
    assert ["annotations"] == stand.noted()


def test_annotation_of_an_unknown_part_is_nothing():
    """A citation needs its text."""
    assert [] == Stand(known=False)("annotation", annotation=NOTE)
    assert [] == Stand()("annotation", annotation=NOTE)


LOGPROB = {"token": "a", "logprob": -0.5, "top_logprobs": [{"token": "b", "logprob": -1.0}]}
PROBABLE = (Logprob("a", -0.5, None, [Logprob("b", -1.0)]),)


def test_log_probabilities_stay_with_their_text():
    """They come with the delta, or with the final text when that is all there is."""
    stand = Stand()
    stand("part_added", part={"type": "output_text"})
    assert [Delta(1, "a", PROBABLE)] == stand("text_delta", delta="a", logprobs=[LOGPROB])
    assert [Delta(1, "b")] == stand("text_done", text="ab", logprobs=[LOGPROB, LOGPROB])
    stand = Stand()
    assert Delta(1, "a", PROBABLE) == stand("text_delta", delta="a", logprobs=[LOGPROB])[-1]
    stand = Stand()
    assert Delta(1, "a", PROBABLE) == stand("text_done", text="a", logprobs=[LOGPROB])[-1]


@pytest.mark.parametrize("logprobs", [None, [], [{"token": 1}], ["x"]])
def test_odd_log_probabilities_are_left_out(logprobs):
    """Text counts more than numbers about it."""
    stand = Stand()
    stand("part_added", part={"type": "output_text"})
    assert [Delta(1, "a")] == stand("text_delta", delta="a", logprobs=logprobs)


def test_text_in_other_items_is_ignored():
    """Text inside a hosted item belongs to nobody."""
    stand = Stand("other")
    assert [] == stand("text_delta", delta="a")
    assert [] == stand("part_added", part={"type": "output_text"})
    assert ["text"] == stand.noted()


def test_done_item_tells_its_silent_parts():
    """Parts that had no events come from the done item, whatever form its content has."""
    stand = Stand()
    stand("part_added", part={"type": "output_text", "text": "a"})
    item = wire.decode_item(
        b'{"content":[{"type":"output_text","text":"ab"},{"type":"refusal","refusal":"No"},{"type":"output_text"}]}'
    )
    out = []
    stand.speech.complete(stand.track, item, out, complete=False)
    assert [
        Delta(1, "b"),
        BlockStart(2, "refusal", item_id="msg_0"),
        Delta(2, "No"),
        BlockEnd(1, complete=False),
        BlockEnd(2, complete=False),
    ] == out
    assert stand.tracks.refused
    stand, out = Stand(), []
    stand.speech.complete(stand.track, wire.Item(content="x"), out, complete=True)
    assert [BlockStart(1, "text", item_id="msg_0"), Delta(1, "x"), BlockEnd(1)] == out
    stand, out = Stand(), []
    stand.speech.complete(stand.track, wire.Item(), out, complete=True)
    assert [] == out
