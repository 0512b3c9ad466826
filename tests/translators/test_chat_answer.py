"""Whole Chat answers, read and written; what a stream brings and what a body says agree (I18)."""

import json

import pytest

from tests.translators.grammar_chat import check
from translators.carrier import seal
from translators.chat.answer import answer, read_answer
from translators.chat.encoder import encoder
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
from translators.fold import Answer, Block, Fold

REPLY = Reply("alias", created=7, seed="5eed", origin="o")
MESSAGE = {
    "role": "assistant",
    "reasoning_content": "R",
    "content": "T",
    "refusal": "N",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
BODY = {
    "id": "up-1",
    "created": 5,
    "model": "up-m",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


def read(body, *, strict=False):
    return read_answer(body if isinstance(body, bytes) else json.dumps(body).encode(), Source(strict=strict))


def texts(events):
    return [(event.key, event.text) for event in events if isinstance(event, Delta)]


def test_a_whole_answer_becomes_ordered_events():
    """Reasoning, text, refusal, calls, counts, finish (4.1)."""
    events = read(BODY)
    assert Start("up-1", "up-m", 5) == events[0]
    assert ["reasoning", "text", "refusal", "tool"] == [event.kind for event in events if isinstance(event, BlockStart)]
    assert ["R", "T", "N", "{}"] == [text for _, text in texts(events)]
    assert [Usage(uncached=3, output=2), Finish("tool")] == events[-2:]


def test_an_envelope_is_opened():
    """Cline wraps whole answers."""
    assert read(BODY) == read({"success": True, "data": BODY})


def test_choices_of_one_answer_are_merged():
    """Text in one choice, the call in another, of the same index or of the next."""
    for index in (0, 1):
        choices = [
            {"index": 0, "message": {"content": "T"}, "finish_reason": "tool_calls"},
            {
                "index": index,
                "message": {"content": None, "tool_calls": MESSAGE["tool_calls"]},
                "finish_reason": "tool_calls",
            },
        ]
        assert ["T", "{}"] == [text for _, text in texts(read({**BODY, "choices": choices}))]


def test_a_second_alternative_is_ignored():
    """One was asked for, so its text is nobody's."""
    choices = [*BODY["choices"], {"index": 1, "message": {"content": "other"}, "finish_reason": "stop"}]
    assert read(BODY) == read({**BODY, "choices": choices})


def test_arguments_may_be_an_object():
    """They are written as JSON once, and the call gets an id."""
    message = {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"city": "Paris"}}}]}
    events = read({**BODY, "choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert [BlockStart(1, "tool", "call_up-1_0", "f"), Delta(1, '{"city":"Paris"}'), BlockEnd(1)] == events[1:4]


def test_custom_calls_are_raw():
    """A native custom call brings its input."""
    message = {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "p", "input": "raw"}}]}
    events = read({**BODY, "choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert [BlockStart(1, "tool", "a", "p", form="custom"), Delta(1, "raw")] == events[1:3]


def test_a_missing_finish_reason_is_repaired():
    """The body is complete JSON, so the answer is; strict wants the word."""
    body = {**BODY, "choices": [{"message": {"content": "T"}, "finish_reason": None}]}
    assert Finish("end") == read(body)[-1]
    assert isinstance(read(body, strict=True)[-1], Failed)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"choices": []}, "the upstream's answer has no choices"),
        ({}, "the upstream's answer has no choices"),
        ({"success": True, "data": {"x": 1}}, "the upstream's answer has no choices"),
        ({"error": {"message": "told"}}, "told"),
        ({"success": False, "error": "told"}, "told"),
        (b"<html>", "the upstream sent malformed JSON"),
        (b"[]", "the upstream sent wrong types"),
        (
            {"choices": [{"message": {"tool_calls": [MESSAGE["tool_calls"][0]] * 2}}]},
            "two tool calls of the upstream have the same id",
        ),
    ],
)
def test_what_is_no_answer_fails(body, message):
    """The last event is Failed, and nothing of the body but its own error message is told."""
    assert message == read(body)[-1].fault.message


def block(kind, text="", **more):
    start = {name: more.pop(name) for name in ("call_id", "name", "form") if name in more}
    return Block(BlockStart(1, kind, **start), text, **more)


def message_of(*blocks, **more):
    choice = json.loads(answer(Answer(Start(), list(blocks), **more), REPLY))["choices"][0]
    return choice["message"]


