"""reasoning_details: gathered from an upstream, and as a carrier of state through a client."""

import pytest

from translators.carrier import seal
from translators.chat import details
from translators.chat.details import Gathered, entry_of, own_state, text_of_details
from translators.conversation import State
from translators.events import Carried


def test_pieces_are_put_together():
    """Texts append, signatures and ids replace, other types of one index stay apart."""
    gathered = Gathered()
    assert "a" == gathered.add(b'[{"type":"reasoning.text","index":0,"text":"a","format":null}]')
    assert "b" == gathered.add(
        b'[{"type":"reasoning.text","index":0,"text":"b","id":"i","format":"x","signature":null}]'
    )
    assert "" == gathered.add(b'[{"type":"reasoning.text","index":0,"signature":"s1","id":"i"}]')
    assert "" == gathered.add(
        b'[{"type":"reasoning.text","index":0,"signature":"s2"},{"type":"reasoning.encrypted","index":0,"data":"d"}]'
    )
    assert (
        Carried(
            "rd",
            '[{"type":"reasoning.text","index":0,"text":"ab","format":"x","id":"i","signature":"s2"},'
            '{"type":"reasoning.encrypted","index":0,"data":"d"}]',
        )
        == gathered.take()
    )
    assert gathered.take() is None


def test_readable_entries_alone_are_no_state():
    """Text needs no carrier."""
    gathered = Gathered()
    gathered.add(b'[{"type":"reasoning.text","text":"a"},{"type":"reasoning.text","text":"b"}]')
    assert gathered.take() is None


@pytest.mark.parametrize("raw", [b"null", b"[]", b"{}", b'"x"', b"["])
def test_other_shapes_are_nothing(raw):
    """What is no list of objects is ignored."""
    assert "" == Gathered().add(raw)


def test_a_changed_id_is_a_contradiction():
    """One index with two ids is an error of the source (G)."""
    gathered = Gathered()
    gathered.add(b'[{"type":"t","index":0,"id":"a"}]')
    assert gathered.add(b'[{"type":"t","index":0,"id":"b"}]') is None


def test_entries_are_bounded(monkeypatch):
    """More entries than the bound are refused."""
    monkeypatch.setattr(details, "MAX_ENTRIES", 1)
    assert Gathered().add(b'[{"type":"t"},{"type":"t"}]') is None


def test_the_text_of_entries_is_text_and_summary():
    """Other members are not shown."""
    assert "ab" == text_of_details([{"text": "a", "data": "x"}, {"summary": "b"}, {"text": 5}])


@pytest.mark.parametrize(
    ("carried", "expected"),
    [
        (
            Carried("rs", "enc", "rs_1"),
            {"type": "reasoning.encrypted", "format": "openai-responses-v1", "index": 2, "id": "rs_1"},
        ),
        (Carried("rt", "red"), {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "index": 2}),
        (Carried("rd", "[]"), {"type": "reasoning.encrypted", "format": "unknown", "index": 2}),
    ],
)
def test_data_travels_in_encrypted_entries(carried, expected):
    """The format names whose state it is."""
    assert {**expected, "data": seal(carried, "o")} == entry_of(carried, "o", 2)


def test_signatures_travel_with_their_text():
    """A later block's text is repeated, so that it can be told from the first one's."""
    carrier = seal(Carried("th", "sig"), "o")
    entry = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "signature": carrier}
    assert entry == entry_of(Carried("th", "sig"), "o", 0)
    assert {**entry, "index": 1, "text": "t"} == entry_of(Carried("th", "sig"), "o", 1, "t")


def test_too_large_state_is_not_carried():
    """The carrier's own bound decides."""
    assert entry_of(Carried("th", "x" * 300_000), "o", 0) is None


def test_own_state_is_told_from_that_of_others():
    """Only carriers are ours; redacted state says so."""
    for kind in ("rs", "th", "rt", "rd"):
        entry = entry_of(Carried(kind, "x"), "o", 0)
        value = entry.get("data") or entry["signature"]
        assert State(value, redacted=kind == "rt") == own_state(entry)
    assert own_state({"type": "reasoning.encrypted", "data": "native"}) is None
    assert own_state({"data": 5}) is None
