"""The Chat decoder: every rule and repair of spec/translation.md 5.2, whole, byte by byte and at random cuts."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from translators.chat.decoder import decoder, error_of
from translators.chat.wire import Choice, Chunk
from translators.dialect import Source
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
from translators.sequencer import Sequencer
from translators.sse import Frame, Splitter


def chunk(delta=None, *, reason=None, index=0, **more):
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": reason}
    return {"id": "up-1", "created": 1700000000, "model": "up-m", "choices": [choice], **more}


def call(index=None, *, id=None, name=None, arguments=None):  # noqa: A002 - the wire's word
    piece = {} if index is None else {"index": index}
    if id is not None:
        piece["id"] = id
    function = {}
    if name is not None:
        function["name"] = name
    if arguments is not None:
        function["arguments"] = arguments
    return {**piece, "function": function}


def tools(*calls, **more):
    return chunk({"tool_calls": list(calls)}, **more)


def wire(*chunks, done=True):
    frames = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks]
    return b"".join(frames) + (b"data: [DONE]\n\n" if done else b"")


def events_of(raw, *, strict=False, cuts=()):
    machine, splitter = decoder(Source(strict=strict)), Splitter()
    edges = [0, *sorted(cuts), len(raw)]
    events = []
    for start, end in pairwise(edges):
        for frame in splitter.feed(raw[start:end]):
            events.extend(machine.push(frame))
    if (last := splitter.finish()) is not None:
        events.extend(machine.push(last))
    events.extend(machine.finish())
    events_of.notes = [note.message for note in machine.notes.kept]
    return events


def folded(*chunks, done=True, strict=False):
    machine = decoder(Source(strict=strict))
    sequencer, fold = Sequencer(machine.notes), Fold()
    for event in events_of(wire(*chunks, done=done), strict=strict):
        for ordered in sequencer.push(event):
            fold.push(ordered)
    return fold


def blocks(*chunks, **more):
    fold = folded(*chunks, **more)
    assert fold.failed is None, fold.failed
    return [(block.start.kind, block.start.name or None, block.text) for block in fold.answer.blocks]


def failure(*chunks, **more):
    fold = folded(*chunks, **more)
    assert fold.failed is not None
    return fold.failed.fault


END = chunk(reason="stop")
TOOLS_END = chunk(reason="tool_calls")
FULL = wire(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Thïnk"}),
    chunk({"content": "Héllo 🎉"}),
    tools(call(0, id="call_a", name="look", arguments='{"q":')),
    tools(call(0, arguments='"x"}')),
    TOOLS_END,
    {"id": "up-1", "model": "up-m", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}},
)
FULL_EVENTS = [
    Start("up-1", "up-m", 1700000000),
    BlockStart(1, "reasoning"),
    Delta(1, "Thïnk"),
    BlockEnd(1),
    BlockStart(2, "text"),
    Delta(2, "Héllo 🎉"),
    BlockEnd(2),
    BlockStart(3, "tool", "call_a", "look"),
    Delta(3, '{"q":'),
    Delta(3, '"x"}'),
    BlockEnd(3),
    Usage(uncached=9, output=3),
    Finish("tool"),
]


def test_a_whole_stream_becomes_its_events():
    """Reasoning, text, a call and usage come out as blocks, counts and one Finish."""
    assert FULL_EVENTS == events_of(FULL)


def test_the_events_do_not_depend_on_packets():
    """Byte by byte gives the same events as all at once."""
    assert FULL_EVENTS == events_of(FULL, cuts=range(1, len(FULL)))


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(1, len(FULL) - 1), max_size=12))
def test_the_events_do_not_depend_on_random_cuts(cuts):
    """Any split of the bytes gives the same events."""
    assert FULL_EVENTS == events_of(FULL, cuts=cuts)


@pytest.mark.invariant("I19")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(FULL)))
def test_every_prefix_ends_in_exactly_one_terminal(length):
    """A stream cut anywhere ends in one Finish or Failed, and success needs the finish_reason."""
    events = events_of(FULL[:length])
    assert 1 == sum(isinstance(event, Finish | Failed) for event in events)
    assert isinstance(events[-1], Finish | Failed)
    if isinstance(events[-1], Finish):
        assert b'"finish_reason": "tool_calls"' in FULL[:length]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_upstream_bytes_raise(data):
    """Arbitrary frames never raise and end in exactly one terminal."""
    machine = decoder(Source())
    events = [*machine.push(Frame(data)), *machine.finish()]
    assert 1 == sum(isinstance(event, Finish | Failed) for event in events)


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.floats(allow_nan=False, width=16),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "index",
                    "usage",
                    "error",
                ]
                + [
                    "finish_reason",
                    "reasoning_details",
                    "message",
                    "data",
                    "annotations",
                    "logprobs",
                    "prompt_tokens",
                    "text",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(JSONISH, max_size=4))
def test_no_upstream_json_raises(documents):
    """JSON of any shape never raises and ends in exactly one terminal."""
    events = events_of(wire(*documents))
    assert 1 == sum(isinstance(event, Finish | Failed) for event in events)


PIECES = st.sampled_from(
    [
        chunk({"content": "a"}),
        chunk({"content": "", "reasoning_content": "r"}),
        chunk({"reasoning_content": "r", "content": "a"}),
        chunk({"content": "a", "refusal": "n"}),
        chunk({"content": ["a"]}),
        chunk({"content": "a"}, usage={"prompt_tokens": 1, "completion_tokens": 1}),
        chunk({"content": "a"}, usage=None, error=None),
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "d", "index": 0, "signature": "s"}]}),
        chunk({"reasoning": "q"}),
        chunk({"content": "z"}, index=1),
        tools(call(0, id="a", name="f", arguments="")),
        tools(call(0, arguments='{"x":')),
        tools(call(0, arguments="1}")),
        tools(call(0, arguments="{}"), call(1, id="b", name="g")),
        tools(call(1, id="c", name="h", arguments="{}")),
        tools(call(0, arguments="")),
        tools(call(arguments="{}")),
        END,
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12))
def test_the_short_way_gives_the_same_events(pieces):
    """Chunks that only continue what is open take a short way; its events are those of the long way."""
    frames = Splitter().feed(wire(*pieces))

    def events(*, short):
        machine, found = decoder(Source()), []
        for frame in frames:
            machine._flowing = machine._flowing and short
            found.extend(machine.push(frame))
        return [*found, *machine.finish()]

    assert events(short=False) == events(short=True)


@pytest.mark.edge("E1")
def test_a_finish_without_content_is_an_empty_answer():
    """An answer of nothing is still a success."""
    assert [Start("up-1", "up-m", 1700000000), Finish("end")] == events_of(wire(END))


@pytest.mark.edge("E2")
def test_usage_after_the_finish_reason_comes_before_finish():
    """Counts that follow the finish_reason are part of the terminal."""
    events = events_of(wire(END, chunk({}, usage={"prompt_tokens": 1, "completion_tokens": 2})))
    assert [Usage(uncached=1, output=2), Finish("end")] == events[-2:]


@pytest.mark.edge("E3")
def test_missing_usage_is_noted_and_not_made_up():
    """Without counts there is no Usage event."""
    assert not [event for event in events_of(wire(END)) if isinstance(event, Usage)]
    assert ["the upstream reported no token counts"] == events_of.notes


@pytest.mark.edge("E4")
def test_the_last_of_many_usages_wins():
    """Cumulative counts overwrite each other, zero placeholders do not."""
    zero, some, full = ({"prompt_tokens": n, "completion_tokens": n} for n in (0, 1, 2))
    events = events_of(
        wire(
            chunk({"content": "a"}, usage=zero), chunk(usage=some), chunk(reason="stop", usage=full), chunk(usage=zero)
        )
    )
    assert Usage(uncached=2, output=2) == events[-2]


def test_usage_inside_the_choice_counts():
    """Kimi's place for it is the chunk with the finish_reason."""
    end = chunk(reason="stop")
    end["choices"][0]["usage"] = {"prompt_tokens": 2, "completion_tokens": 1}
    assert Usage(uncached=2, output=1) == events_of(wire(chunk({"content": "a"}), end))[-2]


