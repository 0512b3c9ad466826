"""docs/fidelity.md tells the truth: its tables are what the code does, for every field that the code reads."""

from pathlib import Path

import msgspec
import pytest

from tests.fidelity import BASES, FACTS, PROBES, Probe, differences, document_text, has, judge, shown
from tests.translators.scripts import DIALECTS
from translators.chat.wire import Body as ChatBody
from translators.messages.wire import Body as MessagesBody
from translators.responses.wire import Request as ResponsesBody

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "fidelity.md"
CROSSED = [(client, upstream) for client in DIALECTS for upstream in DIALECTS if client != upstream]
ADVISORY = {
    "name", "metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "stream_options.include_obfuscation", "cache_control",
    "tools: input_examples, cache_control", "include: reasoning.encrypted_content", "reasoning.summary", "thinking: adaptive",
}  # fmt: skip
"""What may go without a note (spec/translation.md 1.9, 3.1 to 3.6): cache hints, transport, and wishes that the answer's
encoder remembers."""
SOFT = ("reasoning", "thinking", "redacted_thinking", "thinking of")
"""What is dropped in both modes: state that may go back to its own origin only."""


def test_document_is_what_the_code_does():
    """The tables are made from the code; `python -m tests.fidelity > docs/fidelity.md` brings them up to date."""
    assert document_text() == DOCUMENT.read_text()


@pytest.mark.parametrize(
    ("client", "body"), [("chat", ChatBody), ("responses", ResponsesBody), ("messages", MessagesBody)]
)
def test_every_field_that_is_read_has_a_row(client, body):
    """A field that a parser learns to read needs a probe, else nobody says what becomes of it."""
    fields = {name.encode_name for name in msgspec.structs.fields(body)}
    probed = {name for probe in PROBES[client] for name in probe.members} | BASES[client].keys()
    assert (set(), {"model"}) == (fields - probed - {"messages", "input"}, {"model"} & fields)


@pytest.mark.parametrize(("client", "upstream"), CROSSED)
@pytest.mark.invariant("I34")
def test_nothing_of_weight_is_lost_in_silence(client, upstream):
    """Only advisory fields go without a note."""
    silent = {probe.name for probe in PROBES[client] if judge(client, upstream, probe, strict=False).word == "ignored"}
    assert set() == silent - ADVISORY


@pytest.mark.parametrize(("client", "upstream"), CROSSED)
def test_strict_refuses_what_lenient_drops(client, upstream):
    """A control or content that would be dropped is refused under strict, with a code of the closed set."""
    for probe in PROBES[client]:
        lenient, strict = (judge(client, upstream, probe, strict=strict) for strict in (False, True))
        if lenient.word == "dropped" and not probe.name.startswith(SOFT):
            assert "refused" == strict.word, probe.name
        if strict.word == "refused":
            assert strict.detail.strip("`") in CODES, probe.name


CODES = {
    "unsupported_parameter", "unsupported_tool", "unsupported_content", "missing_state", "unresolved_resource",
    "orphan_tool_result", "orphan_tool_call", "invalid_tool_arguments", "tool_alias_collision", "previous_response_not_found",
}  # fmt: skip


@pytest.mark.parametrize(("client", "upstream"), CROSSED)
def test_lenient_refuses_no_more_than_strict(client, upstream):
    """What lenient refuses, strict refuses in the same words."""
    for probe in PROBES[client]:
        lenient = judge(client, upstream, probe, strict=False)
        if lenient.word == "refused":
            assert lenient == judge(client, upstream, probe, strict=True)


@pytest.mark.parametrize(("client", "upstream"), CROSSED)
def test_answers_keep_what_both_sides_know(client, upstream):
    """Text, reasoning, its state, refusals and calls stand somewhere in every answer, streamed or not."""
    for fact in ("reasoning text", "opaque reasoning state", "text", "refusal text", "tool call"):
        if has(upstream, fact):
            assert "dropped" not in {shown(client, upstream, fact, streamed=streamed) for streamed in (True, False)}, (
                fact
            )


@pytest.mark.parametrize(("client", "upstream"), CROSSED)
@pytest.mark.invariant("I34")
def test_content_that_an_answer_loses_is_noted(client, upstream):
    """Calls of the provider's own and citations are never lost in silence."""
    for fact in ("provider-run MCP call", "web citation", "hosted tool call"):
        if has(upstream, fact):
            assert "dropped" not in {shown(client, upstream, fact, streamed=streamed) for streamed in (True, False)}, (
                fact
            )


def test_the_judge_sees_a_silent_loss():
    """The measure itself: a member that nobody reads is told apart from one that is kept."""
    assert "ignored" == judge("chat", "messages", Probe("surprise", {"surprise": 1}), strict=False).word
    assert "kept" == judge("chat", "messages", Probe("user", {"user": "u"}), strict=False).word
    assert ["a.b", "c"] == list(differences({"a": {"b": 1}, "c": [1]}, {"a": {"b": 2}, "c": [1, 2]}))
    assert FACTS.keys() >= {"text", "tool call"}
