"""Responses on both sides: bytes are kept save what must change (spec/translation.md 6, pass-through).

Requests change in the model's name, in nulls that upstreams refuse, and in opaque state: our carriers of
another origin leave, our own go back to what the upstream gave. Streams change in the model's name, in what
strict readers need of lifecycle objects, and in private events that no client knows.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from translators.carrier import MARK, is_carrier, unseal
from translators.conversation import State
from translators.dialect import Closing, Peek, Reply, Seen, Target
from translators.events import Failed, Stop
from translators.failure import error_fault
from translators.fault import Fault
from translators.jsonio import ERRORS, encode, reader, unreadable
from translators.notes import Notes
from translators.responses import wire
from translators.responses.counts import spent, usage_of
from translators.responses.encoder import Encoder
from translators.responses.envelope import failed_code
from translators.sse import Frame, event_frame
from translators.traits import nearest_effort

__all__ = ["KNOWN", "Watcher", "native_answer", "native_failure", "native_request", "watch"]

Members = dict[str, msgspec.Raw]

KNOWN = frozenset(wire.Request.__struct_fields__)

LAST_SEQUENCE = 2**31 - 1
"""Number of an error event of ours behind a foreign stream: greater than any before it, whatever that was."""

_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_NULLS = re.compile(rb'"(?:status|content|encrypted_content)"\s*:\s*null')
_NULLABLE = ("status", "content", "encrypted_content")
_CARRIER = MARK.encode()

_members: Callable[[bytes], Members] = reader(Members)
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_object = msgspec.json.Decoder(Members).decode
_any = msgspec.json.Decoder().decode
_FRACTION = re.compile(rb"\d{1,15}(?:\.\d*)?(?:[eE]\+?\d)?")
"""A time that is written as a fraction or with an exponent, as some servers do."""


# ------------------------------------------------------------------ requests


def native_request(body: bytes, peek: Peek, target: Target, notes: Notes) -> bytes:
    """Return the body for the upstream; raises Refused for a body that is no object."""
    effort = target.default_effort if b'"effort"' not in body else None
    if effort or _CARRIER in body or _NULLS.search(body):
        body = _amended(body, effort, target, notes)
    caps = [cap for cap in (target.max_output_tokens, target.traits.max_output_cap) if cap is not None]
    if caps:
        body = _lowered(body, min(caps), notes)
    return _renamed(body, peek.model, target.model)


class _Limit(msgspec.Struct):
    max_output_tokens: msgspec.Raw = wire.ABSENT


_limit: Callable[[bytes], _Limit] = reader(_Limit)


def _lowered(body: bytes, cap: int, notes: Notes) -> bytes:
    """Return the body with a limit of at most `cap` tokens; a client that names none leaves it to the upstream."""
    raw = wire.given(_limit(body).max_output_tokens)
    wished = _any(raw) if raw else None
    if not isinstance(wished, int) or wished <= cap:
        return body
    notes.changed("max_output_tokens", f"lowered to {cap}, the most that this route allows")
    return encode({**_members(body), "max_output_tokens": cap})


def _renamed(body: bytes, old: str, new: str) -> bytes:
    if old == new:
        return body
    found = _MODEL.search(body) if body.count(b'"model"') == 1 else None
    if found is not None:
        return b"".join((body[: found.start(1)], encode(new), body[found.end(1) :]))
    members = _members(body)
    members["model"] = msgspec.Raw(encode(new))
    return encode(members)


def _amended(body: bytes, effort: str | None, target: Target, notes: Notes) -> bytes:
    members = _members(body)
    given = bytes(members.get("input", wire.ABSENT))
    if given.startswith(b"["):
        items = [item for raw in _list(given) if (item := _item(raw, target, notes)) is not None]
        members["input"] = msgspec.Raw(encode(items))
    level = nearest_effort(effort, target.traits.efforts) if effort else None
    if level is not None:
        reasoning = bytes(members.get("reasoning", wire.ABSENT))
        wish = _object(reasoning) if reasoning.startswith(b"{") else {}
        members["reasoning"] = msgspec.Raw(encode({**wish, "effort": level}))
    return encode(members)


def _item(raw: msgspec.Raw, target: Target, notes: Notes) -> msgspec.Raw | None:
    """Return an input item as the upstream may have it, None when it may not have it at all."""
    document = bytes(raw)
    if not document.startswith(b"{") or not (_CARRIER in document or _NULLS.search(document)):
        return raw
    item = _object(document)
    reasoning = bytes(item.get("type", wire.ABSENT)) == b'"reasoning"'
    # A message may say `content: null`; elsewhere a null is a field that the client's library filled in.
    for name in _NULLABLE if reasoning else ("status",):
        if bytes(item.get(name, wire.ABSENT)) == b"null":
            del item[name]
    if reasoning and not _restored(item, target):
        notes.omitted("input", "reasoning of another origin is left out")
        return None
    return msgspec.Raw(encode(item))


def _restored(item: Members, target: Target) -> bool:
    """Put back what a carrier holds; tell whether the item may go to this upstream (I17)."""
    content = bytes(item.get("encrypted_content", wire.ABSENT))
    value = _any(content) if content else None
    if not isinstance(value, str) or not is_carrier(value):
        return True
    carried = unseal(State(value), ("rs",), target.origin)
    if carried is None:
        return False
    item["encrypted_content"] = msgspec.Raw(encode(carried.data))
    if carried.id:
        item["id"] = msgspec.Raw(encode(carried.id))
    return True


# ------------------------------------------------------------------ answers


def native_answer(body: bytes, reply: Reply) -> bytes:
    """Return a whole response object with the client's alias as its model; unreadable bytes stay as they are."""
    try:
        return encode(_patched(_object(body), reply))
    except ERRORS:
        return body