def test_zero_counts_after_the_end_are_counts():
    """An upstream that counts nothing at its end says so."""
    zero = {"prompt_tokens": 0, "completion_tokens": 0}
    assert Usage(uncached=0, output=0) == events_of(wire(END, chunk(usage=zero)))[-2]


def test_unreadable_usage_is_left_out():
    """Usage of another type costs only a note."""
    assert Finish("end") == events_of(wire(END, chunk(usage="none")))[-1]
    assert "not readable" in events_of.notes


@pytest.mark.edge("E5")
def test_interleaved_calls_become_two_blocks():
    """Fragments 0, 1, 0, 1 are put together by index."""
    found = blocks(
        tools(call(0, id="a", name="f", arguments='{"x":'), call(1, id="b", name="g", arguments='{"y":')),
        tools(call(0, arguments="1}")),
        tools(call(1, arguments="2}")),
        TOOLS_END,
    )
    assert [("tool", "f", '{"x":1}'), ("tool", "g", '{"y":2}')] == found


@pytest.mark.edge("E6")
def test_a_call_opens_once_its_name_is_known():
    """Arguments that came before the name follow the block's start at once."""
    raw = wire(
        tools(call(0, id="a")),
        tools(call(0, arguments='{"x":')),
        tools(call(0, name="f")),
        tools(call(0, arguments="1}")),
        TOOLS_END,
    )
    events = events_of(raw)
    assert [BlockStart(1, "tool", "a", "f"), Delta(1, '{"x":'), Delta(1, "1}"), BlockEnd(1)] == events[1:5]


