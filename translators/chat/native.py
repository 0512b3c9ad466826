"""Chat to Chat: requests and answers whose bytes stay as they are, save what must change (spec/translation.md 6).

What changes: the model's name, opaque state of other origins (I17), and the route's own effort and output cap.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from translators.carrier import MARK, unseal
from translators.chat.decoder import error_of, stop_of
from translators.chat.details import own_state
from translators.chat.envelope import error_frame
from translators.chat.usage import all_zero, read_usage
from translators.chat.wire import Body, Chunk, present
from translators.dialect import Closing, Peek, Reply, Seen, Target
from translators.events import Failed
from translators.failure import error_fault
from translators.fault import Fault, broken, refuse
from translators.jsonio import ERRORS, encode, explain, unreadable
from translators.notes import Notes
from translators.sse import DONE, Frame
from translators.traits import nearest_effort

__all__ = ["KNOWN", "ChatWatcher", "native_answer", "native_failure", "native_request", "watch"]

_Members = dict[str, msgspec.Raw]

KNOWN = frozenset(Body.__struct_fields__) - {"metadata", "prompt_cache_key", "safety_identifier", "service_tier"}
"""What the neutral model reads of a request. Advisory members are OpenAI's own, but a Chat client may know better."""

_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_CARRIER = MARK.encode()

