"""The Chat encoder: the grammar of spec/translation.md 2.3 for every kind of event."""

import json

import pytest

from tests.translators.grammar_chat import Call, check
from translators.carrier import seal
from translators.chat.encoder import encoder
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
from translators.fault import broken

REPLY = Reply("alias", created=7, seed="5eed", origin="o")
CANONICAL = [
    Start("msg_1", "claude", 0, Usage(uncached=1)),
    BlockStart(1, "reasoning"),
    Delta(1, "R"),
    Mark(1, Carried("th", "sig")),
    BlockEnd(1),
    BlockStart(2, "text"),
    Delta(2, "T"),
    BlockEnd(2),
    BlockStart(3, "tool", "call_a", "a"),
    Delta(3, '{"x":1}'),
    BlockEnd(3),
    BlockStart(4, "tool", "call_b", "b"),
    BlockEnd(4),
    Usage(uncached=3, output=2),
    Finish("tool"),
]


def written(events, reply=REPLY):
    machine = encoder(reply)
    return b"".join(machine.push(event) for event in events)


def deltas(raw):
    chunks = [json.loads(line[6:]) for line in raw.decode().split("\n\n") if line.startswith("data: {")]
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]


def block(kind, *texts, end=True, **more):
    return [BlockStart(1, kind, **more), *(Delta(1, text) for text in texts), BlockEnd(1, end)]