@pytest.mark.edge("E7")
def test_repeated_ids_and_names_count_once():
    """A server that repeats id and name in each fragment makes one call."""
    pieces = [tools(call(0, id="a", name="f", arguments=text)) for text in ('{"x":', "1", "}")]
    assert [("tool", "f", '{"x":1}')] == blocks(*pieces, TOOLS_END)


@pytest.mark.edge("E8")
def test_a_call_without_a_name_gets_one():
    """The name is made up at the finish, with a note."""
    assert [("tool", "tool_0", "{}")] == blocks(tools(call(0, id="a", arguments="{}")), TOOLS_END)


@pytest.mark.edge("E9")
def test_empty_deltas_make_no_blocks():
    """Empty strings and nulls of every field are nothing."""
    empty = {
        "content": "",
        "reasoning_content": "",
        "reasoning": None,
        "refusal": "",
        "tool_calls": [],
        "reasoning_details": [],
    }
    assert [] == blocks(chunk(empty), chunk({"content": None}), END)


@pytest.mark.edge("E10")
def test_a_call_without_arguments_is_a_call():
    """The block has no deltas; encoders make {} of it."""
    assert [("tool", "f", "")] == blocks(tools(call(0, id="a", name="f")), TOOLS_END)


@pytest.mark.edge("E11")
def test_a_call_cut_by_the_length_is_incomplete():
    """The last block of a truncated answer is marked, and nothing is invented."""
    events = events_of(wire(tools(call(0, id="a", name="f", arguments='{"x')), chunk(reason="length")))
    assert [Delta(1, '{"x'), BlockEnd(1, complete=False), Finish("length")] == events[-3:]


@pytest.mark.edge("E12")
def test_broken_arguments_fail_the_answer():
    """Arguments that are no JSON object at a tool stop poison the stream."""
    assert "invalid_tool_arguments" == failure(tools(call(0, id="a", name="f", arguments="{x")), TOOLS_END).code


@pytest.mark.edge("E13")
def test_reasoning_may_come_again():
    """Reasoning, tool, reasoning, text are four blocks in that order."""
    found = blocks(
        chunk({"reasoning": "a"}),
        tools(call(0, id="a", name="f", arguments="{}")),
        chunk({"reasoning": "b"}),
        chunk({"content": "c"}),
        TOOLS_END,
    )
    assert [("reasoning", None, "a"), ("tool", "f", "{}"), ("reasoning", None, "b"), ("text", None, "c")] == found


