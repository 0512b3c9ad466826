"""Write a neutral request for a Chat upstream (spec/translation.md 3.1, 3.3); same input, same bytes (I30)."""

import hashlib
import re
from typing import Any

import msgspec

from translators.chat.marks import marked
from translators.chat.messages import rendered_messages
from translators.chat.tools import rendered_tools
from translators.conversation import Controls, Conversation, Schema
from translators.dialect import Target
from translators.effort import openai_effort
from translators.fault import refuse
from translators.jsonio import encode
from translators.notes import Notes
from translators.toolbox import Toolbox

__all__ = ["USER_LIMIT_CHARS", "render"]

USER_LIMIT_CHARS = 64
"""Longer user ids are sent as their SHA-256; Claude Code's are."""

_TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
_ILLEGAL_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def render(conversation: Conversation, toolbox: Toolbox, target: Target, notes: Notes) -> bytes:
    """Return the request body for a Chat upstream; raises Refused for what Chat cannot express (REJECT)."""
    if conversation.previous_response_id is not None:
        raise refuse(
            "previous_response_id: the earlier response is not known here",
            param="previous_response_id",
            code="missing_state",
        )
    for path, message in conversation.extras:
        notes.dropped(path, message)
    body: dict[str, Any] = {"model": target.model}
    messages = rendered_messages(conversation, toolbox, target, notes)
    body["messages"] = marked(messages) if target.traits.cache_marks else messages
    if target.traits.explicit_stream:
        body["stream"] = False
    if conversation.stream or target.traits.always_stream:
        body["stream"] = True
        body["stream_options"] = _stream_options(conversation, target)
    body.update(_limits(conversation.controls, target, notes))
    body.update(_sampling(conversation.controls, target, notes))
    body.update(rendered_tools(conversation, toolbox, target, notes))
    effort = openai_effort(conversation.controls.thinking, target, notes, "reasoning_effort")
    if effort is not None:
        body["reasoning_effort"] = effort
    if conversation.controls.output is not None:
        body["response_format"] = _response_format(conversation, conversation.controls.output, target, notes)
    body.update(_advisory(conversation, target, notes))
    return encode(body)


def _stream_options(conversation: Conversation, target: Target) -> dict[str, bool]:
    options = {"include_usage": True}
    if conversation.controls.obfuscation is not None and target.traits.cache_key:
        options["include_obfuscation"] = conversation.controls.obfuscation
    return options


def _limits(controls: Controls, target: Target, notes: Notes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    wished = controls.max_output_tokens
    caps = [cap for cap in (target.max_output_tokens, target.traits.max_output_cap) if cap is not None]
    if wished is None and caps and target.traits.always_limit:
        wished = min(caps)
    if wished is not None:
        granted = min((wished, *caps))
        if granted != wished:
            notes.changed("max_tokens", f"lowered to {granted}, the most that this route allows")
        out[target.traits.max_tokens_field] = granted
    limit = target.traits.stop_limit
    if len(controls.stop) > limit:
        notes.dropped("stop", f"only {limit} stop sequences are possible; the first {limit} are sent")
    if controls.stop[:limit]:
        out["stop"] = list(controls.stop[:limit])
    return out


def _sampling(controls: Controls, target: Target, notes: Notes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in (("temperature", controls.temperature), ("top_p", controls.top_p)):
        if value is None:
            continue
        if target.traits.sampling:
            out[name] = value
        else:
            notes.dropped(name, "the model takes no sampling controls")
    if controls.top_k is not None:
        if target.traits.top_k:
            out["top_k"] = controls.top_k
        else:
            notes.dropped("top_k", "Chat Completions has no such control")
    raws = {"logit_bias": controls.logit_bias, "prediction": controls.prediction}
    plain = {
        "n": controls.n if controls.n != 1 else None,
        "seed": controls.seed,
        "presence_penalty": controls.presence_penalty,
        "frequency_penalty": controls.frequency_penalty,
        "logprobs": controls.logprobs,
        "top_logprobs": controls.top_logprobs,
        "verbosity": controls.verbosity,
    }
    out.update({name: value for name, value in plain.items() if value is not None})
    out.update({name: msgspec.Raw(raw) for name, raw in raws.items() if raw is not None})
    return out


def _response_format(conversation: Conversation, schema: Schema, target: Target, notes: Notes) -> dict[str, Any]:
    if not schema.schema:
        return {"type": "json_object"}
    if not target.traits.json_schema:
        notes.dropped("response_format", "the model takes no schema; any JSON object is asked for")
        return {"type": "json_object"}
    name = _ILLEGAL_NAME.sub("_", schema.name or "output")[:64]
    wire: dict[str, Any] = {"name": name}
    if schema.description is not None:
        wire["description"] = schema.description
    # Messages knows only strict schemas, so silence there means strict; elsewhere it means the server's default.
    strict = schema.strict if schema.strict is not None or conversation.dialect != "messages" else True
    if strict is not None:
        wire["strict"] = strict
    wire["schema"] = msgspec.Raw(schema.schema)
    return {"type": "json_schema", "json_schema": wire}


def _advisory(conversation: Conversation, target: Target, notes: Notes) -> dict[str, Any]:
    """Return the fields that do not change the answer; all but `user` only for servers known to take them."""
    controls = conversation.controls
    out: dict[str, Any] = {}
    if controls.user is not None:
        out["user"] = _user(controls.user)
    keep_store = controls.store is True and conversation.dialect == "chat" and target.traits.cache_key
    if controls.store is True and not keep_store:
        notes.dropped("store", "answers are not stored")
    if not target.traits.cache_key:
        if target.traits.prompt_cache_key and controls.prompt_cache_key is not None:
            out["prompt_cache_key"] = controls.prompt_cache_key
        if controls.service_tier not in (None, "auto"):
            notes.omitted("service_tier", "the server is not known to have tiers")
        if controls.metadata is not None:
            notes.omitted("metadata", "the server is not known to take it")
        return out
    out["store"] = keep_store
    tier = "default" if controls.service_tier == "standard_only" else controls.service_tier
    if tier is not None and tier not in _TIERS:
        notes.omitted("service_tier", "Chat Completions has no such tier")
        tier = None
    plain = {
        "service_tier": tier,
        "safety_identifier": controls.safety_identifier,
        "prompt_cache_key": controls.prompt_cache_key,
        "prompt_cache_retention": controls.prompt_cache_retention,
    }
    out.update({name: value for name, value in plain.items() if value is not None})
    raws = {"metadata": controls.metadata, "prompt_cache_options": controls.prompt_cache_options}
    out.update({name: msgspec.Raw(raw) for name, raw in raws.items() if raw is not None})
    return out


def _user(user: str) -> str:
    if len(user) <= USER_LIMIT_CHARS:
        return user
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
