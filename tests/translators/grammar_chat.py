"""An independent reader of Chat streams: what spec/translation.md 2.3 allows, and nothing else.

Written from the specification with the standard library only, so that it cannot share a mistake with the encoder.
"""

import json
from dataclasses import dataclass, field
from typing import Any

REASONS = {"stop", "length", "tool_calls", "content_filter", "function_call"}
DELTA_KEYS = {"content", "refusal", "reasoning_content", "reasoning_details", "tool_calls"}


@dataclass
class Call:
    """One tool call as a client ends up with it."""

    id: str
    name: str
    arguments: str = ""


@dataclass
class Summary:
    """What a client learns from a stream. `terminal` is `done`, `error`, or `cut` for a stream that just stops."""

    terminal: str = "cut"
    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    details: list[dict[str, Any]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    stop: str | None = None
    error: dict[str, Any] | None = None
    model: str | None = None
    id: str | None = None
    created: int | None = None

    @property
    def texts(self) -> list[str]:
        """Chat joins all text blocks into one content."""
        return [self.text] if self.text else []


def check(raw: bytes, *, ended: bool = True) -> Summary:
    """Raise AssertionError unless `raw` is a Chat stream; `ended` false allows a prefix of one."""
    summary = Summary()
    events = _events(raw, ended=ended)
    role_seen = usage_seen = False
    null_usage: bool | None = None
    for data in events:
        assert summary.terminal == "cut", f"an event after the terminal: {data[:80]!r}"
        if data == "[DONE]":
            assert summary.stop is not None, "[DONE] without a finish chunk"
            summary.terminal = "done"
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            _error(chunk, summary)
            continue
        _identity(chunk, summary)
        assert not usage_seen, "a chunk after the usage chunk"
        if chunk["choices"] == []:
            assert role_seen, "usage before the role chunk"
            assert summary.stop is not None, "the usage chunk comes after the finish chunk"
            assert null_usage is not False, "the other chunks must carry usage: null"
            summary.usage, usage_seen = _usage(chunk["usage"]), True
            continue
        carries_null = "usage" in chunk
        assert not carries_null or chunk["usage"] is None, "counts outside the usage chunk"
        assert null_usage in (None, carries_null), "usage: null on some chunks only"
        null_usage = carries_null
        assert summary.stop is None, "a delta after the finish chunk"
        delta, reason = _choice(chunk)
        if not role_seen:
            assert delta == {"role": "assistant"}, "the first chunk has the role and nothing else"
            assert reason is None
            role_seen = True
        elif reason is not None:
            assert delta == {}, "the finish chunk has an empty delta"
            _finish(reason, summary)
        else:
            _delta(delta, summary)
    if ended:
        assert summary.terminal != "cut", "no terminal"
        assert summary.terminal == "error" or not null_usage or usage_seen, "the usage chunk is missing"
    return summary


def _events(raw: bytes, *, ended: bool) -> list[str]:
    text = raw.decode("utf-8")
    assert "\r" not in text, "lines end in a bare line feed"
    *blocks, rest = text.split("\n\n")
    assert rest == "" or not ended, f"an unfinished event: {rest[:80]!r}"
    events = []
    for block in blocks:
        if block.startswith(":"):
            assert "\n" not in block, "a comment stands alone"
            continue
        assert block.startswith("data: "), f"a Chat stream has data lines only: {block[:80]!r}"
        assert "\n" not in block, "one line of JSON in one event"
        events.append(block.removeprefix("data: "))
    return events


def _error(chunk: dict[str, Any], summary: Summary) -> None:
    assert set(chunk) == {"error"}
    error = chunk["error"]
    assert {"message", "type", "param", "code"} == set(error)
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)
    summary.terminal, summary.error = "error", error


def _identity(chunk: dict[str, Any], summary: Summary) -> None:
    assert chunk["object"] == "chat.completion.chunk"
    assert isinstance(chunk["id"], str)
    assert chunk["id"].startswith("chatcmpl-")
    assert isinstance(chunk["created"], int)
    for name in ("id", "model", "created"):
        known = getattr(summary, name)
        assert known in (None, chunk[name]), f"{name} changes within the stream"
        setattr(summary, name, chunk[name])
    assert isinstance(chunk["choices"], list)
    assert len(chunk["choices"]) <= 1


def _choice(chunk: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    choice = chunk["choices"][0]
    assert choice["index"] == 0
    assert set(choice) <= {"index", "delta", "finish_reason", "logprobs"}
    return choice["delta"], choice["finish_reason"]


def _finish(reason: str, summary: Summary) -> None:
    assert reason in REASONS
    if reason == "tool_calls":
        assert summary.calls, "a tool stop without a tool call"
    if summary.calls:
        assert reason != "stop", "tool calls, but a plain stop"
        if reason == "tool_calls":
            for call in summary.calls:
                assert isinstance(json.loads(call.arguments), dict), "arguments are a JSON object"
    summary.stop = reason


def _delta(delta: dict[str, Any], summary: Summary) -> None:
    assert len(delta) == 1, "one kind of content in one chunk"
    assert set(delta) <= DELTA_KEYS, f"unknown delta {sorted(delta)}"
    for name, attribute in (("content", "text"), ("refusal", "refusal"), ("reasoning_content", "reasoning")):
        if name in delta:
            assert isinstance(delta[name], str)
            assert delta[name], f"empty {name}"
            setattr(summary, attribute, getattr(summary, attribute) + delta[name])
    for entry in delta.get("reasoning_details", ()):
        assert entry["type"] in ("reasoning.text", "reasoning.summary", "reasoning.encrypted")
        assert isinstance(entry["index"], int)
        summary.details.append(entry)
    if "tool_calls" in delta:
        assert len(delta["tool_calls"]) == 1
        _call(delta["tool_calls"][0], summary)


def _call(piece: dict[str, Any], summary: Summary) -> None:
    index = piece["index"]
    if index == len(summary.calls):
        assert set(piece) == {"index", "id", "type", "function"}, "the first fragment names the call"
        assert piece["type"] == "function"
        assert piece["id"]
        assert piece["id"] not in {call.id for call in summary.calls}, "two calls with one id"
        assert set(piece["function"]) == {"name", "arguments"}
        assert piece["function"]["name"]
        assert piece["function"]["arguments"] == ""
        summary.calls.append(Call(piece["id"], piece["function"]["name"]))
        return
    # One call after the other: a fragment can only belong to the latest one.
    assert index == len(summary.calls) - 1, f"tool index {index} out of order"
    assert set(piece) == {"index", "function"}, "id and name come once"
    assert set(piece["function"]) == {"arguments"}
    assert piece["function"]["arguments"]
    summary.calls[index].arguments += piece["function"]["arguments"]


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert isinstance(usage[name], int)
        assert usage[name] >= 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    for name in ("prompt_tokens_details", "completion_tokens_details"):
        if name in usage:
            assert usage[name], "no empty details object"
            assert all(isinstance(count, int) for count in usage[name].values())
    return usage
