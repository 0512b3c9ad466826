"""Tool schemas as the vendors' APIs take them: an object at the top, no alternatives beside it (section 1.4)."""

import msgspec
from msgspec import Raw

from translators.jsonio import ERRORS, encode
from translators.notes import Notes
from translators.toolbox import EMPTY_SCHEMA

__all__ = ["object_schema"]

_COMBINED = ("anyOf", "oneOf", "allOf")


class _Top(msgspec.Struct):
    type: Raw = Raw(b"")
    properties: Raw = Raw(b"")
    anyOf: Raw = Raw(b"")  # noqa: N815
    oneOf: Raw = Raw(b"")  # noqa: N815
    allOf: Raw = Raw(b"")  # noqa: N815


class _Branch(msgspec.Struct):
    properties: dict[str, Raw] = {}
    required: list[str] = []


_top = msgspec.json.Decoder(_Top).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_branch = msgspec.json.Decoder(_Branch).decode
_branches = msgspec.json.Decoder(list[_Branch]).decode


def object_schema(schema: bytes, at: str, notes: Notes) -> bytes:
    """Return the schema as it is when the APIs take it, else rebuilt as one object that admits at least as much."""
    try:
        top = _top(schema)
        members = {} if bytes(top.properties) else _members(schema)
        if bytes(top.type) == b'"object"' and not any(bytes(getattr(top, name)) for name in _COMBINED):
            # OpenAI refuses an object that lists no properties, even where it has none.
            return encode({**members, "properties": {}}) if members else schema
        members = members or _members(schema)
        folded = _folded(members)
    except ERRORS:
        notes.changed(at, "a schema that is no JSON object is replaced by one that takes any object")
        return EMPTY_SCHEMA
    notes.changed(at, "the schema is rewritten as one object")
    return encode(folded)


def _folded(members: dict[str, Raw]) -> dict[str, object]:
    """Fold alternatives into one list of properties; only what every alternative requires stays required."""
    own = _branch(encode(members))
    properties, required = dict(own.properties), list(own.required)
    for name in _COMBINED:
        branches = _branches(members.pop(name)) if name in members else []
        for branch in branches:
            for key, value in branch.properties.items():
                properties.setdefault(key, value)
        needed = [key for branch in branches for key in branch.required]
        if name != "allOf":
            needed = [key for key in needed if all(key in branch.required for branch in branches)]
        required.extend(key for key in dict.fromkeys(needed) if key not in required)
    folded: dict[str, object] = {**members, "type": "object", "properties": properties}
    if required:
        folded["required"] = required
    return folded
