"""What an upstream's error says about its key: limited, for how long and for which model, or refused (S36).

Pure judgements over status, headers and at most MAX_BODY_BYTES of the body (spec/cline.md 1.9 and 1.10). They never
guess: what does not parse, is negative or lies beyond a year is ignored, and the next source of a wait is asked.
"""

import datetime as dt
import email.utils
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from translators.jsonio import ERRORS

__all__ = ["MAX_BODY_BYTES", "MAX_WAIT_S", "duration_s", "effective_429", "key_rejected", "limited_model", "wait_s"]

MAX_BODY_BYTES = 64 * 1024
MAX_WAIT_S = 86_400.0
"""Longest wait that is believed (S36); a weekly limit is asked about again each day."""
MAX_SANE_S = 366 * 86_400.0
"""A longer duration is a mistake, not a wait (spec/cline.md 1.10)."""

_STATUS_KEYS = frozenset(("upstreamstatus", "statuscode", "httpstatus"))
_UPSTREAM_429 = re.compile(
    r"upstream (?:returned|response status|status|error)[\s:=-]*(?:http[\s:=-]*)?429(?!\d)", re.IGNORECASE
)
_LIMIT_PHRASE = re.compile(
    r"daily free limit reached|rate[ -]limit|quota exceeded|too many requests|try again in|retry[ -]after",
    re.IGNORECASE,
)

_UNITS_S = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(
    # The longer spelling comes first: "30ms" is not 30 minutes.
    r"[\s,]*(?:and\s+)?(\d{1,15}(?:\.\d{1,9})?)\s*"
    r"(milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])",
    re.IGNORECASE | re.ASCII,
)
_MARKER = re.compile(r"(?:try again in|retry after|retry in|resets? in|reset after)[\s:]*", re.IGNORECASE)

_SECONDS_KEYS = frozenset(
    (
        *("retryafter", "retryafterseconds", "retryin", "retryinseconds", "cooldown", "cooldownseconds"),
        # Google's RetryInfo, and what Codex's back end sends beside resets_at.
        *("retrydelay", "resetsinseconds", "resetinseconds", "resetafterseconds"),
    )
)
_MILLISECONDS_KEYS = frozenset(("retryafterms", "retryinms"))
_MOMENT_KEYS = frozenset(("resetsat", "resetat"))
_RESET_HEADER = re.compile(r"(?:x-)?ratelimit-reset(?:-(.+))?|anthropic-ratelimit-(.+)-reset")

_ON_MODEL = re.compile(r"\b(?:on|for) model[\s:]+[\"'`]?([^\s\"'`,;]{1,256})", re.IGNORECASE)
_REACHED_FOR = re.compile(r"\breached for\s+[\"'`]?([^\s\"'`,;]{1,256})", re.IGNORECASE)

_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|wrong|unknown|expired|revoked|disabled|deactivated)[ _-](?:x[ _-])?(?:api[ _-]?)?"
    r"(?:key|token|credentials?)\b"
    r"|(?:api[ _-]?key|access token|credentials?)\b[^.!?\n]{0,40}?"
    r"\b(?:not valid|invalid|expired|revoked|disabled|deactivated|could not be validated|not found)\b"
    r"|bad[ _-]credentials|api[ _-]key[ _-]invalid|unauthenticated\b|authentication_error",
    re.IGNORECASE,
)


def effective_429(status: int, body: bytes, _headers: Mapping[str, str] | None = None) -> bool:
    """Tell whether an answer is a rate limit, also one that a relay wrapped in a 5xx (spec/cline.md 1.9).

    Headers are not evidence: a Retry-After on a 503 means an overloaded upstream, not a limited key.
    """
    if status == 429:
        return True
    if not 500 <= status <= 599:
        return False
    text, document = _read(body)
    if _says_429(text):
        return True
    for parent, key, value in _walk(document):
        if isinstance(value, str) and _says_429(value):
            return True
        if (key in _STATUS_KEYS or (key == "status" and parent == "error")) and value in (429, "429"):
            return True
    return False


def wait_s(headers: Mapping[str, str], body: bytes, now_wall: float) -> float | None:
    """Return the seconds to wait that an answer asks for, 0 to MAX_WAIT_S, or None if it names none.

    Most specific first: Retry-After, fields of the body, its text, and last the headers about windows, which may
    describe another limit than the one that was hit (spec/cline.md 1.10).
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    text, document = _read(body)
    for wait in _waits(lowered, text, document, now_wall):
        if wait is not None:
            return min(wait, MAX_WAIT_S)
    return None


def limited_model(body: bytes, known: Collection[str] | None) -> str | None:
    """Return the model that the answer says is limited; None means that the limit is the key's own.

    With `known` only its names count, as it spells them. Vendors have two spellings for some of theirs (`zai/…` and
    `z-ai/…`), so hyphens of the vendor are ignored. Without, any name in a field `model` or after "on model" will do.
    """
    text, document = _read(body)
    fields = [(key, value) for _, key, value in _walk(document) if isinstance(value, str)]
    named = [value for key, value in fields if key == "model" and value]
    strings = [value for _, value in fields] or [text]
    named += [found.rstrip(".:!?)") for string in strings for found in _ON_MODEL.findall(string)]
    if known is None:
        return named[0] if named else None
    named += [found.rstrip(".:!?)") for string in strings for found in _REACHED_FOR.findall(string)]
    spelled = {_spelling(name): name for name in known}
    found = (name if name in known else spelled.get(_spelling(name)) for name in named)
    return next((name for name in found if name is not None), None)


def key_rejected(status: int, body: bytes) -> bool:
    """Tell whether the upstream refused the key itself: any 401, and a 403 only if it says so.

    Other 403s are about content, region or rights, and another day may go well (spec/grok.md 9).
    """
    if status != 403:
        return status == 401
    text, document = _read(body)
    return any(_BAD_KEY.search(string) for string in (text, *(v for _, _, v in _walk(document) if isinstance(v, str))))


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration such as "2h 30m", "1.5s" or "20 minutes"; None if it is anything else."""
    found = _leading_duration(text.strip())
    return found[0] if found is not None and found[1] == len(text.strip()) else None


