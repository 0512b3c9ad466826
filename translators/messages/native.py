"""Messages on both sides: the client's bytes with what must change, and a look at the upstream's frames.

Promises: every byte stays save the model's name, reasoning state of other origins, and a default effort where the
route has one; a stream is never decoded where nothing but content passes (section 6, 1.6).
"""

import re
from re import Pattern
from typing import Any

import msgspec
from msgspec import Raw

from translators.carrier import MARK, is_carrier, unseal
from translators.conversation import State
from translators.dialect import Closing, Peek, Reply, Seen, Target
from translators.effort import MIN_BUDGET
from translators.events import Failed, Usage
from translators.failure import error_fault
from translators.fault import Fault, Refused, broken, refuse
from translators.jsonio import ERRORS, encode, explain, unreadable
from translators.messages import wire
from translators.messages.decoder import STOPS
from translators.messages.envelope import error_event
from translators.notes import Notes
from translators.sse import Frame, event_frame
from translators.traits import nearest_effort

__all__ = ["KNOWN", "Watcher", "native_answer", "native_failure", "native_request", "watch"]

KNOWN = frozenset(wire.Body.__struct_fields__)

_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_ESCAPED = b"\\u006"
"""How an escaped spelling of the word model has to begin: its letters are all U+0064 to U+006F."""

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_event = msgspec.json.Decoder(wire.Event).decode
_counts = msgspec.json.Decoder(wire.Counts).decode
_any = msgspec.json.Decoder().decode


STOPPED = event_frame("message_stop", b'{"type":"message_stop"}')


class _Asked(msgspec.Struct):
    thinking: wire.InputThinking | None = None
    output_config: dict[str, Raw] | None = None


class _Limits(msgspec.Struct):
    max_tokens: Raw = wire.ABSENT
    thinking: Raw = wire.ABSENT


class _Signed(msgspec.Struct):
    type: str = ""
    signature: str = ""
    data: str = ""


_asked = msgspec.json.Decoder(_Asked).decode
_limits = msgspec.json.Decoder(_Limits).decode
_signed = msgspec.json.Decoder(_Signed).decode
_kind = msgspec.json.Decoder(wire.OutputMessage).decode


def native_request(body: bytes, peek: Peek, target: Target, notes: Notes) -> bytes:
    """Return the body for an upstream that speaks Messages too; raises Refused for JSON that cannot be read."""
    try:
        if MARK.encode() in body:
            body = _own_state(body, target, notes)
        if target.default_effort is not None and target.traits.thinking == "adaptive":
            body = _with_effort(body, target)
        caps = [cap for cap in (target.max_output_tokens, target.traits.max_output_cap) if cap is not None]
        if caps:
            body = _lowered(body, min(caps), notes)
        return _named(body, peek.model, target.model)
    except ERRORS as error:
        raise refuse(explain(error)) from None


def _lowered(body: bytes, cap: int, notes: Notes) -> bytes:
    """Return the body with a limit of at most `cap` tokens, and a thinking budget below it, as the API wants."""
    limits = _limits(body)
    wished = _any(limits.max_tokens) if bytes(limits.max_tokens) else None
    if not isinstance(wished, int) or wished <= cap:
        return body
    notes.changed("max_tokens", f"lowered to {cap}, the most that this route allows")
    members: dict[str, Any] = {**_members(body), "max_tokens": cap}
    thinking = _any(limits.thinking) if bytes(limits.thinking) else None
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(thinking, dict) and isinstance(budget, int) and budget >= cap:
        if cap > MIN_BUDGET:
            notes.changed("thinking.budget_tokens", f"lowered to {cap - 1}, below max_tokens")
            members["thinking"] = {**thinking, "budget_tokens": cap - 1}
        else:
            notes.omitted("thinking", f"max_tokens leaves no room for thinking, which takes {MIN_BUDGET} tokens")
            del members["thinking"]
    return encode(members)


def _named(body: bytes, old: str, new: str) -> bytes:
    """Return the body with the model's name replaced: in place when its key can only be the top one."""
    if body.count(b'"model"') == 1 and _ESCAPED not in body:
        found = _MODEL.search(body)
        if found is not None and _text(found[1]) == old:
            return body[: found.start(1)] + encode(new) + body[found.end(1) :]
    members = _members(body)
    members["model"] = Raw(encode(new))
    return encode(members)


def _with_effort(body: bytes, target: Target) -> bytes:
    """Put the route's effort where the client names none and does not switch thinking off (section 6)."""
    asked = _asked(body)
    config = asked.output_config or {}
    if "effort" in config or (asked.thinking is not None and asked.thinking.type == "disabled"):
        return body
    level = nearest_effort(target.default_effort or "", target.traits.efforts)
    if level is None or level == "none":
        return body
    members: dict[str, Any] = {**_members(body), "output_config": {**config, "effort": level}}
    return encode(members)


def _own_state(body: bytes, target: Target, notes: Notes) -> bytes:
    """Restore this origin's reasoning state and remove that of every other: only the origin can read it (I17)."""
    members = _members(body)
    kept: list[Raw] = []
    for index, message in enumerate(_list(members.get("messages", Raw(b"[]")))):
        rest = _own_message(bytes(message), f"messages.{index}", target, notes)
        if rest is not None:
            kept.append(Raw(rest))
    return encode({**members, "messages": kept})


