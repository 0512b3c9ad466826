"""What a client got of an answer, read by the grammars' oracles into one form, and the way to get it: run a pair.

got = translated("messages", "chat", stream("chat", script))         # feeds the frames, checks the grammar
assert "success" == got.terminal
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.translators import grammar_chat, grammar_messages, grammar_responses
from tests.translators.scripts import Told
from translators.dialect import Target
from translators.dialects import DIALECTS
from translators.events import Usage
from translators.fault import Fault
from translators.notes import Note
from translators.pair import Asked, Pair, Prepared, Stream
from translators.traits import Traits, traits_for

ORIGIN = "0123456789abcdef"
ALIAS = "my-alias"
ASKED = Asked(alias=ALIAS, created=1_700_000_000, seed="5eed" * 6)
MODELS = {"chat": "up-m", "responses": "gpt-5.2", "messages": "claude-sonnet-5"}
"""Upstream models whose traits suit each dialect."""

REQUESTS: dict[str, dict[str, Any]] = {
    "chat": {
        "model": ALIAS,
        "messages": [{"role": "user", "content": "hi"}],
        "stream_options": {"include_usage": True},
    },
    "responses": {
        "model": ALIAS,
        "input": "hi",
        "reasoning": {"summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
    "messages": {
        "model": ALIAS,
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "hi"}],
        "thinking": {"type": "enabled", "budget_tokens": 2048},
    },
}
"""The smallest requests whose clients are shown all that an answer has."""


@dataclass
class Got:
    """An answer as a client has it. `terminal` is success, error, http (an HTTP error instead of a stream) or cut."""

    terminal: str
    raw: bytes
    blocks: list[Told] = field(default_factory=list)
    stop: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    fault: Fault | None = None
    model: str | None = None
    citations: list[dict[str, Any]] = field(default_factory=list)
    machine: Stream | None = None
    prepared: Prepared | None = None

    @property
    def notes(self) -> list[Note]:
        assert self.prepared is not None
        return self.prepared.notes.kept

    @property
    def counted(self) -> Usage:
        """What the gateway's own books have."""
        assert self.machine is not None
        return self.machine.tally.usage

    def text(self, kind: str = "text") -> str:
        return "".join(block.text for block in self.blocks if block.kind == kind)

    @property
    def kinds(self) -> list[str]:
        return [block.kind for block in self.blocks]


def prepare(
    client: str, upstream: str, *, stream: bool = True, native: bool = False, strict: bool = False,
    traits: Traits | None = None, **more: Any,
) -> Prepared:  # fmt: skip
    """The pair's request, which has to be accepted; same dialects are translated too unless `native`."""
    body = json.dumps(REQUESTS[client] | {"stream": stream} | more).encode()
    prepared = requested(client, upstream, body, native=native, strict=strict, traits=traits)
    assert isinstance(prepared, Prepared), prepared
    return prepared


def requested(
    client: str, upstream: str, body: bytes, *, native: bool = False, strict: bool = False,
    traits: Traits | None = None, model: str = "", origin: str = ORIGIN,
) -> Prepared | Fault:  # fmt: skip
    model = model or MODELS[upstream]
    target = Target(model, traits or traits_for(model), origin=origin, strict=strict)
    asked = Asked(ASKED.alias, ASKED.created, ASKED.seed, native=native)
    dialect = DIALECTS[client]
    return Pair(dialect, DIALECTS[upstream]).request(body, dialect.peek(body), target, asked)


def machine_of(client: str, upstream: str) -> Stream:
    """A machine that waits for its first bytes."""
    return Pair(DIALECTS[client], DIALECTS[upstream]).stream(prepare(client, upstream))


def fed(machine: Stream, chunks: Iterable[bytes]) -> bytes:
    """All that a client gets for an upstream's bytes, and their end."""
    return b"".join([*(machine.feed(chunk) for chunk in chunks), machine.finish()])


def translated(
    client: str, upstream: str, chunks: Sequence[bytes], prepared: Prepared | None = None, **options: Any
) -> Got:
    """Run an upstream's stream through a pair and read what the client gets; the grammar is checked on the way."""
    prepared = prepared or prepare(client, upstream, **options)
    machine = Pair(DIALECTS[client], DIALECTS[upstream]).stream(prepared)
    raw = fed(machine, chunks)
    if not prepared.stream:
        raw = machine.output
    elif not machine.begun:
        assert b"" == raw
        assert machine.fault is not None
        return Got("http", machine.failure(machine.fault), fault=machine.fault, machine=machine, prepared=prepared)
    got = read(client, raw) if prepared.stream else read_whole(client, raw, machine.fault)
    got.fault, got.machine, got.prepared = machine.fault, machine, prepared
    return got


