"""Tool names and shapes between the client's declaration and the upstream's wire, and back.

A namespace tool's children become `<namespace>__<child>`, a custom tool becomes a function with one string
`input`, long or illegal names are shortened. The same box restores what the model calls, so a client sees
its own names again (spec/translation.md 1.3, 1.4).
"""

import re
from functools import cached_property
from typing import Literal

import msgspec

from translators.conversation import Choice, Conversation, Tool
from translators.events import BlockStart
from translators.fault import refuse
from translators.jsonio import encode
from translators.notes import Notes

__all__ = [
    "EMPTY_SCHEMA",
    "WRAPPED_SCHEMA",
    "Entry",
    "Toolbox",
    "build",
    "legal_name",
    "narrowed",
    "qualified",
    "unwrapped",
    "wrap",
]

EMPTY_SCHEMA = b'{"type":"object","properties":{}}'
WRAPPED_SCHEMA = (
    b'{"type":"object","properties":{"input":{"type":"string","description":"The raw input of the tool, exactly as it '
    b'shall receive it."}},"required":["input"],"additionalProperties":false}'
)
"""Parameters of the function that stands for a custom tool."""

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


class Entry(msgspec.Struct, frozen=True):
    """One declared tool and the name that it has on the upstream's wire."""

    tool: Tool
    wire: str
    wrapped: bool = False

    @property
    def parameters(self) -> bytes:
        """Return the JSON schema of the upstream function."""
        return WRAPPED_SCHEMA if self.wrapped else self.tool.parameters or EMPTY_SCHEMA

    @property
    def description(self) -> str:
        """Return the description, with the grammar of a wrapped custom tool told in words."""
        if not self.wrapped or self.tool.grammar is None:
            return self.tool.description
        syntax, definition = self.tool.grammar
        told = f'The text under "input" must match this {syntax} grammar:\n{definition}'
        return f"{self.tool.description}\n\n{told}".strip()


class Toolbox(msgspec.Struct, frozen=True, dict=True):
    """The client's function and custom tools with their wire names, and the rule for names it did not declare."""

    entries: tuple[Entry, ...] = ()
    limit: int = 64
    flat: bool = True
    """Namespaces are flattened into names on this wire."""

    @cached_property
    def _wires(self) -> dict[tuple[str | None, str], str]:
        return {(entry.tool.namespace, entry.tool.name): entry.wire for entry in self.entries}

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        return {entry.wire: entry for entry in self.entries}

    def wire(self, name: str, namespace: str | None = None) -> str:
        """Return the upstream's name for a tool that the client calls by (namespace, name)."""
        wire = self._wires.get((namespace, name))
        if wire is not None:
            return wire
        if namespace is None or not self.flat:
            return legal_name(name, self.limit)
        return legal_name(qualified(namespace, name), self.limit)

    def find(self, wire: str) -> Entry | None:
        """Return the declared tool that the upstream calls by this name."""
        return self._entries.get(wire)

    def restore(self, start: BlockStart) -> BlockStart:
        """Return a tool block's start with the client's own name, namespace and form."""
        entry = self.find(start.name)
        if entry is None:
            return start
        form: Literal["function", "custom", "wrapped"] = start.form
        if entry.wrapped and form == "function":
            form = "wrapped"
        return msgspec.structs.replace(start, name=entry.tool.name, namespace=entry.tool.namespace, form=form)


def qualified(namespace: str, name: str) -> str:
    """Return the flat name of a namespace's child."""
    return name if name.startswith(f"{namespace}__") else f"{namespace}__{name}"


def legal_name(name: str, limit: int) -> str:
    """Return a name in `[a-zA-Z0-9_-]`, at most `limit` long; MCP names keep their last segment."""
    name = _ILLEGAL.sub("_", name) or "tool"
    if len(name) <= limit:
        return name
    if name.startswith("mcp__"):
        short = f"mcp__{name.rsplit('__', 1)[1]}"
        if len(short) <= limit:
            return short
    return name[:limit]


def build(
    conversation: Conversation,
    notes: Notes,
    *,
    limit: int,
    custom_native: bool = False,
    namespaces_native: bool = False,
) -> Toolbox:
    """Assign wire names to the declared function and custom tools.

    Raises Refused(tool_alias_collision) when a flattened name is also a tool's own name, and
    Refused(invalid_request) when a name is declared twice with different definitions.
    """
    plain = {tool.name for tool in conversation.tools if tool.kind != "hosted" and tool.namespace is None}
    named: dict[tuple[str | None, str], Tool] = {}
    taken: set[str] = set()
    entries: list[Entry] = []
    for tool in conversation.tools:
        if tool.kind == "hosted" or _declared(tool, named):
            continue
        flatten = tool.namespace is not None and not namespaces_native
        asked = qualified(tool.namespace, tool.name) if flatten and tool.namespace is not None else tool.name
        if flatten and asked in plain:
            raise refuse(
                f"the tool {asked!r} has the same name as {tool.name!r} of namespace {tool.namespace!r}",
                param=tool.at or "tools",
                code="tool_alias_collision",
            )
        wire = _unused(legal_name(asked, limit), taken, limit)
        taken.add(wire)
        wrapped = tool.kind == "custom" and not custom_native
        if wrapped:
            notes.changed(tool.at or "tools", f"custom tool {tool.name!r} is offered as a function with one string")
        elif wire != tool.name:
            notes.changed(tool.at or "tools", "the tool's name is changed for the upstream and restored in the answer")
        entries.append(Entry(tool, wire, wrapped))
    return Toolbox(tuple(entries), limit, flat=not namespaces_native)


def _declared(tool: Tool, named: dict[tuple[str | None, str], Tool]) -> bool:
    """Tell whether an equal tool came before; raises Refused when another one has its name."""
    bare = msgspec.structs.replace(tool, at="")
    first = named.setdefault((tool.namespace, tool.name), bare)
    if first is bare:
        return False
    if first != bare:
        raise refuse(f"the tool {tool.name!r} is declared twice in different ways", param=tool.at or "tools")
    return True


def _unused(name: str, taken: set[str], limit: int) -> str:
    candidate, n = name, 0
    while candidate in taken:
        n += 1
        suffix = f"_{n}"
        candidate = name[: limit - len(suffix)] + suffix
    return candidate


def narrowed(box: Toolbox, choice: Choice | None) -> tuple[Entry, ...]:
    """Return the entries that an `allowed` choice leaves, all of them for any other choice."""
    if choice is None or choice.mode != "allowed":
        return box.entries
    return tuple(entry for entry in box.entries if (entry.tool.namespace, entry.tool.name) in choice.names)


def wrap(text: str) -> str:
    """Return the arguments of a wrapped custom tool's function for a raw input."""
    return encode({"input": text}).decode()


class _Wrapped(msgspec.Struct):
    input: str


_unwrap = msgspec.json.Decoder(_Wrapped).decode


def unwrapped(arguments: str) -> str:
    """Return the raw input inside a wrapped custom tool's arguments, or the arguments when they are not that object."""
    try:
        return _unwrap(arguments).input
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return arguments