def test_text_after_a_finished_call_opens_a_new_block():
    """A complete call ends when text follows."""
    found = blocks(
        chunk({"content": "a"}),
        tools(call(0, id="a", name="f", arguments="{}")),
        chunk({"content": "b"}),
        chunk({"content": "c"}),
        END,
    )
    assert [("text", None, "a"), ("tool", "f", "{}"), ("text", None, "bc")] == found


@pytest.mark.edge("E16")
def test_a_refusal_is_its_own_block():
    """Refusal text keeps its kind and makes the stop a refusal."""
    fold = folded(chunk({"refusal": "No."}), END)
    assert [("refusal", "No.", "refusal")] == [(b.start.kind, b.text, fold.answer.stop) for b in fold.answer.blocks]


@pytest.mark.edge("E22")
def test_nothing_follows_the_terminal():
    """Frames after [DONE] and a second finish() are ignored."""
    machine = decoder(Source())
    for frame in Splitter().feed(wire(END)):
        machine.push(frame)
    assert [] == [*machine.push(Frame(b"[DONE]")), *machine.push(Frame(b"{}")), *machine.finish()]


@pytest.mark.edge("E23")
@pytest.mark.parametrize(
    "raw", [b"", b": comment\n\n", wire(chunk({"content": "x"}), done=False), wire(chunk({"content": "x"}))]
)
def test_an_end_without_finish_reason_is_a_failure(raw):
    """Neither a closed stream nor [DONE] makes a success of an unfinished answer."""
    last = events_of(raw)[-1]
    assert ("api", "eof") == (last.fault.kind, last.fault.cause)


@pytest.mark.edge("E24")
def test_a_missing_done_marker_is_repaired():
    """Lenient: success with a note; strict: a failure."""
    assert Finish("end") == events_of(wire(END, done=False))[-1]
    assert "missing_done: the stream ended without [DONE]" in events_of.notes
    assert "eof" == events_of(wire(END, done=False), strict=True)[-1].fault.cause


@pytest.mark.edge("E25")
@pytest.mark.parametrize(
    ("frame", "kind", "status", "message"),
    [
        ({"error": {"message": "slow down", "code": 429}}, "rate_limited", 429, "slow down"),
        ({"choices": [], "error": {"message": "taken", "code": 502}}, "api", 502, "taken"),
        ({**chunk({"content": "x"}), "error": {"message": "m", "type": "overloaded_error"}}, "overloaded", 503, "m"),
        (
            {
                "choices": [
                    {
                        "delta": {},
                        "finish_reason": "error",
                        "error": {"code": "context_length_exceeded", "message": "long"},
                    }
                ]
            },
            "context_length",
            400,
            "long",
        ),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, "api", 502, "the upstream failed (HTTP 502)"),
        ({"choices": [{"delta": {}, "error": {"message": "m", "code": 503}}]}, "overloaded", 503, "m"),
        ({"success": False, "error": "nope"}, "api", 502, "nope"),
        ({"success": False}, "api", 502, "the upstream failed (HTTP 502)"),
        ({"message": "bare", "code": 401}, "authentication", 401, "bare"),
        ({"detail": "told"}, "api", 502, "told"),
    ],
)
def test_errors_in_a_stream_are_told(frame, kind, status, message):
    """Each shape of an in-stream error becomes Failed with the upstream's message and its document."""
    raw = json.dumps(frame).encode()
    events = decoder(Source()).push(Frame(raw))
    fault = events[-1].fault
    assert (kind, status, message, raw) == (fault.kind, fault.status, fault.message, events[-1].raw)


def test_an_error_event_by_name_is_an_error():
    """A frame named error need not have an error member."""
    assert "m" == decoder(Source()).push(Frame(b'{"message":"m","id":"x"}', b"error"))[-1].fault.message