def answered(client: str, upstream: str, body: bytes, **options: Any) -> Got:
    """Run an upstream's whole answer through a pair and read what the client gets, stream or not."""
    prepared = prepare(client, upstream, **options)
    machine = Pair(DIALECTS[client], DIALECTS[upstream]).whole(prepared, body)
    if prepared.stream and not machine.begun:
        return Got("http", b"", fault=machine.fault, machine=machine, prepared=prepared)
    got = read(client, machine.output) if prepared.stream else read_whole(client, machine.output, machine.fault)
    got.fault, got.machine, got.prepared = machine.fault, machine, prepared
    return got


def forwarded(dialect: str, chunks: Iterable[bytes]) -> tuple[bytes, Stream]:
    """What a client of the upstream's own dialect gets on the native path, and the machine."""
    machine = Pair(DIALECTS[dialect], DIALECTS[dialect]).stream(prepare(dialect, dialect, native=True))
    return fed(machine, chunks), machine


# Streams


def read(client: str, raw: bytes, *, ended: bool = True) -> Got:
    """Read a translated stream; AssertionError where it breaks the grammar of spec/translation.md 2."""
    return _READ[client](raw, ended)


def _chat(raw: bytes, ended: bool) -> Got:
    seen = grammar_chat.check(raw, ended=ended)
    blocks = [
        Told(kind, text, stateful=kind == "reasoning" and bool(seen.details))
        for kind, text in (("reasoning", seen.reasoning), ("text", seen.text), ("refusal", seen.refusal))
        if text or (kind == "reasoning" and seen.details)
    ]
    blocks += [Told("tool", call.arguments, call.id, call.name) for call in seen.calls]
    terminal = {"done": "success"}.get(seen.terminal, seen.terminal)
    usage = _openai_usage(
        seen.usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"
    )
    return Got(terminal, raw, blocks, CHAT_STOPS.get(seen.stop or ""), usage, model=seen.model)


CHAT_STOPS = {"stop": "end", "tool_calls": "tool", "length": "length", "content_filter": "refusal"}
MESSAGES_STOPS = {
    "end_turn": "end",
    "tool_use": "tool",
    "max_tokens": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}


def _openai_usage(usage: dict[str, Any] | None, prompt: str, output: str, ins: str, outs: str) -> dict[str, int]:
    if usage is None:
        return {}
    told = {"prompt": usage[prompt], "output": usage[output]}
    for name, group, key in (
        ("cached", ins, "cached_tokens"), ("written", ins, "cache_write_tokens"), ("reasoning", outs, "reasoning_tokens"),
    ):  # fmt: skip
        if key in usage.get(group, {}):
            told[name] = usage[group][key]
    return told


def _messages_usage(usage: dict[str, Any]) -> dict[str, int]:
    if not usage:
        return {}
    cached, written = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    told = {
        "prompt": usage["input_tokens"] + cached + written,
        "output": usage["output_tokens"],
        "cached": cached,
        "written": written,
    }
    details = usage.get("output_tokens_details") or {}
    return told | ({"reasoning": details["thinking_tokens"]} if "thinking_tokens" in details else {})


def _messages(raw: bytes, ended: bool) -> Got:
    seen = grammar_messages.check(raw, ended=ended)
    frames = [json.loads(line[6:]) for line in raw.split(b"\n") if line.startswith(b"data: ")]
    signed = {event["index"] for event in frames if event.get("delta", {}).get("type") == "signature_delta"}
    starts = [event for event in frames if event["type"] == "content_block_start"]
    texts, thoughts, calls, receipts = iter(seen.texts), iter(seen.reasoning), iter(seen.calls), iter(seen.receipts)
    blocks: list[Told] = []
    for start in starts if seen.terminal == "success" else ():
        match start["content_block"]["type"]:
            case "text":
                blocks.append(Told("text", next(texts)))
            case "thinking":
                blocks.append(Told("reasoning", next(thoughts), stateful=start["index"] in signed))
            case "tool_use":
                call_id, name, arguments = next(calls)
                blocks.append(Told("tool", arguments, call_id, name))
            case "mcp_tool_use":
                name, arguments, _, _ = next(receipts)
                blocks.append(Told("receipt", arguments, start["content_block"]["id"], name))
    terminal = seen.terminal or "cut"
    return Got(
        terminal, raw, blocks, MESSAGES_STOPS.get(seen.stop or ""), _messages_usage(seen.usage), model=seen.model
    )


def _responses(raw: bytes, ended: bool) -> Got:
    seen = grammar_responses.check(raw, ended=ended)
    terminal = {"completed": "success", "incomplete": "success", "failed": "error"}.get(seen.terminal, seen.terminal)
    got = Got(terminal, raw, _items(seen.items), model=(seen.response or {}).get("model"), citations=seen.citations)
    if terminal == "success":
        got.usage = _openai_usage(
            seen.usage, "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"
        )
        got.stop = _responses_stop(seen.stop or "", got.blocks)
    return got


def _responses_stop(reason: str, blocks: list[Told]) -> str:
    if reason != "completed":
        return {"max_output_tokens": "length", "content_filter": "refusal"}[reason]
    return "tool" if any(block.kind == "tool" for block in blocks) else "end"


