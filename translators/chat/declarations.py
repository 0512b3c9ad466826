"""Read a Chat request's tools and its choice among them (spec/translation.md 1.4, 1.5)."""

from collections.abc import Callable

import msgspec

from translators.chat.wire import AllowedTools, Body, ChoiceObject, Custom, FunctionTool, Named, ToolIn, present
from translators.conversation import Choice, Tool
from translators.fault import refuse
from translators.jsonio import reader

__all__ = ["MAX_TOOLS", "read_choice", "read_tools"]

MAX_TOOLS = 2_000
"""Bound of one request (spec/translation.md 8)."""


class _Declared(msgspec.Struct):
    tools: list[msgspec.Raw]


_declared: Callable[[bytes], _Declared] = reader(_Declared)


def read_tools(body: Body, document: bytes) -> tuple[Tool, ...]:
    """Return the declared tools, legacy functions among them; `document` is the body that `body` was read from."""
    tools = body.tools or []
    if len(tools) + len(body.functions or ()) > MAX_TOOLS:
        raise refuse(f"tools: more than {MAX_TOOLS} tools", param="tools")
    # Hosted tools keep their whole declaration, which the typed reading has not got.
    whole = _declared(document).tools if any(tool.type not in ("function", "custom") for tool in tools) else []
    out = [_tool(tool, f"tools.{index}", whole[index] if whole else b"") for index, tool in enumerate(tools)]
    out.extend(_function(tool, f"functions.{index}") for index, tool in enumerate(body.functions or ()))
    return tuple(out)


def _tool(tool: ToolIn, at: str, whole: bytes | msgspec.Raw) -> Tool:
    if tool.type == "function":
        if tool.function is None:
            raise refuse(f"{at}.function: a function tool needs its function", param=f"{at}.function")
        return _function(tool.function, f"{at}.function")
    if tool.type == "custom":
        if tool.custom is None:
            raise refuse(f"{at}.custom: a custom tool needs its declaration", param=f"{at}.custom")
        return _custom(tool.custom, f"{at}.custom")
    return Tool("hosted", tool.type, hosted=bytes(whole), at=at)


def _function(tool: FunctionTool, at: str) -> Tool:
    _named(tool.name, at)
    parameters = bytes(tool.parameters).strip() if present(tool.parameters) else b""
    if parameters and not parameters.startswith(b"{"):
        raise refuse(f"{at}.parameters: a JSON schema is an object", param=f"{at}.parameters")
    return Tool("function", tool.name, tool.description or "", parameters, tool.strict, at=at)


def _custom(tool: Custom, at: str) -> Tool:
    _named(tool.name, at)
    grammar = tool.format.grammar if tool.format else None
    if tool.format and tool.format.type == "grammar" and grammar is None:
        raise refuse(f"{at}.format.grammar: a grammar is required here", param=f"{at}.format.grammar")
    pair = (grammar.syntax, grammar.definition) if grammar else None
    return Tool("custom", tool.name, tool.description or "", grammar=pair, at=at)


def _named(name: str, at: str) -> None:
    if not name:
        raise refuse(f"{at}.name: a tool needs a name", param=f"{at}.name")


def read_choice(body: Body) -> Choice | None:
    """Return the tool choice; raises Refused(unsupported_tool) for a choice of something that is no client tool."""
    choice = body.tool_choice
    if choice is None:
        return _legacy(body.function_call)
    if isinstance(choice, str):
        return _word(choice, "tool_choice")
    if choice.type == "allowed_tools" and choice.allowed_tools is not None:
        return _allowed(choice.allowed_tools)
    return Choice("tool", ((None, _chosen(choice)),))


def _legacy(call: str | Named | None) -> Choice | None:
    if call is None:
        return None
    return _word(call, "function_call") if isinstance(call, str) else Choice("tool", ((None, call.name),))


def _word(word: str, at: str) -> Choice:
    if word == "auto":
        return Choice("auto")
    if word == "none":
        return Choice("none")
    # `any` is what some compatible servers and their clients say.
    if word in ("required", "any"):
        return Choice("required")
    raise refuse(f"{at}: unknown choice {word[:40]!r}", param=at)


def _chosen(choice: ChoiceObject) -> str:
    named = {"function": choice.function, "custom": choice.custom}.get(choice.type)
    if named is None:
        raise refuse(
            f"tool_choice: {choice.type[:40]!r} cannot be forced", param="tool_choice", code="unsupported_tool"
        )
    return named.name


def _allowed(allowed: AllowedTools) -> Choice:
    names: list[tuple[str | None, str]] = []
    for index, tool in enumerate(allowed.tools):
        named = tool.function or tool.custom
        if named is None:
            at = f"tool_choice.allowed_tools.tools.{index}"
            raise refuse(f"{at}: only functions and custom tools can be allowed", param=at, code="unsupported_tool")
        names.append((None, named.name))
    if allowed.mode not in ("auto", "required"):
        at = "tool_choice.allowed_tools.mode"
        raise refuse(f"{at}: auto or required is expected", param=at)
    return Choice("allowed", tuple(names), required=allowed.mode == "required")