def test_an_answer_has_all_members():
    """Identity, one choice, counts."""
    body = json.loads(answer(Answer(Start("msg_1", "up", 9), [block("text", "T")], Usage(uncached=1, output=2)), REPLY))
    assert {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 9,
        "model": "alias",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "T", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    } == body


@pytest.mark.edge("E19")
def test_blocks_of_a_kind_are_joined():
    """Text, refusal and reasoning each become one string, null where there is none."""
    found = message_of(
        block("text", "a"), block("reasoning", "r"), block("refusal", "n"), block("text", "b"), block("reasoning", "s")
    )
    assert ("ab", "n", "rs") == (found["content"], found["refusal"], found["reasoning_content"])
    assert {"role": "assistant", "content": None, "refusal": None} == message_of()


def test_state_is_carried():
    """Each reasoning block with state has its entry; later ones repeat their text."""
    first, second = Carried("th", "1"), Carried("th", "2")
    found = message_of(
        block("reasoning", "a", carried=first), block("reasoning", "b", carried=second), block("reasoning", "c")
    )
    assert [(None, seal(first, "o")), ("b", seal(second, "o"))] == [
        (entry.get("text"), entry["signature"]) for entry in found["reasoning_details"]
    ]


@pytest.mark.edge("E39")
@pytest.mark.invariant("I18")
def test_calls_have_the_form_that_streams_have():
    """All calls are functions, as in a stream; the raw input of a custom tool is wrapped."""
    found = message_of(
        block("tool", '{"x":1}', call_id="a", name="f"),
        block("tool", "", call_id="b", name="g"),
        block("tool", "", call_id="c", name="h", complete=False),
        block("tool", '{"input":"raw"}', call_id="d", name="p", form="wrapped"),
        block("tool", "raw", call_id="e", name="q", form="custom"),
        stop="tool",
    )
    assert [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        {"id": "c", "type": "function", "function": {"name": "h", "arguments": ""}},
        {"id": "d", "type": "function", "function": {"name": "p", "arguments": '{"input":"raw"}'}},
        {"id": "e", "type": "function", "function": {"name": "q", "arguments": '{"input":"raw"}'}},
    ] == found["tool_calls"]


def test_citations_are_shifted_to_the_whole_content():
    """Offsets count characters of all text before; no offsets span the block."""
    found = message_of(
        block("text", "é🎉", citations=[Citation("u")]),
        block("tool", "{}", call_id="a", name="f"),
        block("text", "cd", citations=[Citation("v", "V", 1, 2)]),
    )
    spans = [(one["type"], *one["url_citation"].values()) for one in found["annotations"]]
    assert [("url_citation", "u", "", 0, 2), ("url_citation", "v", "V", 3, 4)] == spans


def test_log_probabilities_are_kept():
    """They belong to the choice."""
    body = json.loads(answer(Answer(Start(), [block("text", "a", logprobs=[Logprob("a", -1.0)])]), REPLY))
    assert ["a"] == [entry["token"] for entry in body["choices"][0]["logprobs"]["content"]]


@pytest.mark.invariant("I18")
def test_stream_and_body_agree():
    """The same events give the same answer either way."""
    events = [
        Start("x", "m", 3),
        BlockStart(1, "reasoning"),
        Delta(1, "R"),
        Mark(1, Carried("th", "s")),
        BlockEnd(1),
        BlockStart(2, "text"),
        Delta(2, "T1"),
        Delta(2, "T2"),
        BlockEnd(2),
        BlockStart(3, "receipt"),
        Mark(3, Receipt("i", "s", "n", "{}")),
        BlockEnd(3),
        BlockStart(4, "tool", "a", "f"),
        Delta(4, '{"x":1}'),
        BlockEnd(4),
        Usage(uncached=1, output=1),
        Finish("tool"),
    ]
    fold, machine, raw = Fold(), encoder(Reply("alias", origin="o", include_usage=True)), b""
    for event in events:
        fold.push(event)
        raw += machine.push(event)
    streamed = check(raw)
    body = json.loads(answer(fold.answer, Reply("alias", origin="o")))
    choice = body["choices"][0]
    message = choice["message"]
    assert (streamed.text, streamed.reasoning, streamed.details) == (
        message["content"],
        message["reasoning_content"],
        message["reasoning_details"],
    )
    assert [(call.id, call.name, call.arguments) for call in streamed.calls] == [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]
    ]
    assert (streamed.stop, streamed.usage, streamed.id) == (choice["finish_reason"], body["usage"], body["id"])
