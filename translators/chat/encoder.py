"""Write events as a Chat stream (spec/translation.md 2.3, 5.3): one role chunk, deltas, one finish chunk, [DONE].

The hot path joins prepared bytes around one encoded string; nothing is built as an object per delta.
"""

from collections.abc import Callable
from typing import Any

from translators.chat.details import entry_of
from translators.chat.envelope import error_frame
from translators.chat.usage import usage_object
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
    Logprob,
    Mark,
    Start,
    Stop,
    Usage,
)
from translators.identifiers import response_id
from translators.jsonio import encode
from translators.sse import COMMENT, DONE
from translators.toolbox import wrap

__all__ = ["NO_PAUSE", "NO_RECEIPTS", "REASONS", "ChatEncoder", "encoder"]

NO_RECEIPTS = "a call that the provider ran has no form in Chat"
NO_PAUSE = "the upstream paused its turn, which this protocol cannot tell from an end"

REASONS: dict[Stop, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "pause": "stop",
    "tool": "tool_calls",
    "length": "length",
    "context": "length",
    "refusal": "content_filter",
}

_FIELDS = {"text": b'"content":', "refusal": b'"refusal":', "reasoning": b'"reasoning_content":'}


def encoder(reply: Reply) -> "ChatEncoder":
    """Return the encoder of one stream."""
    return ChatEncoder(reply)


class ChatEncoder:
    """Turn sequenced events into a Chat client's bytes; see translators.dialect.Encoder."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._usage = Usage()
        self._done = False
        self._first = b""
        self._head = b""
        self._tail = b""
        self._before = b""
        self._after = b""
        self._block = BlockStart(0, "text")
        self._filled = False
        self._carried: Carried | None = None
        self._held: list[str] = []
        self._special = False
        self._tools = 0
        self._thoughts = 0
        self._handlers: dict[type[Event], Callable[[Any], bytes]] = {
            Start: self._start,
            BlockStart: self._open,
            Mark: self._mark,
            BlockEnd: self._close,
            Usage: self._count,
            Finish: self._finish,
            Failed: self._fail,
        }

    def push(self, event: Event) -> bytes:
        """Return what the client gets for one event."""
        if type(event) is Delta:
            if self._special or event.logprobs:
                return self._unusual(event)
            self._filled = True
            return b"".join((self._before, encode(event.text), self._after))
        return b"" if self._done else self._handlers[type(event)](event)

    def keepalive(self) -> bytes:
        """Return a comment, which no parser shows; nothing after the terminal."""
        return b"" if self._done else COMMENT

    def _start(self, event: Start) -> bytes:
        if event.usage is not None:
            self._usage = event.usage
        identity = {
            "id": response_id(event.id, "chatcmpl-", self._reply.seed),
            "object": "chat.completion.chunk",
            "created": event.created or self._reply.created,
            "model": self._reply.alias,
        }
        self._first = b"data: " + encode(identity)[:-1]
        # The client's wish for usage puts a null usage into every other chunk (2.3).
        end = b',"usage":null}\n\n' if self._reply.include_usage else b"}\n\n"
        self._head = self._first + b',"choices":[{"index":0,"delta":{'
        self._tail = b'},"logprobs":null,"finish_reason":null}]' + end
        return b"".join((self._head, b'"role":"assistant"', self._tail))

    def _open(self, event: BlockStart) -> bytes:
        self._block, self._filled, self._carried, self._special = event, False, None, False
        self._held.clear()
        if event.kind == "tool":
            return self._open_tool(event)
        if event.kind == "reasoning":
            self._thoughts += 1
            # Clients keep all reasoning as one text; the details of later blocks tell which part is theirs.
            self._special = self._thoughts > 1
        self._before = self._head + _FIELDS.get(event.kind, b"")
        self._after = self._tail
        return b""

    def _open_tool(self, event: BlockStart) -> bytes:
        index = self._tools
        self._tools += 1
        self._before = b'%b"tool_calls":[{"index":%d,"function":{"arguments":' % (self._head, index)
        self._after = b"}}]" + self._tail
        # A Chat stream knows functions only, so a raw input is sent as their arguments once it is whole.
        self._special = event.form == "custom"
        call = {
            "index": index,
            "id": event.call_id,
            "type": "function",
            "function": {"name": event.name, "arguments": ""},
        }
        return b"".join((self._head, b'"tool_calls":[', encode(call), b"]", self._tail))

    def _unusual(self, event: Delta) -> bytes:
        if self._special:
            self._held.append(event.text)
            if self._block.kind == "tool":
                return b""
        self._filled = True
        if not event.logprobs:
            return b"".join((self._before, encode(event.text), self._after))
        tail = self._tail.replace(b'"logprobs":null', b'"logprobs":' + encode(logprobs_object(event.logprobs)), 1)
        return b"".join((self._before, encode(event.text), tail))

    def _mark(self, event: Mark) -> bytes:
        if isinstance(event.value, Carried):
            self._carried = event.value
        elif isinstance(event.value, Receipt):
            self._reply.notes.once("receipts", NO_RECEIPTS)
        else:
            self._reply.notes.once("citations", "a Chat stream has no place for them")
        return b""

    def _close(self, event: BlockEnd) -> bytes:
        if self._block.kind == "reasoning" and self._carried is not None:
            reply, index = self._reply, self._thoughts - 1
            entry = entry_of(self._carried, reply.origin, index, "".join(self._held), reply.notes)
            if entry is not None:
                return b"".join((self._head, b'"reasoning_details":[', encode(entry), b"]", self._tail))
        elif self._special and self._block.kind == "tool":
            return b"".join((self._before, encode(wrap("".join(self._held))), self._after))
        elif self._block.kind == "tool" and not self._filled and event.complete:
            return b"".join((self._before, b'"{}"', self._after))
        return b""

    def _count(self, event: Usage) -> bytes:
        self._usage = event
        return b""

    def _finish(self, event: Finish) -> bytes:
        self._done = True
        if event.stop == "pause":
            self._reply.notes.once("stop", NO_PAUSE)
        reason = b'"finish_reason":' + encode(REASONS[event.stop])
        out = [self._head, self._tail.replace(b'"finish_reason":null', reason, 1)]
        if self._reply.include_usage:
            out += (self._first, b',"choices":[],"usage":', encode(usage_object(self._usage)), b"}\n\n")
        out.append(DONE)
        return b"".join(out)

    def _fail(self, event: Failed) -> bytes:
        self._done = True
        return error_frame(event.fault)


def logprobs_object(logprobs: tuple[Logprob, ...] | list[Logprob]) -> dict[str, Any]:
    """Return a choice's `logprobs`."""
    return {"content": [_logprob(entry) for entry in logprobs], "refusal": None}


def _logprob(entry: Logprob) -> dict[str, Any]:
    alternatives = [{"token": top.token, "logprob": top.logprob, "bytes": top.bytes} for top in entry.top_logprobs]
    return {"token": entry.token, "logprob": entry.logprob, "bytes": entry.bytes, "top_logprobs": alternatives}
