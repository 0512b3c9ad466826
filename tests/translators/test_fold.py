"""Folding a stream into one answer: the same blocks, marks and end as the events told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Receipt
from translators.events import (
    BlockEnd,
    BlockStart,
    Carried,
    Citation,
    Delta,
    Failed,
    Finish,
    Logprob,
    Mark,
    Start,
    Usage,
)
from translators.fault import broken
from translators.fold import Answer, Block, Fold


def folded(*events):
    fold = Fold()
    for event in events:
        fold.push(event)
    return fold


@pytest.mark.invariant("I18")
def test_everything_of_a_stream_is_in_the_answer():
    """Blocks in order with their text, log probabilities, state, citations and receipts; counts and stop."""
    start, usage = Start("i", "m", 7), Usage(output=3)
    reasoning, text, receipt = BlockStart(1, "reasoning"), BlockStart(2, "text"), BlockStart(3, "receipt")
    carried, citation = Carried("th", "s"), Citation("https://e.example")
    ran = Receipt("r", "s", "n", "{}", "out")
    one, two = Logprob("a", -0.1), Logprob("b", -0.2)
    fold = folded(
        start,
        reasoning, Delta(1, "R"), Mark(1, Carried("th", "old")), Mark(1, carried), BlockEnd(1),
        text, Delta(2, "a", (one,)), Delta(2, "b", (two,)), Mark(2, citation), BlockEnd(2, complete=False),
        receipt, Mark(3, ran), BlockEnd(3),
        usage, Finish("stop_sequence", "END"),
    )  # fmt: skip
    blocks = [
        Block(reasoning, "R", carried=carried),
        Block(text, "ab", [one, two], citations=[citation], complete=False),
        Block(receipt, receipt=ran),
    ]
    assert Answer(start, blocks, usage, "stop_sequence", "END") == fold.answer
    assert (True, None) == (fold.done, fold.failed)


def test_a_failure_is_no_answer():
    """A failed stream never counts as done."""
    failed = Failed(broken("m"))
    fold = folded(BlockStart(1, "text"), Delta(1, "half"), failed)
    assert (False, failed) == (fold.done, fold.failed)


@pytest.mark.invariant("I9")
@given(st.lists(st.lists(st.text(min_size=1))))
def test_texts_are_joined_exactly(blocks):
    """The text of each block is its deltas and nothing else."""
    events = []
    for key, pieces in enumerate(blocks):
        events += [BlockStart(key, "text"), *(Delta(key, piece) for piece in pieces), BlockEnd(key)]
    assert ["".join(pieces) for pieces in blocks] == [block.text for block in folded(*events).answer.blocks]


def test_two_answers_share_nothing():
    """A block of one answer does not appear in the next."""
    folded(BlockStart(1, "text"), BlockEnd(1))
    assert [] == Fold().answer.blocks


def test_an_unknown_event_changes_nothing():
    """A kind of event that a later decoder may bring is left alone."""
    fold = folded(object())
    assert (Answer(), False, None) == (fold.answer, fold.done, fold.failed)
