"""The Messages decoder: one stream of frames to neutral events."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Receipt
from translators.dialect import Source
from translators.events import (
    BlockEnd,
    BlockStart,
    Carried,
    Citation,
    Delta,
    Failed,
    Finish,
    Mark,
    Start,
    Usage,
)
from translators.messages.decoder import MAX_KINDS, STOPS, Decoder
from translators.sequencer import Budget
from translators.sse import Frame, Splitter, event_frame


def frame(kind, **members):
    return event_frame(kind, json.dumps({"type": kind, **members}).encode())


def begun(**message):
    return frame("message_start", message={"id": "msg_1", "model": "up-m", "type": "message", **message})


def opened(index, kind, **members):
    return frame("content_block_start", index=index, content_block={"type": kind, **members})


def delta(index, kind, **members):
    return frame("content_block_delta", index=index, delta={"type": kind, **members})


def closed(index):
    return frame("content_block_stop", index=index)


def told(stop="end_turn", sequence=None, **usage):
    return frame("message_delta", delta={"stop_reason": stop, "stop_sequence": sequence}, usage=usage)


STOPPED = frame("message_stop")
START = Start("msg_1", "up-m")


def read(*pieces, strict=False, finish=True):
    """The events of a stream, and the decoder that read it."""
    decoder = Decoder(Source(strict=strict))
    events = feed(decoder, b"".join(pieces))
    if finish:
        events += decoder.finish()
    return events, decoder


def feed(decoder, raw, splitter=None):
    return [event for each in (splitter or Splitter()).feed(raw) for event in decoder.push(each)]


def failure(*pieces, strict=False):
    events, _ = read(*pieces, strict=strict)
    assert isinstance(events[-1], Failed)
    assert 1 == sum(isinstance(event, Failed | Finish) for event in events)
    return events[-1].fault


WHOLE = b"".join(
    (
        begun(usage={"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1}),
        frame("ping"),
        opened(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="R€"),
        delta(0, "signature_delta", signature="old"),
        delta(0, "signature_delta", signature="sig"),
        closed(0),
        opened(1, "text", text=""),
        delta(1, "text_delta", text="T"),
        closed(1),
        opened(2, "tool_use", id="call_a", name="a", input={}),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"x":'),
        delta(2, "input_json_delta", partial_json="1}"),
        closed(2),
        opened(3, "tool_use", id="call_b", name="b", input={}),
        closed(3),
        told("tool_use", output_tokens=20, output_tokens_details={"thinking_tokens": 5}),
        STOPPED,
    )
)
EVENTS = [
    Start("msg_1", "up-m", usage=Usage(uncached=9, cache_read=3, output=1)),
    BlockStart(0, "reasoning"),
    Delta(0, "R€"),
    Mark(0, Carried("th", "sig")),
    BlockEnd(0),
    BlockStart(1, "text"),
    Delta(1, "T"),
    BlockEnd(1),
    BlockStart(2, "tool", "call_a", "a"),
    Delta(2, '{"x":'),
    Delta(2, "1}"),
    BlockEnd(2),
    BlockStart(3, "tool", "call_b", "b"),
    Delta(3, "{}"),
    BlockEnd(3),
    Usage(uncached=9, cache_read=3, output=20, reasoning=5),
    Finish("tool"),
]


@pytest.mark.edge("E10")
def test_the_canonical_answer_becomes_its_events():
    """Reasoning, text and two calls come out in order; the last signature counts, no arguments are {}."""
    events, decoder = read(WHOLE)
    assert EVENTS == events
    assert 0 == decoder.notes.count


def test_the_bytes_may_come_one_by_one():
    """Where the stream is cut changes nothing."""
    decoder, splitter = Decoder(Source()), Splitter()
    assert EVENTS == [event for byte in WHOLE for event in feed(decoder, bytes([byte]), splitter)]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20))
def test_the_bytes_may_be_cut_anywhere(cuts):
    """Where the stream is cut changes nothing, wherever that is."""
    decoder, splitter, events, places = Decoder(Source()), Splitter(), [], sorted({0, *cuts, len(WHOLE)})
    for start, end in pairwise(places):
        events += feed(decoder, WHOLE[start:end], splitter)
    assert EVENTS == events


@pytest.mark.edge("E23")
@pytest.mark.invariant("I2")
@given(st.integers(0, WHOLE.index(b"event: message_delta")))
def test_a_stream_cut_before_its_stop_reason_fails(cut):
    """A clean end without a stop reason is never a success."""
    events, _ = read(WHOLE[:cut])
    assert isinstance(events[-1], Failed)
    assert "eof" == events[-1].fault.cause
    assert [] == [event for event in events if isinstance(event, Finish)]


@pytest.mark.edge("E24")
def test_a_stop_reason_without_message_stop_is_enough():
    """The answer is complete once its stop reason is known; strict mode wants the last event too."""
    pieces = (begun(), told("end_turn", output_tokens=1))
    events, decoder = read(*pieces)
    assert [START, Usage(output=1), Finish("end")] == events
    assert "message_stop" == decoder.notes.kept[0].field
    assert "protocol" == failure(*pieces, strict=True).cause


@pytest.mark.edge("E1")
def test_an_answer_may_be_empty():
    """A finish without content is a finish."""
    events, _ = read(begun(), told(), STOPPED)
    assert [START, Usage(), Finish("end")] == events


@pytest.mark.parametrize(("reason", "stop"), STOPS.items())
def test_every_stop_reason_has_its_meaning(reason, stop):
    """Stop reasons become neutral ones (1.8)."""
    events, _ = read(begun(), told(reason), STOPPED)
    assert Finish(stop) == events[-1]


def test_a_stop_sequence_is_told_with_its_text():
    """The sequence that fired travels along."""
    events, _ = read(begun(), told("stop_sequence", "END"), STOPPED)
    assert Finish("stop_sequence", "END") == events[-1]


def test_an_unknown_stop_reason_ends_the_turn():
    """A stop reason of the future counts as the end, with a note."""
    events, decoder = read(begun(), told("moonrise"), STOPPED)
    assert Finish("end") == events[-1]
    assert ["stop_reason", "usage"] == [note.field for note in decoder.notes.kept]


def test_a_later_message_delta_completes_an_earlier_one():
    """Counts accumulate over several message_delta events, and a null stop reason erases nothing."""
    events, _ = read(begun(), told("refusal", output_tokens=1), told(None, output_tokens=7), STOPPED)
    assert [START, Usage(output=7), Finish("refusal")] == events


@pytest.mark.edge("E9")
def test_empty_deltas_are_nothing():
    """Empty text, thinking and fragments make no events."""
    events, _ = read(
        begun(),
        opened(0, "text", text=""),
        delta(0, "text_delta", text=""),
        closed(0),
        opened(1, "thinking", thinking=""),
        delta(1, "thinking_delta", thinking=""),
        delta(1, "signature_delta", signature=""),
        closed(1),
        told(),
        STOPPED,
    )
    assert [] == [event for event in events if isinstance(event, Delta | Mark)]


def test_content_in_a_block_start_counts():
    """Text, thinking, signature and citations that come with the start are not lost."""
    cited = {"type": "web_search_result_location", "url": "https://a.example", "title": None}
    events, _ = read(
        begun(),
        opened(0, "thinking", thinking="R", signature="sig"),
        closed(0),
        opened(1, "text", text="T", citations=[cited, {"type": "char_location"}]),
        closed(1),
        told(),
        STOPPED,
    )
    assert [
        BlockStart(0, "reasoning"),
        Delta(0, "R"),
        Mark(0, Carried("th", "sig")),
        BlockEnd(0),
        BlockStart(1, "text"),
        Delta(1, "T"),
        Mark(1, Citation("https://a.example")),
        BlockEnd(1),
    ] == events[1:-2]


def test_arguments_in_a_block_start_count_once():
    """A whole input comes out as one delta; fragments after it would be ambiguous."""
    pieces = (begun(), opened(0, "tool_use", id="c", name="f", input={"a": 1}))
    events, _ = read(*pieces, closed(0), told("tool_use"), STOPPED)
    assert [Delta(0, '{"a":1}')] == [event for event in events if isinstance(event, Delta)]
    assert "twice" in failure(*pieces, delta(0, "input_json_delta", partial_json="{}")).message


def test_redacted_thinking_is_state_alone():
    """Redacted thinking has no text, its data travels as state."""
    events, _ = read(begun(), opened(0, "redacted_thinking", data="D"), closed(0), told(), STOPPED)
    assert [BlockStart(0, "reasoning"), Mark(0, Carried("rt", "D")), BlockEnd(0)] == events[1:-2]
    events, _ = read(begun(), opened(0, "redacted_thinking"), closed(0), told(), STOPPED)
    assert [BlockStart(0, "reasoning"), BlockEnd(0)] == events[1:-2]


@pytest.mark.edge("E40")
def test_citations_mark_their_block():
    """A cited web page marks the text, another kind of citation does not, and the text is intact."""
    cited = {"type": "web_search_result_location", "url": "https://a.example", "title": "A"}
    events, _ = read(
        begun(),
        opened(0, "text", text=""),
        delta(0, "text_delta", text="T"),
        delta(0, "citations_delta", citation=cited),
        delta(0, "citations_delta", citation={"type": "page_location"}),
        delta(0, "citations_delta"),
        closed(0),
        told(),
        STOPPED,
    )
    assert [Delta(0, "T"), Mark(0, Citation("https://a.example", "A"))] == events[2:4]
    assert BlockEnd(0) == events[4]


RAN = (
    opened(0, "mcp_tool_use", id="m", name="find", server_name="docs", input={}),
    delta(0, "input_json_delta", partial_json=""),
    delta(0, "input_json_delta", partial_json='{"q":'),
    delta(0, "input_json_delta", partial_json="1}"),
    closed(0),
)


@pytest.mark.parametrize(
    ("result", "output", "error"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "is_error": False}, "a\nb", None),
        ({"content": "plain"}, "plain", None),
        ({"content": [{"type": "text", "text": "no"}], "is_error": True}, None, "no"),
        ({}, "", None),
    ],
)
def test_an_mcp_call_and_its_result_are_one_receipt(result, output, error):
    """The receipt comes out whole when the outcome is known."""
    events, _ = read(begun(), *RAN, opened(1, "mcp_tool_result", tool_use_id="m", **result), closed(1), told(), STOPPED)
    receipt = Receipt("m", "docs", "find", '{"q":1}', output, error)
    assert [BlockStart(0, "receipt", "m", "find"), Mark(0, receipt), BlockEnd(0)] == events[1:-2]


def test_an_mcp_call_without_result_is_told_at_the_end():
    """A receipt whose outcome never came has none."""
    events, _ = read(begun(), *RAN, told("pause_turn"), STOPPED)
    assert Mark(0, Receipt("m", "docs", "find", '{"q":1}')) == events[2]


def test_an_mcp_call_may_come_whole():
    """A whole input in the start of an MCP call counts, and fragments after it are ambiguous."""
    start = opened(0, "mcp_tool_use", id="m", name="find", server_name="docs", input={"q": 1})
    events, _ = read(begun(), start, closed(0), told(), STOPPED)
    assert Mark(0, Receipt("m", "docs", "find", '{"q":1}')) == events[2]
    assert "twice" in failure(begun(), start, delta(0, "input_json_delta", partial_json="{}")).message


def test_the_arguments_of_mcp_calls_are_bounded():
    """What has to be held back until the result is known has a limit."""
    piece = "x" * (Budget().argument_bytes // 2)
    decoder = Decoder(Source())
    feed(decoder, begun() + RAN[0])
    events = [event for _ in range(3) for event in feed(decoder, delta(0, "input_json_delta", partial_json=piece))]
    assert ["limit"] == [event.fault.cause for event in events]


def test_an_mcp_result_without_call_is_ignored():
    """A result that answers nothing is noted once and lost."""
    events, decoder = read(begun(), opened(0, "mcp_tool_result", tool_use_id="x"), closed(0), told(), STOPPED)
    assert [START, Usage(), Finish("end")] == events
    assert ["block", "usage"] == [note.field for note in decoder.notes.kept]


@pytest.mark.edge("E20")
@pytest.mark.edge("E21")
@pytest.mark.invariant("I28")
def test_what_is_unknown_is_ignored_with_one_note():
    """Events, blocks and deltas of unknown type say nothing, however often they come."""
    server = (
        opened(0, "server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json="{"),
        closed(0),
    )
    second = (opened(1, "server_tool_use", id="s2", name="web_search", input={}), closed(1))
    text = (opened(2, "text", text=""), delta(2, "sparkle_delta"), delta(2, "text_delta", text="T"), closed(2))
    events, decoder = read(begun(), frame("aurora"), frame("aurora"), *server, *second, *text, told(), STOPPED)
    assert [START, BlockStart(2, "text"), Delta(2, "T"), BlockEnd(2), Usage(), Finish("end")] == events
    assert ["event", "block", "delta", "usage"] == [note.field for note in decoder.notes.kept]


def test_notes_of_unknown_types_are_bounded():
    """An upstream that invents types without end does not fill the memory."""
    _, decoder = read(begun(), *(frame(f"kind{n}") for n in range(2 * MAX_KINDS)), finish=False)
    assert MAX_KINDS == decoder.notes.count


@pytest.mark.parametrize(
    ("pieces", "word"),
    [
        ((begun(), begun()), "twice"),
        ((opened(0, "text"),), "outside"),
        ((told(),), "never began"),
        ((begun(), opened(0, "text"), closed(0), opened(0, "text")), "index twice"),
        ((begun(), opened(0, "text"), opened(0, "text")), "index twice"),
        ((begun(), frame("content_block_start", content_block={"type": "text"})), "index twice"),
        ((begun(), delta(0, "text_delta", text="T")), "not open"),
        ((begun(), opened(0, "text"), closed(0), delta(0, "text_delta", text="T")), "not open"),
        ((begun(), closed(0)), "not open"),
        ((begun(), opened(0, "text"), delta(0, "thinking_delta", thinking="R")), "another kind"),
        ((begun(), opened(0, "text"), delta(0, "input_json_delta", partial_json="{")), "another kind"),
        ((begun(), opened(0, "tool_use", id="c", name="f"), delta(0, "text_delta", text="T")), "another kind"),
        ((begun(), opened(0, "thinking"), delta(0, "text_delta", text="T")), "another kind"),
        ((begun(), told(), opened(0, "text")), "outside"),
        ((begun(), STOPPED), "without a stop reason"),
        (
            (begun(), opened(0, "tool_use", id="c", name="f"), closed(0), opened(1, "tool_use", id="c", name="f")),
            "call id twice",
        ),
    ],
)
@pytest.mark.invariant("I1")
@pytest.mark.invariant("I6")
def test_a_violated_protocol_fails_the_stream(pieces, word):
    """What the protocol forbids is an error, not a guess."""
    fault = failure(*pieces)
    assert word in fault.message
    assert ("api", 502, "protocol") == (fault.kind, fault.status, fault.cause)


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b'{"type":"content_block_start","index":0,"content_block":5}', b'{"type":7}', b"\xff", b"[" * 4000],
)
@pytest.mark.edge("E29")
def test_an_unreadable_event_fails_the_stream(data):
    """Malformed or wrongly typed events are not skipped, since that could lose content."""
    decoder = Decoder(Source())
    decoder.push(Frame(b'{"type":"message_start","message":{}}'))
    (failed,) = decoder.push(Frame(data))
    assert isinstance(failed, Failed)
    assert "protocol" == failed.fault.cause


def test_unreadable_arguments_fail_the_stream():
    """Input in a start that is no JSON that can be laid out is a violation."""
    decoder = Decoder(Source())
    decoder.push(Frame(b'{"type":"message_start","message":{}}'))
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    block = b'{"type":"tool_use","id":"c","name":"f","input":%b}' % deep
    (failed,) = decoder.push(Frame(b'{"type":"content_block_start","index":0,"content_block":%b}' % block))
    assert isinstance(failed, Failed)


@pytest.mark.edge("E25")
@pytest.mark.parametrize(
    "event",
    [
        event_frame("error", b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'),
        event_frame("error", b'{"error":{"type":"overloaded_error","message":"Overloaded"}}'),
        b'data: {"error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    ],
)
def test_an_error_event_ends_the_stream(event):
    """The upstream's error keeps its kind, and its document is there for the provider to judge."""
    events, _ = read(begun(), opened(0, "text"), delta(0, "text_delta", text="T"), event)
    failed = events[-1]
    assert ("overloaded", "Overloaded") == (failed.fault.kind, failed.fault.message)
    assert b"Overloaded" in failed.raw