def _patched(response: Members, reply: Reply) -> Members:
    """Return a response object with the alias, and with the integers that strict readers insist on (grok.md 16)."""
    if "model" in response:
        response["model"] = msgspec.Raw(encode(reply.alias))
    created = bytes(response.get("created_at", wire.ABSENT))
    if _FRACTION.fullmatch(created):
        response["created_at"] = msgspec.Raw(encode(int(float(created))))
    raw = bytes(response.get("usage", wire.ABSENT))
    if raw.startswith(b"{"):
        response["usage"] = msgspec.Raw(encode(_counted(raw)))
    return response


def _counted(raw: bytes) -> Any:
    """Return usage members with their details filled in where the upstream left them out."""
    told = _any(raw)
    usage = usage_of(told)
    if usage is None:
        return told
    for name, value in spent(usage).items():
        if isinstance(value, dict):
            given = told.get(name)
            known = given.items() if isinstance(given, dict) else ()
            told[name] = {**value, **{key: one for key, one in known if one is not None}}
        elif told.get(name) is None:
            told[name] = value
    return told


def native_failure(fault: Fault) -> bytes:
    """Return the error form of a stream that has not begun: a failed response of its own."""
    return Encoder(Reply("", seed="0" * 24)).push(Failed(fault))


def watch(reply: Reply) -> "Watcher":
    """Return the observer of one native stream."""
    return Watcher(reply)