def _items(items: list[dict[str, Any]]) -> list[Told]:
    blocks: list[Told] = []
    for item in items:
        match item["type"]:
            case "message":
                for part in item["content"]:
                    refusal = part["type"] == "refusal"
                    blocks.append(Told("refusal" if refusal else "text", part["refusal" if refusal else "text"]))
            case "reasoning":
                text = "".join(part["text"] for part in item["summary"])
                blocks.append(Told("reasoning", text, stateful="encrypted_content" in item))
            case "mcp_call":
                blocks.append(Told("receipt", item["arguments"], item["id"], item["name"]))
            case kind:
                field_name = "input" if kind == "custom_tool_call" else "arguments"
                blocks.append(Told("tool", item[field_name], item["call_id"], item["name"]))
    return blocks


_READ: dict[str, Callable[[bytes, bool], Got]] = {"chat": _chat, "messages": _messages, "responses": _responses}


# Whole answers


def read_whole(client: str, raw: bytes, fault: Fault | None) -> Got:
    if fault is not None:
        assert b"" == raw
        return Got("http", raw, fault=fault)
    body = json.loads(raw)
    return {"chat": _chat_whole, "messages": _messages_whole, "responses": _responses_whole}[client](body, raw)


def _chat_whole(body: dict[str, Any], raw: bytes) -> Got:
    message = body["choices"][0]["message"]
    details = message.get("reasoning_details")
    blocks = [
        Told(kind, message.get(key) or "", stateful=kind == "reasoning" and bool(details))
        for kind, key in (("reasoning", "reasoning_content"), ("text", "content"), ("refusal", "refusal"))
        if message.get(key) or (kind == "reasoning" and details)
    ]
    for call in message.get("tool_calls", ()):
        custom = call["type"] == "custom"
        inner = call["custom" if custom else "function"]
        blocks.append(Told("tool", inner["input" if custom else "arguments"], call["id"], inner["name"]))
    usage = _openai_usage(
        body["usage"], "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"
    )
    return Got("success", raw, blocks, CHAT_STOPS[body["choices"][0]["finish_reason"]], usage, model=body["model"])


def _messages_whole(body: dict[str, Any], raw: bytes) -> Got:
    blocks: list[Told] = []
    for block in body["content"]:
        match block["type"]:
            case "text":
                blocks.append(Told("text", block["text"]))
            case "thinking":
                blocks.append(Told("reasoning", block["thinking"], stateful=bool(block["signature"])))
            case "tool_use":
                blocks.append(Told("tool", json.dumps(block["input"]), block["id"], block["name"]))
            case "mcp_tool_use":
                blocks.append(Told("receipt", json.dumps(block["input"]), block["id"], block["name"]))
    stop = MESSAGES_STOPS[body["stop_reason"]]
    return Got("success", raw, blocks, stop, _messages_usage(body["usage"]), model=body["model"])


def _responses_whole(body: dict[str, Any], raw: bytes) -> Got:
    blocks = _items(body["output"])
    usage = _openai_usage(
        body["usage"], "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"
    )
    reason = (body["incomplete_details"] or {}).get("reason", "completed")
    return Got("success", raw, blocks, _responses_stop(reason, blocks), usage, model=body["model"])


# Comparison


def meaning(blocks: list[Told]) -> list[tuple[Any, ...]]:
    """Blocks with their arguments parsed: how they are spelled is free (I10)."""
    return [
        (
            block.kind,
            parsed(block.text) if block.kind in ("tool", "receipt") else block.text,
            block.id,
            block.name,
            block.stateful,
        )
        for block in blocks
    ]


def parsed(arguments: str) -> Any:
    """Arguments as a value; a call that was cut off before its first fragment has none."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


DELTAS = {
    "content": "text", "refusal": "refusal", "reasoning_content": "reasoning",
    "text_delta": "text", "thinking_delta": "reasoning", "input_json_delta": "tool",
    "response.output_text.delta": "text", "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool", "response.custom_tool_call_input.delta": "tool",
}  # fmt: skip


def spelled(raw: bytes) -> dict[str, str]:
    """All that a stream spelled out so far, by kind, whether or not it ended."""
    told = {"text": "", "refusal": "", "reasoning": "", "tool": ""}
    for line in raw.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        for name, text in _spelled(event):
            told[DELTAS[name]] += text
    return told


def _spelled(event: dict[str, Any]) -> Iterable[tuple[str, str]]:
    if event.get("type") in DELTAS:
        yield event["type"], event["delta"]
    elif event.get("type") == "content_block_delta":
        delta = event["delta"]
        for key in ("text", "thinking", "partial_json"):
            if key in delta:
                yield delta["type"], delta[key]
    for choice in event.get("choices", ()):
        for key in ("content", "refusal", "reasoning_content"):
            if key in choice["delta"]:
                yield key, choice["delta"][key]
        for call in choice["delta"].get("tool_calls", ()):
            yield "input_json_delta", call["function"]["arguments"]
