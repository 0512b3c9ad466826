"""The Responses encoder against an independent grammar: every stream, prefix and failure (2.2, 5.3)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translators.grammar_responses import Call, check
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
    Logprob,
    Mark,
    Start,
    Usage,
)
from translators.fault import Fault, broken
from translators.responses.encoder import Encoder
from translators.sse import COMMENT

SEED = "0123456789abcdef01234567"
REPLY = Reply("alias", created=1_700_000_000, seed=SEED, origin="here")
START = Start("chatcmpl-abc", "up", 1_600_000_000)


def block(key, kind, *pieces, marks=(), complete=True, **start):
    return [
        BlockStart(key, kind, **start),
        *[Delta(key, piece) for piece in pieces],
        *[Mark(key, mark) for mark in marks],
        BlockEnd(key, complete),
    ]


def tool(key, call_id, name, *pieces, **start):
    return block(key, "tool", *pieces, call_id=call_id, name=name, **start)


def encoded(*events, reply=REPLY):
    encoder = Encoder(reply)
    return b"".join(encoder.push(event) for event in events)


def summary(*events, stop="end", reply=REPLY):
    return check(encoded(START, *events, Usage(12, 5, 3, 7, 2), Finish(stop), reply=reply))


def events_of(raw):
    return [json.loads(line[6:]) for line in raw.decode().split("\n") if line.startswith("data: ")]


CANONICAL = [
    *block(1, "reasoning", "R", marks=[Carried("th", "sig")]),
    *block(2, "text", "T"),
    *tool(3, "call_a", "a", '{"x":1}'),
    *tool(4, "call_b", "b"),
]


@pytest.mark.edge("E10")
def test_canonical_scenario():
    """Reasoning, text and two calls come in the golden order of 5.5, with numbers from 0 to 22."""
    told = summary(*CANONICAL, stop="tool")
    assert [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ] == [kind.removeprefix("response.") for kind in told.types]
    assert (["R"], ["T"]) == (told.reasoning, told.texts)
    assert [
        Call("call_a", "a", '{"x":1}', status="completed"),
        Call("call_b", "b", "{}", status="completed"),
    ] == told.calls


@pytest.mark.invariant("I19")
@pytest.mark.invariant("I26")
def test_every_prefix_may_fail():
    """Whatever was sent before, a failure ends the stream in its own form, with the items that were done."""
    for count in range(len(CANONICAL) + 1):
        told = check(encoded(START, *CANONICAL[:count], Failed(broken("cut", cause="eof"))))
        assert "failed" == told.terminal
        assert {"code": "server_error", "message": "cut"} == told.error
    assert ["reasoning", "message", "function_call"] == [item["type"] for item in told.items]


@pytest.mark.edge("E26")
def test_failure_before_the_start():
    """A failure that comes first is a whole failed response with an id of ours."""
    told = check(encoded(Failed(Fault(kind="rate_limited", message="slow down"))))
    assert ["response.created", "response.in_progress", "response.failed"] == told.types
    assert f"resp_{SEED}" == told.response["id"]
    assert {"code": "rate_limit_exceeded", "message": "slow down"} == told.error
    assert told.usage is None


@pytest.mark.edge("E1")
def test_answer_without_content():
    """An empty answer completes with no output."""
    told = summary()
    assert ("completed", []) == (told.terminal, told.items)


@pytest.mark.edge("E3")
def test_unknown_usage_is_zero_on_the_wire():
    """Readers insist on integers."""
    assert 0 == check(encoded(START, Finish("end"))).usage["total_tokens"]


def test_last_usage_counts():
    """Counts of the start are replaced by later ones, and are there when the answer fails."""
    start = Start("resp_1", usage=Usage(4))
    assert 4 == check(encoded(start, Failed(broken("x")))).usage["input_tokens"]
    assert 20 == check(encoded(start, Usage(12, 5, 3, 7), Finish("end"))).usage["input_tokens"]


def test_ids():
    """The response keeps its id under our prefix, items have ids made of it, calls of their call id."""
    told = summary(*CANONICAL, stop="tool")
    assert "resp_abc" == told.response["id"]
    assert ["rs_abc_0", "msg_abc_1", "fc_call_a", "fc_call_b"] == [item["id"] for item in told.items]
    assert 1_600_000_000 == told.response["created_at"]
    assert 1_700_000_000 == check(encoded(Start(), Finish("end"))).response["created_at"]


def test_call_without_id_gets_one():
    """A call that no decoder could name gets an id of its own."""
    told = summary(*tool(1, "", "a"), *tool(2, "", "b"), stop="tool")
    assert ["call_abc_1", "call_abc_2"] == [call.id for call in told.calls]


@pytest.mark.edge("E38")
def test_client_sees_its_alias_and_its_request():
    """Lifecycle objects have the client's name for the model and repeat its request."""
    reply = Reply("alias", seed=SEED, echo={"tools": [{"type": "x"}], "temperature": 0.5, "metadata": {"a": "b"}})
    response = summary(reply=reply).response
    assert ("alias", [{"type": "x"}], 0.5, {"a": "b"}) == (
        response["model"],
        response["tools"],
        response["temperature"],
        response["metadata"],
    )
    assert ("auto", True, "disabled", False) == (
        response["tool_choice"],
        response["parallel_tool_calls"],
        response["truncation"],
        response["store"],
    )