_members: Callable[[bytes | msgspec.Raw], _Members] = msgspec.json.Decoder(_Members).decode
_list: Callable[[bytes | msgspec.Raw], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode
_any: Callable[[bytes | msgspec.Raw | str], Any] = msgspec.json.Decoder().decode
_chunk = msgspec.json.Decoder(Chunk).decode


def native_request(body: bytes, peek: Peek, target: Target, notes: Notes) -> bytes:
    """Return the body for a Chat upstream; raises Refused for a body that is no JSON object."""
    caps = [cap for cap in (target.max_output_tokens, target.traits.max_output_cap) if cap is not None]
    cap = min(caps, default=None)
    wants_effort = target.default_effort is not None and b'"reasoning' not in body
    if not wants_effort and cap is None and _CARRIER not in body:
        replaced = _with_model(body, peek.model, target.model)
        if replaced is not None:
            return replaced
    try:
        members = _members(body)
        members["model"] = msgspec.Raw(encode(target.model))
        if target.default_effort is not None:
            _fill_effort(members, target)
        if cap is not None:
            _lower(members, cap, notes)
        if _CARRIER in body and "messages" in members:
            members["messages"] = _own_state_only(members["messages"], target.origin, notes)
    except ERRORS as error:
        raise refuse(explain(error)) from None
    return encode(members)


def _with_model(document: bytes, old: str, new: str) -> bytes | None:
    """Return a document with its model's name replaced in place, None when it is not plain where that name stands."""
    if old == new:
        return document
    if document.count(b'"model"') != 1:
        return None
    found = _MODEL.search(document)
    if found is None or _any(found[1]) != old:
        return None
    return b"".join((document[: found.start(1)], encode(new), document[found.end(1) :]))


def _fill_effort(members: _Members, target: Target) -> None:
    if "reasoning_effort" in members or "reasoning" in members or target.default_effort is None:
        return
    level = nearest_effort(target.default_effort, target.traits.efforts)
    if level is not None:
        members["reasoning_effort"] = msgspec.Raw(encode(level))


def _lower(members: _Members, cap: int, notes: Notes) -> None:
    for name in ("max_completion_tokens", "max_tokens"):
        wished = _any(members[name]) if name in members else None
        if isinstance(wished, int) and wished > cap:
            notes.changed(name, f"lowered to {cap}, the most that this route allows")
            members[name] = msgspec.Raw(encode(cap))


def _own_state_only(messages: msgspec.Raw, origin: str, notes: Notes) -> msgspec.Raw:
    out = []
    for index, message in enumerate(_list(messages)):
        if _CARRIER not in bytes(message):
            out.append(message)
            continue
        members = _members(message)
        if present(members.get("reasoning_details", msgspec.Raw(b""))):
            kept = [entry for raw in _list(members["reasoning_details"]) for entry in _restored(raw, origin)]
            notes.changed(f"messages.{index}.reasoning_details", "state of other origins is left out")
            if kept:
                members["reasoning_details"] = msgspec.Raw(encode(kept))
            else:
                del members["reasoning_details"]
        out.append(msgspec.Raw(encode(members)))
    return msgspec.Raw(encode(out))


def _restored(raw: msgspec.Raw, origin: str) -> list[msgspec.Raw]:
    """Return an entry as the upstream knows it: its own as it is, our carrier opened, another origin's not at all."""
    if _CARRIER not in bytes(raw):
        return [raw]
    entry = _any(raw)
    state = own_state(entry) if isinstance(entry, dict) else None
    if state is None:
        return [raw]
    carried = unseal(state, ("rd",), origin)
    return _list(carried.data.encode()) if carried else []


def native_answer(body: bytes, reply: Reply) -> bytes:
    """Return a whole answer with the client's alias as its model and no envelope; an unreadable one as it is."""
    try:
        members = _members(body)
        if "choices" not in members and present(members.get("data", msgspec.Raw(b""))):
            inner = _members(members["data"])
            if "choices" in inner:
                body, members = bytes(members["data"]), inner
        if "model" not in members:
            return body
        replaced = _with_model(body, _any(members["model"]), reply.alias)
        if replaced is not None:
            return replaced
        members["model"] = msgspec.Raw(encode(reply.alias))
        return encode(members)
    except ERRORS:
        return body


def native_failure(fault: Fault) -> bytes:
    """Return the in-stream error form, which no [DONE] follows."""
    return error_frame(fault)


def watch(reply: Reply) -> "ChatWatcher":
    """Return the observer of one native stream."""
    return ChatWatcher(reply)


class ChatWatcher:
    """Find counts, the end and errors in a native stream; see translators.dialect.Watcher.

    A quote inside a JSON string is escaped, so a member's name in quotes followed by a colon is never content.
    """

    _telling = re.compile(
        rb'"(?:usage"\s*:\s*\{|finish_reason"\s*:\s*"|error"\s*:\s*[^n\s]|success"\s*:\s*false)|\[DONE\]|event: *error'
    )
    meaningful = re.compile(
        rb'"(?:content|reasoning|reasoning_content|reasoning_text|refusal|text|summary|arguments|name)"\s*:\s*"[^"]'
    )

    usual = b'"content":"'
    closing: Closing | None = Closing(DONE, "stream", "missing_done: the stream ended without [DONE]")

    def __init__(self, reply: Reply) -> None:
        self._alias = reply.alias
        self._finished = False
        self._spaced = False
        """The source writes spaces before colons, so that only the pattern finds anything."""

    def quiet(self, region: bytes) -> bool:
        """Tell whether nothing in a region has to be looked at.

        Plain substring searches answer for compact JSON; they cost a tenth of the pattern, which is kept for
        bodies with spaces and for the rare words.
        """
        if b'"finish_reason":"' in region or b'"usage":{' in region or b"[DONE]" in region:
            return False
        if self._spaced or b'": ' in region or b'"error"' in region or b'"success"' in region or b"event:" in region:
            return not self._telling.search(region)
        return True

    def failure(self, fault: Fault) -> bytes:
        """Return the error object, which no [DONE] follows."""
        return native_failure(fault)

    def look(self, frame: Frame) -> Seen:
        """Return what one frame says."""
        data = frame.data
        self._spaced = self._spaced or b'" :' in data
        if data[:6] == b"[DONE]":
            if self._finished:
                return Seen(terminal=True, last=True)
            return Seen(
                failed=Failed(broken("the upstream's stream ended before its answer was complete", cause="eof"))
            )
        if not data or data.isspace():
            return Seen()
        try:
            chunk = _chunk(data)
            fault = error_of(chunk)
            if fault is None and frame.event == b"error":
                fault = error_fault(_any(data))
        except ERRORS as error:
            return Seen(failed=Failed(unreadable(error)))
        if fault is not None:
            return Seen(failed=Failed(fault, data))
        counts = [chunk.usage, *(choice.usage for choice in chunk.choices or ())]
        usage = next((read_usage(raw) for raw in counts if present(raw)), None)
        reason = next((choice.finish_reason for choice in chunk.choices or () if choice.finish_reason), None)
        self._finished = self._finished or reason is not None
        return Seen(
            usage=None if usage is None or all_zero(usage) else usage,
            stop=stop_of(reason) if reason else None,
            terminal=reason is not None,
            model=chunk.model if isinstance(chunk.model, str) and chunk.model != self._alias else None,
        )