def _own_message(message: bytes, at: str, target: Target, notes: Notes) -> bytes | None:
    if MARK.encode() not in message:
        return message
    members = _members(message)
    content = bytes(members.get("content", Raw(b"")))
    if not content.startswith(b"["):
        return message
    blocks: list[Raw] = []
    for block in _list(content):
        rest = _own_block(bytes(block), target)
        if rest is None:
            notes.omitted(at, "reasoning state of another origin is removed")
        else:
            blocks.append(Raw(rest))
    # The API takes no empty message; neighbours of one role are one turn to it.
    return encode({**members, "content": blocks}) if blocks else None


def _own_block(block: bytes, target: Target) -> bytes | None:
    if MARK.encode() not in block:
        return block
    signed = _signed(block)
    match signed.type:
        case "thinking":
            field, kind, value = "signature", "th", signed.signature
        case "redacted_thinking":
            field, kind, value = "data", "rt", signed.data
        case _:
            return block
    if not is_carrier(value):
        return block
    carried = unseal(State(value), ("th", "rt"), target.origin)
    if carried is None:
        return None
    if carried.kind == kind:
        return encode({**_members(block), field: Raw(encode(carried.data))})
    # A Messages client keeps redacted state of ours as the signature of an empty thinking block.
    return encode({"type": "redacted_thinking", "data": carried.data}) if carried.kind == "rt" else None


class Watcher:
    """Observe a Messages stream on its way to a Messages client."""

    _telling: Pattern[bytes] = re.compile(rb'"message_(?:start|delta|stop)"|"error"|event: ?error')
    meaningful: Pattern[bytes] = re.compile(rb'"(?:text|thinking|input_json|signature)_delta"|tool_use"|_tool_result"')

    usual = b'"text_delta"'
    closing: Closing | None = Closing(STOPPED, "message_stop", "the stream ends without message_stop")

    def __init__(self, reply: Reply) -> None:
        self._alias = reply.alias
        self._finished = False
        self._counts = wire.Counts()

    def quiet(self, region: bytes) -> bool:
        """Tell whether a region has no start, end, counts or error in it; substrings cost a tenth of the pattern."""
        if b'"message_' in region or b'"error"' in region or b": error" in region or b":error" in region:
            return not self._telling.search(region)
        return True

    def failure(self, fault: Fault) -> bytes:
        """Return the error event; no block is closed before it (2.1)."""
        return native_failure(fault)

    def look(self, frame: Frame) -> Seen:
        """Return what one frame says; an unreadable one fails the stream."""
        try:
            event = _event(frame.data)
            match event.type or frame.event.decode("utf-8", "replace"):
                case "message_start":
                    return self._begun(event, frame)
                case "message_delta":
                    usage, stop = self._usage(event.usage), event.delta.stop_reason
                    self._finished = self._finished or bool(stop)
                    return Seen(usage=usage, stop=STOPS.get(stop, "end") if stop else None, terminal=bool(stop))
                case "message_stop":
                    if self._finished:
                        return Seen(terminal=True, last=True)
                    return Seen(failed=Failed(broken("the upstream ended its answer without a stop reason")))
                case "error":
                    return Seen(failed=_failed(event.error, frame.data))
                case "" if bytes(event.error) not in (b"", b"null"):
                    return Seen(failed=_failed(event.error, frame.data))
                case _:
                    return Seen()
        except ERRORS as error:
            if frame.data.strip() == b"[DONE]":
                return Seen()
            return Seen(failed=Failed(unreadable(error)))

    def _begun(self, event: wire.Event, frame: Frame) -> Seen:
        message = _kind(event.message)
        usage = self._usage(message.usage)
        if not message.model:
            return Seen(usage=usage)
        named = {**_members(event.message), "model": self._alias}
        replaced = event_frame("message_start", encode({**_members(frame.data), "message": named}))
        return Seen(usage=usage, model=message.model, replace=replaced)

    def _usage(self, raw: Raw) -> Usage | None:
        if bytes(raw) in (b"", b"null"):
            return None
        try:
            self._counts = wire.merged(self._counts, _counts(raw))
        except msgspec.ValidationError:
            # Counts are only observed here; the client gets the upstream's own bytes.
            return None
        return wire.usage_of(self._counts, Notes())


def _failed(error: Raw, document: bytes) -> Failed:
    return Failed(error_fault(_any(error) if bytes(error) else None), document)


def watch(reply: Reply) -> Watcher:
    """Return the observer of one native stream."""
    return Watcher(reply)


def native_answer(body: bytes, reply: Reply) -> bytes:
    """Return an upstream's whole answer under the client's alias; raises Refused for a body that is no JSON object."""
    try:
        model = _kind(body).model
        return body if model is None else _named(body, model, reply.alias)
    except ERRORS as error:
        raise Refused(unreadable(error)) from None


def native_failure(fault: Fault) -> bytes:
    """Return the error event, which is the same whether or not the stream has begun (2.1)."""
    return error_event(fault)