def test_adjacent_text_and_refusal_share_a_message():
    """Blocks of speech with nothing between them are parts of one message (4.4)."""
    told = summary(*block(1, "text", "a"), *block(2, "text", "b"), *block(3, "refusal", "no"), *tool(4, "c", "f"))
    assert ["message", "function_call"] == [item["type"] for item in told.items]
    assert (["a", "b"], ["no"]) == (told.texts, told.refusals)


@pytest.mark.edge("E13")
def test_other_blocks_separate_messages():
    """Reasoning between two texts makes two messages."""
    told = summary(*block(1, "text", "a"), *block(2, "reasoning", "R"), *block(3, "text", "b"))
    assert ["message", "reasoning", "message"] == [item["type"] for item in told.items]


@pytest.mark.parametrize(
    ("stop", "terminal", "status", "reason"),
    [
        ("end", "completed", "completed", "completed"),
        ("tool", "completed", "completed", "completed"),
        ("stop_sequence", "completed", "completed", "completed"),
        ("pause", "completed", "completed", "completed"),
        ("length", "incomplete", "incomplete", "max_output_tokens"),
        ("context", "incomplete", "incomplete", "max_output_tokens"),
        ("refusal", "incomplete", "incomplete", "content_filter"),
    ],
)
def test_stops(stop, terminal, status, reason):
    """Each stop has its terminal, and a cut shows on the last item only (1.8)."""
    told = summary(*block(1, "reasoning", "R"), *block(2, "text", "T"), stop=stop)
    assert (terminal, reason) == (told.terminal, told.stop)
    assert ["completed", status] == [item["status"] for item in told.items]


@pytest.mark.edge("E11")
def test_cut_call_is_incomplete():
    """Arguments that were cut stay as they are, and the item says that it is not whole."""
    told = summary(*tool(1, "c", "f", '{"a":'), stop="length")
    assert [Call("c", "f", '{"a":', status="incomplete")] == told.calls


def test_source_may_say_that_a_block_is_cut():
    """A block that its source did not complete is incomplete, whatever follows."""
    told = summary(
        *block(1, "reasoning", "R", complete=False),
        *block(2, "text", "a", complete=False),
        *block(3, "text", "b"),
        *tool(4, "c", "f", "{}"),
    )
    assert ["incomplete", "incomplete", "completed"] == [item["status"] for item in told.items]


