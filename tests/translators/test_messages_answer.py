"""Whole Messages answers, both ways."""

import json

import pytest

from translators.carrier import seal
from translators.conversation import Receipt
from translators.dialect import Reply, Source
from translators.events import (
    BlockEnd,
    BlockStart,
    Carried,
    Delta,
    Failed,
    Finish,
    Mark,
    Start,
    Usage,
)
from translators.fault import Refused
from translators.fold import Answer, Block, Fold
from translators.messages.answer import answer, read_answer
from translators.messages.decoder import Decoder
from translators.messages.encoder import Encoder
from translators.notes import Notes
from translators.sequencer import Sequencer
from translators.sse import Splitter

REPLY = Reply("m1", seed="5eed", origin="here")
BODY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "up-m",
    "content": [
        {"type": "thinking", "thinking": "R", "signature": "sig"},
        {"type": "text", "text": "T", "citations": None},
        {"type": "tool_use", "id": "call_a", "name": "a", "input": {"x": 1}},
        {"type": "tool_use", "id": "call_b", "name": "b", "input": {}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 20},
}
EVENTS = [
    Start("msg_1", "up-m", usage=Usage(uncached=9, output=20)),
    BlockStart(0, "reasoning"),
    Delta(0, "R"),
    Mark(0, Carried("th", "sig")),
    BlockEnd(0),
    BlockStart(1, "text"),
    Delta(1, "T"),
    BlockEnd(1),
    BlockStart(2, "tool", "call_a", "a"),
    Delta(2, '{"x":1}'),
    BlockEnd(2),
    BlockStart(3, "tool", "call_b", "b"),
    Delta(3, "{}"),
    BlockEnd(3),
    Usage(uncached=9, output=20),
    Finish("tool"),
]


def read(body, **source):
    return read_answer(json.dumps(body).encode(), Source(**source))


def said(*blocks, stop="end", **members):
    return json.loads(answer(Answer(Start("resp_1"), list(blocks), stop=stop, **members), REPLY))


def test_a_whole_answer_becomes_events():
    """The body goes through the stream's own decoder."""
    assert EVENTS == read(BODY)


def test_a_missing_stop_reason_is_the_end_of_a_whole_body():
    """The body is complete, so that nothing was cut (1.8)."""
    assert Finish("end") == read({**BODY, "content": [], "stop_reason": None})[-1]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "overloaded"),
        ({"error": {"type": "rate_limit_error", "message": "m"}}, "rate_limited"),
        ({"type": "error"}, "api"),
        ({"type": "message"}, "api"),
        ({"content": "text"}, "api"),
        ([], "api"),
    ],
)
def test_a_body_that_is_no_answer_fails(body, kind):
    """Errors in a 200 reply, and bodies of another shape, are one Failed event."""
    (failed,) = read(body)
    assert isinstance(failed, Failed)
    assert kind == failed.fault.kind


def test_an_error_in_a_good_reply_is_kept_for_the_provider():
    """The document is there to be judged, as a 429 inside a 200 has to be."""
    (failed,) = read({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}})
    assert b"rate_limit_error" in failed.raw


def test_a_body_that_violates_the_protocol_fails():
    """A call id that is used twice, and nesting beyond the bound, are errors."""
    twice = {**BODY, "content": [BODY["content"][2], BODY["content"][2]]}
    assert "twice" in read(twice)[0].fault.message
    deep = current = {}
    for _ in range(200):
        current["a"] = current = {}
    assert (
        "limit"
        == read({**BODY, "content": [{"type": "tool_use", "id": "c", "name": "f", "input": deep}]})[0].fault.cause
    )


def test_strict_repairs_nothing_in_a_body():
    """A call without a name is refused in strict mode."""
    body = {**BODY, "content": [{"type": "tool_use", "id": "c", "input": {}}]}
    assert isinstance(read(body)[-1], Finish)
    assert isinstance(read(body, strict=True)[-1], Failed)