@pytest.mark.invariant("I25")
def test_the_canonical_scenario_has_its_golden_order():
    """Role, reasoning, its state, text, two calls, finish, usage, [DONE] (5.5)."""
    reply = Reply("alias", created=7, seed="5eed", origin="o", include_usage=True)
    raw = written(CANONICAL, reply)
    carrier = seal(Carried("th", "sig"), "o")
    entry = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "signature": carrier}
    assert [
        {"role": "assistant"},
        {"reasoning_content": "R"},
        {"reasoning_details": [entry]},
        {"content": "T"},
        {"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": {"name": "a", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":1}'}}]},
        {"tool_calls": [{"index": 1, "id": "call_b", "type": "function", "function": {"name": "b", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ] == deltas(raw)
    summary = check(raw)
    assert ("done", "tool_calls", "alias", 7, "chatcmpl-1") == (
        summary.terminal,
        summary.stop,
        summary.model,
        summary.created,
        summary.id,
    )
    assert {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5} == summary.usage
    assert [Call("call_a", "a", '{"x":1}'), Call("call_b", "b", "{}")] == summary.calls


def test_usage_comes_only_when_asked_for():
    """Without the wish there is neither a usage chunk nor a null usage."""
    raw = written(CANONICAL)
    assert check(raw).usage is None
    assert b'"usage"' not in raw


@pytest.mark.edge("E3")
def test_unknown_usage_is_zero_on_the_wire():
    """A client that asked gets integers."""
    summary = check(written([Start(), Finish("end")], Reply("m", include_usage=True)))
    assert {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0} == summary.usage


def test_usage_of_the_start_counts_until_a_better_one():
    """An early count is kept when no later one comes."""
    summary = check(written([Start(usage=Usage(uncached=4)), Finish("end")], Reply("m", include_usage=True)))
    assert 4 == summary.usage["prompt_tokens"]


@pytest.mark.edge("E1")
def test_an_empty_answer_is_role_and_finish():
    """Nothing else is needed."""
    assert [{"role": "assistant"}, {}] == deltas(written([Start(), Finish("end")]))


def test_identity_is_kept_or_made():
    """Id and time of the upstream where it has them, else ours."""
    made = check(written([Start(), Finish("end")]))
    kept = check(written([Start("chatcmpl-x", "up", 99), Finish("end")]))
    assert ("chatcmpl-5eed", 7) == (made.id, made.created)
    assert ("chatcmpl-x", 99) == (kept.id, kept.created)


@pytest.mark.edge("E38")
def test_every_chunk_names_the_alias():
    """The upstream's model name is not shown."""
    raw = written(CANONICAL, Reply('ali"as', include_usage=True))
    assert 'ali"as' == check(raw).model
    assert b"claude" not in raw.replace(b"anthropic-claude-v1", b"")


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end", "stop"),
        ("stop_sequence", "stop"),
        ("pause", "stop"),
        ("length", "length"),
        ("context", "length"),
        ("refusal", "content_filter"),
    ],
)
def test_stops_become_finish_reasons(stop, reason):
    """The table of 1.8."""
    assert reason == check(written([Start(), *block("text", "x"), Finish(stop)])).stop


@pytest.mark.invariant("I9")
def test_text_is_byte_exact():
    """Quotes, control characters and emoji come back as they went in."""
    text = 'a"b\\c\n\u2028\x01 🎉'
    summary = check(written([Start(), *block("text", text, text), *block("refusal", text), Finish("refusal")]))
    assert (text + text, text) == (summary.text, summary.refusal)


@pytest.mark.edge("E10")
def test_a_call_without_arguments_gets_an_object():
    """An empty string is no JSON."""
    assert "{}" == check(written([Start(), *block("tool", call_id="a", name="f"), Finish("tool")])).calls[0].arguments


@pytest.mark.edge("E11")
def test_nothing_is_invented_for_a_cut_call():
    """A call that the length cut before its arguments stays empty."""
    assert (
        ""
        == check(written([Start(), *block("tool", call_id="a", name="f", end=False), Finish("length")]))
        .calls[0]
        .arguments
    )


def test_raw_custom_input_is_wrapped():
    """A Chat stream has functions only, so the input is told as an object."""
    raw = written([Start(), *block("tool", "*** ", "Begin", call_id="a", name="patch", form="custom"), Finish("tool")])
    assert {"input": "*** Begin"} == json.loads(check(raw).calls[0].arguments)


def test_wrapped_custom_input_passes():
    """Its arguments are JSON already."""
    raw = written([Start(), *block("tool", '{"input":"x"}', call_id="a", name="p", form="wrapped"), Finish("tool")])
    assert '{"input":"x"}' == check(raw).calls[0].arguments


def test_log_probabilities_stand_beside_their_text():
    """The chunk's choice has them, other chunks have null."""
    entry = Logprob("a", -0.5, [97], [Logprob("b", -1.0)])
    raw = written([Start(), BlockStart(1, "text"), Delta(1, "a", (entry,)), BlockEnd(1), Finish("end")])
    check(raw)
    choice = json.loads(raw.split(b"\n\n")[1][6:])["choices"][0]
    assert {"content": "a"} == choice["delta"]
    assert -0.5 == choice["logprobs"]["content"][0]["logprob"]
    assert "b" == choice["logprobs"]["content"][0]["top_logprobs"][0]["token"]


def test_the_text_of_later_reasoning_is_repeated_in_its_details():
    """So that a history can give each block its own text back."""
    second = [BlockStart(2, "reasoning"), Delta(2, "B"), Mark(2, Carried("th", "s2")), BlockEnd(2)]
    summary = check(written([Start(), *block("reasoning", "A"), *second, Finish("end")]))
    assert "AB" == summary.reasoning
    assert [(1, "B")] == [(entry["index"], entry["text"]) for entry in summary.details]


def test_too_large_state_is_left_out():
    """Text stays."""
    events = [
        Start(),
        BlockStart(1, "reasoning"),
        Delta(1, "A"),
        Mark(1, Carried("th", "x" * 300_000)),
        BlockEnd(1),
        Finish("end"),
    ]
    summary = check(written(events))
    assert ("A", []) == (summary.reasoning, summary.details)


@pytest.mark.edge("E40")
def test_citations_and_receipts_are_dropped():
    """A Chat delta has no place for them."""
    cited = [BlockStart(1, "text"), Delta(1, "x"), Mark(1, Citation("u")), BlockEnd(1)]
    ran = [BlockStart(2, "receipt"), Mark(2, Receipt("i", "s", "n", "{}")), BlockEnd(2)]
    assert [{"role": "assistant"}, {"content": "x"}, {}] == deltas(written([Start(), *cited, *ran, Finish("end")]))


@pytest.mark.edge("E23")
@pytest.mark.parametrize("before", [[], [Start()], [Start(), BlockStart(1, "text"), Delta(1, "x")]])
def test_a_failure_ends_the_stream_at_any_point(before):
    """One error object, no [DONE], nothing after it."""
    machine = encoder(REPLY)
    raw = b"".join(
        machine.push(event) for event in [*before, Failed(broken("gone")), Finish("end"), Failed(broken("x"))]
    )
    assert "gone" == check(raw).error["message"]
    assert b"" == machine.keepalive()


@pytest.mark.edge("E37")
def test_a_keepalive_is_a_comment():
    """Before, within and never after the stream."""
    machine = encoder(REPLY)
    raw = (
        machine.keepalive()
        + machine.push(Start())
        + machine.keepalive()
        + machine.push(Finish("end"))
        + machine.keepalive()
    )
    assert "done" == check(raw).terminal
    assert 2 == raw.count(b": keepalive\n\n")
