"""Read a client's tools and tool choice: top-level, lifted from the input, nested in namespaces, or legacy."""

from collections.abc import Iterable

import msgspec

from translators.conversation import Choice, Tool
from translators.fault import refuse
from translators.jsonio import encode
from translators.responses import wire
from translators.responses.client import read_at

__all__ = ["Declared", "choice_of", "echoed", "legacy_choice", "legacy_tools"]

_PLAIN = ("auto", "none", "required")


class Declared:
    """Collect declared tools in order; the first definition of a name wins (spec/translation.md 1.4)."""

    def __init__(self) -> None:
        self._seen: set[tuple[str | None, str]] = set()
        self._hosted: set[bytes] = set()
        self.extras: list[tuple[str, str]] = []
        self.tools: list[Tool] = []

    def add(self, raws: Iterable[msgspec.Raw], at: str) -> None:
        """Add a `tools` list; raises Refused for a tool without a type or name, or a namespace within a namespace."""
        for index, raw in enumerate(raws):
            path = f"{at}.{index}"
            tool = read_at(wire.decode_tool, raw, path)
            if tool.type == "namespace":
                self._namespace(tool, path)
            elif tool.type in ("function", "custom"):
                self._known(tool, path)
                self.keep(_tool(tool, path))
            else:
                self._host(tool.type, bytes(raw), path)

    def keep(self, tool: Tool) -> None:
        """Add one tool unless its name is taken."""
        name = (tool.namespace, tool.name)
        if name not in self._seen:
            self._seen.add(name)
            self.tools.append(tool)

    def _namespace(self, space: wire.Tool, at: str) -> None:
        if not space.name:
            raise refuse(f"{at}.name: a namespace needs a name", param=f"{at}.name")
        children = read_at(_decode_list, wire.given(space.tools) or b"[]", f"{at}.tools")
        for index, raw in enumerate(children):
            path = f"{at}.tools.{index}"
            child = read_at(wire.decode_tool, raw, path)
            if child.type not in ("function", "custom"):
                raise refuse(
                    f"{path}.type: a namespace holds function and custom tools, not {child.type!r}",
                    param=f"{path}.type",
                    code="unsupported_tool",
                )
            self._known(child, path)
            self.keep(_tool(child, path, space))

    def _known(self, tool: wire.Tool, at: str) -> None:
        """Keep what no other protocol has among the extras (1.4)."""
        if tool.allowed_callers and tool.allowed_callers != ["direct"]:
            self.extras.append((f"{at}.allowed_callers", "only OpenAI's Responses API lets code call tools"))
        if wire.given(tool.output_schema):
            self.extras.append((f"{at}.output_schema", "only OpenAI's Responses API knows what a tool returns"))

    def _host(self, kind: str, raw: bytes, at: str) -> None:
        if raw not in self._hosted:
            self._hosted.add(raw)
            self.tools.append(Tool("hosted", kind, hosted=raw, at=at))


_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _tool(tool: wire.Tool, at: str, space: wire.Tool | None = None) -> Tool:
    if not tool.name:
        raise refuse(f"{at}.name: a tool needs a name", param=f"{at}.name")
    parameters = wire.given(tool.parameters)
    if parameters and not parameters.startswith(b"{"):
        raise refuse(f"{at}.parameters: expected an object", param=f"{at}.parameters")
    return Tool(
        "custom" if tool.type == "custom" else "function",
        tool.name,
        description=tool.description or "",
        parameters=parameters if tool.type == "function" else b"",
        strict=tool.strict,
        namespace=space.name if space else None,
        grammar=_grammar(tool.format, at),
        deferred=bool(tool.defer_loading),
        at=at,
        namespace_description=(space.description or "") if space else "",
    )


def _grammar(form: wire.Format | None, at: str) -> tuple[str, str] | None:
    if form is None or form.type == "text":
        return None
    syntax, definition = form.syntax, form.definition
    if form.grammar is not None:
        syntax, definition = form.grammar.syntax, form.grammar.definition
    if form.type != "grammar" or not syntax or definition is None:
        raise refuse(f"{at}.format: expected text, or a grammar with syntax and definition", param=f"{at}.format")
    return syntax, definition


def legacy_tools(functions: list[wire.LegacyFunction]) -> list[Tool]:
    """Return old `functions` as tools."""
    return [
        _tool(wire.Tool("function", one.name, one.description, one.parameters), f"functions.{index}")
        for index, one in enumerate(functions)
    ]


def legacy_choice(call: str | wire.LegacyFunction | None) -> Choice | None:
    """Return an old `function_call` as a choice; raises Refused for an unknown word."""
    if isinstance(call, wire.LegacyFunction):
        return Choice("tool", ((None, call.name),))
    return None if call is None else _plain(call, "function_call")


def choice_of(raw: msgspec.Raw) -> Choice | None:
    """Return the tool choice, None when absent. A hosted tool is named by its type, as it is among the tools."""
    document = wire.given(raw)
    if not document:
        return None
    choice = read_at(wire.decode_choice, document, "tool_choice")
    if isinstance(choice, str):
        return _plain(choice, "tool_choice")
    if choice.type == "allowed_tools":
        names = tuple(_name(tool.type, tool.name, tool.namespace, "tool_choice.tools") for tool in choice.tools)
        if choice.mode not in (None, "auto", "required"):
            raise refuse("tool_choice.mode: expected auto or required", param="tool_choice.mode")
        return Choice("allowed", names, required=choice.mode == "required")
    if choice.type in _PLAIN:
        return _plain(choice.type, "tool_choice")
    if choice.type is None:
        raise refuse("tool_choice.type: missing", param="tool_choice.type")
    return Choice("tool", (_name(choice.type, choice.name, choice.namespace, "tool_choice"),))


def _plain(word: str, at: str) -> Choice:
    if word == "auto":
        return Choice("auto")
    if word == "none":
        return Choice("none")
    if word == "required":
        return Choice("required")
    raise refuse(f"{at}: expected auto, none, required or an object", param=at)


def _name(kind: str, name: str | None, namespace: str | None, at: str) -> tuple[str | None, str]:
    if kind not in ("function", "custom"):
        return None, kind
    if not name:
        raise refuse(f"{at}.name: missing", param=f"{at}.name")
    return namespace, name


def echoed(raws: list[msgspec.Raw] | None) -> msgspec.Raw:
    """Return the tools as the lifecycle objects repeat them, free of the request's buffer."""
    return msgspec.Raw(encode(raws or []))
