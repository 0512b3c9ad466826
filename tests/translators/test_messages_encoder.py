"""The Messages encoder: sequenced events to a client's stream, checked by the grammar oracle."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translators.grammar_messages import check
from translators.carrier import MAX_CARRIER_BYTES, seal
from translators.conversation import Receipt
from translators.dialect import Reply
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
from translators.fault import Fault, broken
from translators.messages.encoder import Encoder, call_id, stop_of, usage_object
from translators.notes import Notes
from translators.sequencer import Sequencer
from translators.sse import COMMENT

REPLY = Reply("m1", seed="5eed", origin="here")
START = Start("resp_1", "up-m")
STATE = Carried("rs", "enc", "rs_1")


def write(*events, reply=REPLY):
    encoder = Encoder(reply)
    return b"".join(encoder.push(event) for event in events)


def block(key, kind, *deltas, **members):
    return (BlockStart(key, kind, **members), *(Delta(key, text) for text in deltas), BlockEnd(key))


def test_the_canonical_answer_is_written():
    """The golden order of spec/translation.md 5.5."""
    raw = write(
        START,
        BlockStart(0, "reasoning"),
        Delta(0, "R"),
        Mark(0, STATE),
        BlockEnd(0),
        *block(1, "text", "T"),
        *block(2, "tool", '{"x":1}', call_id="call_a", name="a"),
        *block(3, "tool", call_id="call_b", name="b"),
        Usage(uncached=5, cache_read=1, cache_write=2, output=9, reasoning=3),
        Finish("tool"),
    )
    seen = check(raw)
    block_of = ["content_block_start", "content_block_delta", "content_block_stop"]
    signed = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
    assert ["message_start", *signed, *block_of * 3, "message_delta", "message_stop"] == seen.events
    assert ("msg_1", "m1", "tool_use", None) == (seen.id, seen.model, seen.stop, seen.stop_sequence)
    assert (["R"], ["T"], [seal(STATE, "here")]) == (seen.reasoning, seen.texts, seen.states)
    assert [("call_a", "a", '{"x":1}'), ("call_b", "b", "{}")] == seen.calls
    assert {
        "input_tokens": 5,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 1,
        "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 3},
    } == seen.usage


@pytest.mark.edge("E1")
@pytest.mark.edge("E3")
@pytest.mark.invariant("I27")
def test_an_empty_answer_has_its_frame():
    """Without content or usage there is still a start, one message_delta with both counts, and a stop."""
    seen = check(write(START, Finish("end")))
    assert ["message_start", "message_delta", "message_stop"] == seen.events
    assert {"input_tokens": 0, "output_tokens": 0} == seen.usage


def test_counts_known_at_the_start_are_told_at_once():
    """message_start has what is known, and the end repeats it unless better counts came."""
    started = write(Start("x", usage=Usage(uncached=4, output=1)))
    assert b'"usage":{"input_tokens":4,"output_tokens":1}' in started
    ended = check(write(Start("x", usage=Usage(uncached=4)), Usage(), Finish("end")))
    assert {"input_tokens": 4, "output_tokens": 0} == ended.usage


@pytest.mark.edge("E14")
def test_reasoning_without_text_keeps_its_state():
    """A block with a carrier alone is an empty thinking block with a signature."""
    seen = check(write(START, BlockStart(0, "reasoning"), Mark(0, STATE), BlockEnd(0), Finish("end")))
    assert ([""], [seal(STATE, "here")]) == (seen.reasoning, seen.states)


def test_state_that_is_too_large_is_not_carried():
    """A signature beyond the carrier's bound is left out, the text stays."""
    huge = Carried("rs", "x" * MAX_CARRIER_BYTES)
    seen = check(write(START, BlockStart(0, "reasoning"), Delta(0, "R"), Mark(0, huge), BlockEnd(0), Finish("end")))
    assert (["R"], []) == (seen.reasoning, seen.states)