def test_a_null_error_is_no_error():
    """`error: null` and an empty error say nothing."""
    assert [("text", None, "x")] == blocks(chunk({"content": "x"}, error=None), chunk({}, error={}), END)


def test_counts_survive_a_failure():
    """What was counted before an error is still reported."""
    events = events_of(
        wire(chunk({"content": "x"}, usage={"prompt_tokens": 4, "completion_tokens": 1}), {"error": "boom"})
    )
    assert Usage(uncached=4, output=1) == events[-2]


@pytest.mark.edge("E29")
@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"choices":[{"delta":{"content":5}}]}', b"\xff", b"[" * 5000])
def test_unreadable_frames_poison_the_stream(data):
    """Malformed JSON is never skipped, and its text is not told."""
    machine = decoder(Source())
    first = machine.push(Frame(data))
    assert ["api"] == [event.fault.kind for event in first]
    assert [] == [*machine.push(Frame(b"{}")), *machine.finish()]


def test_blank_frames_are_nothing():
    """An empty data line is no event."""
    assert () == decoder(Source()).push(Frame(b"  "))


@pytest.mark.edge("E35")
def test_a_stop_with_calls_is_a_tool_stop():
    """What was delivered decides."""
    assert "tool" == folded(tools(call(0, id="a", name="f", arguments="{}")), END).answer.stop


@pytest.mark.edge("E36")
def test_a_tool_stop_without_calls_is_an_end():
    """A promise of calls that never came is not passed on."""
    assert "end" == folded(chunk({"content": "x"}), TOOLS_END).answer.stop


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("model_context_window_exceeded", "context"),
        ("content_filter", "refusal"),
        ("sensitive", "refusal"),
        ("odd", "end"),
    ],
)
def test_finish_reasons_are_mapped(reason, stop):
    """Each finish_reason has its neutral stop, unknown ones count as the end."""
    assert stop == folded(chunk(reason=reason)).answer.stop


@pytest.mark.parametrize("reason", ["network_error", "abort", "insufficient_system_resource"])
def test_an_answer_given_up_is_no_success(reason):
    """Some servers end what they could not finish with a word of their own in place of an error."""
    assert isinstance(events_of(wire(chunk({"content": "x"}), chunk(reason=reason)))[-1], Failed)


def test_an_empty_finish_reason_is_none():
    """Some servers write "" where null belongs, in every chunk."""
    assert "length" == folded(chunk({"content": "x"}, reason=""), chunk(reason="length")).answer.stop


def test_an_unknown_finish_reason_is_noted():
    """The note says that it was taken for a stop."""
    events_of(wire(chunk(reason="odd")))
    assert "an unknown finish_reason counts as stop" in events_of.notes


def test_a_second_finish_reason_is_ignored():
    """Equal ones silently, a different one with a note; strict refuses it."""
    assert Finish("end") == events_of(wire(END, END))[-1]
    assert Finish("end") == events_of(wire(END, chunk(reason="length")))[-1]
    assert "a second, different finish_reason is ignored" in events_of.notes
    assert isinstance(events_of(wire(END, chunk(reason="length")), strict=True)[-1], Failed)


@pytest.mark.parametrize(
    "late", [{"content": "x"}, {"refusal": "x"}, {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}]
)
def test_content_after_the_finish_is_an_error(late):
    """An upstream that goes on after its end cannot be trusted."""
    assert isinstance(events_of(wire(END, chunk(late)))[-1], Failed)


def test_empty_deltas_after_the_finish_are_ignored():
    """Servers repeat role and empty content in their last chunk."""
    assert Finish("end") == events_of(wire(END, chunk({"role": "assistant", "content": ""})))[-1]


def test_leading_chunks_without_identity_are_absorbed():
    """Azure's first chunk with empty choices and no id does not start the answer."""
    events = events_of(wire({"id": "", "model": "", "choices": [], "prompt_filter_results": []}, END))
    assert Start("up-1", "up-m", 1700000000) == events[0]


def test_a_first_chunk_with_identity_starts_the_answer():
    """Id and model are enough."""
    assert Start("a", "b", 0) == events_of(wire({"id": "a", "model": "b", "choices": [], "created": "x"}, END))[0]


