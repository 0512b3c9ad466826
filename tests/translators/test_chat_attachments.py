"""Log probabilities and citations of an answer's text."""

import json

import pytest

from translators.chat.attachments import read_citations, read_logprobs
from translators.events import Citation, Logprob
from translators.notes import Notes


def test_log_probabilities_are_read():
    """Tokens with their alternatives."""
    entry = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -2}]}
    expected = (Logprob("a", -1.0, [97], [Logprob("b", -2.0)]),)
    assert expected == read_logprobs(json.dumps({"content": [entry], "refusal": None}).encode(), Notes())


@pytest.mark.parametrize(("raw", "notes"), [(b"null", 0), (b'{"content":null}', 0), (b'{"content":5}', 1)])
def test_missing_or_odd_log_probabilities_are_none(raw, notes):
    """Odd ones cost a note, nothing else."""
    kept = Notes()
    assert () == read_logprobs(raw, kept)
    assert notes == kept.count


def test_citations_are_shifted_to_their_block():
    """Offsets count from the block's beginning and are never negative."""
    wire = [
        {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 5, "end_index": 9}},
        {"type": "url_citation", "url_citation": {"url": "v", "start_index": 1}},
        {"type": "file_citation"},
    ]
    assert [Citation("u", "t", 2, 6), Citation("v", "", 0, None)] == read_citations(
        json.dumps(wire).encode(), 3, Notes()
    )


@pytest.mark.parametrize(("raw", "notes"), [(b"null", 0), (b"5", 1)])
def test_missing_or_odd_annotations_are_none(raw, notes):
    """As with log probabilities."""
    kept = Notes()
    assert [] == read_citations(raw, 0, kept)
    assert notes == kept.count