def test_a_signature_stays_with_its_own_block():
    """State of one block never signs the next."""
    events = (BlockStart(0, "reasoning"), Mark(0, STATE), BlockEnd(0), *block(1, "reasoning", "S"))
    assert 1 == len(check(write(START, *events, Finish("end"))).states)


@pytest.mark.edge("E16")
def test_a_refusal_is_text_that_stops_for_refusal():
    """Messages has no refusal channel (1.8)."""
    seen = check(write(START, *block(0, "refusal", "No."), Finish("refusal")))
    assert (["No."], "refusal") == (seen.texts, seen.stop)


@pytest.mark.edge("E40")
def test_citations_are_dropped():
    """A citation of another protocol has no form here; the text is intact."""
    events = (BlockStart(0, "text"), Delta(0, "T"), Mark(0, Citation("https://a.example")), BlockEnd(0))
    assert write(START, *block(0, "text", "T"), Finish("end")) == write(START, *events, Finish("end"))


def test_raw_input_of_a_custom_tool_is_one_object():
    """Free text becomes the wrapper's object in one delta (5.3)."""
    raw = write(START, *block(0, "tool", 'a "b"', "\nc", call_id="c", name="patch", form="custom"), Finish("tool"))
    assert [("c", "patch", '{"input":"a \\"b\\"\\nc"}')] == check(raw).calls
    raw = write(START, *block(0, "tool", call_id="c", name="patch", form="custom"), Finish("tool"))
    assert [("c", "patch", '{"input":""}')] == check(raw).calls


def test_wrapped_arguments_pass_as_they_are():
    """The function that stands for a custom tool has its object already."""
    raw = write(START, *block(0, "tool", '{"input":"x"}', call_id="c", name="patch", form="wrapped"), Finish("tool"))
    assert [("c", "patch", '{"input":"x"}')] == check(raw).calls


@pytest.mark.parametrize(
    ("receipt", "told"),
    [
        (Receipt("m.1", "docs", "find", '{"q":1}', "found"), ("find", '{"q":1}', False, "found")),
        (Receipt("m", "docs", "find", "", "", None), ("find", "{}", False, "")),
        (Receipt("m", "docs", "find", "no json", None, "broke"), ("find", '{"input":"no json"}', True, "broke")),
        (Receipt("m", "docs", "find", "{}"), ("find", "{}", True, "[no result]")),
    ],
)
def test_a_receipt_is_two_native_blocks(receipt, told):
    """A provider-run call and its result keep their native shape, and indexes stay contiguous."""
    events = (BlockStart(0, "receipt", receipt.id, receipt.name), Mark(0, receipt), BlockEnd(0))
    seen = check(write(START, *events, *block(1, "text", "T"), Finish("end")))
    assert [told] == seen.receipts
    assert ["receipt", "text"] == seen.kinds


@pytest.mark.parametrize(
    ("stop", "sequence", "reason"),
    [
        ("end", None, ("end_turn", None)),
        ("tool", None, ("tool_use", None)),
        ("length", None, ("max_tokens", None)),
        ("context", None, ("model_context_window_exceeded", None)),
        ("stop_sequence", "END", ("stop_sequence", "END")),
        ("stop_sequence", None, ("end_turn", None)),
        ("refusal", None, ("refusal", None)),
        ("pause", None, ("pause_turn", None)),
    ],
)
def test_every_stop_has_its_reason(stop, sequence, reason):
    """Neutral stops become stop reasons; an unknown stop sequence ends the turn (1.8)."""
    assert reason == stop_of(stop, sequence)


def test_unknown_counts_are_zero_only_where_the_type_wants_them():
    """Both main counts are integers always, the others appear when they are known (1.7)."""
    assert {"input_tokens": 0, "output_tokens": 0} == usage_object(Usage())
    assert {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0} == usage_object(Usage(cache_read=0))


@pytest.mark.parametrize(("upstream", "client"), [("call_a", "call_a"), ("a.b", "a_b_51e98c3f"), ("", "toolu_5eed_2")])
def test_call_ids_are_legal(upstream, client):
    """An id is kept, cleaned or made (1.3)."""
    made = call_id(BlockStart(0, "tool", upstream, "f"), "5eed", 2)
    assert client[:4] == made[:4]
    assert made == call_id(BlockStart(0, "tool", upstream, "f"), "5eed", 2)
    assert made.replace("_", "").replace("-", "").isalnum()


