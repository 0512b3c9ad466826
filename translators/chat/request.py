"""Read a Chat Completions request (spec/translation.md 3.5, 3.6): peek for routing, parse for translation."""

from collections.abc import Callable

import msgspec

from translators.chat.declarations import read_choice, read_tools
from translators.chat.history import read_history
from translators.chat.wire import ABSENT, Body, present
from translators.conversation import Controls, Conversation, Schema, Thinking
from translators.dialect import Peek
from translators.fault import refuse
from translators.head import checked
from translators.jsonio import ERRORS, MAX_DEPTH, nested_too_deep, reader
from translators.notes import Notes
from translators.whose import named

__all__ = ["parse", "peek"]


class _Peeked(msgspec.Struct):
    model: str = ""
    stream: bool | None = None
    prompt_cache_key: str | None = None
    metadata: msgspec.Raw = ABSENT
    user: msgspec.Raw = ABSENT
    messages: list[msgspec.Raw] | None = None


class _Wish(msgspec.Struct):
    effort: str | None = None


_wish = msgspec.json.Decoder(_Wish).decode
_peek: Callable[[bytes], _Peeked] = reader(_Peeked)
_body: Callable[[bytes], Body] = reader(Body)


def peek(document: bytes) -> Peek:
    """Return what routing needs; raises Refused (400) when the model is missing or the body is no JSON object.

    The session is `prompt_cache_key`, which clients set to their own session's id, or one that metadata name.
    """
    peeked = _peek(document)
    if not peeked.model:
        raise refuse("model: a model name is required", param="model")
    checked(document, peeked.messages, "messages")
    return Peek(peeked.model, bool(peeked.stream), *named(peeked.prompt_cache_key, peeked.metadata, peeked.user))


def parse(document: bytes, notes: Notes) -> Conversation:
    """Return the neutral form of a request; raises Refused (400) naming the field that is wrong."""
    if nested_too_deep(document):
        raise refuse(f"the JSON nests deeper than {MAX_DEPTH} levels")
    body = _body(document)
    _reject(body)
    system, turns = read_history(body.messages, notes)
    options = body.stream_options
    return Conversation(
        dialect="chat",
        model=body.model,
        system=system,
        turns=turns,
        tools=read_tools(body, document),
        controls=_controls(body),
        stream=bool(body.stream),
        extras=tuple(_extras(body)),
        include_usage=bool(options and options.include_usage),
    )


def _reject(body: Body) -> None:
    if not body.messages:
        raise refuse("messages: at least one message is required", param="messages")
    if any(modality != "text" for modality in body.modalities or ()):
        raise refuse("modalities: only text answers are supported", param="modalities", code="unsupported_parameter")
    if present(body.audio):
        raise refuse("audio: only text answers are supported", param="audio", code="unsupported_parameter")


def _extras(body: Body) -> list[tuple[str, str]]:
    """Return the fields that only Chat knows; see Conversation.extras."""
    found = {"web_search_options": body.web_search_options, "moderation": body.moderation}
    return [(name, "no other place for it") for name, value in found.items() if present(value)]


def _controls(body: Body) -> Controls:
    return Controls(
        max_output_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        stop=_stop(body.stop),
        thinking=Thinking(effort=body.reasoning_effort or _effort(body.reasoning)),
        choice=read_choice(body),
        parallel=body.parallel_tool_calls,
        output=_output(body),
        verbosity=body.verbosity,
        seed=body.seed,
        n=body.n,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        logit_bias=_raw(body.logit_bias),
        logprobs=body.logprobs,
        top_logprobs=body.top_logprobs,
        prediction=_raw(body.prediction),
        service_tier=body.service_tier,
        user=body.user,
        safety_identifier=body.safety_identifier,
        metadata=_raw(body.metadata),
        prompt_cache_key=body.prompt_cache_key,
        prompt_cache_options=_raw(body.prompt_cache_options),
        prompt_cache_retention=body.prompt_cache_retention,
        store=body.store,
        obfuscation=body.stream_options.include_obfuscation if body.stream_options else None,
    )


def _effort(reasoning: msgspec.Raw) -> str | None:
    """Return the effort of the `reasoning` object that some servers take instead, None for one of another shape."""
    try:
        return _wish(reasoning).effort if present(reasoning) else None
    except ERRORS:
        return None


def _raw(value: msgspec.Raw) -> bytes | None:
    return bytes(value) if present(value) else None


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    listed = [stop] if isinstance(stop, str) else stop or []
    return tuple(sequence for sequence in listed if sequence)


def _output(body: Body) -> Schema | None:
    wished = body.response_format
    if wished is None or wished.type == "text":
        return None
    if wished.type == "json_object":
        return Schema()
    if wished.type != "json_schema":
        at = "response_format.type"
        raise refuse(f"{at}: {wished.type[:40]!r} is not supported", param=at, code="unsupported_parameter")
    schema = wished.json_schema
    if schema is None or not bytes(schema.schema).strip().startswith(b"{"):
        at = "response_format.json_schema.schema"
        raise refuse(f"{at}: a JSON schema is required here", param=at)
    return Schema(bytes(schema.schema), schema.name, schema.description, schema.strict)