def test_an_error_without_details_ends_the_stream_too():
    """Even an empty error is one."""
    assert "api" == failure(begun(), frame("error")).kind


@pytest.mark.invariant("I3")
@pytest.mark.invariant("I4")
@pytest.mark.edge("E22")
@pytest.mark.parametrize("end", [STOPPED, frame("error", error={"type": "api_error", "message": "m"})])
def test_nothing_follows_the_end(end):
    """After its end the decoder is silent."""
    decoder = Decoder(Source())
    feed(decoder, begun() + told() + end)
    assert decoder.done
    assert [] == feed(decoder, begun() + STOPPED + b"data: x\n\n")
    assert () == decoder.finish()


def test_a_done_marker_is_ignored():
    """Some gateways append Chat's marker."""
    events, _ = read(begun(), b"data: [DONE]\n\n", told(), STOPPED)
    assert [START, Usage(), Finish("end")] == events


def test_an_event_name_stands_in_for_a_missing_type():
    """A frame whose JSON has no type is what its event line says."""
    data = [
        event_frame("message_start", b'{"message":{"id":"msg_1","model":"up-m"}}'),
        event_frame("content_block_start", b'{"index":0,"content_block":{"type":"text"}}'),
        event_frame("content_block_delta", b'{"index":0,"delta":{"type":"text_delta","text":"T"}}'),
        event_frame("content_block_stop", b'{"index":0}'),
        told(),
        event_frame("message_stop", b"{}"),
    ]
    events, _ = read(*data)
    assert [START, BlockStart(0, "text"), Delta(0, "T"), BlockEnd(0), Usage(), Finish("end")] == events