def test_calls_without_id_are_told_apart():
    """Made ids count the calls."""
    raw = write(START, *block(0, "tool", name="a"), *block(1, "tool", name="b"), Finish("tool"))
    assert ["toolu_5eed_0", "toolu_5eed_1"] == [made for made, _, _ in check(raw).calls]


@pytest.mark.edge("E25")
@pytest.mark.invariant("I20")
def test_a_failure_is_one_error_event():
    """No block is closed and no message ended beside an error (2.1)."""
    raw = write(START, BlockStart(0, "text"), Delta(0, "T"), Failed(broken("cut", cause="eof")))
    seen = check(raw)
    assert ("error", {"type": "api_error", "message": "cut"}) == (seen.terminal, seen.error)
    assert ["message_start", "content_block_start", "content_block_delta", "error"] == seen.events


def test_a_failure_may_come_before_the_start():
    """The error form is whole without message_start."""
    assert ["error"] == check(write(Failed(Fault(kind="overloaded", message="m")))).events


@pytest.mark.edge("E37")
@pytest.mark.invariant("I29")
def test_keepalives_fit_their_place():
    """A comment before message_start, a ping after it, nothing after the end (1.16)."""
    encoder = Encoder(REPLY)
    assert COMMENT == encoder.keepalive()
    raw = encoder.push(START)
    raw += encoder.keepalive()
    assert ["message_start", "ping"] == check(raw, ended=False).events
    encoder.push(Finish("end"))
    assert b"" == encoder.keepalive()
    failed = Encoder(REPLY)
    failed.push(Failed(broken("m")))
    assert b"" == failed.keepalive()


@pytest.mark.invariant("I9")
@given(st.lists(st.text(min_size=1), min_size=1))
def test_text_is_byte_exact(pieces):
    """Concatenated deltas are the source's text, whatever characters it has."""
    seen = check(write(START, *block(0, "text", *pieces), Finish("end")))
    assert ["".join(pieces)] == seen.texts


KINDS = st.sampled_from(["text", "refusal", "reasoning", "tool"])


@pytest.mark.invariant("I19")
@pytest.mark.invariant("I21")
@pytest.mark.invariant("I22")
@pytest.mark.invariant("I23")
@given(st.lists(st.tuples(KINDS, st.booleans(), st.booleans()), max_size=6), st.booleans(), st.booleans())
def test_any_sequenced_answer_obeys_the_grammar(blocks, interleaved, fails):
    """Whatever a decoder tells, in whatever order, the client's stream keeps the grammar."""
    starts, ends = [], []
    for key, (kind, filled, marked) in enumerate(blocks):
        starts.append(BlockStart(key, kind, f"call_{key}", f"f{key}") if kind == "tool" else BlockStart(key, kind))
        text = '{"a":1}' if kind == "tool" else "text"
        ends += [Delta(key, text)] if filled else []
        ends += [Mark(key, STATE)] if marked and kind == "reasoning" else []
        ends.append(BlockEnd(key))
        if not interleaved:
            starts += ends
            ends = []
    end = Failed(broken("m")) if fails else Finish("end")
    sequencer, encoder = Sequencer(Notes()), Encoder(REPLY)
    raw = b"".join(encoder.push(ordered) for event in (START, *starts, *ends, end) for ordered in sequencer.push(event))
    assert ("error" if fails else "success") == check(raw).terminal


@pytest.mark.parametrize("kind", ["message_start", "content_block_delta", "message_delta"])
def test_every_frame_is_named(kind):
    """The official SDK skips events without a name (1.16)."""
    raw = write(START, *block(0, "text", "T"), Finish("end"))
    assert b"event: %b\ndata: " % kind.encode() in raw
    assert all("type" in json.loads(line[6:]) for line in raw.splitlines() if line.startswith(b"data: "))
