"""Read an upstream's error, whatever its shape, into one Fault that is safe to show.

Promises: never raises; HTML, stack traces and control characters never reach the message; the HTTP status is kept;
a prompt that is too long is told apart from other bad requests (spec/translation.md 1.2).
"""

import re
from typing import Any

import msgspec

from translators.fault import STATUS, Fault, Kind
from translators.jsonio import ERRORS

__all__ = ["error_fault", "failure", "kind_of_status"]

MAX_READ_BYTES = 1024 * 1024
"""A larger error body is not looked into; its status speaks for it."""

_UNWRAPS = 6
"""Envelopes in one another, JSON inside strings included, that are opened."""

_TEXT_CHARS = 8192
"""Of a longer error text only the beginning is cleaned; a Fault keeps less."""

_decode = msgspec.json.Decoder().decode

_STATUSES: dict[int, Kind] = {
    401: "authentication",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    413: "too_large",
    415: "unsupported_media",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    522: "timeout",
    524: "timeout",
    529: "overloaded",
}

_WORDS: dict[str, Kind] = {
    "invalid_request_error": "invalid_request",
    "invalid_request": "invalid_request",
    "invalid_prompt": "invalid_request",
    "bad_request": "invalid_request",
    "bad_request_error": "invalid_request",
    "unsupported_parameter": "invalid_request",
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "unauthorized": "authentication",
    "billing_error": "billing",
    "insufficient_quota": "billing",
    "insufficient_credits": "billing",
    "payment_required": "billing",
    "permission_error": "permission",
    "forbidden": "permission",
    "not_found_error": "not_found",
    "not_found": "not_found",
    "model_not_found": "not_found",
    "request_too_large": "too_large",
    "rate_limit": "rate_limited",  # Cline, inside its streams (spec/cline.md 1.6)
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "rate_limited": "rate_limited",
    "too_many_requests": "rate_limited",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "server_is_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "slow_down": "overloaded",
    "timeout_error": "timeout",
    "timeout": "timeout",
    "api_error": "api",
    "server_error": "api",
    "internal_error": "api",
    "internal_server_error": "api",
    "cyber_policy": "policy",
    "policy_violation": "policy",
    "content_policy_violation": "policy",
    "content_filter": "policy",
    "usage_policy_violation": "policy",
}

_OVERFLOW_CODES = frozenset({"context_length_exceeded", "model_max_prompt_tokens_exceeded", "context_window_exceeded"})
# How Anthropic, OpenAI, Gemini, vLLM, llama.cpp, OpenRouter and Copilot word it; read from their public error reports.
_OVERFLOW = re.compile(
    r"prompt is too long|input is too long|too many (?:input|prompt) tokens|"
    r"(?:exceed\w*|longer than|beyond|larger than|over) [^.]{0,80}\b(?:context|token limit|token count|prompt token)|"
    r"(?:maximum|max) context|context (?:length|window|size)[^.]{0,60}(?:exceed|too (?:long|large|small))|"
    r"reduce the length of (?:the|your) (?:messages|prompt|input)",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
_MARKUP = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)|</(?:html|body|h1|title)>", re.IGNORECASE)
_STACK = re.compile(r"Traceback \(most recent call last\)|\n\s+at \S+|\bFile \"[^\"]+\", line \d+|goroutine \d+ \[")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_VAGUE = ("", "provider returned error", "upstream error", "error")

_SPOKEN: dict[Kind, str] = {
    "invalid_request": "the upstream refused the request",
    "context_length": "the prompt is too long for the model",
    "authentication": "the upstream did not accept the credentials (authentication failed)",
    "billing": "the upstream account has no credit or quota left",
    "permission": "the upstream does not permit this request",
    "not_found": "the upstream does not know this model or address",
    "too_large": "the request is too large for the upstream",
    "unsupported_media": "the upstream does not take this media type",
    "rate_limited": "the upstream's rate limit is reached",
    "api": "the upstream failed",
    "overloaded": "the upstream is overloaded",
    "timeout": "the upstream took too long",
    "policy": "the upstream's policy blocks the request",
}


class _Told(msgspec.Struct):
    """What an error document says, its envelopes removed."""

    message: str = ""
    codes: list[str] = []
    words: list[str] = []
    """What `type` and `status` members say."""
    status: int = 0
    param: str | None = None


