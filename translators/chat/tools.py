"""Write tools and the choice among them for a Chat upstream (spec/translation.md 1.4, 1.5)."""

from typing import Any

import msgspec

from translators.conversation import Choice, Conversation, tools_of
from translators.dialect import Target
from translators.fault import refuse
from translators.notes import Notes
from translators.schema import object_schema
from translators.toolbox import Entry, Toolbox, narrowed

__all__ = ["rendered_tools"]


def rendered_tools(conversation: Conversation, toolbox: Toolbox, target: Target, notes: Notes) -> dict[str, Any]:
    """Return `tools`, `tool_choice` and `parallel_tool_calls`, or nothing when no tool can be sent.

    Raises Refused(unsupported_tool) for a choice that forces a tool which is not sent, and in strict mode for
    hosted tools.
    """
    for tool in tools_of(conversation, "hosted"):
        notes.dropped(tool.at or "tools", f"the hosted tool {tool.name!r} does not exist here", "unsupported_tool")
    controls = conversation.controls
    choice = _checked(controls.choice, toolbox)
    if not toolbox.entries:
        return {}
    entries = toolbox.entries
    if choice is not None and choice.mode == "allowed" and not target.traits.forced_tool_choice:
        entries = narrowed(toolbox, choice)
    out: dict[str, Any] = {"tools": [_tool(entry, notes) for entry in entries]}
    if choice is not None:
        out["tool_choice"] = _choice(choice, toolbox, target, notes)
    if controls.parallel is not None:
        if target.traits.parallel_control:
            out["parallel_tool_calls"] = controls.parallel
        else:
            notes.omitted("parallel_tool_calls", "the model does not accept it")
    return out


def _checked(choice: Choice | None, toolbox: Toolbox) -> Choice | None:
    """Return the choice; a forced tool that is not offered upstream would silently become a free answer."""
    if choice is None or choice.mode not in ("tool", "allowed"):
        return choice
    offered = {(entry.tool.namespace, entry.tool.name) for entry in toolbox.entries}
    kept = tuple(name for name in choice.names if name in offered)
    if not kept or (choice.mode == "tool" and kept != choice.names):
        raise refuse(
            "tool_choice: the chosen tool is not among the tools that can be sent",
            param="tool_choice",
            code="unsupported_tool",
        )
    return Choice(choice.mode, kept, choice.required)


def _tool(entry: Entry, notes: Notes) -> dict[str, Any]:
    tool = entry.tool
    if tool.deferred:
        notes.omitted(tool.at or "tools", "the tool is offered from the start, not deferred")
    if tool.kind == "custom" and not entry.wrapped:
        return {"type": "custom", "custom": _custom(entry)}
    function: dict[str, Any] = {"name": entry.wire}
    if entry.description:
        function["description"] = entry.description
    function["parameters"] = msgspec.Raw(object_schema(entry.parameters, f"{tool.at or 'tools'}.parameters", notes))
    # Servers differ in the default, so it is always written; a wrapped custom tool follows its client's silence.
    function["strict"] = bool(tool.strict)
    return {"type": "function", "function": function}


def _custom(entry: Entry) -> dict[str, Any]:
    custom: dict[str, Any] = {"name": entry.wire}
    if entry.tool.description:
        custom["description"] = entry.tool.description
    if entry.tool.grammar is not None:
        syntax, definition = entry.tool.grammar
        custom["format"] = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return custom


def _choice(choice: Choice, toolbox: Toolbox, target: Target, notes: Notes) -> Any:
    if choice.mode in ("auto", "none"):
        return choice.mode
    if not target.traits.forced_tool_choice:
        if choice.mode != "allowed" or choice.required:
            notes.changed("tool_choice", "the model cannot be forced; it may choose freely")
        return "auto"
    if choice.mode == "required":
        return "required"
    named = [_named(entry) for entry in toolbox.entries if (entry.tool.namespace, entry.tool.name) in choice.names]
    if choice.mode == "tool":
        return named[0]
    mode = "required" if choice.required else "auto"
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}


def _named(entry: Entry) -> dict[str, Any]:
    kind = "custom" if entry.tool.kind == "custom" and not entry.wrapped else "function"
    return {"type": kind, kind: {"name": entry.wire}}