def test_a_folded_answer_is_a_message():
    """Every block has its native form, all members that SDKs want are there."""
    state = Carried("rs", "enc", "rs_1")
    receipt = Receipt("m", "docs", "find", '{"q":1}', "found")
    body = said(
        Block(BlockStart(0, "reasoning"), "R", carried=state),
        Block(BlockStart(1, "text"), "T"),
        Block(BlockStart(2, "refusal"), "No."),
        Block(BlockStart(3, "receipt", "m", "find"), receipt=receipt),
        Block(BlockStart(4, "receipt", "m", "find")),
        Block(BlockStart(5, "tool", "a.b", "f"), '{"b":1,"a":2}'),
        Block(BlockStart(6, "tool", "", "g"), ""),
        Block(BlockStart(7, "tool", "c", "patch", form="custom"), "raw"),
        stop="tool",
        usage=Usage(uncached=3, output=4),
    )
    content = body.pop("content")
    assert {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m1",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    } == body
    assert {"type": "thinking", "thinking": "R", "signature": seal(state, "here")} == content[0]
    assert [{"type": "text", "text": "T"}, {"type": "text", "text": "No."}] == content[1:3]
    assert ["mcp_tool_use", "mcp_tool_result"] == [block["type"] for block in content[3:5]]
    assert [{"b": 1, "a": 2}, {}, {"input": "raw"}] == [block["input"] for block in content[5:]]
    assert "toolu_5eed_1" == content[6]["id"]
    assert content[5]["id"].startswith("a_b_")


def test_reasoning_without_state_has_an_empty_signature():
    """A signature is never invented (1.6)."""
    assert [{"type": "thinking", "thinking": "R", "signature": ""}] == said(Block(BlockStart(0, "reasoning"), "R"))[
        "content"
    ]


def test_counts_of_the_start_stand_in_for_final_ones():
    """Where the end told nothing, the start's counts are the best known."""
    body = json.loads(answer(Answer(Start("x", usage=Usage(uncached=8))), REPLY))
    assert {"input_tokens": 8, "output_tokens": 0} == body["usage"]


@pytest.mark.edge("E11")
@pytest.mark.parametrize("stop", ["length", "context"])
def test_a_call_that_was_cut_off_is_left_out(stop):
    """Truncated arguments of a cut answer are not offered for running (1.13)."""
    assert [] == said(Block(BlockStart(0, "tool", "c", "f"), '{"a":'), stop=stop)["content"]


@pytest.mark.edge("E12")
@pytest.mark.parametrize("arguments", ['{"a":', "[1]", "x"])
def test_broken_arguments_refuse_the_answer(arguments):
    """A call that cannot be told truthfully fails the whole answer (502)."""
    with pytest.raises(Refused) as caught:
        said(Block(BlockStart(0, "tool", "c", "f"), arguments), stop="tool")
    assert ("invalid_tool_arguments", 502) == (caught.value.fault.code, caught.value.fault.status)


@pytest.mark.invariant("I18")
def test_stream_and_body_tell_the_same():
    """The stream of an answer, read again and folded, gives the answer's own body."""
    encoder, sequencer, fold = Encoder(REPLY), Sequencer(Notes()), Fold()
    raw = b"".join(encoder.push(ordered) for event in EVENTS for ordered in sequencer.push(event))
    direct, again, sequencer = Fold(), Sequencer(Notes()), Sequencer(Notes())
    for event in EVENTS:
        for ordered in sequencer.push(event):
            direct.push(ordered)
    decoder = Decoder(Source())
    for frame in Splitter().feed(raw):
        for event in decoder.push(frame):
            for ordered in again.push(event):
                fold.push(ordered)
    whole, streamed = (json.loads(answer(each.answer, REPLY)) for each in (direct, fold))
    signatures = [body["content"][0].pop("signature") for body in (whole, streamed)]
    assert whole == streamed
    assert all(signature.startswith("gw1.th.here.") for signature in signatures)