def kind_of_status(status: int) -> Kind:
    """Return the kind of an HTTP error status; anything below 400 counts as a broken upstream."""
    known = _STATUSES.get(status)
    if known:
        return known
    return "invalid_request" if 400 <= status < 500 else "api"


def failure(status: int, body: bytes, retry_after_s: float | None = None) -> Fault:
    """Return the Fault of an upstream's HTTP error reply, for any dialect's body and for bodies of none."""
    told = _Told()
    if 300 <= status < 400:  # never followed: the key would go to wherever it points (S10)
        message = f"the upstream redirected the request (HTTP {status}); its base_url may be wrong"
        return Fault(kind="api", message=message, retry_after_s=retry_after_s)
    if len(body) <= MAX_READ_BYTES:
        try:
            _read(_decode(body), told, _UNWRAPS)
        except ERRORS:
            _read_text(body.decode("utf-8", "replace").strip(), told, 0)
    return _fault(told, status if 400 <= status < 600 else 502, retry_after_s)


def error_fault(error: Any, status_hint: int = 0) -> Fault:
    """Return the Fault of an error object (or text) inside a stream or a 200 reply.

    A status that the object itself names wins over the hint, and its own words over both being absent.
    """
    told = _Told()
    _read(error, told, _UNWRAPS)
    return _fault(told, told.status or status_hint, None)


def _read(value: Any, told: _Told, depth: int) -> None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, str):
        _read_text(value, told, depth)
    elif isinstance(value, dict) and depth > 0:
        _read_object(value, told, depth)


def _read_object(value: dict[str, Any], told: _Told, depth: int) -> None:
    _take_word(value.get("code"), told, told.codes)
    for name in ("type", "status", "status_code", "statusCode"):
        _take_word(value.get(name), told, told.words)
    if told.param is None and isinstance(value.get("param"), str):
        told.param = value["param"][:200]
    # The innermost message is the one that explains; outer ones repeat or wrap it.
    for name in ("error", "errors", "response", "detail", "msg"):
        _read(value.get(name), told, depth - 1)
    choices = value.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        _read(choices[0].get("error"), told, depth - 1)  # how OpenRouter and Cline end a Chat stream badly
    if not told.message or isinstance(value.get("error"), str):
        _read(value.get("message"), told, depth - 1)
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and told.message.lower().strip(" .") in _VAGUE:
        vague, told.message = told.message, ""
        _read(metadata.get("raw"), told, depth - 1)
        told.message = told.message or vague


def _read_text(text: str, told: _Told, depth: int) -> None:
    if depth > 0 and text.lstrip()[:1] in ("{", "["):
        try:
            _read(_decode(text), told, depth - 1)
        except (*ERRORS, UnicodeEncodeError):
            pass
        else:
            return
    if not (_MARKUP.search(text) or _STACK.search(text)):
        told.message = _CONTROL.sub(" ", text[:_TEXT_CHARS]).strip() or told.message


def _take_word(value: Any, told: _Told, into: list[str]) -> None:
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if 400 <= value < 600 and not told.status:
            told.status = value
    elif isinstance(value, str) and _CODE.match(value):
        into.append(value)


def _fault(told: _Told, status: int, retry_after_s: float | None) -> Fault:
    kind = _kind(told, status)
    code = "context_length_exceeded" if kind == "context_length" else next(iter(told.codes), None)
    message = told.message or f"{_SPOKEN[kind]} (HTTP {status or STATUS[kind]})"
    return Fault(kind=kind, message=message, status=status, code=code, param=told.param, retry_after_s=retry_after_s)


def _kind(told: _Told, status: int) -> Kind:
    words = [word.lower() for word in (*told.codes, *told.words)]
    named: list[Kind] = [_WORDS[word] for word in words if word in _WORDS]
    kind: Kind = kind_of_status(status) if status else (named[0] if named else "api")
    if kind in ("invalid_request", "too_large") or (kind == "api" and not status):
        if any(word in _OVERFLOW_CODES for word in words) or _OVERFLOW.search(told.message):
            return "context_length"
        if "policy" in named:
            return "policy"
    return kind
