"""What a Responses WebSocket has to keep: the items of its conversation up to the last answer. Pure.

Codex sends whole requests over POST, but over a socket only what is new, with the id of the last answer
(spec/clients.md 2). So the socket puts the request together again, and the rest of the gateway sees an ordinary one.
"""

from typing import Any

import msgspec

from translators.fault import Fault
from translators.jsonio import ERRORS, encode, explain

__all__ = ["Frame", "Transcript", "read"]

_OURS = ("type", "generate", "previous_response_id", "input", "stream", "background")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw] | str | None).decode


class _Event(msgspec.Struct):
    type: str = ""
    item: msgspec.Raw = msgspec.Raw(b"")
    response: "_Response | None" = None


class _Response(msgspec.Struct):
    id: str | None = None


class _Item(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw(b"")
    status: msgspec.Raw = msgspec.Raw(b"")


_event = msgspec.json.Decoder(_Event).decode
_item = msgspec.json.Decoder(_Item).decode
_TELLING = (b"response.output_item.done", b"response.completed", b"response.incomplete")


class Frame(msgspec.Struct):
    """One `response.create` frame: its new items, and all other members as they came."""

    members: dict[str, msgspec.Raw]
    items: list[msgspec.Raw]
    model: str
    previous: str = ""
    generate: bool = True


class _Head(msgspec.Struct):
    type: str
    model: str
    generate: bool | None = None
    previous_response_id: str | None = None


_head = msgspec.json.Decoder(_Head).decode


def read(text: str) -> Frame | Fault:
    """Return the frame that a client sent, or the Fault (400) that says what is wrong with it."""
    try:
        data = text.encode()
        members = _members(data)
        head = _head(data)
        given = _items(members.get("input", msgspec.Raw(b"null")))
    except (*ERRORS, UnicodeEncodeError) as error:
        return _bad(explain(error))
    if head.type != "response.create":
        return _bad(f"frames of type {head.type[:60]!r} are not served; send response.create")
    if isinstance(given, str):
        given = [msgspec.Raw(encode({"type": "message", "role": "user", "content": given}))]
    kept = {name: _own(raw) for name, raw in members.items() if name not in _OURS}
    items = [_own(item) for item in given or ()]
    return Frame(kept, items, head.model, (head.previous_response_id or "").strip(), head.generate is not False)


def _cut_call(item: msgspec.Raw) -> bool:
    """Tell whether an item is a call that the output limit cut: nobody can run it, and no upstream may see it again."""
    told = _item(item)
    return bytes(told.type).endswith(b'_call"') and bytes(told.status) == b'"incomplete"'


def _own(raw: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(bytes(raw))  # a slice would keep the whole frame alive


def _bad(message: str) -> Fault:
    return Fault(kind="invalid_request", message=message, cause="client")


class Transcript:
    """The conversation of one socket.

    It moves on with answers that are complete or cut at their limit, never with a failed one, which can be repeated.
    """

    def __init__(self) -> None:
        self.size = 0
        """Bytes of what is kept between two requests."""
        self.response = ""
        self._items: list[msgspec.Raw] = []
        self._asked: list[msgspec.Raw] = []
        self._told: list[msgspec.Raw] = []

    def body(self, frame: Frame) -> bytes:
        """Return the whole request that a frame stands for; a foreign previous id goes on as it is."""
        follows = bool(frame.previous) and frame.previous == self.response
        self._asked = [*self._items, *frame.items] if follows else frame.items
        self._told = []
        made: dict[str, Any] = {**frame.members, "input": self._asked, "stream": True}
        if frame.previous and not follows:
            made["previous_response_id"] = frame.previous
        return encode(made)

    def told(self, data: bytes) -> None:
        """Take one event of the answer."""
        if not any(mark in data for mark in _TELLING):
            return
        event = _event(data)
        if event.type == "response.output_item.done":
            if bytes(event.item).startswith(b"{"):
                self._told.append(_own(event.item))
        elif event.type in ("response.completed", "response.incomplete") and event.response is not None:
            self._told = [item for item in self._told if not _cut_call(item)]
            self.completed(event.response.id or "")

    def completed(self, response: str) -> None:
        """Move on: the next frame may follow this answer."""
        self._items = [*self._asked, *self._told]
        self.size = sum(len(bytes(item)) for item in self._items)
        self.response = response
        self._asked, self._told = [], []

    def forget(self) -> None:
        """Let the conversation go; a client that follows it is told that its answer is not known."""
        self.size, self.response, self._items = 0, "", []
