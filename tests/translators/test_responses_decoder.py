"""The Responses decoder: lifecycle, repairs and failures of spec/translation.md 5.2."""

import itertools
import json

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
from translators.fold import Fold
from translators.notes import Notes
from translators.responses.decoder import Decoder
from translators.sequencer import Sequencer
from translators.sse import Frame, Splitter

USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 27,
}
COUNTS = Usage(12, 5, 3, 7, 2)


def response(kind, **more):
    base = {"id": "resp_1", "object": "response", "model": "up", "created_at": 1_700_000_000, "output": []}
    return {"type": f"response.{kind}", "response": {**base, "status": kind, **more}}


CREATED = response("created", status="in_progress", usage=None)
COMPLETED = response("completed", usage=USAGE)


def added(index, **item):
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index, **item):
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def part(index, **members):
    return {
        "type": "response.content_part.added",
        "output_index": index,
        "content_index": 0,
        "part": {"type": "output_text", "text": "", "annotations": []},
        **members,
    }


def text(index, delta, **more):
    return {"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": delta, **more}


def message(words, index=0, **more):
    return {
        "type": "message",
        "id": f"msg_{index}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": words, "annotations": []}],
        **more,
    }


def function(call_id="call_a", name="f", arguments="{}", **more):
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **more,
    }


FULL = [
    CREATED,
    response("in_progress"),
    added(0, type="reasoning", id="rs_0", summary=[], encrypted_content="early"),
    {
        "type": "response.reasoning_summary_part.added",
        "output_index": 0,
        "summary_index": 0,
        "part": {"type": "summary_text", "text": ""},
    },
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Hm."},
    {"type": "response.reasoning_summary_text.done", "output_index": 0, "summary_index": 0, "text": "Hm."},
    done(0, type="reasoning", id="rs_0", summary=[{"type": "summary_text", "text": "Hm."}], encrypted_content="enc"),
    added(1, type="message", id="msg_1", role="assistant", content=[], status="in_progress"),
    part(1),
    text(1, "Grüße "),
    text(1, "🙂"),
    {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "Grüße 🙂"},
    {
        "type": "response.content_part.done",
        "output_index": 1,
        "content_index": 0,
        "part": {"type": "output_text", "text": "Grüße 🙂", "annotations": []},
    },
    done(1, **message("Grüße 🙂", 1)),
    added(2, **function(arguments="")),
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"x":'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "1}"},
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"x":1}'},
    done(2, **function(arguments='{"x":1}')),
    response(
        "completed",
        usage=USAGE,
        output=[
            {"type": "reasoning", "id": "rs_0", "summary": [{"type": "summary_text", "text": "Hm."}]},
            message("Grüße 🙂", 1),
            function(arguments='{"x":1}'),
        ],
    ),
]
FULL_EVENTS = [
    Start("resp_1", "up", 1_700_000_000),
    BlockStart(1, "reasoning", item_id="rs_0"),
    Delta(1, "Hm."),
    Mark(1, Carried("rs", "enc", "rs_0")),
    BlockEnd(1),
    BlockStart(2, "text", item_id="msg_1"),
    Delta(2, "Grüße "),
    Delta(2, "🙂"),
    BlockEnd(2),
    BlockStart(3, "tool", "call_a", "f", item_id="fc_call_a"),
    Delta(3, '{"x":'),
    Delta(3, "1}"),
    BlockEnd(3),
    COUNTS,
    Finish("tool"),
]


def wire(*events, named=True, numbered=True):
    out = []
    for number, event in enumerate(events):
        told = {**event, "sequence_number": number} if numbered else event
        name = f"event: {event['type']}\n" if named else ""
        out.append(f"{name}data: {json.dumps(told, ensure_ascii=False)}\n\n".encode())
    return b"".join(out)


