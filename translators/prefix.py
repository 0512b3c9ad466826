"""What an upstream's prompt cache can recognise of a request: its prefix, and where two requests part.

Pure, over the body that is sent, of any dialect. Nothing of the content is kept: sizes and digests only.
"""

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from translators.jsonio import ERRORS

__all__ = ["Element", "Kept", "Prefix", "digest_of", "kept", "prefix_of"]

_SECTIONS = {"system": ("system", "instructions"), "messages": ("messages", "input"), "tools": ("tools",)}
"""Hashed in this order (spec/cline.md 8); the second name is that of Responses."""
_LEADING = (b'"role":"system"', b'"role":"developer"')
_ORDER = ("tools", "system", "message")
_MARK = b',"cache_control":{"type":"ephemeral"}'
ROLE_BYTES = 64
"""A message's role stands this near to its beginning in all bodies that we write."""

_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list: Callable[[bytes | msgspec.Raw], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Element(msgspec.Struct, frozen=True, gc=False):
    """One piece of a prompt; `name` is `tools`, `system` or `message`."""

    name: str
    digest: bytes
    size: int


class Prefix(msgspec.Struct, frozen=True):
    """A prompt in the order in which caches see it: tools, system, messages. `size` is in bytes."""

    hash: str
    size: int
    elements: tuple[Element, ...]


class Kept(msgspec.Struct, frozen=True):
    """How many bytes of an earlier prompt a later one begins with, and the first element that differs."""

    bytes: int
    broken_at: str | None = None
    """`tools`, `system` or `message N` (from 1); None when the whole earlier prompt was kept."""
    messages: int = 0
    """Messages that were kept."""


def prefix_of(body: bytes) -> Prefix | None:
    """Return the prefix of a request body; None for a body that is no JSON object."""
    try:
        sections = _sections(body)
        elements = tuple(_elements(sections))
    except ERRORS:
        return None
    return Prefix(*_digest(sections), elements=elements)


def digest_of(body: bytes) -> tuple[str, int] | None:
    """Return the hash and the size of a body's prefix alone; None for a body that is no JSON object."""
    try:
        return _digest(_sections(body))
    except ERRORS:
        return None


def _sections(body: bytes) -> dict[str, msgspec.Raw]:
    if _MARK in body:
        body = body.replace(_MARK, b"")  # a mark says where to cache, and moves on with each turn
    members = _members(body)
    return {name: members[field] for name, fields in _SECTIONS.items() for field in fields if field in members}


def _digest(sections: dict[str, msgspec.Raw]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for name, raw in sections.items():
        length = len(bytes(raw))
        digest.update(name.encode() + b"\x00" + length.to_bytes(8, "little"))
        digest.update(raw)
        size += length
    return digest.hexdigest(), size


def _elements(sections: dict[str, msgspec.Raw]) -> Iterator[Element]:
    """Yield the tools, the system text wherever the dialect keeps it, and the messages."""
    if "tools" in sections:
        yield _element("tools", sections["tools"])
    system = [sections["system"]] if "system" in sections else []
    rest = sections.get("messages")
    messages = [rest] if rest is not None and not bytes(rest).lstrip().startswith(b"[") else _list(rest or b"[]")
    leading = 0
    while leading < len(messages) and _is_system(messages[leading]):
        leading += 1
    system += messages[:leading]
    if system:
        yield _element("system", *system)
    for message in messages[leading:]:
        yield _element("message", message)


def _is_system(message: msgspec.Raw) -> bool:
    head = bytes(message)[:ROLE_BYTES].replace(b" ", b"")
    return any(role in head for role in _LEADING)


def _element(name: str, *raws: msgspec.Raw) -> Element:
    digest = hashlib.blake2b(digest_size=8)
    for raw in raws:
        digest.update(raw)
    return Element(name, digest.digest(), sum(len(bytes(raw)) for raw in raws))


def kept(before: Prefix, after: Prefix) -> Kept:
    """Return what a later prompt keeps of an earlier one, in whole elements."""
    size = messages = 0
    for index, element in enumerate(before.elements):
        other = after.elements[index] if index < len(after.elements) else None
        if other != element:
            # A section that came or went is where the two part, whatever follows it.
            name = min((element.name, other.name if other else element.name), key=_ORDER.index)
            return Kept(size, f"message {messages + 1}" if name == "message" else name, messages)
        size += element.size
        messages += element.name == "message"
    return Kept(size, None, messages)
