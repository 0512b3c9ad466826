"""An oracle for Messages streams: the grammar of spec/translation.md 2.1, written from the spec alone.

It shares no code with the encoder: own frame reading, the standard library's JSON, plain dictionaries.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

ERROR_TYPES = {
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "rate_limit_error",
    "api_error",
    "overloaded_error",
    "timeout_error",
}
STOP_REASONS = {
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
}
DELTAS = {
    "text": {"text_delta": "text", "citations_delta": "citation"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"},
    "mcp_tool_use": {"input_json_delta": "partial_json"},
    "redacted_thinking": {},
    "mcp_tool_result": {},
}
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")


@dataclass
class Summary:
    """What a client ends up with. `terminal` is `success`, `error`, or None for a stream still under way."""

    terminal: str | None = None
    id: str = ""
    model: str = ""
    kinds: list[str] = field(default_factory=list)
    """The blocks in order: text, reasoning, tool, receipt."""
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    """Signatures of thinking blocks and data of redacted ones."""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """(id, name, arguments as they were streamed)."""
    receipts: list[tuple[str, str, bool, str]] = field(default_factory=list)
    """(name, arguments, is_error, output) of calls that the provider ran."""
    usage: dict[str, int] = field(default_factory=dict)
    stop: str | None = None
    stop_sequence: str | None = None
    error: dict[str, Any] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)


def check(raw: bytes, *, ended: bool = True) -> Summary:
    """Return the summary of a client's stream; raises AssertionError where it breaks the grammar.

    With `ended` false the bytes may be a prefix that has no terminal yet.
    """
    reader = _Reader()
    for name, data in _frames(raw):
        reader.take(name, data)
    if ended:
        assert reader.seen.terminal is not None, "the stream has no terminal"
    return reader.seen


def _frames(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    assert b"\r" not in raw, "lines end in a bare newline"
    assert raw == b"" or raw.endswith(b"\n\n"), "the last frame is not ended"
    frames = []
    for block in raw.split(b"\n\n"):
        if not block:
            continue
        lines = block.split(b"\n")
        if all(line.startswith(b":") for line in lines):
            continue
        assert 2 == len(lines), f"a frame is an event line and a data line: {block[:80]!r}"
        assert lines[0].startswith(b"event: "), "the SDK skips events without a name"
        assert lines[1].startswith(b"data: "), "a frame has data"
        data = json.loads(lines[1][6:].decode("utf-8"))
        assert data["type"] == lines[0][7:].decode(), "the event's name is its type"
        frames.append((data["type"], data))
    return frames


def _count(usage: dict[str, Any], name: str) -> None:
    assert isinstance(usage[name], int), f"{name} is an integer"
    assert usage[name] >= 0, f"{name} is not negative"


class _Reader:
    def __init__(self) -> None:
        self.seen = Summary()
        self.index = 0
        self.open: dict[str, Any] | None = None
        self.pieces: list[str] = []
        self.signed = False
        self.begun = False
        self.told = False
        self.ids: set[str] = set()
        self.ran: dict[str, tuple[str, str]] = {}

    def take(self, name: str, data: dict[str, Any]) -> None:
        assert self.seen.terminal is None, f"{name} after the terminal"
        self.seen.events.append(name)
        if name == "error":
            self.error(data)
            return
        if name == "message_start":
            self.start(data["message"])
            return
        assert self.begun, f"{name} before message_start"
        if name != "ping":
            assert not self.told or name == "message_stop", f"{name} after message_delta"
        getattr(self, name)(data)

    def error(self, data: dict[str, Any]) -> None:
        assert {"type", "error"} == set(data), "an error event has nothing else"
        assert {"type", "message"} == set(data["error"])
        assert data["error"]["type"] in ERROR_TYPES
        assert isinstance(data["error"]["message"], str)
        assert data["error"]["message"], "an error says something"
        assert not self.told, "an error after message_delta would contradict it"
        self.seen.terminal, self.seen.error = "error", data["error"]

    def start(self, message: dict[str, Any]) -> None:
        assert not self.begun, "message_start comes once"
        self.begun = True
        assert message["id"].startswith("msg_")
        assert len(message["id"]) > len("msg_")
        assert ("message", "assistant", []) == (message["type"], message["role"], message["content"])
        assert message["stop_reason"] is None
        assert message["stop_sequence"] is None
        _count(message["usage"], "input_tokens")
        _count(message["usage"], "output_tokens")
        self.seen.id, self.seen.model = message["id"], message["model"]

    def ping(self, data: dict[str, Any]) -> None:
        assert {"type": "ping"} == data

    def content_block_start(self, data: dict[str, Any]) -> None:
        assert self.open is None, "one block is open at a time"
        assert self.index == data["index"], "indexes count up from 0"
        block = data["content_block"]
        assert block["type"] in DELTAS, f"unknown block {block['type']}"
        getattr(self, f"start_{block['type']}")(block)
        self.open, self.pieces, self.signed = block, [], False

    def start_text(self, block: dict[str, Any]) -> None:
        assert {"type": "text", "text": ""} == block
        self.seen.kinds.append("text")

    def start_thinking(self, block: dict[str, Any]) -> None:
        assert {"type": "thinking", "thinking": "", "signature": ""} == block
        self.seen.kinds.append("reasoning")

    def start_redacted_thinking(self, block: dict[str, Any]) -> None:
        assert {"type", "data"} == set(block)
        assert block["data"]
        self.seen.kinds.append("reasoning")
        self.seen.states.append(block["data"])

    def start_tool_use(self, block: dict[str, Any]) -> None:
        assert {"type", "id", "name", "input"} == set(block)
        self.call(block)
        self.seen.kinds.append("tool")

    def start_mcp_tool_use(self, block: dict[str, Any]) -> None:
        assert {"type", "id", "name", "server_name", "input"} == set(block)
        self.call(block)
        self.seen.kinds.append("receipt")

    def call(self, block: dict[str, Any]) -> None:
        assert {} == block["input"], "input arrives in deltas"
        assert CALL_ID.match(block["id"]), "the API takes letters, digits, _ and - only"
        assert block["id"] not in self.ids, "a call id is used once"
        assert block["name"]
        self.ids.add(block["id"])

    def start_mcp_tool_result(self, block: dict[str, Any]) -> None:
        assert {"type", "tool_use_id", "is_error", "content"} == set(block)
        name, arguments = self.ran.pop(block["tool_use_id"])
        told = "\n".join(piece["text"] for piece in block["content"])
        self.seen.receipts.append((name, arguments, block["is_error"], told))

    def content_block_delta(self, data: dict[str, Any]) -> None:
        assert self.open is not None, "a delta needs an open block"
        assert self.index == data["index"]
        delta = data["delta"]
        member = DELTAS[self.open["type"]].get(delta["type"])
        assert member is not None, f"{delta['type']} in a {self.open['type']} block"
        assert {"type", member} == set(delta)
        assert not self.signed, "the signature comes last"
        if member == "signature":
            assert delta["signature"]
            self.signed = True
            self.seen.states.append(delta["signature"])
        elif member != "citation":
            assert delta[member], "a delta is never empty"
            self.pieces.append(delta[member])

    def content_block_stop(self, data: dict[str, Any]) -> None:
        assert self.open is not None, "a stop needs an open block"
        assert self.index == data["index"]
        block, text = self.open, "".join(self.pieces)
        match block["type"]:
            case "text":
                assert text, "a text block has text"
                self.seen.texts.append(text)
            case "thinking":
                assert text or self.signed, "a thinking block has text or a signature"
                self.seen.reasoning.append(text)
            case "tool_use":
                assert text, "a call without arguments says {}"
                self.seen.calls.append((block["id"], block["name"], text))
            case "mcp_tool_use":
                assert isinstance(json.loads(text), dict)
                self.ran[block["id"]] = (block["name"], text)
        self.open = None
        self.index += 1

    def message_delta(self, data: dict[str, Any]) -> None:
        assert self.open is None, "every block is closed before the end"
        assert not self.ran, "every provider-run call has its result"
        self.told = True
        delta, usage = data["delta"], data["usage"]
        assert delta["stop_reason"] in STOP_REASONS
        assert (delta["stop_reason"] == "stop_sequence") == (delta["stop_sequence"] is not None)
        _count(usage, "input_tokens")
        _count(usage, "output_tokens")
        for name in ("cache_creation_input_tokens", "cache_read_input_tokens"):
            if name in usage:
                _count(usage, name)
        if "output_tokens_details" in usage:
            _count(usage["output_tokens_details"], "thinking_tokens")
        self.seen.usage = usage
        self.seen.stop, self.seen.stop_sequence = delta["stop_reason"], delta["stop_sequence"]
        whole = all(_is_object(arguments) for _, _, arguments in self.seen.calls)
        if delta["stop_reason"] in ("end_turn", "stop_sequence", "tool_use"):
            assert whole, "arguments may be broken only where the answer was cut"
        if delta["stop_reason"] == "tool_use":
            assert self.seen.calls, "a tool stop needs a call"
        if delta["stop_reason"] == "end_turn":
            assert not self.seen.calls, "an answer with calls stops for them"

    def message_stop(self, data: dict[str, Any]) -> None:
        assert {"type": "message_stop"} == data
        assert self.told, "message_delta comes before message_stop"
        self.seen.terminal = "success"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
