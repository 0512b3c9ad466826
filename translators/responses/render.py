"""Write a neutral conversation as the body for a Responses upstream (spec/translation.md 3.2, 3.5).

Every control is mapped, noted as dropped, or refused, from one place per field; the same conversation always
gives the same bytes (I30). The gateway keeps no answers at the provider: `store` is false unless asked for.
"""

import hashlib
from typing import Any

import msgspec

from translators.conversation import Choice, Controls, Conversation, Schema, Tool
from translators.dialect import Target
from translators.effort import openai_effort
from translators.fault import refuse
from translators.instructions import joined
from translators.jsonio import encode
from translators.notes import Notes
from translators.responses.history import input_items
from translators.schema import object_schema
from translators.toolbox import Entry, Toolbox

__all__ = ["render"]

MIN_OUTPUT_TOKENS = 16
"""Smallest max_output_tokens that the API takes; Claude clients probe with 1 (3.2)."""

USER_LIMIT = 64

_TIERS = {"standard_only": "default"}


def render(conversation: Conversation, box: Toolbox, target: Target, notes: Notes) -> bytes:
    """Return the request body; raises Refused for what this upstream cannot be asked (the REJECT cells)."""
    _refuse(conversation)
    controls = conversation.controls
    body: dict[str, Any] = {"model": target.model}
    instructions = joined(conversation)
    if instructions:
        body["instructions"] = instructions
    body["input"] = input_items(conversation, box, target, notes)
    body.update(_tools(conversation, box, target, notes))
    body.update(_limits(controls, target, notes))
    body.update(_reasoning(conversation, target, notes))
    body.update(_text(conversation, target, notes))
    body.update(_advisory(conversation))
    _drop(conversation, notes)
    return encode(body)


def _refuse(conversation: Conversation) -> None:
    if (conversation.controls.n or 1) > 1:
        raise refuse("n: a Responses upstream gives one answer", param="n", code="unsupported_parameter")
    if conversation.dialect != "chat" or not conversation.stream:
        return
    for tool in conversation.tools:
        if tool.kind == "custom":
            # The Chat stream has no form for the call that would come back.
            at = tool.at or "tools"
            raise refuse(f"{at}: custom tools cannot be streamed to a Chat client", param=at, code="unsupported_tool")


# ------------------------------------------------------------------ tools


def _tools(conversation: Conversation, box: Toolbox, target: Target, notes: Notes) -> dict[str, Any]:
    # A tool that is declared twice in the same way has one entry (1.4).
    left = {(entry.tool.namespace, entry.tool.name): entry for entry in box.entries}
    tools: list[dict[str, Any] | msgspec.Raw] = []
    spaces: dict[str, list[dict[str, Any]]] = {}
    for tool in conversation.tools:
        if tool.kind == "hosted":
            if conversation.dialect == "responses":
                tools.append(msgspec.Raw(tool.hosted))
            else:
                notes.dropped(tool.at or "tools", f"no {tool.name} at this upstream", code="unsupported_tool")
            continue
        entry = left.pop((tool.namespace, tool.name), None)
        if entry is None:
            continue
        written = _tool(entry, notes)
        if tool.namespace is None or box.flat:
            tools.append(written)
        elif tool.namespace in spaces:
            spaces[tool.namespace].append(written)
        else:
            spaces[tool.namespace] = [written]
            tools.append(_space(tool, spaces[tool.namespace]))
    choice = _choice(conversation, box, target, notes)
    if not tools:
        return {}
    told: dict[str, Any] = {"tools": tools}
    if choice is not None:
        told["tool_choice"] = choice
    parallel = conversation.controls.parallel
    if parallel is not None and target.traits.parallel_control:
        told["parallel_tool_calls"] = parallel
    elif parallel is False:
        notes.dropped("parallel_tool_calls", "the upstream has no control over parallel calls")
    return told


def _space(tool: Tool, children: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "namespace",
        "name": tool.namespace,
        "description": tool.namespace_description or tool.namespace,
        "tools": children,
    }


def _tool(entry: Entry, notes: Notes) -> dict[str, Any]:
    tool = entry.tool
    written: dict[str, Any] = {"type": "function", "name": entry.wire}
    if entry.description:
        written["description"] = entry.description
    if tool.kind == "custom" and not entry.wrapped:
        written["type"] = "custom"
        if tool.grammar is not None:
            syntax, definition = tool.grammar
            written["format"] = {"type": "grammar", "syntax": syntax, "definition": definition}
    else:
        at = f"{tool.at or 'tools'}.parameters"
        written["parameters"] = msgspec.Raw(object_schema(entry.parameters, at, notes))
        # The API takes an absent `strict` for true (1.4).
        written["strict"] = tool.strict is True and not entry.wrapped
    if tool.deferred:
        written["defer_loading"] = True
    return written


def _choice(conversation: Conversation, box: Toolbox, target: Target, notes: Notes) -> str | dict[str, Any] | None:
    choice = conversation.controls.choice
    if choice is None:
        return None
    if choice.mode == "tool":
        forced = _named(conversation, box, *choice.names[0])
        if forced is None:
            raise refuse(
                f"tool_choice: the tool {choice.names[0][1]!r} is not offered",
                param="tool_choice",
                code="unsupported_tool",
            )
    if not target.traits.forced_tool_choice and (choice.mode in ("tool", "required") or choice.required):
        notes.changed("tool_choice", "the model takes only auto and none; sent as auto")
        choice = Choice("auto")
    if choice.mode == "tool":
        return _named(conversation, box, *choice.names[0])
    if choice.mode != "allowed":
        return choice.mode
    tools = [named for name in choice.names if (named := _named(conversation, box, *name)) is not None]
    return {"type": "allowed_tools", "mode": "required" if choice.required else "auto", "tools": tools}