def test_open_blocks_are_closed_at_the_end():
    """A missing content_block_stop is repaired; strict mode refuses it."""
    pieces = (begun(), opened(0, "text"), delta(0, "text_delta", text="T"), told(), STOPPED)
    events, decoder = read(*pieces)
    assert [BlockEnd(0), Usage(), Finish("end")] == events[-3:]
    assert "content_block_stop" == decoder.notes.kept[0].field
    assert "protocol" == failure(*pieces, strict=True).cause


def test_a_call_without_identity_gets_one():
    """Missing ids and names are made up from the answer's id; strict mode refuses them."""
    pieces = (
        begun(),
        opened(0, "tool_use", id="c", name="f", input={}),
        closed(0),
        opened(1, "tool_use", input={}),
        closed(1),
        told("tool_use"),
        STOPPED,
    )
    events, decoder = read(*pieces)
    assert BlockStart(1, "tool", "call_1_1", "tool_1") in events
    assert ["tool id", "tool name", "usage"] == [note.field for note in decoder.notes.kept]
    assert "tool id" in failure(*pieces, strict=True).message


@pytest.mark.invariant("I6")
def test_block_indexes_begin_at_zero_and_have_no_gap():
    """Strict mode takes a hole in the indexes for a violation; lenient mode needs no mending."""
    for indexes in ((1,), (0, 2)):
        pieces = (begun(), *(piece for at in indexes for piece in (opened(at, "text"), closed(at))), told(), STOPPED)
        assert Finish("end") == read(*pieces)[0][-1]
        assert "gap" in failure(*pieces, strict=True).message