def test_missing_identity_is_left_empty():
    """A server that gives neither id nor model starts the answer all the same."""
    assert Start() == events_of(wire({"choices": [{"delta": {"content": "x"}}]}, END))[0]


def test_a_stray_object_is_ignored():
    """A frame that is neither chunk nor error is nothing."""
    assert [Start("up-1", "up-m", 1700000000), Finish("end")] == events_of(wire({"ping": 1}, END))


def test_an_envelope_is_opened():
    """`{"success": true, "data": {chunk}}` is that chunk."""
    assert [("text", None, "x")] == blocks({"success": True, "data": chunk({"content": "x"})}, {"data": END})


def test_an_envelope_of_something_else_is_ignored():
    """Data without choices says nothing."""
    assert Finish("end") == events_of(wire({"data": {"x": 1}}, END))[-1]


def test_a_second_alternative_is_ignored():
    """Text of another index is not mixed in, with one note."""
    found = blocks(
        chunk({"content": "a"}),
        chunk({"content": "z"}, index=1),
        chunk({"content": "y"}, index=1),
        chunk(reason="stop", index=1),
        END,
    )
    assert [("text", None, "a")] == found


def test_calls_of_another_index_belong_to_the_answer():
    """Some servers put text and calls into two choices."""
    both = chunk({"content": "a"}, reason="tool_calls")
    both["choices"].append(
        {
            "index": 1,
            "delta": {"tool_calls": [call(0, id="a", name="f", arguments="{}")]},
            "finish_reason": "tool_calls",
        }
    )
    assert [("text", None, "a"), ("tool", "f", "{}")] == blocks(both)


def test_calls_of_another_index_may_come_after_the_first_finish():
    """The first choice's end is not the second one's."""
    late = tools(call(0, id="a", name="f", arguments="{}"), index=1)
    assert [("text", None, "a"), ("tool", "f", "{}")] == blocks(
        chunk({"content": "a"}, reason="tool_calls"), late, chunk(reason="tool_calls", index=1)
    )


def test_a_bare_finish_of_an_accepted_index_is_taken():
    """The end of the choice with the calls does not make it an alternative."""
    first = tools(call(0, id="a", name="f", arguments="{}"), index=1)
    assert [("tool", "f", "{}")] == blocks(first, chunk(reason="tool_calls", index=1))


def test_a_whole_message_in_a_stream_is_one_delta():
    """A server that ignored the stream wish sends `message`."""
    message = {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
    one = {**chunk(), "choices": [{"message": message, "finish_reason": "stop"}]}
    assert [("text", None, "x"), ("tool", "f", '{"a":1}')] == blocks(one)


def test_content_parts_are_joined():
    """A list of parts is its texts."""
    assert [("text", None, "abc")] == blocks(
        chunk({"content": [{"type": "text", "text": "a"}, "b", {"type": "x"}, {"text": "c"}, 5]}), END
    )


def test_thinking_parts_are_reasoning():
    """Mistral sends its reasoning as parts of the content."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}
    assert [("reasoning", None, "ab"), ("text", None, "c")] == blocks(
        chunk({"content": [thinking]}),
        chunk({"content": [{"type": "thinking", "thinking": "b"}, {"type": "text", "text": "c"}]}),
        END,
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_is_read_by_any_of_its_names(field):
    """Each server's spelling is reasoning."""
    assert [("reasoning", None, "ab"), ("text", None, "c")] == blocks(
        chunk({field: "a"}), chunk({field: "b"}), chunk({"content": "c"}), END
    )


def test_reasoning_of_another_type_is_ignored():
    """An object under `reasoning` is no text."""
    assert [] == blocks(chunk({"reasoning": {"x": 1}}), END)


def test_reasoning_is_not_taken_twice():
    """`reasoning` and `reasoning_details` repeat each other."""
    both = {"reasoning": "We ", "reasoning_details": [{"type": "reasoning.text", "text": "We ", "index": 0}]}
    assert [("reasoning", None, "We We ")] == blocks(
        chunk(both), chunk(both), chunk({"reasoning_details": both["reasoning_details"]}), END
    )


def test_details_alone_are_reasoning():
    """Text inside details counts where no plain field came, and then plain fields do not."""
    details = {"reasoning_details": [{"type": "reasoning.summary", "summary": "a", "index": 0}]}
    assert [("reasoning", None, "aa")] == blocks(chunk(details), chunk({**details, "reasoning": "a"}), END)


def test_signed_details_are_carried():
    """Opaque entries come as one mark at the block's end, pieces put together."""
    raw = wire(
        chunk({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]}),
        chunk(
            {
                "reasoning": "b",
                "reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0, "signature": "s"}],
            }
        ),
        chunk({"content": "c"}),
        END,
    )
    marks = [event for event in events_of(raw) if isinstance(event, Mark)]
    assert [Mark(1, Carried("rd", '[{"type":"reasoning.text","text":"ab","index":0,"signature":"s"}]'))] == marks


