"""Whole answers: the body is what the stream ends with (I18)."""

import json

import pytest

from translators.conversation import Receipt
from translators.dialect import Reply, Source
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
from translators.fold import Fold
from translators.responses.answer import answer, read_answer
from translators.responses.encoder import Encoder

REPLY = Reply("alias", 7, "0" * 24, "here")
EVENTS = [
    Start("msg_1", "up", 5),
    BlockStart(1, "reasoning"),
    Delta(1, "R"),
    Mark(1, Carried("th", "sig")),
    BlockEnd(1),
    BlockStart(2, "text"),
    Delta(2, "a", (Logprob("a", -1.0, [97]),)),
    Delta(2, "b"),
    Mark(2, Citation("https://x")),
    BlockEnd(2),
    BlockStart(3, "refusal"),
    Delta(3, "no"),
    BlockEnd(3),
    BlockStart(4, "receipt"),
    Mark(4, Receipt("mcp_1", "s", "n", "{}")),
    BlockEnd(4),
    BlockStart(5, "tool", "c", "f", "ns"),
    Delta(5, '{"a":'),
    BlockEnd(5, complete=False),
    Usage(1, 2, 3, 4, 0),
]


@pytest.mark.invariant("I18")
@pytest.mark.parametrize("stop", ["end", "tool", "length", "refusal"])
def test_body_equals_the_final_response_of_the_stream(stop):
    """Folding a stream and ending it give the very same object."""
    encoder, fold = Encoder(REPLY), Fold()
    for event in (*EVENTS, Finish(stop)):
        encoder.push(event)
        fold.push(event)
    assert encoder.final == answer(fold.answer, REPLY)
    body = json.loads(encoder.final)
    assert "incomplete" == body["output"][-1]["status"]


def test_answer_is_read_back():
    """Our own body reads as the events that made it."""
    fold = Fold()
    for event in (*EVENTS[:1], *EVENTS[5:10], EVENTS[-1], Finish("end")):
        fold.push(event)
    events = read_answer(answer(fold.answer, REPLY), Source())
    assert Start("resp_1", "alias", 5, EVENTS[-1]) == events[0]
    assert [Delta(1, "ab", (Logprob("a", -1.0, [97]),)), Mark(1, Citation("https://x", "", 0, 2))] == events[2:4]
    assert [EVENTS[-1], Finish("end")] == events[-2:]


def test_unreadable_body_is_a_failure():
    """A body that is no response ends in Failed, never in an exception."""
    (failed,) = read_answer(b"<html>", Source())
    assert isinstance(failed, Failed)


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("body", [b"{}", b'{"id":"resp_1"}', b'{"id":"resp_1","object":"response","output":[]}'])
def test_without_status_and_output_there_is_no_answer(body):
    """Nothing says that it is complete, and nothing is there that could be; output alone is enough."""
    (failed,) = read_answer(body, Source())
    assert ("api", "protocol") == (failed.fault.kind, failed.fault.cause)
    assert "no response object" in failed.fault.message
    said = b'{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]}'
    assert "end" == read_answer(said, Source())[-1].stop