def decoded(raw, *, strict=False, cuts=()):
    decoder, splitter = Decoder(Source(strict=strict)), Splitter()
    edges = [0, *sorted(cuts), len(raw)]
    events = []
    for start, end in itertools.pairwise(edges):
        for frame in splitter.feed(raw[start:end]):
            events.extend(decoder.push(frame))
    last = splitter.finish()
    if last is not None:
        events.extend(decoder.push(last))
    events.extend(decoder.finish())
    return events, decoder.notes


def run(*events, strict=False, begin=True):
    return decoded(wire(*([CREATED] if begin else []), *events), strict=strict)


def kinds(events):
    return [type(event).__name__ for event in events]


def fault_of(events):
    assert isinstance(events[-1], Failed)
    return events[-1].fault


def folded(events):
    sequencer, fold = Sequencer(Notes()), Fold()
    for event in events:
        for ordered in sequencer.push(event):
            fold.push(ordered)
    return fold


# ------------------------------------------------------------------ whole streams


@pytest.mark.invariant("I9")
@pytest.mark.parametrize("strict", [False, True])
def test_native_stream(strict):
    """A stream as the vendor sends it is told once, in order, without a single repair."""
    events, notes = decoded(wire(*FULL), strict=strict)
    assert FULL_EVENTS == events
    assert [] == notes.kept


@pytest.mark.parametrize("named", [True, False])
def test_native_stream_byte_by_byte(named):
    """Nothing depends on how the bytes are cut, or on event lines."""
    raw = wire(*FULL, named=named)
    assert FULL_EVENTS == decoded(raw, cuts=range(1, len(raw)))[0]


@given(st.lists(st.integers(1, 2000), max_size=8))
def test_native_stream_at_random_cuts(cuts):
    """Random cuts give the same events, too."""
    raw = wire(*FULL)
    assert FULL_EVENTS == decoded(raw, cuts=[cut % len(raw) for cut in cuts])[0]


@pytest.mark.invariant("I2")
@pytest.mark.edge("E23")
@pytest.mark.parametrize("count", range(len(FULL)))
def test_every_prefix_fails_at_its_end(count):
    """A stream that stops before its terminal is a failure, wherever it stops."""
    events, _ = decoded(wire(*FULL[:count]))
    assert "eof" == fault_of(events).cause
    assert FULL_EVENTS[: len(events) - 1] == events[:-1]


@pytest.mark.invariant("I18")
def test_whole_answer_folds_to_the_same():
    """The response object of the stream's end gives the same answer as the stream."""
    body = json.dumps({**FULL[-1]["response"], "output": [FULL[6]["item"], FULL[13]["item"], FULL[18]["item"]]})
    whole = folded(Decoder(Source()).whole(body.encode())).answer
    streamed = folded(decoded(wire(*FULL))[0]).answer
    assert streamed.usage == whole.usage
    assert streamed.stop == whole.stop
    assert [(block.start.kind, block.text, block.carried) for block in streamed.blocks] == [
        (block.start.kind, block.text, block.carried) for block in whole.blocks
    ]


@pytest.mark.parametrize("marker", [b"data: [DONE]\n\n", b"data:\n\n", b": ping\n\n"])
def test_foreign_markers_are_ignored(marker):
    """The end marker of Chat, empty data and comments mean nothing here."""
    raw = wire(*FULL[:5]) + marker + wire(*FULL)[len(wire(*FULL[:5])) :] + marker
    assert FULL_EVENTS == decoded(raw)[0]


# ------------------------------------------------------------------ lifecycle


@pytest.mark.parametrize("kind", ["created", "queued", "in_progress"])
def test_start_comes_once(kind):
    """The first lifecycle event starts the answer, later ones do not."""
    events, notes = run(response(kind), response("in_progress"), COMPLETED, begin=False)
    assert ["Start", "Usage", "Finish"] == kinds(events)
    assert [] == notes.kept


def test_times_may_be_fractions():
    """Some servers tell a fraction of a second; the neutral time is whole."""
    events, _ = run(response("created", created_at=1.9), COMPLETED, begin=False)
    assert 1 == events[0].created