@pytest.mark.edge("E14")
def test_late_encrypted_details_make_a_block_of_their_own():
    """State that comes with or after the end is carried without text."""
    late = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "d", "index": 0}]}
    events = events_of(wire(chunk({"content": "x"}), chunk(late, reason="stop"), chunk(late)))
    assert [
        BlockStart(2, "reasoning"),
        Mark(2, Carried("rd", msgspec.json.encode(late["reasoning_details"]).decode())),
        BlockEnd(2),
    ] == events[-4:-1]


@pytest.mark.parametrize("end", [[], [END]])
def test_contradicting_details_are_an_error(end):
    """One index with two ids cannot be put together, before the end or after it."""
    first, second = (
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "id": name, "data": "x"}]} for name in "ab"
    )
    assert isinstance(events_of(wire(chunk(first), *end, chunk(second), END))[-1], Failed)


def test_log_probabilities_go_with_their_text():
    """The entries of a chunk are attached to its delta."""
    one = chunk({"content": "a"})
    one["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]}
    assert Delta(1, "a", (Logprob("a", -0.5, [97]),)) == events_of(wire(one, END))[2]


def test_citations_mark_their_text():
    """URL citations get offsets in their own block."""
    cited = {"url_citation": {"url": "https://a.example", "title": "A", "start_index": 3, "end_index": 5}}
    found = events_of(
        wire(
            chunk({"content": "abc"}), chunk({"reasoning": "r"}), chunk({"content": "de", "annotations": [cited]}), END
        )
    )
    assert [Mark(3, Citation("https://a.example", "A", 0, 2))] == [event for event in found if isinstance(event, Mark)]


def test_citations_without_text_are_dropped():
    """There is nothing that they could mark."""
    assert [] == blocks(chunk({"annotations": [{"url_citation": {"url": "https://a.example"}}]}), END)


def test_a_legacy_function_call_is_a_tool_call():
    """`function_call` fragments make one call with an id of ours."""
    pieces = [
        chunk({"function_call": piece})
        for piece in ({"name": "f", "arguments": ""}, {"arguments": '{"x"'}, {"arguments": ":1}"})
    ]
    fold = folded(*pieces, chunk({"function_call": {}}), chunk(reason="function_call"))
    assert [("f", '{"x":1}', "call_up-1_0")] == [(b.start.name, b.text, b.start.call_id) for b in fold.answer.blocks]
    assert "tool" == fold.answer.stop


def test_an_error_chunk_is_recognised():
    """The fault of a chunk is told, None for an ordinary one."""
    assert error_of(Chunk()) is None
    assert "api" == error_of(Chunk(success=False)).kind
    assert "api" == error_of(Chunk(choices=[Choice(finish_reason="error")])).kind


def whole(body, *, strict=False):
    document = json.dumps(body).encode()
    return list(decoder(Source(strict=strict)).whole(msgspec.json.decode(document, type=Chunk), document))


def test_a_whole_answer_is_one_delta():
    """Every call is complete, and a missing finish_reason is repaired (strict refuses it)."""
    body = {"id": "a", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    text = [Start("a"), BlockStart(1, "text"), Delta(1, "x"), BlockEnd(1), Finish("end")]
    assert text == whole(body)
    body["choices"][0]["finish_reason"] = None
    assert text == whole(body)
    assert isinstance(whole(body, strict=True)[-1], Failed)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"choices": []}, "the upstream's answer has no choices"),
        ({"error": "told"}, "told"),
        (
            {"choices": [{"message": {"tool_calls": [call(id="a", name="f")] * 2}}]},
            "two tool calls of the upstream have the same id",
        ),
    ],
)
def test_what_is_no_whole_answer_fails(body, message):
    """Nothing to answer with, an error, a contradiction."""
    assert message == whole(body)[-1].fault.message


