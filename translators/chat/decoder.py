"""Read a Chat upstream's stream into events, with the repairs of spec/translation.md 5.2 and no others.

Never raises for upstream data. Blocks need no order here (the Sequencer gives them one); Usage and Finish come at
the stream's terminal, not at finish_reason, since counts may follow it.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from translators.chat.attachments import read_citations, read_logprobs
from translators.chat.calls import Calls, Contradiction
from translators.chat.details import Gathered
from translators.chat.usage import all_zero, decreased, impossible, read_usage
from translators.chat.wire import Choice, Chunk, DeltaMessage, present
from translators.dialect import Source
from translators.events import (
    BlockEnd,
    BlockStart,
    Delta,
    Event,
    Failed,
    Finish,
    Kind,
    Mark,
    Start,
    Stop,
    Usage,
)
from translators.failure import error_fault
from translators.fault import Fault, broken
from translators.jsonio import ERRORS, unreadable
from translators.notes import Notes
from translators.sse import Frame

__all__ = ["ChatDecoder", "decoder", "error_of", "stop_of"]

STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "tool",
    "function_call": "tool",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "context",
    "content_filter": "refusal",
    "safety": "refusal",
    "sensitive": "refusal",
    "refusal": "refusal",
}
"""Also words of other protocols and vendors where their meaning is plain: a cut answer must not look whole."""

CUT = frozenset({"error", "abort", "aborted", "network_error", "insufficient_system_resource", "engine_overloaded"})
"""Words with which servers say that they gave up within the answer (GLM, DeepSeek, vLLM)."""

_NULL = len("null")
"""Raw members of no greater length say nothing; asking so is cheaper than reading them, and every delta asks."""

_NOTHING = DeltaMessage()

_decode = msgspec.json.Decoder(Chunk).decode
_any = msgspec.json.Decoder().decode


def decoder(source: Source) -> "ChatDecoder":
    """Return the decoder of one stream."""
    return ChatDecoder(source)


def stop_of(reason: str) -> Stop:
    """Return what a finish_reason means; some servers shout theirs, and an unknown one counts as stop."""
    return STOPS.get(reason.lower(), "end")


def error_of(chunk: Chunk) -> Fault | None:
    """Return the Fault of an error that a chunk or answer states, None when it states none."""
    if present(chunk.error):
        error = _any(chunk.error)
        if error:
            return error_fault(error)
    for choice in chunk.choices or ():
        if (choice.finish_reason or "").lower() in CUT or (present(choice.error) and _any(choice.error)):
            return error_fault(_any(choice.error) if present(choice.error) else None)
    return error_fault(None) if chunk.success is False else None


class ChatDecoder:
    """Turn frames into events; see translators.dialect.Decoder."""

    def __init__(self, source: Source) -> None:
        self.notes = source.notes or Notes()
        self._strict = source.strict
        self._done = False
        self._started = False
        self._flowing = False
        self._keys = 0
        self._open: int | None = None
        self._kind: Kind = "text"
        self._calls = Calls(self.notes, self._next_key, strict=source.strict)
        self._id = ""
        self._details = Gathered()
        self._from_details: bool | None = None
        self._chars = 0
        self._base = 0
        self._finish: str | None = None
        self._finished: set[int] = set()
        self._joined: set[int] = set()
        self._ignored: set[int] = set()
        self._usage: Usage | None = None

    def push(self, frame: Frame) -> Sequence[Event]:
        """Return the events of one frame."""
        if self._done:
            return ()
        data = frame.data
        if data[:6] == b"[DONE]":
            return self._terminal()
        if not data or data.isspace():
            return ()
        try:
            chunk = _decode(data)
            choices = chunk.choices
            if self._flowing and choices and len(choices) == 1 and len(chunk.usage) <= _NULL and not chunk.error:
                flowing = self._flow(choices[0])
                if flowing is not None and not frame.event:
                    return (flowing,)
            return self.take(chunk, data, frame.event)
        except Contradiction as error:
            return self._fail(broken(str(error)))
        except ERRORS as error:
            return self._fail(unreadable(error))

    def _flow(self, choice: Choice) -> Delta | None:
        """Return the delta of a chunk that only continues what is open, as nearly all do; None for any other chunk."""
        delta = choice.delta
        more = choice.finish_reason or choice.index or choice.error or choice.usage or len(choice.logprobs) > _NULL
        if delta is None or more:
            return None
        # What the chunk adds is taken out of its delta: when nothing is left, the chunk says nothing else.
        content = delta.content
        delta.content = None
        if self._open is None:
            calls, delta.tool_calls = delta.tool_calls, None
            if calls and len(calls) == 1 and not content and delta == _NOTHING:
                found = self._calls.flow(calls[0])
                if found is not None:
                    return found
            delta.tool_calls = calls
        elif self._kind == "text":
            if type(content) is str and content and delta == _NOTHING:
                self._chars += len(content)
                return Delta(self._open, content)
        elif self._kind == "reasoning" and self._from_details is False:
            text, delta.reasoning_content = delta.reasoning_content, None
            if text and not content and delta == _NOTHING:
                return Delta(self._open, text)
            delta.reasoning_content = text
        delta.content = content
        return None

    def finish(self) -> Sequence[Event]:
        """Return the events of the stream's end."""
        if self._done:
            return ()
        if self._finish is None:
            return self._fail(broken("the upstream's stream ended before its answer was complete", cause="eof"))
        if self._strict:
            return self._fail(broken("the upstream's stream ended without [DONE]", cause="eof"))
        self.notes.changed("stream", "missing_done: the stream ended without [DONE]")
        return self._terminal()

    def whole(self, chunk: Chunk, data: bytes) -> Sequence[Event]:
        """Return the events of a whole answer (no stream), ending in Finish or Failed."""
        try:
            events = [*self.take(chunk, data, b"")]
            if self._done:
                return events
            if not self._started:
                return self._fail(broken("the upstream's answer has no choices"))
            if self._finish is None and self._strict:
                return [*events, *self._fail(broken("the upstream's answer has no finish_reason"))]
            if self._finish is None:
                self.notes.changed("finish_reason", "the answer is taken as complete without one")
                events.extend(self._close("end"))
                self._finish = "stop"
            return [*events, *self._terminal()]
        except Contradiction as error:
            return self._fail(broken(str(error)))

    def take(self, chunk: Chunk, data: bytes, event: bytes) -> Sequence[Event]:
        """Return the events of a decoded chunk; raises what `push` turns into Failed."""
        choices = chunk.choices
        if not choices or chunk.error or event:
            fault = error_of(chunk)
            if fault is None and event == b"error":
                fault = error_fault(_any(data))
            if fault is not None:
                return self._fail(fault, data)
            if choices is None and present(chunk.data):
                inner = _decode(chunk.data)
                if inner.choices or (inner.choices is not None and present(inner.usage)) or error_of(inner):
                    return self.take(inner, data, b"")
            if choices is None and not self._started and not chunk.id and not present(chunk.usage):
                return self._stray(data)
        if self._strict:
            self._identify(chunk.id)
        out: list[Event] = []
        if not self._started and (choices or (chunk.id and chunk.model)):
            out.append(self._start(chunk, data))
        if len(chunk.usage) > _NULL:
            self._count(chunk.usage)
        if choices:
            self._choices(choices, data, out)
        return out

    def _identify(self, found: Any) -> None:
        """Refuse an answer whose id changes (I5)."""
        if not isinstance(found, str) or not found:
            return
        if self._id and found != self._id:
            raise Contradiction("the id of the upstream's answer changes")
        self._id = found

    def _start(self, chunk: Chunk, data: bytes) -> Start:
        # The short cut for deltas looks at nothing else, so that strict mode does without it.
        self._started, self._flowing = True, not self._strict
        found = chunk.id if isinstance(chunk.id, str) else ""
        self._calls.identify(found, data)
        created = chunk.created
        seconds = int(created) if isinstance(created, int | float) and 0 <= created < 2**53 else 0
        return Start(found, chunk.model if isinstance(chunk.model, str) else "", seconds)

    def _stray(self, data: bytes) -> Sequence[Event]:
        """Judge a frame that is no chunk: some servers report errors as a bare object."""
        value = _any(data)
        if isinstance(value, dict) and not {"message", "msg", "detail"}.isdisjoint(value):
            return self._fail(error_fault(value), data)
        return ()

    def _count(self, raw: msgspec.Raw) -> None:
        usage = read_usage(raw)
        if self._strict and impossible(raw):
            raise Contradiction("the upstream reports impossible token counts")
        if usage is None:
            self.notes.omitted("usage", "not readable")
        elif not all_zero(usage) or (self._usage is None and self._finish is not None):
            if self._strict and self._usage is not None and decreased(self._usage, usage):
                raise Contradiction("the upstream's token counts decrease")
            self._usage = usage

    def _choices(self, choices: list[Choice], data: bytes, out: list[Event]) -> None:
        """Take all deltas of a chunk before its finish reasons: one choice may end while another still brings calls."""
        for choice in choices:
            delta = choice.delta or choice.message
            if choice.index and not self._belongs(choice.index, delta):
                continue
            if delta is not None:
                self._delta(choice, delta, out, whole=choice.delta is None)
        for choice in choices:
            reason = choice.finish_reason
            if len(choice.error) > _NULL and _any(choice.error):
                reason = "error"
            if len(choice.usage) > _NULL:
                self._count(choice.usage)
            if reason and (choice.index or 0) not in self._ignored:
                self._reason(choice, reason, data, out)
                if self._done:
                    return

    def _belongs(self, index: int, delta: DeltaMessage | None) -> bool:
        """Tell whether a choice of another index is part of this answer: some servers put the calls there."""
        if index in self._ignored:
            return False
        speaks = delta is not None and bool(delta.content)
        if not speaks and (index in self._joined or (delta is not None and delta.tool_calls)):
            self._joined.add(index)
            return True
        self._ignored.add(index)
        self.notes.omitted("choices", "a second alternative is ignored")
        return False

    def _delta(self, choice: Choice, delta: DeltaMessage, out: list[Event], *, whole: bool) -> None:
        thought = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        details = delta.reasoning_details
        content = delta.content
        if isinstance(content, list):
            thought = thought or "".join(_texts(_thinking(content)))
            content = "".join(_texts(content))
        if self._finished and (choice.index or 0) in self._finished:
            self._late(delta, content)
            return
        if thought or len(details) > _NULL:
            self._thought(thought, details, out)
        if content:
            self._content(choice, content, out)
        if delta.refusal:
            out.append(Delta(self._block("refusal", out), delta.refusal))
        if len(delta.annotations) > _NULL and self._open is not None and self._kind == "text":
            key = self._open
            out.extend(Mark(key, cited) for cited in read_citations(delta.annotations, self._base, self.notes))
        if delta.tool_calls:
            self._leave(out)
            out.extend(self._calls.push(delta.tool_calls, whole=whole))
        elif delta.function_call is not None:
            self._leave(out)
            out.extend(self._calls.legacy(delta.function_call))

    def _late(self, delta: DeltaMessage, content: str | None) -> None:
        """Refuse content after the end; state may still come then, and empty deltas say nothing."""
        if len(delta.reasoning_details) > _NULL and self._details.add(delta.reasoning_details) is None:
            raise Contradiction("the upstream's reasoning_details contradict each other")
        if content or delta.refusal or any(call.function or call.custom for call in delta.tool_calls or ()):
            raise Contradiction("the upstream went on after its finish_reason")

    def _content(self, choice: Choice, content: str, out: list[Event]) -> None:
        key = self._block("text", out)
        self._chars += len(content)
        if len(choice.logprobs) > _NULL:
            out.append(Delta(key, content, read_logprobs(choice.logprobs, self.notes)))
        else:
            out.append(Delta(key, content))

    def _thought(self, plain: Any, details: msgspec.Raw, out: list[Event]) -> None:
        """Take reasoning once: plain fields and details often repeat each other; what came first counts."""
        text = plain if isinstance(plain, str) else ""
        if text and self._from_details is None:
            self._from_details = False
        told = self._details.add(details) if len(details) > _NULL else ""
        if told is None:
            raise Contradiction("the upstream's reasoning_details contradict each other")
        if told and self._from_details is None:
            self._from_details = True
        text = told if self._from_details else text
        if text:
            out.append(Delta(self._block("reasoning", out), text))

    def _block(self, kind: Kind, out: list[Event]) -> int:
        """Return the key of the open block of this kind, opening it (and leaving the former one) when needed."""
        if self._open is not None and self._kind == kind:
            return self._open
        self._leave(out)
        out.extend(self._calls.leave())
        self._open, self._kind = self._next_key(), kind
        self._base = self._chars
        out.append(BlockStart(self._open, kind))
        return self._open

    def _leave(self, out: list[Event], *, complete: bool = True) -> None:
        if self._open is None:
            return
        if self._kind == "reasoning" and (carried := self._details.take()) is not None:
            out.append(Mark(self._open, carried))
        out.append(BlockEnd(self._open, complete))
        self._open = None

    def _next_key(self) -> int:
        self._keys += 1
        return self._keys

    def _reason(self, choice: Choice, reason: str, data: bytes, out: list[Event]) -> None:
        if reason.lower() in CUT:
            fault = error_fault(_any(choice.error) if present(choice.error) else None)
            out.extend(self._fail(fault, data))
            return
        self._finished.add(choice.index or 0)
        if self._finish is None:
            self._finish = reason
            self._flowing = False
            out.extend(self._close(stop_of(reason)))
        elif reason != self._finish:
            self.notes.omitted("finish_reason", "a second, different finish_reason is ignored")
            if self._strict:
                out.extend(self._fail(broken("the upstream gave two different finish reasons")))

    def _close(self, stop: Stop) -> list[Event]:
        out: list[Event] = []
        complete = stop not in ("length", "context")
        self._leave(out, complete=complete)
        out.extend(self._calls.close(complete=complete))
        return out

    def _terminal(self) -> Sequence[Event]:
        if self._finish is None:
            return self._fail(broken("the upstream's stream ended before its answer was complete", cause="eof"))
        # A second choice may have brought content after the first one's finish_reason.
        out = self._close(stop_of(self._finish))
        if (carried := self._details.take()) is not None:
            # State that came apart from any reasoning text still has to reach the client.
            key = self._next_key()
            out.extend((BlockStart(key, "reasoning"), Mark(key, carried), BlockEnd(key)))
        if self._finish.lower() not in STOPS:
            self.notes.changed("finish_reason", "an unknown finish_reason counts as stop")
        if self._usage is None:
            self.notes.omitted("usage", "the upstream reported no token counts")
        else:
            out.append(self._usage)
        self._done = True
        return [*out, Finish(stop_of(self._finish))]

    def _fail(self, fault: Fault, raw: bytes = b"") -> list[Event]:
        self._done = True
        counted: list[Event] = [self._usage] if self._usage is not None else []
        return [*counted, Failed(fault, raw)]


def _thinking(parts: list[Any]) -> list[Any]:
    """Return the parts inside the thinking parts of such a list, Mistral's place for reasoning."""
    found = (part.get("thinking") for part in parts if isinstance(part, dict) and part.get("type") == "thinking")
    return [one for inner in found for one in (inner if isinstance(inner, list) else [inner])]


def _texts(parts: list[Any]) -> list[str]:
    """Return the texts of content that a compatible server sent as a list of parts."""
    return [
        part if isinstance(part, str) else part["text"]
        for part in parts
        if isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))
    ]