@pytest.mark.edge("E39")
def test_wrapped_custom_calls_come_back_unwrapped():
    """A function that stands for a custom tool is told as the custom call, its input in one delta."""
    raw = encoded(START, *tool(1, "c", "patch", '{"inp', 'ut":"*** Begin\\n"}', form="wrapped"), Finish("tool"))
    told = check(raw)
    assert [Call("c", "patch", "*** Begin\n", custom=True, status="completed")] == told.calls
    assert 1 == told.types.count("response.custom_tool_call_input.delta")
    assert "ctc_c" == told.items[0]["id"]


@pytest.mark.parametrize(("pieces", "text"), [((), ""), (("not json",), "not json"), (('{"input":""}',), "")])
def test_wrapped_input_that_is_no_wrapping(pieces, text):
    """Arguments of another form are taken for the input itself."""
    assert text == summary(*tool(1, "c", "patch", *pieces, form="wrapped")).calls[0].arguments


def test_custom_calls_stream_their_input():
    """Raw input goes out as it comes, and may be empty."""
    told = summary(*tool(1, "c", "p", "a", "b", form="custom"), *tool(2, "d", "p", form="custom"))
    assert ["ab", ""] == [call.arguments for call in told.calls]
    assert 2 == told.types.count("response.custom_tool_call_input.delta")


@pytest.mark.parametrize("form", ["function", "custom", "wrapped"])
def test_namespaces_are_a_field_of_their_own(form):
    """Codex finds a namespaced tool by two fields only."""
    told = summary(*tool(1, "c", "create", namespace="tracker", form=form))
    assert ("tracker", "create") == (told.calls[0].namespace, told.calls[0].name)


@pytest.mark.invariant("I17")
def test_state_is_sealed_for_its_origin():
    """Opaque state rides in encrypted_content, tagged with where it may return to."""
    told = summary(*block(1, "reasoning", "R", marks=[Carried("th", "sig")]))
    assert told.carriers[0].startswith("gw1.th.here.")


def test_hidden_reasoning_has_an_empty_summary():
    """State without text makes an item with an empty summary."""
    told = summary(*block(1, "reasoning", marks=[Carried("rs", "enc", "rs_1")]))
    assert ([""], []) == (told.reasoning, told.items[0]["summary"])
    assert 1 == len(told.carriers)


def test_state_too_large_to_carry_is_left_out():
    """A carrier is bounded."""
    told = summary(*block(1, "reasoning", "R", marks=[Carried("rs", "x" * 300_000)]))
    assert [] == told.carriers


def test_citations_follow_the_text():
    """A citation is told before its text's end; without offsets it spans the part."""
    told = summary(
        *block(1, "text", "one ", "two", marks=[Citation("https://x", "X"), Citation("https://y", "", 4, 7)]),
        *block(2, "refusal", "no", marks=[Citation("https://z")]),
    )
    assert [("https://x", 0, 7), ("https://y", 4, 7)] == [
        (note["url"], note["start_index"], note["end_index"]) for note in told.citations
    ]


def test_log_probabilities():
    """They come with their delta, without bytes, and stay whole in the done part (1.15)."""
    logprob = Logprob("é", -0.5, None, [Logprob("b", -1.0, [98])])
    raw = encoded(START, BlockStart(1, "text"), Delta(1, "é", (logprob,)), BlockEnd(1), Finish("end"))
    told = check(raw)
    spoken = {"token": "é", "logprob": -0.5, "top_logprobs": [{"token": "b", "logprob": -1.0}]}
    assert [[spoken], [spoken]] == [event["logprobs"] for event in events_of(raw) if "logprobs" in event]
    assert [
        {
            "token": "é",
            "logprob": -0.5,
            "bytes": [195, 169],
            "top_logprobs": [{"token": "b", "logprob": -1.0, "bytes": [98]}],
        }
    ] == told.items[0]["content"][0]["logprobs"]


