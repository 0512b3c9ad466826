"""The vendor's own SDK reads what the Messages encoder writes."""

import json

import pytest
from anthropic.lib.streaming._beta_messages import accumulate_event

from translators.conversation import Receipt
from translators.dialect import Reply
from translators.events import BlockEnd, BlockStart, Carried, Delta, Finish, Mark, Start, Usage
from translators.fold import Fold
from translators.messages.answer import answer
from translators.messages.encoder import Encoder
from translators.sse import Splitter

pytestmark = pytest.mark.slow  # the vendor's SDK takes seconds to import
REPLY = Reply("m1", seed="5eed", origin="here")
EVENTS = (
    Start("resp_1", "up-m"),
    BlockStart(0, "reasoning"),
    Delta(0, "R"),
    Mark(0, Carried("rs", "enc", "rs_1")),
    BlockEnd(0),
    BlockStart(1, "text"),
    Delta(1, "T"),
    Delta(1, "ü"),
    BlockEnd(1),
    BlockStart(2, "tool", "call_a", "a"),
    Delta(2, '{"x":'),
    Delta(2, "1}"),
    BlockEnd(2),
    BlockStart(3, "tool", "call_b", "b"),
    BlockEnd(3),
    BlockStart(4, "receipt", "m", "find"),
    Mark(4, Receipt("m", "docs", "find", '{"q":1}', "found")),
    BlockEnd(4),
    Usage(uncached=5, cache_read=1, output=9, reasoning=3),
    Finish("tool"),
)


def accumulated(events):
    encoder, snapshot, buffers = Encoder(REPLY), None, {}
    for event in events:
        for frame in Splitter().feed(encoder.push(event) + encoder.keepalive()):
            if frame.event != b"ping":
                snapshot = accumulate_event(
                    event=json.loads(frame.data), current_snapshot=snapshot, json_bufs=buffers, request_headers={}
                )
    return snapshot.to_dict()


@pytest.mark.invariant("I18")
def test_the_sdk_ends_up_with_the_whole_answer():
    """What the SDK accumulates from the stream is what a client without a stream gets."""
    fold = Fold()
    for event in EVENTS:
        fold.push(event)
    whole = json.loads(answer(fold.answer, REPLY))
    seen = accumulated(EVENTS)
    assert whole["content"] == [
        {name: block[name] for name in said} for said, block in zip(whole["content"], seen["content"], strict=True)
    ]
    assert ("msg_1", "m1", "tool_use") == (seen["id"], seen["model"], seen["stop_reason"])
    assert whole["usage"] == {name: seen["usage"][name] for name in whole["usage"]}


def test_the_sdk_reads_an_empty_answer():
    """An answer without blocks is one, with a stop reason."""
    seen = accumulated((Start(), Finish("end")))
    assert ([], "end_turn") == (seen["content"], seen["stop_reason"])
