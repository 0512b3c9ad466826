"""A neutral Conversation, written as the request for a Messages upstream (spec/translation.md 3.4, 3.6).

Promises: pure, the same conversation gives the same bytes; every control that this protocol lacks is noted, or
refused in strict mode; no cache_control is added.
"""

from typing import Any

from msgspec import Raw

from translators.conversation import Conversation, tools_of
from translators.dialect import Target
from translators.fault import refuse
from translators.instructions import leading
from translators.jsonio import encode
from translators.messages.reasoning import Plan, planned
from translators.messages.turns import History
from translators.notes import Notes
from translators.schema import object_schema
from translators.toolbox import Entry, Toolbox, narrowed

__all__ = ["render"]

Json = dict[str, Any]

TOP_P_FLOOR = 0.95
"""Below it the API refuses top_p beside thinking."""


def render(conversation: Conversation, toolbox: Toolbox, target: Target, notes: Notes) -> bytes:
    """Return the request body; raises Refused for what must not be dropped (the REJECT cells)."""
    history = History(conversation, toolbox, target, notes)
    messages = history.messages()
    max_tokens = _max_tokens(conversation, target, notes)
    tools, hosted = _tools(conversation, toolbox, notes)
    choice = _choice(conversation, toolbox, target, notes, offered=bool(tools))
    plan = planned(conversation, target, max_tokens, notes)
    if plan.active and choice is not None and choice["type"] in ("any", "tool"):
        notes.omitted("reasoning_effort", "the model cannot think when a tool call is forced")
        plan = Plan(None, plan.effort)
    body: Json = {"model": target.model, "max_tokens": max_tokens}
    system = conversation.system if conversation.dialect == "messages" else leading(conversation)
    texts = [text.text for text in (*system, *history.system) if text.text]
    if texts:
        body["system"] = [{"type": "text", "text": text} for text in texts]
    body["messages"] = messages
    if tools:
        body["tools"] = [*tools, *hosted]
        if choice is not None:
            body["tool_choice"] = choice
    elif hosted:
        body["tools"] = hosted
    if plan.thinking:
        body["thinking"] = plan.thinking
    body |= _config(conversation, target, plan, notes)
    body |= _sampling(conversation, target, notes, thinking=plan.active)
    body |= _accounting(conversation, notes)
    _rest(conversation, notes)
    if conversation.stream:
        body["stream"] = True
    return encode(body)


def _max_tokens(conversation: Conversation, target: Target, notes: Notes) -> int:
    """Return the output limit that the protocol requires: the client's, else the route's, else the model's."""
    asked = conversation.controls.max_output_tokens
    wanted = asked or target.max_output_tokens or target.traits.default_max_tokens
    for cap in (target.max_output_tokens, target.traits.max_output_cap):
        if cap is not None and wanted > cap:
            wanted = cap
            if asked is not None:
                notes.changed("max_tokens", f"lowered to {cap}")
    return wanted


def _tools(conversation: Conversation, toolbox: Toolbox, notes: Notes) -> tuple[list[Json], list[Raw]]:
    """Return the functions and, for a Messages client, its server tools."""
    hosted: list[Raw] = []
    for tool in tools_of(conversation, "hosted"):
        if conversation.dialect == "messages":
            hosted.append(Raw(tool.hosted))
        else:
            notes.dropped(tool.at or "tools", f"the hosted tool {tool.name[:64]!r} is not offered", "unsupported_tool")
    choice = conversation.controls.choice
    entries = narrowed(toolbox, choice) or toolbox.entries
    if len(entries) != len(toolbox.entries):
        notes.changed("tool_choice", "only the allowed tools are offered")
    searchable = any(b"tool_search" in bytes(raw) for raw in hosted)
    return [_tool(entry, notes, searchable=searchable) for entry in entries], hosted


def _tool(entry: Entry, notes: Notes, *, searchable: bool) -> Json:
    tool, at = entry.tool, entry.tool.at or "tools"
    wire: Json = {"name": entry.wire}
    if entry.description:
        wire["description"] = entry.description
    wire["input_schema"] = Raw(object_schema(entry.parameters, at, notes))
    if tool.strict:
        wire["strict"] = True
    if tool.deferred:
        # Without the upstream's own tool search nothing would ever load a deferred tool.
        if searchable:
            wire["defer_loading"] = True
        else:
            notes.changed(at, "the tool is offered at once, since the upstream has no tool search for it")
    return wire