def _named(conversation: Conversation, box: Toolbox, namespace: str | None, name: str) -> dict[str, Any] | None:
    for entry in box.entries:
        if (entry.tool.namespace, entry.tool.name) == (namespace, name):
            custom = entry.tool.kind == "custom" and not entry.wrapped
            return {"type": "custom" if custom else "function", "name": entry.wire}
    hosted = any(tool.kind == "hosted" and tool.name == name for tool in conversation.tools)
    return {"type": name} if hosted and conversation.dialect == "responses" else None


# ------------------------------------------------------------------ controls


def _limits(controls: Controls, target: Target, notes: Notes) -> dict[str, Any]:
    told: dict[str, Any] = {}
    limits = [
        limit
        for limit in (controls.max_output_tokens, target.max_output_tokens, target.traits.max_output_cap)
        if limit is not None
    ]
    if controls.max_output_tokens is not None or target.max_output_tokens is not None:
        granted = told["max_output_tokens"] = max(min(limits), MIN_OUTPUT_TOKENS)
        wished = controls.max_output_tokens
        if wished is not None and granted < wished:
            notes.changed("max_tokens", f"lowered to {granted}, the most that this route allows")
        elif wished is not None and granted > wished:
            notes.changed("max_tokens", f"raised to {granted}, the least that the API takes")
    for name in ("temperature", "top_p"):
        value = getattr(controls, name)
        if value is None:
            continue
        if target.traits.sampling:
            told[name] = value
        else:
            notes.dropped(name, "the model takes no sampling controls")
    return told


def _reasoning(conversation: Conversation, target: Target, notes: Notes) -> dict[str, Any]:
    thinking = conversation.controls.thinking
    effort = openai_effort(thinking, target, notes, "reasoning_effort")
    summary = thinking.summary
    if conversation.dialect == "messages":
        # Without it the API returns no readable reasoning, which a client that thinks expects (1.6).
        summary = "auto" if thinking.mode in ("enabled", "adaptive") and thinking.visible is not False else None
    elif conversation.dialect == "chat":
        summary = "auto" if effort not in (None, "none") else None
    told = {name: value for name, value in (("effort", effort), ("summary", summary)) if value is not None}
    return {"reasoning": told} if told and target.traits.efforts else {}


def _text(conversation: Conversation, target: Target, notes: Notes) -> dict[str, Any]:
    controls = conversation.controls
    told: dict[str, Any] = {}
    if controls.output is not None and controls.output.schema and not target.traits.json_schema:
        notes.dropped("response_format", "the model takes no output schema")
    elif controls.output is not None:
        told["format"] = _format(controls.output, always_strict=conversation.dialect == "messages")
    if controls.verbosity is not None:
        told["verbosity"] = controls.verbosity
    return {"text": told} if told else {}


def _format(output: Schema, *, always_strict: bool) -> dict[str, Any]:
    if not output.schema:
        return {"type": "json_object"}
    schema = msgspec.Raw(output.schema)
    told: dict[str, Any] = {"type": "json_schema", "name": output.name or "output", "schema": schema}
    if output.description is not None:
        told["description"] = output.description
    if output.strict is not None or always_strict:
        told["strict"] = output.strict is not False
    return told


def _advisory(conversation: Conversation) -> dict[str, Any]:
    controls = conversation.controls
    include = ["reasoning.encrypted_content"]
    if controls.logprobs:
        include.append("message.output_text.logprobs")
    told: dict[str, Any] = {"include": include, "store": bool(controls.store)}
    for name in ("top_logprobs", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"):
        value = getattr(controls, name)
        if value is not None:
            told[name] = value
    if controls.service_tier is not None:
        told["service_tier"] = _TIERS.get(controls.service_tier, controls.service_tier)
    if controls.user is not None:
        told["user"] = _user(controls.user)
    for name, raw in (("metadata", controls.metadata), ("prompt_cache_options", controls.prompt_cache_options)):
        if raw:
            told[name] = msgspec.Raw(raw)
    told["stream"] = conversation.stream
    if conversation.stream and controls.obfuscation is not None:
        told["stream_options"] = {"include_obfuscation": controls.obfuscation}
    return told


def _user(user: str) -> str:
    """Return an id that fits; Claude Code's are longer than the API takes (1.9)."""
    if len(user) <= USER_LIMIT:
        return user
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def _drop(conversation: Conversation, notes: Notes) -> None:
    controls = conversation.controls
    absent: tuple[tuple[str, Any], ...] = (
        ("stop", controls.stop),
        ("top_k", controls.top_k),
        ("seed", controls.seed),
        ("presence_penalty", controls.presence_penalty or None),
        ("frequency_penalty", controls.frequency_penalty or None),
        ("logit_bias", controls.logit_bias),
        ("prediction", controls.prediction),
    )
    for name, value in absent:
        if value not in (None, ()):
            notes.dropped(name, "a Responses upstream has no such control")
    for path, message in conversation.extras:
        notes.dropped(path, message)
