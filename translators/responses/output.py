"""The output items of a Responses stream: what each announces, adds and closes with.

Events are (type, members) pairs without their numbers. An item's `done` bytes are the very object that both
its last event and the final response have (I26).
"""

from typing import Any

from translators import conversation as neutral
from translators.carrier import seal
from translators.dialect import Reply
from translators.events import BlockStart, Carried, Citation, Logprob
from translators.identifiers import item_id, made_call_id
from translators.jsonio import encode
from translators.toolbox import unwrapped

__all__ = ["Item", "Message", "Reasoning", "Receipted", "ToolItem"]

Events = list[tuple[bytes, bytes]]
Marked = Carried | Citation | neutral.Receipt

_ADDED, _DONE = b"response.output_item.added", b"response.output_item.done"


class Item:
    """One output item; subclasses know their kind. `exists` is false until its first event is out."""

    delta_event: bytes | None = None
    delta_tail = b"}\n\n"
    address = b""

    def __init__(self, index: int) -> None:
        self.index = index
        self.exists = False
        self.done = b""

    def begun(self) -> Events:
        """Return the events that open the item."""
        return []

    def first_delta(self) -> Events:
        """Return what comes before the first text of a block."""
        return []

    def mark(self, value: Marked) -> Events:
        """Take state, a citation or a receipt."""
        return []

    def ended(self, text: str, *, complete: bool) -> Events:
        """Take the end of the open block; return only what may not wait."""
        return []

    def closed(self, *, complete: bool) -> Events:
        """Return the events that close the item, and set `done`."""
        return []

    def logprobs(self, logprobs: tuple[Logprob, ...]) -> bytes:
        """Keep log probabilities of a delta; return them as its event spells them."""
        return b"[]"

    def _added(self, item: dict[str, Any]) -> tuple[bytes, bytes]:
        self.exists = True
        return _ADDED, b'"output_index":%d,"item":%b' % (self.index, encode(item))

    def _closed(self, item: dict[str, Any]) -> tuple[bytes, bytes]:
        self.done = encode(item)
        return _DONE, b'"output_index":%d,"item":%b' % (self.index, self.done)