@pytest.mark.edge("E1")
def test_answer_without_content():
    """An empty answer finishes."""
    assert [Start("resp_1", "up", 1_700_000_000), COUNTS, Finish("end")] == run(COMPLETED)[0]


@pytest.mark.edge("E3")
@pytest.mark.parametrize("usage", [None, {}, [], {"input_tokens": None}])
def test_missing_usage_is_unknown(usage):
    """Unknown counts are not told as zero."""
    assert ["Start", "Finish"] == kinds(run(response("completed", usage=usage))[0])


@pytest.mark.invariant("I8")
def test_decreasing_usage_is_a_repair():
    """Counts only grow; in strict mode a decrease ends the stream."""
    early = response("created", usage={"input_tokens": 20, "output_tokens": 9})
    events, notes = run(early, COMPLETED, begin=False)
    assert COUNTS == events[-2]
    assert ["usage"] == [note.field for note in notes.kept]
    assert isinstance(run(early, COMPLETED, begin=False, strict=True)[0][-1], Failed)


@pytest.mark.invariant("I5")
def test_changing_response_id_is_a_repair():
    """The id of the answer stays the same."""
    events, notes = run(response("completed", id="resp_2"))
    assert ["response.id", "usage"] == [note.field for note in notes.kept]
    assert "Finish" == kinds(events)[-1]
    assert isinstance(run(response("completed", id="resp_2"), strict=True)[0][-1], Failed)


@pytest.mark.edge("E30")
def test_missing_created_is_a_repair():
    """A stream may begin with content in lenient mode; strict mode calls it broken."""
    stream = [*FULL[2:8], *FULL[8:]]
    events, notes = run(*stream, begin=False)
    assert Start() == events[0]
    assert FULL_EVENTS[1:-2] == events[1:-2]
    assert ["response.created"] == [note.field for note in notes.kept]
    assert ["Failed"] == kinds(run(*stream, begin=False, strict=True)[0])


@pytest.mark.edge("E31")
def test_everything_only_in_the_final_response():
    """A lone completed event has the whole answer: Grok Build's smallest stream."""
    final = response("completed", usage=USAGE, output=[message("Hello"), function(arguments='{"a":1}')])
    events, notes = run(final, begin=False)
    assert [
        ("text", "Hello"),
        ("tool", '{"a":1}'),
    ] == [(block.start.kind, block.text) for block in folded(events).answer.blocks]
    assert Finish("tool") == events[-1]
    assert ["response.created", "response.output", "response.output"] == [note.field for note in notes.kept]


def test_final_response_repeats_nothing():
    """Items that streamed are not told again, even when a proxy changed their ids."""
    stream = FULL[2:-1]
    renamed = response(
        "completed",
        usage=USAGE,
        output=[
            {"type": "reasoning", "id": "other_0", "summary": []},
            message("Grüße 🙂", 9),
            function(arguments='{"x":1}', id="other_2"),
        ],
    )
    assert FULL_EVENTS == run(*stream, renamed)[0]


def test_final_response_closes_open_items():
    """An item without a done event is completed from the final response."""
    stream = FULL[2:10]
    events, _ = run(*stream, response("completed", output=[FULL[6]["item"], message("Grüße an alle", 1)]))
    assert [Delta(2, "Grüße "), Delta(2, "an alle"), BlockEnd(2), Finish("end")] == events[-4:]


def test_open_items_close_at_the_end():
    """What nothing completes is closed all the same (I22)."""
    events, _ = run(*FULL[3:5], *FULL[7:10], *FULL[14:16], COMPLETED)
    assert 3 == kinds(events).count("BlockEnd")


@pytest.mark.parametrize("status", ["cancelled", "queued", "in_progress", "x" * 100])
def test_other_final_statuses_are_failures(status):
    """An answer that ends in any other state did not end well."""
    events, _ = run(response("completed", status=status))
    assert "protocol" == fault_of(events).cause
    assert len(fault_of(events).message) < 120