def test_a_choice_without_content_is_nothing():
    """Neither delta nor message."""
    assert Finish("end") == events_of(wire({"choices": [{"index": 0}]}, END))[-1]


def test_an_ignored_alternative_stays_ignored():
    """Calls of an index that has spoken are another answer's."""
    other = tools(call(0, id="z", name="g", arguments="{}"), index=1)
    assert [("text", None, "a")] == blocks(chunk({"content": "a"}), chunk({"content": "z"}, index=1), other, END)


# Strict mode


def strictly(*chunks):
    assert folded(*chunks).failed is None, "lenient mode takes it"
    return failure(*chunks, strict=True).message


@pytest.mark.parametrize("field", ["id", "name"])
def test_made_up_identities_are_violations_in_strict_mode(field):
    """A call without its name or id is repaired with a note, and refused in strict mode (5.2)."""
    given = {"id": "c1", "name": "f", "arguments": "{}", field: None}
    message = strictly(tools(call(0, **given)), TOOLS_END)
    assert ("name" if field == "name" else "an id") in message
    legacy = chunk({"function_call": {"name": "f", "arguments": "{}"}})
    assert [("tool", "f", "{}")] == blocks(legacy, chunk(reason="function_call"), strict=True)


@pytest.mark.invariant("I5")
def test_the_id_of_an_answer_stays_in_strict_mode():
    """Another id is another answer; chunks without one are no change."""
    other = {**chunk({"content": "b"}), "id": "up-2"}
    assert "id" in strictly(chunk({"content": "a"}), other, END)
    nameless = {**chunk({"content": "b"}), "id": ""}
    assert [("text", None, "ab")] == blocks(chunk({"content": "a"}), nameless, END, strict=True)


@pytest.mark.invariant("I6")
def test_indexes_of_calls_are_not_negative_in_strict_mode():
    """Index -1 is no place in a list of calls."""
    assert "negative" in strictly(tools(call(-1, id="c", name="f", arguments="{}")), TOOLS_END)


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 4}, {"prompt_tokens": 5, "completion_tokens": 3}),
        ({"prompt_tokens": 5, "completion_tokens": 4}, {"prompt_tokens": 4, "completion_tokens": 4}),
        ({}, {"prompt_tokens": -1, "completion_tokens": 4}),
        ({}, {"prompt_tokens": 1, "completion_tokens": -4}),
        ({}, {"prompt_tokens": 1, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 5}}),
        ({}, {"prompt_tokens": 1, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": -1}}),
    ],
)
def test_senseless_counts_are_violations_in_strict_mode(first, second):
    """Counts that decrease, are negative or contradict each other are no counts (1.7)."""
    assert "token counts" in strictly(chunk({"content": "a"}, usage=first or None), chunk(reason="stop", usage=second))


def test_growing_counts_and_odd_ones_are_fine_in_strict_mode():
    """What grows is cumulative; what cannot be read at all is left out as ever."""
    usages = ({"prompt_tokens": 5, "completion_tokens": 1}, {"prompt_tokens": 5, "completion_tokens": 4}, "many")
    pieces = [chunk({"content": "a"}, usage=usage) for usage in usages]
    assert [("text", None, "aaa")] == blocks(*pieces, END, strict=True)
