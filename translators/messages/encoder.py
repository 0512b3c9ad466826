"""A Messages client's stream, written from sequenced events (spec/translation.md 2.1, 5.3).

Promises: message_start first and once, blocks one after another with indexes 0, 1, 2, one message_delta, one
message_stop, nothing after it; a failure is one error event and nothing else (I20 to I23, I27, I29).
"""

from typing import Any

from translators.carrier import seal
from translators.conversation import Receipt
from translators.dialect import Reply
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
from translators.identifiers import call_id_for_messages, made_call_id, response_id
from translators.jsonio import encode
from translators.messages.envelope import error_event
from translators.messages.receipt import receipt_blocks
from translators.sse import COMMENT, event_frame
from translators.toolbox import wrap

__all__ = ["NO_CITATIONS", "Encoder", "call_id", "stop_of", "usage_object"]

NO_CITATIONS = "they have no form of this protocol's own"
PING = event_frame("ping", b'{"type":"ping"}')

_STOPS: dict[Stop, str] = {
    "end": "end_turn",
    "tool": "tool_use",
    "length": "max_tokens",
    "context": "model_context_window_exceeded",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause": "pause_turn",
}

_START = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b'
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_END = b"}}\n\n"

_TEXT = b'{"type":"text_delta","text":'
_THINKING = b'{"type":"thinking_delta","thinking":'
_INPUT = b'{"type":"input_json_delta","partial_json":'
_SIGNATURE = b'{"type":"signature_delta","signature":'


def stop_of(stop: Stop, sequence: str | None) -> tuple[str, str | None]:
    """Return stop_reason and stop_sequence; a stop sequence that nobody knows ends the turn (1.8)."""
    if stop == "stop_sequence":
        return ("stop_sequence", sequence) if sequence else ("end_turn", None)
    return _STOPS[stop], None


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return the wire's usage: both main counts always, unknown ones as 0, the others when they are known (1.7)."""
    counts: dict[str, Any] = {"input_tokens": usage.uncached or 0}
    if usage.cache_write is not None:
        counts["cache_creation_input_tokens"] = usage.cache_write
    if usage.cache_read is not None:
        counts["cache_read_input_tokens"] = usage.cache_read
    counts["output_tokens"] = usage.output or 0
    if usage.reasoning is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return counts


def call_id(start: BlockStart, seed: str, ordinal: int) -> str:
    """Return a call's id as Messages takes it, made up where the upstream gave none (1.3)."""
    return call_id_for_messages(start.call_id) if start.call_id else made_call_id("toolu_", seed, ordinal)


class Encoder:
    """Write one answer."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._usage = Usage()
        self._index = 0
        self._prefix = b""
        """What every delta of the open block begins with; empty while its text is gathered instead."""
        self._start = BlockStart(-1, "text")
        self._empty = True
        self._raw: list[str] = []
        self._carried: Carried | None = None
        self._tools = 0
        self._begun = False
        self._done = False

    def push(self, event: Event) -> bytes:
        """Return what the client gets for one event; may be empty."""
        if type(event) is Delta:
            if self._prefix:
                self._empty = False
                return b"%b%b%b" % (self._prefix, encode(event.text), _END)
            self._raw.append(event.text)
            return b""
        return self._other(event)

    def keepalive(self) -> bytes:
        """Return a ping, or a comment before message_start, which has to come first; nothing after the end (1.16)."""
        if self._done:
            return b""
        return PING if self._begun else COMMENT

    def _other(self, event: Event) -> bytes:
        match event:
            case BlockStart():
                return self._open(event)
            case BlockEnd():
                return self._close()
            case Mark(value=Carried() as carried):
                self._carried = carried
                return b""
            case Mark(value=Receipt() as receipt):
                return self._receipt(receipt)
            case Mark():
                self._reply.notes.once("citations", NO_CITATIONS)
                return b""
            case Usage():
                self._usage = event if event.known else self._usage
                return b""
            case Start():
                return self._begin(event)
            case Finish():
                return self._finish(event)
            case Failed(fault=fault):
                self._done = True
                return error_event(fault)
            case _:
                return b""

    def _begin(self, start: Start) -> bytes:
        self._begun = True
        self._usage = start.usage or self._usage
        message: dict[str, Any] = {
            "id": response_id(start.id, "msg_", self._reply.seed),
            "type": "message",
            "role": "assistant",
            "model": self._reply.alias,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_object(self._usage),
        }
        return event_frame("message_start", encode({"type": "message_start", "message": message}))

    def _open(self, start: BlockStart) -> bytes:
        self._start, self._empty, self._carried = start, True, None
        block: dict[str, Any]
        match start.kind:
            case "receipt":
                return b""
            case "reasoning":
                block, delta = {"type": "thinking", "thinking": "", "signature": ""}, _THINKING
            case "tool":
                block = {
                    "type": "tool_use",
                    "id": call_id(start, self._reply.seed, self._tools),
                    "name": start.name,
                    "input": {},
                }
                delta = _INPUT
                self._tools += 1
            case _:
                block, delta = {"type": "text", "text": ""}, _TEXT
        self._prefix = b"" if start.form == "custom" else _DELTA % (self._index, delta)
        return _START % (self._index, encode(block))

    def _close(self) -> bytes:
        if self._start.kind == "receipt":
            return b""
        index, out = self._index, b""
        if self._start.form == "custom":
            out = self._input(index, wrap("".join(self._raw)))
            self._raw.clear()
        elif self._start.kind == "tool" and self._empty:
            out = self._input(index, "{}")
        elif self._carried is not None:
            signature = seal(self._carried, self._reply.origin, self._reply.notes)
            if signature is not None:
                out = _DELTA % (index, _SIGNATURE) + encode(signature) + _END
        self._index += 1
        return out + _STOP % index

    def _input(self, index: int, arguments: str) -> bytes:
        return _DELTA % (index, _INPUT) + encode(arguments) + _END

    def _receipt(self, receipt: Receipt) -> bytes:
        """Write a provider-run call and its result as the two blocks that they are natively."""
        call, result = receipt_blocks(receipt)
        first, second = self._index, self._index + 1
        self._index += 2
        return b"".join(
            (
                _START % (first, encode({**call, "input": {}})),
                self._input(first, bytes(call["input"]).decode()),
                _STOP % first,
                _START % (second, encode(result)),
                _STOP % second,
            )
        )

    def _finish(self, finish: Finish) -> bytes:
        self._done = True
        reason, sequence = stop_of(finish.stop, finish.stop_sequence)
        ended = {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": usage_object(self._usage),
        }
        return event_frame("message_delta", encode(ended)) + event_frame("message_stop", b'{"type":"message_stop"}')