def _says_429(text: str) -> bool:
    return bool(_UPSTREAM_429.search(text) and _LIMIT_PHRASE.search(text))


def _read(body: bytes) -> tuple[str, Any]:
    """Return the body as text and as JSON; a text that is not JSON, or was cut, is a document without fields."""
    kept = body[:MAX_BODY_BYTES]
    try:
        document = msgspec.json.decode(kept)
    except ERRORS:
        document = None
    return kept.decode("utf-8", "replace"), document


def _walk(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (key of the enclosing field, key, value) for each value, in document order; keys without `-`, `_`, case.

    A list's elements carry no key of their own, so a number in a list is never taken for a field.
    """
    stack: list[tuple[str, str, Any]] = [("", "", document)]
    while stack:
        parent, key, value = stack.pop()
        yield parent, key, value
        if isinstance(value, dict):
            stack += [(key, _normal(name), inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(key, "", inner) for inner in reversed(value)]


def _normal(key: str) -> str:
    return key.lower().replace("-", "").replace("_", "")


def _waits(headers: dict[str, str], text: str, document: Any, now_wall: float) -> Iterator[float | None]:
    yield _number(headers.get("retry-after-ms"), 0.001)
    yield _retry_after(headers.get("retry-after"), now_wall)
    for _, key, value in _walk(document):
        if key in _SECONDS_KEYS:
            yield _amount(value, 1.0)
        elif key in _MILLISECONDS_KEYS:
            yield _amount(value, 0.001)
    for _, key, value in _walk(document):
        if key in _MOMENT_KEYS:
            yield _until(value, now_wall)
    for marker in _MARKER.finditer(text):
        found = _leading_duration(text[marker.end() : marker.end() + 128])
        yield found[0] if found is not None else None
    yield _window(headers, now_wall)


def _sane(seconds: float) -> float | None:
    return seconds if 0 <= seconds <= MAX_SANE_S else None


def _number(text: str | None, unit_s: float) -> float | None:
    """Return a plain decimal number of units as seconds."""
    if text is None or not re.fullmatch(r"\s*\d{1,15}(?:\.\d{1,9})?\s*", text, re.ASCII):
        return None
    return _sane(float(text) * unit_s)


def _amount(value: Any, unit_s: float) -> float | None:
    if isinstance(value, str):
        plain = _number(value, unit_s)
        return duration_s(value) if plain is None else plain
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before it is multiplied: an integer of JSON may be too large for a float.
    return value * unit_s if 0 <= value <= MAX_SANE_S / unit_s else None


def _retry_after(text: str | None, now_wall: float) -> float | None:
    """Return the wait of a Retry-After: seconds, an HTTP date (0 when past), or as some send it "1500ms"."""
    if text is None:
        return None
    amount = _amount(text, 1.0)
    return amount if amount is not None else _until(text, now_wall)


def _until(value: Any, now_wall: float) -> float | None:
    """Return the seconds until a moment: epoch seconds or milliseconds, ISO 8601 or an HTTP date; 0 when past."""
    moment = _moment(value)
    return None if moment is None else _sane(max(moment - now_wall, 0.0))


def _moment(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        number = re.fullmatch(r"\d{1,15}(?:\.\d{1,9})?", value, re.ASCII)
        return _epoch(float(value)) if number else _date(value)
    return _epoch(value) if isinstance(value, int | float) else None


def _epoch(number: float) -> float | None:
    """Return epoch seconds for a number that can be a date since 2001, in seconds or milliseconds."""
    if not 1e9 <= number < 1e15:
        return None
    return number / 1000 if number >= 1e12 else number


def _date(text: str) -> float | None:
    try:
        date = dt.datetime.fromisoformat(text)
    except ValueError:
        try:
            date = email.utils.parsedate_to_datetime(text)
        except (ValueError, IndexError, TypeError, OverflowError):
            return None
    return (date if date.tzinfo else date.replace(tzinfo=dt.UTC)).timestamp()


def _leading_duration(text: str) -> tuple[float, int] | None:
    """Return the seconds of the duration that a text begins with, and where that ends."""
    total, end = 0.0, 0
    while part := _PART.match(text, end):
        unit = part[2].lower()
        total += float(part[1]) * _UNITS_S["ms" if unit.startswith(("ms", "milli")) else unit[0]]
        end = part.end()
    if not end or text[end : end + 1].isalnum() or _sane(total) is None:
        return None
    return total, end


def _window(headers: dict[str, str], now_wall: float) -> float | None:
    """Return the longest wait of the windows that are used up, or of all whose remainder is not told."""
    spent: list[float] = []
    unknown: list[float] = []
    for name, value in headers.items():
        match = _RESET_HEADER.fullmatch(name)
        if match is None:
            continue
        wait = _amount(value, 1.0)
        wait = _until(value, now_wall) if wait is None else wait
        remaining = _number(headers.get(name.replace("reset", "remaining")), 1.0)
        if wait is not None and remaining in {None, 0.0}:
            (unknown if remaining is None else spent).append(wait)
    return max(spent or unknown, default=None)


def _spelling(name: str) -> str:
    vendor, slash, model = name.lower().rpartition("/")
    return vendor.replace("-", "") + slash + model