def test_cancelled_response_is_a_failure():
    """A cancelled answer is no answer."""
    assert ["Start", "Failed"] == kinds(run(response("cancelled"))[0])


@pytest.mark.parametrize(
    ("reason", "stop", "notes"),
    [
        ("max_output_tokens", "length", ["usage"]),
        ("content_filter", "refusal", ["usage"]),
        ("steered", "end", ["usage", "stop"]),
        (None, "end", ["usage", "stop"]),
    ],
)
def test_incomplete_reasons(reason, stop, notes):
    """Each reason has its stop (1.8)."""
    events, told = run(response("incomplete", incomplete_details=reason and {"reason": reason}))
    assert Finish(stop) == events[-1]
    assert notes == [note.field for note in told.kept]


@pytest.mark.invariant("I6")
def test_output_indexes_begin_at_zero_and_have_no_gap():
    """Strict mode takes a hole in the indexes for a violation; lenient mode needs no mending."""
    late = added(3, type="message", id="msg_0")
    assert "Finish" == kinds(run(late, COMPLETED)[0])[-1]
    assert "gap" in run(late, COMPLETED, strict=True)[0][-1].fault.message
    begun = added(0, type="message", id="msg_0")
    assert "Finish" == kinds(run(begun, COMPLETED, strict=True)[0])[-1]


@pytest.mark.edge("E3")
def test_missing_counts_are_noted():
    """An answer without usage has a note; one with it has none."""
    assert ["usage"] == [note.field for note in run(response("completed"))[1].kept]
    assert [] == run(response("completed", usage=USAGE))[1].kept


@pytest.mark.edge("E34")
def test_incomplete_with_a_call_is_cut():
    """A cut answer never asks for its calls to be run."""
    cut = response("incomplete", incomplete_details={"reason": "max_output_tokens"})
    events, _ = run(*FULL[14:16], cut)
    assert Finish("length") == events[-1]
    assert not events[-2].complete