class Watcher:
    """Observe one native stream; see `translators.dialect.Watcher`.

    Some upstreams leave the output of `completed` empty although they streamed it; strict readers then lose
    the answer, so it is filled from the done items.
    """

    _telling = re.compile(
        rb'"type"\s*:\s*"(?:response\.(?:created|in_progress|completed|incomplete|failed|queued|cancelled'
        rb'|output_item\.done|doom_loop_check)|error|keepalive|ping)"'
    )
    meaningful = re.compile(
        rb'"type"\s*:\s*"response\.(?:output_text\.delta|refusal\.delta|reasoning_text\.delta'
        rb"|reasoning_summary_text\.delta|function_call_arguments\.delta|custom_tool_call_input\.delta"
        rb'|output_item\.done)"'
    )

    usual = b""
    closing: Closing | None = None

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._items: list[tuple[int, bytes]] = []
        self._tools = self._refused = False
        self._response_members: dict[str, msgspec.Raw] = {}

    def quiet(self, region: bytes) -> bool:
        """Tell whether a region has no lifecycle event, done item, error or private event in it."""
        return not self._telling.search(region)

    def failure(self, fault: Fault) -> bytes:
        """Return `response.failed` for the response that the stream has begun (a bare error event before that)."""
        error = {"code": failed_code(fault), "message": fault.message}
        if not self._response_members:
            bare = {"type": "error", "sequence_number": LAST_SEQUENCE, **error, "param": fault.param}
            return event_frame("error", encode(bare))
        told = {"status": "failed", "error": error, "output": [msgspec.Raw(raw) for _, raw in sorted(self._items)]}
        response = {**self._response_members, **told}
        kind = "response.failed"
        return event_frame(kind, encode({"type": kind, "sequence_number": LAST_SEQUENCE, "response": response}))

    def look(self, frame: Frame) -> Seen:
        """Return what one frame says; one with other types than ours says nothing."""
        try:
            kind = wire.decode_kind(frame.data).type or frame.event.decode("utf-8", "replace")
            if kind.startswith("response."):
                return self._response(kind, frame)
            return self._bare(kind, frame)
        except (msgspec.ValidationError, OverflowError):
            return Seen()
        except (*ERRORS, ValueError) as error:
            return Seen() if frame.data.strip() in (b"[DONE]", b"") else Seen(failed=Failed(unreadable(error)))

    def _bare(self, kind: str, frame: Frame) -> Seen:
        if kind in _PRIVATE:
            return Seen(replace=b"")
        failure = wire.decode_failure(frame.data)
        if kind == "error" or (not kind and failure.error is not None):
            error = failure.error if isinstance(failure.error, dict) else _any(frame.data)
            return Seen(failed=_failed(error))
        return Seen()

    def _response(self, kind: str, frame: Frame) -> Seen:
        if kind in _PRIVATE:
            return Seen(replace=b"")
        if kind == "response.output_item.done":
            self._keep(frame)
            return Seen()
        if kind not in _LIFECYCLE:
            return Seen()
        event = _object(frame.data)
        if not bytes(event.get("response", wire.ABSENT)).startswith(b"{"):
            return Seen(terminal=kind in _ENDS, last=kind in _ENDS)
        members = _object(event["response"])
        response = wire.decode_response(event["response"])
        if kind in _ENDS and not response.output and self._items:
            ordered = sorted(self._items, key=lambda one: one[0])
            members["output"] = msgspec.Raw(b"[%b]" % b",".join(raw for _, raw in ordered))
        members = self._response_members = _patched(members, self._reply)
        event["response"] = msgspec.Raw(encode(members))
        replace = event_frame(kind, encode(event))
        model = response.model or None
        if kind in ("response.failed", "response.cancelled"):
            return Seen(failed=_failed(response.error), model=model, replace=replace)
        if kind not in _ENDS:
            return Seen(usage=usage_of(response.usage), model=model, replace=replace)
        stop = self._stop(kind, response)
        return Seen(usage_of(response.usage), stop, True, model=model, replace=replace, last=True)

    def _keep(self, frame: Frame) -> None:
        piece = wire.decode_piece(frame.data)
        raw = wire.given(piece.item)
        if raw:
            kind = wire.decode_kind(raw).type
            self._tools = self._tools or kind in ("function_call", "custom_tool_call")
            self._refused = self._refused or (kind == "message" and b'"refusal"' in raw)
            self._items.append((LAST_SEQUENCE if piece.output_index is None else piece.output_index, raw))

    def _stop(self, kind: str, response: wire.Response) -> Stop:
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if kind == "response.incomplete" or response.status == "incomplete":
            if reason in ("max_output_tokens", "max_tokens"):
                return "length"
            if reason == "content_filter":
                return "refusal"
        if self._tools:
            return "tool"
        return "refusal" if self._refused else "end"


_ENDS = ("response.completed", "response.incomplete")
_LIFECYCLE = (
    *_ENDS,
    "response.created",
    "response.in_progress",
    "response.queued",
    "response.failed",
    "response.cancelled",
)
_PRIVATE = ("keepalive", "ping", "response.doom_loop_check")


def _failed(error: Any) -> Failed:
    return Failed(error_fault(error), encode({"error": error}))