@pytest.mark.parametrize(("error", "status"), [(None, "completed"), ("broke", "failed")])
def test_receipts_are_mcp_calls(error, status):
    """A call that the provider ran is told whole, and no client runs it."""
    receipt = Receipt("", "s", "n", '{"a":1}', "out", error)
    told = summary(*block(1, "text", "a"), *block(2, "receipt", marks=[receipt]), *block(3, "text", "b"))
    assert ["message", "mcp_call", "message"] == [item["type"] for item in told.items]
    assert {
        "id": "mcp_abc_1",
        "type": "mcp_call",
        "status": status,
        "server_label": "s",
        "name": "n",
        "arguments": '{"a":1}',
        "output": "out",
        "error": error,
    } == told.receipts[0]


def test_receipt_that_never_came_leaves_no_gap():
    """A receipt block without a receipt takes no index."""
    told = summary(*block(1, "receipt"), *block(2, "text", "a"))
    assert ["message"] == [item["type"] for item in told.items]


def test_closings_wait_but_deltas_do_not():
    """The end of an item is held until the next begins; text is never held."""
    encoder = Encoder(REPLY)
    encoder.push(START)
    encoder.push(BlockStart(1, "text"))
    assert b"output_text.delta" in encoder.push(Delta(1, "a"))
    assert b"" == encoder.push(BlockEnd(1))
    assert b"output_item.done" in encoder.push(BlockStart(2, "tool", "c", "f"))


def test_failure_keeps_the_held_end_back():
    """A call whose end was held is not done when the answer fails: nobody shall run it."""
    told = check(encoded(START, *tool(1, "c", "f", "{}"), Failed(broken("bad"))))
    assert [] == told.items


@pytest.mark.invariant("I29")
@pytest.mark.edge("E22")
@pytest.mark.parametrize("end", [Finish("end"), Failed(broken("x"))])
def test_nothing_after_the_terminal(end):
    """After its terminal a stream is silent, keepalives included."""
    encoder = Encoder(REPLY)
    assert COMMENT == encoder.keepalive()
    encoder.push(START)
    assert COMMENT == encoder.keepalive()
    encoder.push(end)
    assert b"" == encoder.keepalive()
    for event in (START, *CANONICAL, Usage(), Finish("end"), Failed(broken("y"))):
        assert b"" == encoder.push(event)


def test_nothing_after_a_failure_within_a_block():
    """A failure closes the open block for good."""
    encoder = Encoder(REPLY)
    for event in (START, BlockStart(1, "text"), Delta(1, "a"), Failed(broken("x"))):
        encoder.push(event)
    assert b"" == encoder.push(Delta(1, "b"))


def test_stray_events_are_nothing():
    """Events outside a block, which the sequencer never sends, do no harm."""
    assert ["response.created", "response.in_progress", "response.completed"] == summary(
        Delta(1, "x"), Mark(1, Citation("https://x")), BlockEnd(1), START
    ).types


TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4)
BLOCKS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["text", "refusal", "reasoning"]), TEXTS),
        st.tuples(st.sampled_from(["custom", "wrapped"]), TEXTS),
        st.tuples(st.just("function"), st.just(["{}"])),
    ),
    max_size=8,
)


@given(BLOCKS, st.sampled_from(["end", "length", "refusal"]))
def test_any_sequence_of_blocks_is_well_formed(blocks, stop):
    """Every order of blocks and every text gives a stream of the grammar, byte for byte the same text (I9)."""
    events = []
    for key, (kind, pieces) in enumerate(blocks):
        if kind in ("text", "refusal", "reasoning"):
            events += block(key, kind, *pieces)
        else:
            events += tool(key, f"call_{key}", "f", *pieces, form=kind)
    told = summary(*events, stop=stop)
    for kind, texts in (("text", told.texts), ("refusal", told.refusals), ("reasoning", told.reasoning)):
        assert ["".join(pieces) for one, pieces in blocks if one == kind] == texts
    assert sum(kind in ("function", "custom", "wrapped") for kind, _ in blocks) == len(told.calls)


@given(st.integers(0, 10_000))
def test_any_prefix_of_the_bytes_is_a_prefix_of_the_grammar(cut):
    """A client that reads on sees nothing that the grammar forbids."""
    raw = encoded(START, *CANONICAL, Finish("tool"))
    check(raw[: cut % len(raw)], ended=False)