@pytest.mark.edge("E16")
def test_refusal_part():
    """A refusal is a block of its own kind, and the stop says so."""
    events, _ = run(
        added(0, type="message", id="msg_0"),
        part(0, part={"type": "refusal", "refusal": ""}),
        {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No"},
        {"type": "response.refusal.done", "output_index": 0, "content_index": 0, "refusal": "No."},
        COMPLETED,
    )
    assert [BlockStart(1, "refusal", item_id="msg_0"), Delta(1, "No"), Delta(1, "."), BlockEnd(1)] == events[1:5]
    assert Finish("refusal") == events[-1]


# ------------------------------------------------------------------ items


@pytest.mark.edge("E20")
@pytest.mark.edge("E21")
@pytest.mark.invariant("I28")
def test_hosted_items_and_unknown_events_leave_no_trace():
    """Hosted items, private searches and unknown events are ignored with one note per type."""
    events, notes = run(
        added(0, type="web_search_call", id="ws_0", action={"query": "x"}, content={"odd": 1}),
        {"type": "response.web_search_call.searching", "output_index": 0},
        {"type": "response.web_search_call.searching", "output_index": 0, "delta": {"odd": 1}},
        text(0, "not a message"),
        done(0, type="web_search_call", id="ws_0", action={"query": "x"}, name=5),
        added(1, type="custom_tool_call", id="ctc", call_id="xs_call_1", name="x_user_search", input=""),
        {"type": "response.custom_tool_call_input.delta", "output_index": 1, "delta": "q"},
        done(1, type="custom_tool_call", id="ctc", call_id="xs_call_1", name="x_user_search", input="q"),
        {"type": "keepalive"},
        *[{**event, "output_index": 2} for event in FULL[7:14]],
        COMPLETED,
    )
    assert FULL_EVENTS[5:9] == [
        type(event)(event.key + 1, *[getattr(event, name) for name in event.__struct_fields__[1:]])
        for event in events[1:5]
    ]
    assert 5 == len(events) - 2
    assert [
        "item web_search_call",
        "event response.web_search_call.searching",
        "text",
        "item custom_tool_call",
        "event keepalive",
    ] == [note.field for note in notes.kept]


def test_provider_run_calls_are_receipts():
    """An mcp_call comes back as a receipt, which no client runs."""
    item = {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "s",
        "name": "n",
        "arguments": "{}",
        "output": "out",
        "error": None,
    }
    events, _ = run(added(0, **{**item, "output": None}), done(0, **item), COMPLETED)
    assert [
        BlockStart(1, "receipt"),
        Mark(1, Receipt("mcp_1", "s", "n", "{}", "out")),
        BlockEnd(1),
    ] == events[1:4]
    assert Finish("end") == events[-1]


def test_items_without_announcement_are_a_repair():
    """Codex lives on done items alone, so such streams exist."""
    events, notes = run(done(0, **message("Hello")), COMPLETED)
    assert "Hello" == folded(events).answer.blocks[0].text
    assert ["response.output_item.added"] == [note.field for note in notes.kept]
    assert isinstance(run(done(0, **message("Hello")), COMPLETED, strict=True)[0][-1], Failed)


def test_reused_output_index():
    """A server that gives every item index 0 is understood, once each item is done."""
    events, _ = run(
        added(0, type="message", id="msg_a"),
        done(0, **message("one", id="msg_a")),
        done(0, **message("two", id="msg_b")),
        COMPLETED,
    )
    assert ["one", "two"] == [block.text for block in folded(events).answer.blocks]


def test_repeated_done_item_is_told_once():
    """A done event that comes twice adds nothing."""
    assert 1 == len(folded(run(done(0, **message("one")), done(0, **message("one")), COMPLETED)[0]).answer.blocks)


def test_index_of_two_open_items_is_a_repair():
    """Two items under one index contradict the protocol."""
    events, notes = run(added(0, type="message", id="a"), added(0, type="message", id="b"), COMPLETED)
    assert ["output_index"] == [note.field for note in notes.kept]
    assert "Finish" == kinds(events)[-1]


@pytest.mark.invariant("I7")
def test_item_that_changes_its_type_breaks_the_stream():
    """An item stays what it was announced to be."""
    events, _ = run(added(0, type="message", id="a"), done(0, **function()))
    assert "protocol" == fault_of(events).cause


def test_missing_indexes():
    """Without indexes, items are known by their ids, and come in the order of arrival."""
    stream = [
        {key: value for key, value in event.items() if key not in ("output_index", "content_index")}
        for event in FULL[7:14]
    ]
    for event in stream:
        if "item" not in event:
            event["item_id"] = "msg_1"
    assert ["Grüße 🙂"] == [block.text for block in folded(run(*stream, COMPLETED)[0]).answer.blocks]


# ------------------------------------------------------------------ failures


@pytest.mark.edge("E25")
@pytest.mark.parametrize(
    ("event", "kind", "message"),
    [
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
            "rate_limited",
            "slow down",
        ),
        ({"type": "error", "error": {"type": "server_error", "message": "oops"}}, "api", "oops"),
        ({"error": {"message": "all busy", "type": "overloaded_error"}}, "overloaded", "all busy"),
        ({"code": "invalid-argument", "error": "bad thing"}, "api", "bad thing"),
        (
            response("failed", error={"code": "insufficient_quota", "message": "pay"}),
            "billing",
            "pay",
        ),
        (
            response("failed", error={"code": "context_length_exceeded", "message": "too long"}),
            "context_length",
            "too long",
        ),
    ],
)
def test_errors_in_the_stream(event, kind, message):
    """All shapes of errors end the stream with their kind, their words, and the document for the provider."""
    decoder = Decoder(Source())
    decoder.push(Frame(json.dumps(CREATED).encode()))
    (failed,) = decoder.push(Frame(json.dumps(event).encode()))
    assert (kind, message) == (failed.fault.kind, failed.fault.message)
    assert message in json.dumps(json.loads(failed.raw)["error"])
    assert () == decoder.push(Frame(json.dumps(COMPLETED).encode()))
    assert () == decoder.finish()