@pytest.mark.edge("E3")
def test_missing_counts_are_noted():
    """An answer without usage has a note; one with it has none."""
    assert ["usage"] == [note.field for note in read(begun(), told(), STOPPED)[1].notes.kept]
    assert [] == read(begun(), told(output_tokens=1), STOPPED)[1].notes.kept


def test_counts_of_wrong_type_are_not_worth_an_answer():
    """Unreadable usage is noted; strict mode refuses it."""
    pieces = (begun(usage={"input_tokens": "many"}), told(output_tokens=2), STOPPED)
    events, decoder = read(*pieces)
    assert [START, Usage(output=2), Finish("end")] == events
    assert "usage" == decoder.notes.kept[0].field
    assert "usage" in failure(*pieces, strict=True).message


@pytest.mark.invariant("I16")
def test_final_counts_overwrite_the_first_ones():
    """message_delta's cumulative counts win where it has them (1.7)."""
    events, _ = read(
        begun(usage={"input_tokens": 9, "output_tokens": 1}), told(input_tokens=10, output_tokens=4), STOPPED
    )
    assert Usage(uncached=10, output=4) == events[-2]


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_raise(data):
    """Whatever an upstream sends, the decoder answers with events."""
    decoder = Decoder(Source())
    list(decoder.push(Frame(data)))
    list(decoder.finish())
    assert decoder.done
