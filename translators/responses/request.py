"""Read a Responses request into the neutral conversation (spec/translation.md 3.3, 3.4).

Takes what Codex, Grok Build, the SDKs and clients of older APIs send; refuses with the field's path what it
cannot read, and at once what would need state that nobody here holds.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from translators.conversation import Controls, Conversation, Schema, Text, Thinking, Turn
from translators.dialect import Peek
from translators.fault import refuse
from translators.head import checked
from translators.jsonio import MAX_DEPTH, encode, nested_too_deep, reader
from translators.notes import Notes
from translators.responses import wire
from translators.responses.items import Reader
from translators.responses.tools import Declared, choice_of, echoed, legacy_choice, legacy_tools
from translators.whose import named

__all__ = ["parse", "peek"]

MAX_ITEMS = 10_000
"""Input items of one request (spec/translation.md 8)."""

ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

_peek: Callable[[bytes], wire.Peeked] = reader(wire.Peeked)
_read: Callable[[bytes], wire.Request] = reader(wire.Request)


def peek(body: bytes) -> Peek:
    """Return model, stream and session of a body; raises Refused when it names no model.

    Codex and Grok Build put their session id into prompt_cache_key (spec/clients.md 2, spec/grok.md 15.5).
    """
    seen = _peek(body)
    if not seen.model:
        raise refuse("model: a model name is required", param="model")
    checked(body, seen.input, "input")
    return Peek(seen.model, bool(seen.stream), *named(seen.prompt_cache_key, seen.metadata, seen.user))


def parse(body: bytes, notes: Notes) -> Conversation:
    """Return the conversation of a Responses body; raises Refused (400) naming the field."""
    if nested_too_deep(body):
        raise refuse(f"the JSON nests deeper than {MAX_DEPTH} levels")
    request = _read(body)
    _refuse_stored(request)
    declared = Declared()
    declared.add(request.tools or [], "tools")
    if request.functions and not request.tools:
        for tool in legacy_tools(request.functions):
            declared.keep(tool)
    system, turns = _input(request, declared, notes)
    include = request.include or []
    return Conversation(
        "responses",
        request.model,
        system=system,
        turns=turns,
        tools=tuple(declared.tools),
        controls=_controls(request),
        stream=bool(request.stream),
        extras=(*_extras(request, include), *declared.extras),
        include_encrypted=ENCRYPTED in include,
        previous_response_id=request.previous_response_id or None,
        echo=_echo(request),
    )


def _refuse_stored(request: wire.Request) -> None:
    for name, raw in (("conversation", request.conversation), ("prompt", request.prompt)):
        if wire.given(raw):
            raise refuse(f"{name}: stored state is not known here; send it as input", param=name, code="missing_state")
    if request.background:
        raise refuse("background: not supported", param="background", code="unsupported_parameter")


def _input(request: wire.Request, declared: Declared, notes: Notes) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    read = Reader(declared, notes)
    if request.instructions:
        read.system.append(Text(request.instructions))
    if isinstance(request.input, str):
        turns = (Turn("user", (Text(request.input),), "input"),) if request.input else ()
        return tuple(read.system), turns
    items = request.input or []
    if len(items) > MAX_ITEMS:
        raise refuse(f"input: {len(items)} items; at most {MAX_ITEMS} are accepted", param="input")
    for index, raw in enumerate(items):
        read.add(raw, index)
    read.finish()
    return tuple(read.system), tuple(read.turns)


def _controls(request: wire.Request) -> Controls:
    if request.max_output_tokens is not None and request.max_output_tokens < 1:
        raise refuse("max_output_tokens: expected at least 1", param="max_output_tokens")
    options = request.stream_options
    return Controls(
        max_output_tokens=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        thinking=_thinking(request.reasoning),
        choice=choice_of(request.tool_choice) or legacy_choice(request.function_call),
        parallel=request.parallel_tool_calls,
        output=_schema(request.text),
        verbosity=request.text.verbosity if request.text else None,
        logprobs=True if LOGPROBS in (request.include or ()) else None,
        top_logprobs=request.top_logprobs,
        service_tier=request.service_tier,
        user=request.user,
        safety_identifier=request.safety_identifier,
        metadata=wire.given(request.metadata) or None,
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_options=wire.given(request.prompt_cache_options) or None,
        prompt_cache_retention=request.prompt_cache_retention,
        store=request.store,
        obfuscation=options.include_obfuscation if options else None,
    )


def _thinking(wish: wire.ReasoningWish | None) -> Thinking:
    if wish is None:
        return Thinking()
    summary = wish.summary or wish.generate_summary
    if summary == "none":
        summary = None
    return Thinking(effort=wish.effort, visible=summary is not None, summary=summary)


def _schema(wish: wire.TextWish | None) -> Schema | None:
    form = wish.format if wish else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return Schema()
    if form.type != "json_schema":
        raise refuse("text.format.type: expected text, json_object or json_schema", param="text.format.type")
    schema = wire.given(form.schema)
    if not schema.startswith(b"{"):
        raise refuse("text.format.schema: expected an object", param="text.format.schema")
    return Schema(schema, form.name, form.description, form.strict)


def _extras(request: wire.Request, include: list[str]) -> tuple[tuple[str, str], ...]:
    reasoning = request.reasoning or wire.ReasoningWish()
    present: tuple[tuple[str, object], ...] = (
        ("truncation", request.truncation not in (None, "disabled")),
        ("max_tool_calls", request.max_tool_calls is not None),
        ("context_management", wire.given(request.context_management)),
        ("moderation", wire.given(request.moderation)),
        ("reasoning.context", reasoning.context),
        ("reasoning.mode", reasoning.mode),
    )
    found = [(path, "only a Responses upstream knows this") for path, value in present if value]
    found.extend(("include", f"{name!r} has no equal") for name in include if name not in (ENCRYPTED, LOGPROBS))
    return tuple(found)


def _echo(request: wire.Request) -> dict[str, Any]:
    """Return what lifecycle objects repeat; raw members are copied so that the body itself can be freed."""
    told: dict[str, Any] = {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "parallel_tool_calls": request.parallel_tool_calls,
        "previous_response_id": request.previous_response_id,
        "temperature": request.temperature,
        "tools": echoed(request.tools),
        "top_p": request.top_p,
        "truncation": request.truncation,
        "user": request.user,
        "service_tier": request.service_tier,
    }
    if request.reasoning:
        told["reasoning"] = {"effort": request.reasoning.effort, "summary": request.reasoning.summary}
    for name, raw in (("tool_choice", request.tool_choice), ("metadata", request.metadata)):
        if wire.given(raw):
            told[name] = msgspec.Raw(bytes(raw))
    if request.text and request.text.format:
        told["text"] = msgspec.Raw(encode({"format": _spoken(request.text.format)}))
    return {name: value for name, value in told.items() if value is not None}


def _spoken(form: wire.TextFormat) -> dict[str, Any]:
    told: dict[str, Any] = {"type": form.type}
    for name in ("name", "description", "strict"):
        value = getattr(form, name)
        if value is not None:
            told[name] = value
    if wire.given(form.schema):
        told["schema"] = form.schema
    return told