@pytest.mark.edge("E26")
def test_failure_before_any_other_event():
    """A failure that comes first begins no answer."""
    assert ["Failed"] == kinds(run(response("failed", error={"message": "x"}), begin=False)[0])
    assert ["Failed"] == kinds(run(response("failed", error=None), begin=False)[0])


@pytest.mark.edge("E29")
@pytest.mark.invariant("I3")
@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"\xff",
        b"[1]",
        b'{"type":"response.output_text.delta","delta":5}',
        b'{"type":"response.output_item.added","item":{"type":"function_call","call_id":5}}',
        b'{"type":"response.output_item.added","item":"x"}',
        b'{"type":"response.completed","response":[]}',
        b'{"type":"response.completed","response":{"output":{}}}',
        b"[" * 100_000,
    ],
)
def test_unreadable_events_poison_the_stream(data):
    """Malformed JSON and wrong types end the stream; skipping them could lose content."""
    decoder = Decoder(Source())
    decoder.push(Frame(json.dumps(CREATED).encode()))
    (failed,) = decoder.push(Frame(data))
    assert ("api", "protocol") == (failed.fault.kind, failed.fault.cause)
    assert () == decoder.push(Frame(json.dumps(COMPLETED).encode()))


@pytest.mark.edge("E22")
@pytest.mark.invariant("I4")
def test_nothing_after_the_terminal():
    """After its terminal a stream is silent."""
    decoder = Decoder(Source())
    for event in (CREATED, COMPLETED):
        decoder.push(Frame(json.dumps(event).encode()))
    assert () == decoder.push(Frame(json.dumps(COMPLETED).encode()))
    assert () == decoder.push(Frame(b"{"))
    assert () == decoder.finish()


def test_numbers_that_do_not_increase_are_a_repair():
    """Missing numbers are nothing, equal ones are noted once, and strict mode ends."""
    assert [] == decoded(wire(*FULL, numbered=False), strict=True)[1].kept
    stuck = [{**event, "sequence_number": 0} for event in FULL]
    events, notes = decoded(wire(*stuck, numbered=False))
    assert FULL_EVENTS == events
    assert ["sequence_number"] == [note.field for note in notes.kept]
    assert isinstance(decoded(wire(*stuck, numbered=False), strict=True)[0][-1], Failed)


# ------------------------------------------------------------------ whole bodies


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"{}", "protocol"),
        (b"<html>", "protocol"),
        (b'{"object":"chat.completion"}', "protocol"),
        (b'{"output":5}', "protocol"),
        (b'{"status":"queued","output":[]}', "protocol"),
        (b'{"status":"completed","output":[{"type":"message","content":5}]}', "protocol"),
        (b'{"status":"failed","error":{"message":"x"}}', "upstream"),
        (b'{"error":{"message":"x"}}', "upstream"),
    ],
)
def test_bodies_that_are_no_answers(body, cause):
    """A body that is no finished response is a failure."""
    (failed,) = Decoder(Source()).whole(body)
    assert cause == failed.fault.cause


def test_whole_body_is_no_repair():
    """A body has no events to miss, so strict mode takes it too."""
    decoder = Decoder(Source(strict=True))
    body = json.dumps({"id": "r", "output": [message("x"), function()], "usage": USAGE}).encode()
    events = decoder.whole(body)
    assert Finish("tool") == events[-1]
    assert [] == decoder.notes.kept


def test_citations_in_a_whole_body():
    """Citations of a body belong to their part."""
    note = {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 2}
    body = {
        "status": "completed",
        "output": [message("see", content=[{"type": "output_text", "text": "see", "annotations": [note]}])],
    }
    events = Decoder(Source()).whole(json.dumps(body).encode())
    assert Mark(1, Citation("https://x", "X", 0, 2)) in events
