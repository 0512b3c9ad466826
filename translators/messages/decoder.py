"""A Messages upstream's stream, read into neutral events (spec/translation.md 5.2).

Promises: never raises for upstream data; exactly one Finish or Failed, silence after it (I3, I4); no success
without a stop reason (I2). What it repairs it notes, and in strict mode refuses.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from translators.conversation import Receipt
from translators.dialect import Source
from translators.events import (
    BlockEnd,
    BlockStart,
    Carried,
    Delta,
    Event,
    Failed,
    Finish,
    Mark,
    Start,
    Stop,
    Usage,
)
from translators.failure import error_fault
from translators.fault import Refused, broken
from translators.identifiers import made_call_id
from translators.jsonio import ERRORS, unreadable
from translators.messages import wire
from translators.messages.blocks import Open, citation, citations, given_input, outcome, receipt_events, violated
from translators.messages.content import receipt_of
from translators.notes import Notes
from translators.sequencer import Budget
from translators.sse import Frame

__all__ = ["STOPS", "Decoder"]

STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "tool_use": "tool",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
    "model_context_window_exceeded": "context",
}

MAX_KINDS = 32
"""Unknown types that get a note of their own; what an upstream invents beyond is one more note."""

_DELTAS = {
    "text_delta": ("text",),
    "citations_delta": ("text",),
    "thinking_delta": ("thinking",),
    "signature_delta": ("thinking",),
    "input_json_delta": ("tool", "mcp"),
}

_event = msgspec.json.Decoder(wire.Event).decode
_block = msgspec.json.Decoder(wire.OutputBlock).decode
_message = msgspec.json.Decoder(wire.OutputMessage).decode
_counts = msgspec.json.Decoder(wire.Counts).decode
_any = msgspec.json.Decoder().decode


class Decoder:
    """Take one stream's frames; `begin`, `open`, `close` and `conclude` also read a whole answer."""

    def __init__(self, source: Source) -> None:
        self.notes = source.notes or Notes(strict=source.strict)
        self._strict = source.strict
        self._blocks: dict[int, Open] = {}
        self._closed: set[int] = set()
        self._calls: set[str] = set()
        self._waiting: dict[str, tuple[int, Receipt]] = {}
        self._counts = wire.Counts()
        self._response = ""
        self._begun = False
        self._stop: str | None = None
        self._sequence: str | None = None
        self._told = False
        self._kinds: set[str] = set()
        self._mcp_bytes = 0
        self.done = False

    def push(self, frame: Frame) -> Sequence[Event]:
        """Return the events of one frame."""
        if self.done:
            return ()
        try:
            event = _event(frame.data)
            if event.type == "content_block_delta":
                return self._delta(event.index, event.delta)
            return self._other(event, frame)
        except Refused as refused:
            return self._failed(Failed(refused.fault))
        except ERRORS as error:
            if frame.data.strip() == b"[DONE]":
                return ()
            return self._failed(Failed(unreadable(error)))

    def finish(self) -> Sequence[Event]:
        """Return the events of the stream's end: a stop reason without message_stop is repaired, else Failed (I2)."""
        if self.done:
            return ()
        if self._stop is None:
            return self._failed(Failed(broken("the upstream ended the answer without finishing it", cause="eof")))
        try:
            self._repair("message_stop", "the stream ends without message_stop")
            return self._end()
        except Refused as refused:
            return self._failed(Failed(refused.fault))

    def _other(self, event: wire.Event, frame: Frame) -> Sequence[Event]:
        match event.type or frame.event.decode("utf-8", "replace"):
            case "content_block_start":
                return self.open(event.index, _block(event.content_block))
            case "content_block_stop":
                return self.close(event.index)
            case "content_block_delta":
                return self._delta(event.index, event.delta)
            case "message_start":
                return self.begin(_message(event.message))
            case "message_delta":
                return self.conclude(event.delta.stop_reason, event.delta.stop_sequence, event.usage)
            case "message_stop":
                return self._end()
            case "ping":
                return ()
            case "error":
                return self._failed(_refusal(event.error, frame.data))
            case "" if bytes(event.error) not in (b"", b"null"):
                return self._failed(_refusal(event.error, frame.data))
            case kind:
                self._unknown("event", kind)
                return ()

    def begin(self, message: wire.OutputMessage) -> Sequence[Event]:
        """Open the answer with its id, model and first counts."""
        if self._begun:
            raise violated("the upstream began its answer twice")
        self._begun = True
        self._response = message.id or ""
        usage = self._usage(message.usage)
        return (Start(self._response, message.model or "", usage=usage if usage.known else None),)

    def open(self, index: int, block: wire.OutputBlock) -> Sequence[Event]:
        """Begin a block; what its start already holds comes out as if it had been streamed."""
        if not self._begun or self._told:
            raise violated("the upstream sent content outside of its answer")
        if index < 0 or index in self._blocks or index in self._closed:
            raise violated("the upstream used a block index twice")
        if self._strict and index != len(self._blocks) + len(self._closed):
            raise violated("the upstream's block indexes have a gap")
        match block.type:
            case "text":
                return self._open_text(index, block)
            case "thinking":
                self._blocks[index] = opened = Open("thinking")
                opened.signature = block.signature or ""
                start = BlockStart(index, "reasoning")
                return (start, Delta(index, block.thinking)) if block.thinking else (start,)
            case "redacted_thinking":
                self._blocks[index] = Open("redacted")
                state = Carried("rt", block.data or "")
                return (BlockStart(index, "reasoning"), *((Mark(index, state),) if state.data else ()))
            case "tool_use":
                return self._open_call(index, block)
            case "mcp_tool_use":
                self._blocks[index] = opened = Open("mcp")
                given = given_input(block.input)
                opened.whole, opened.fragments = bool(given), [given] if given else []
                opened.call = Receipt(block.id or "", block.server_name or "", block.name or "", "{}")
                return ()
            case "mcp_tool_result":
                self._blocks[index] = Open("result")
                return self._receipt(block)
            case kind:
                self._blocks[index] = Open("ignored")
                self._unknown("block", kind)
                return ()

    def _open_text(self, index: int, block: wire.OutputBlock) -> Sequence[Event]:
        self._blocks[index] = Open("text")
        events: list[Event] = [BlockStart(index, "text")]
        if block.text:
            events.append(Delta(index, block.text))
        events.extend(citations(index, block.citations))
        return events

    def _open_call(self, index: int, block: wire.OutputBlock) -> Sequence[Event]:
        self._blocks[index] = opened = Open("tool")
        ordinal = len(self._calls)
        if not block.id:
            self._repair("tool id", "a tool call came without an id")
        if not block.name:
            self._repair("tool name", "a tool call came without a name")
        call_id = block.id or made_call_id("call_", self._response.removeprefix("msg_"), ordinal)
        if call_id in self._calls:
            raise violated("the upstream used a tool call id twice")
        self._calls.add(call_id)
        start = BlockStart(index, "tool", call_id, block.name or f"tool_{ordinal}")
        given = given_input(block.input)
        opened.whole = opened.filled = bool(given)
        return (start, Delta(index, given)) if given else (start,)

    def _delta(self, index: int, delta: wire.BlockDelta) -> Sequence[Event]:
        opened = self._blocks.get(index)
        if opened is None:
            raise violated("the upstream added to a block that is not open")
        kind = opened.kind
        if kind == "text" and delta.type == "text_delta":
            return (Delta(index, delta.text),) if delta.text else ()
        if kind == "tool" and delta.type == "input_json_delta":
            if not delta.partial_json:
                return ()
            if opened.whole:
                raise violated("the upstream gave the arguments of a tool call twice")
            opened.filled = True
            return (Delta(index, delta.partial_json),)
        if kind == "thinking" and delta.type == "thinking_delta":
            return (Delta(index, delta.thinking),) if delta.thinking else ()
        return self._rare(index, opened, delta)

    def _rare(self, index: int, opened: Open, delta: wire.BlockDelta) -> Sequence[Event]:
        if opened.kind in ("ignored", "result"):
            return ()
        fitting = _DELTAS.get(delta.type)
        if fitting is None:
            self._unknown("delta", delta.type)
        elif opened.kind not in fitting:
            raise violated("the upstream added content of another kind to a block")
        elif delta.type == "signature_delta":
            # A snapshot, not a fragment: the last one counts.
            opened.signature = delta.signature or opened.signature
        elif delta.type == "citations_delta":
            return citation(index, delta.citation)
        elif delta.partial_json:
            if opened.whole:
                raise violated("the upstream gave the arguments of a tool call twice")
            self._mcp_bytes += len(delta.partial_json)
            if self._mcp_bytes > Budget().argument_bytes:
                raise Refused(broken("the arguments of a tool call are too large", cause="limit"))
            opened.fragments.append(delta.partial_json)
        return ()

    def close(self, index: int) -> Sequence[Event]:
        """End a block."""
        opened = self._blocks.pop(index, None)
        if opened is None:
            raise violated("the upstream closed a block that is not open")
        self._closed.add(index)
        match opened.kind:
            case "text" | "redacted":
                return (BlockEnd(index),)
            case "thinking" if opened.signature:
                return (Mark(index, Carried("th", opened.signature)), BlockEnd(index))
            case "thinking":
                return (BlockEnd(index),)
            case "tool":
                return (BlockEnd(index),) if opened.filled else (Delta(index, "{}"), BlockEnd(index))
            case "mcp":
                arguments = "".join(opened.fragments) or "{}"
                call = msgspec.structs.replace(opened.call, arguments=arguments)
                self._waiting[call.id] = (index, call)
                return ()
            case _:
                return ()

    def _receipt(self, block: wire.OutputBlock) -> Sequence[Event]:
        """Return the whole receipt of an MCP call, now that its outcome is known."""
        index, call = self._waiting.pop(block.tool_use_id or "", (-1, None))
        if call is None:
            self._unknown("block", "mcp_tool_result")
            return ()
        return receipt_events(index, receipt_of(call, outcome(block.content), is_error=bool(block.is_error)))

    def conclude(self, stop: str | None, sequence: str | None, usage: Raw) -> Sequence[Event]:
        """Take the stop reason and the final counts; whatever is still open ends here."""
        if not self._begun:
            raise violated("the upstream ended an answer that it never began")
        events: list[Event] = []
        for index in list(self._blocks):
            self._repair("content_block_stop", "a block is still open at message_delta")
            events.extend(self.close(index))
        while self._waiting:
            index, call = self._waiting.pop(next(iter(self._waiting)))
            events.extend(receipt_events(index, call))
        self._told = True
        self._usage(usage)
        self._stop = stop or self._stop
        self._sequence = sequence or self._sequence
        return events

    def _end(self) -> Sequence[Event]:
        if self._stop is None:
            raise violated("the upstream ended its answer without a stop reason")
        return self.ended(self._stop)

    def ended(self, reason: str) -> Sequence[Event]:
        """Return the last counts and the end of the answer."""
        self.done = True
        stop = STOPS.get(reason)
        if stop is None:
            self.notes.omitted("stop_reason", "an unknown stop reason counts as the end of the turn")
        usage = wire.usage_of(self._counts, self.notes)
        if not usage.known:
            self.notes.omitted("usage", "the upstream reported no token counts")
        return (usage, Finish(stop or "end", self._sequence))

    def _usage(self, raw: Raw) -> Usage:
        if bytes(raw) not in (b"", b"null"):
            try:
                self._counts = wire.merged(self._counts, _counts(raw))
            except msgspec.ValidationError:
                self._repair("usage", "the counts have wrong types")
        return wire.usage_of(self._counts, Notes())

    def _repair(self, field: str, message: str) -> None:
        """Note a repair of the list in 5.2; strict mode takes it for a violation."""
        if self._strict:
            raise violated(f"{field}: {message}")
        self.notes.changed(field, message)

    def _unknown(self, what: str, kind: str) -> None:
        told = f"{what} {kind[:64]}"
        if told not in self._kinds and len(self._kinds) < MAX_KINDS:
            self._kinds.add(told)
            self.notes.omitted(what, f"{kind[:64]!r} has no meaning to this translation")

    def _failed(self, failed: Failed) -> Sequence[Event]:
        self.done = True
        return (failed,)


def _refusal(error: Raw, document: bytes) -> Failed:
    return Failed(error_fault(_any(error) if bytes(error) else None), document)