def _choice(
    conversation: Conversation, toolbox: Toolbox, target: Target, notes: Notes, *, offered: bool
) -> Json | None:
    choice, parallel = conversation.controls.choice, conversation.controls.parallel
    if choice is not None and choice.mode == "tool":
        namespace, name = choice.names[0]
        known = any(entry.tool.name == name and entry.tool.namespace == namespace for entry in toolbox.entries)
        hosted = conversation.dialect == "messages" and bool(tools_of(conversation, "hosted"))
        if not known and not hosted:
            raise refuse(f"tool_choice: {name[:64]!r} is not offered", param="tool_choice", code="unsupported_tool")
        wire: Json = {"type": "tool", "name": toolbox.wire(name, namespace)}
    elif not offered:
        if choice is not None and choice.mode == "required":
            notes.dropped("tool_choice", "no tool is left to choose from")
        return None
    elif choice is not None:
        wire = {"type": _mode(choice.mode, choice.required, usable=bool(narrowed(toolbox, choice)))}
    elif parallel is not None:
        wire = {"type": "auto"}
    else:
        return None
    if wire["type"] in ("any", "tool") and not target.traits.forced_tool_choice:
        notes.dropped("tool_choice", "the model chooses by itself; a call cannot be forced")
        wire = {"type": "auto"}
    if parallel is not None and wire["type"] != "none":
        if target.traits.parallel_control:
            wire["disable_parallel_tool_use"] = not parallel
        elif not parallel:
            notes.dropped("parallel_tool_calls", "the upstream has no control over parallel calls")
    return wire


def _mode(mode: str, required: bool, *, usable: bool) -> str:
    if mode == "allowed":
        if not usable and required:
            told = "tool_choice: none of the allowed tools is offered"
            raise refuse(told, param="tool_choice", code="unsupported_tool")
        return ("any" if required else "auto") if usable else "none"
    return {"auto": "auto", "required": "any"}.get(mode, "none")


def _config(conversation: Conversation, target: Target, plan: Plan, notes: Notes) -> Json:
    config: Json = {} if plan.effort is None else {"effort": plan.effort}
    asked = conversation.controls.output
    if asked is not None and not asked.schema:
        notes.dropped("response_format", "any JSON object is no form of output here; a schema would be")
    elif asked is not None and not target.traits.json_schema:
        notes.dropped("response_format", "the model takes no output schema")
    elif asked is not None:
        if asked.name is not None or asked.description is not None or asked.strict is not None:
            notes.changed("response_format", "the schema is sent without name, description and strict")
        config["format"] = {"type": "json_schema", "schema": Raw(asked.schema)}
    return {"output_config": config} if config else {}


def _sampling(conversation: Conversation, target: Target, notes: Notes, *, thinking: bool) -> Json:
    controls, out = conversation.controls, Json()
    if controls.stop:
        out["stop_sequences"] = list(controls.stop)
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(controls, name)
        if value is None:
            continue
        if not target.traits.sampling:
            notes.dropped(name, "the model takes no sampling controls")
        elif thinking and not (name == "top_p" and value >= TOP_P_FLOOR):
            notes.omitted(name, "not accepted beside thinking")
        elif name == "temperature" and value > 1:
            notes.changed(name, "lowered to 1")
            out[name] = 1
        else:
            out[name] = value
    return out


def _accounting(conversation: Conversation, notes: Notes) -> Json:
    controls, out = conversation.controls, Json()
    user = controls.user or controls.safety_identifier
    if user:
        out["metadata"] = {"user_id": user}
    match controls.service_tier:
        case None:
            pass
        case "auto":
            out["service_tier"] = "auto"
        case "default" | "standard_only":
            out["service_tier"] = "standard_only"
        case tier:
            notes.dropped("service_tier", f"there is no tier {tier[:32]!r} here")
    return out


def _rest(conversation: Conversation, notes: Notes) -> None:
    """Account for every control that has no place in this protocol."""
    controls = conversation.controls
    if controls.n is not None and controls.n > 1:
        raise refuse("n: only one choice can be asked for", param="n", code="unsupported_parameter")
    lost = {
        "verbosity": controls.verbosity,
        "seed": controls.seed,
        "presence_penalty": controls.presence_penalty or None,
        "frequency_penalty": controls.frequency_penalty or None,
        "logit_bias": controls.logit_bias,
        "logprobs": controls.logprobs or None,
        "top_logprobs": controls.top_logprobs,
        "prediction": controls.prediction,
        "store": controls.store or None,
    }
    for name, value in lost.items():
        if value is not None:
            notes.dropped(name, "Messages has no such control")
    for path, message in conversation.extras:
        notes.dropped(path, message)