class Message(Item):
    """A message with text and refusal parts; a new part may join while it is held."""

    def __init__(self, response: str, index: int, kind: str) -> None:
        super().__init__(index)
        self.id = item_id("msg", response, index)
        self._parts: list[dict[str, Any]] = []
        self._complete = True
        self._text = ""
        self._cited: list[Citation] = []
        self._logprobs: list[Logprob] = []
        self._turn_to(kind)

    def begun(self) -> Events:
        """Announce the message and its first part."""
        item = {"id": self.id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        return [self._added(item), self._part_added()]

    def next_part(self, kind: str) -> Events:
        """Return the events that close the part before and open the next."""
        closing = self._part_closed()
        self._turn_to(kind)
        return [*closing, self._part_added()]

    def mark(self, value: Marked) -> Events:
        """Keep a citation for the end of its part."""
        if isinstance(value, Citation) and self._kind == "text":
            self._cited.append(value)
        return []

    def ended(self, text: str, *, complete: bool) -> Events:
        """Keep the part's text."""
        self._text = text
        self._complete = self._complete and complete
        return []

    def closed(self, *, complete: bool) -> Events:
        """Close the last part and the message."""
        events = self._part_closed()
        status = "completed" if complete and self._complete else "incomplete"
        item = {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": self._parts}
        return [*events, self._closed(item)]

    def logprobs(self, logprobs: tuple[Logprob, ...]) -> bytes:
        """Keep log probabilities for the end of the part."""
        self._logprobs.extend(logprobs)
        return encode([_spoken(logprob) for logprob in logprobs])

    def _turn_to(self, kind: str) -> None:
        self._kind = kind
        self._cited, self._logprobs = [], []
        self.address = b'"item_id":%b,"output_index":%d,"content_index":%d' % (
            encode(self.id),
            self.index,
            len(self._parts),
        )
        text = kind == "text"
        self.delta_event = b"response.output_text.delta" if text else b"response.refusal.delta"
        self.delta_tail = b',"logprobs":[]}\n\n' if text else b"}\n\n"

    def _part(self, text: str) -> dict[str, Any]:
        if self._kind == "refusal":
            return {"type": "refusal", "refusal": text}
        logprobs = [_kept(logprob) for logprob in self._logprobs]
        annotations = [_annotation(citation, text) for citation in self._cited]
        return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}

    def _part_added(self) -> tuple[bytes, bytes]:
        return b"response.content_part.added", self.address + b',"part":' + encode(self._part(""))

    def _part_closed(self) -> Events:
        part = self._part(self._text)
        self._parts.append(part)
        done = (b"response.content_part.done", self.address + b',"part":' + encode(part))
        if self._kind == "refusal":
            return [(b"response.refusal.done", self.address + b',"refusal":' + encode(self._text)), done]
        events = [
            (
                b"response.output_text.annotation.added",
                self.address + b',"annotation_index":%d,"annotation":%b' % (number, encode(annotation)),
            )
            for number, annotation in enumerate(part["annotations"])
        ]
        logprobs = encode([_spoken(logprob) for logprob in self._logprobs])
        told = self.address + b',"text":%b,"logprobs":%b' % (encode(self._text), logprobs)
        return [*events, (b"response.output_text.done", told), done]


class Reasoning(Item):
    """A reasoning item: one summary part once there is text, and the carrier of its opaque state (1.6)."""

    delta_event = b"response.reasoning_summary_text.delta"

    def __init__(self, response: str, index: int, reply: Reply) -> None:
        super().__init__(index)
        self.id = item_id("rs", response, index)
        self._origin, self._notes = reply.origin, reply.notes
        self._carrier: str | None = None
        self._text = ""
        self._complete = True
        self.address = b'"item_id":%b,"output_index":%d,"summary_index":0' % (encode(self.id), index)

    def begun(self) -> Events:
        """Announce the item without a part."""
        return [self._added({"id": self.id, "type": "reasoning", "status": "in_progress", "summary": []})]

    def first_delta(self) -> Events:
        """Announce the summary part."""
        return [(b"response.reasoning_summary_part.added", self.address + b',"part":' + encode(_summary("")))]

    def mark(self, value: Marked) -> Events:
        """Keep opaque state, sealed for its origin."""
        if isinstance(value, Carried):
            self._carrier = seal(value, self._origin, self._notes)
        return []

    def ended(self, text: str, *, complete: bool) -> Events:
        """Keep the text."""
        self._text, self._complete = text, complete
        return []

    def closed(self, *, complete: bool) -> Events:
        """Close the summary part, if there is one, and the item."""
        status = "completed" if complete and self._complete else "incomplete"
        item: dict[str, Any] = {"id": self.id, "type": "reasoning", "status": status, "summary": []}
        if self._carrier is not None:
            item["encrypted_content"] = self._carrier
        if not self._text:
            return [self._closed(item)]
        part = _summary(self._text)
        item["summary"] = [part]
        return [
            (b"response.reasoning_summary_text.done", self.address + b',"text":' + encode(self._text)),
            (b"response.reasoning_summary_part.done", self.address + b',"part":' + encode(part)),
            self._closed(item),
        ]


class ToolItem(Item):
    """A function call, or a custom call whose raw input is unwrapped at its end when a function stood for it."""

    def __init__(self, response: str, index: int, start: BlockStart, ordinal: int) -> None:
        super().__init__(index)
        call_id = start.call_id or made_call_id("call_", response.removeprefix("resp_"), ordinal)
        self._wrapped = start.form == "wrapped"
        self._function = start.form == "function"
        self._field = "arguments" if self._function else "input"
        self._name = start.name
        self._text = ""
        self._complete = True
        self._head = {
            "id": ("fc_" if self._function else "ctc_") + call_id,
            "type": "function_call" if self._function else "custom_tool_call",
        }
        # Codex knows a namespaced tool by two fields, never by a joined name (spec/clients.md 0.3).
        space = {} if start.namespace is None else {"namespace": start.namespace}
        self._identity = {"call_id": call_id, **space, "name": start.name}
        self.address = b'"item_id":%b,"output_index":%d' % (encode(self._head["id"]), index)
        event = b"response.function_call_arguments." if self._function else b"response.custom_tool_call_input."
        self._delta, self._finished = event + b"delta", event + b"done"
        self.delta_event = None if self._wrapped else self._delta

    def begun(self) -> Events:
        """Announce the call."""
        return [self._added(self._item("in_progress", ""))]

    def ended(self, text: str, *, complete: bool) -> Events:
        """Return the one delta of an unwrapped input, and of arguments that never came (E10, E39)."""
        self._complete = complete
        self._text = text
        if self._wrapped:
            self._text = unwrapped(text) if text else ""
            missing = self._text
        else:
            missing = "{}" if self._function and not text else ""
            self._text = text or missing
        return [(self._delta, self.address + b',"delta":' + encode(missing))] if missing else []

    def closed(self, *, complete: bool) -> Events:
        """Tell the whole arguments or input and close the item."""
        status = "completed" if complete and self._complete else "incomplete"
        name = b',"name":' + encode(self._name) if self._function else b""
        told = b'%b%b,"%b":%b' % (self.address, name, self._field.encode(), encode(self._text))
        return [(self._finished, told), self._closed(self._item(status, self._text))]

    def _item(self, status: str, text: str) -> dict[str, Any]:
        return {**self._head, "status": status, **self._identity, self._field: text}


class Receipted(Item):
    """An MCP call that the provider ran: told whole, for no client may run it again."""

    def __init__(self, response: str, index: int) -> None:
        super().__init__(index)
        self._made_id = item_id("mcp", response, index)
        self._receipt: neutral.Receipt | None = None

    def mark(self, value: Marked) -> Events:
        """Announce the call once it is known."""
        if not isinstance(value, neutral.Receipt) or self.exists:
            return []
        self._receipt = value
        return [self._added({**self._item(value), "status": "in_progress", "output": None, "error": None})]

    def closed(self, *, complete: bool) -> Events:
        """Close the item."""
        if self._receipt is None:
            return []
        return [self._closed(self._item(self._receipt))]

    def _item(self, receipt: neutral.Receipt) -> dict[str, Any]:
        return {
            "id": receipt.id or self._made_id,
            "type": "mcp_call",
            "status": "failed" if receipt.error else "completed",
            "server_label": receipt.server,
            "name": receipt.name,
            "arguments": receipt.arguments or "{}",
            "output": receipt.output,
            "error": receipt.error,
        }


def _summary(text: str) -> dict[str, str]:
    return {"type": "summary_text", "text": text}


def _annotation(citation: Citation, text: str) -> dict[str, Any]:
    return {
        "type": "url_citation",
        "start_index": citation.start or 0,
        "end_index": len(text) if citation.end is None else citation.end,
        "url": citation.url,
        "title": citation.title,
    }


def _spoken(logprob: Logprob) -> dict[str, Any]:
    """Return a log probability as stream events spell it, which have no bytes (1.15)."""
    others = [{"token": other.token, "logprob": other.logprob} for other in logprob.top_logprobs]
    return {"token": logprob.token, "logprob": logprob.logprob, "top_logprobs": others}


def _kept(logprob: Logprob) -> dict[str, Any]:
    others = [
        {"token": other.token, "logprob": other.logprob, "bytes": _bytes(other)} for other in logprob.top_logprobs
    ]
    return {"token": logprob.token, "logprob": logprob.logprob, "bytes": _bytes(logprob), "top_logprobs": others}


def _bytes(logprob: Logprob) -> list[int]:
    return list(logprob.token.encode("utf-8", "replace")) if logprob.bytes is None else logprob.bytes
