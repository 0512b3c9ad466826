"""The console form of a record: one compact line, absent numbers left out (spec/cline.md 10.2).

Names that came from a client are escaped here, so that no model name can move the cursor or forge a line (S15).
"""

import re

from gateway.record import Record

__all__ = ["clean", "request_line", "short_count", "short_ms"]

VALUE_CHARS = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_RED, _GREEN, _YELLOW, _DIM, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[2m", "\x1b[0m"
_MARKS = {"complete": ("✓", _GREEN), "incomplete": ("✓", _YELLOW), "client_disconnected": ("○", _YELLOW)}


def clean(text: str, limit: int = VALUE_CHARS) -> str:
    """Return text that cannot break a line or a terminal and is bounded in length (S15, S33)."""
    return _CONTROL.sub("\ufffd", text[:limit])


def short_count(number: int) -> str:
    """Return a count as people read it: 312, 199.6K, 1.2M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}K" if number < 999_950 else f"{number / 1e6:.1f}M"


def short_ms(ms: float) -> str:
    """Return a duration as people read it: 312ms, 8.4s, 3m05s."""
    if ms < 999.5:
        return f"{ms:.0f}ms"
    if ms < 99_950:
        return f"{ms / 1000:.1f}s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes}m{seconds:02}s"


def request_line(record: Record, *, color: bool = False) -> str:
    """Return who asked what of whom, how it ended, what it took."""
    mark, paint = _MARKS.get(record.outcome or "", ("✗", _RED))
    route = record.provider or "-"
    if record.upstream_model:
        route += f"/{clean(record.upstream_model, 60)}"
    parts = [
        _dim(record.ts[11:19], color),
        f"{paint}{mark}{_PLAIN}" if color else mark,
        record.client or "-",
        f"{clean(record.alias or '-', 60)} → {route}",
        *(f"{name}={value}" for name, value in _facts(record) if value is not None),
        _dim(clean(record.request_id, 16), color),
    ]
    return " ".join(parts)


def _dim(text: str, color: bool) -> str:
    return f"{_DIM}{text}{_PLAIN}" if color and text else text


def _facts(record: Record) -> list[tuple[str, str | None]]:
    failed = record.outcome not in ("complete", "incomplete")
    why = record.error_kind if record.error_kind != record.outcome else None
    facts: list[tuple[str, str | None]] = [
        ("key", record.key),
        ("in", _count(record.input_tokens)),
        ("cache", None if record.cache_ratio is None else f"{record.cache_ratio:.1%}"),
        ("out", _count(record.output_tokens)),
        ("first", _time(record.first_meaning_ms)),
        ("tool", _time(record.first_tool_ms)),
        ("dur", _time(record.duration_ms)),
        ("tries", str(record.attempts) if (record.attempts or 0) > 1 else None),
    ]
    if failed or record.outcome == "incomplete":
        facts += [("end", record.outcome), ("err", why)]
    if failed:
        facts.append(("status", None if record.status is None else str(record.status)))
    return facts


def _count(number: int | None) -> str | None:
    return None if number is None else short_count(number)


def _time(ms: float | None) -> str | None:
    return None if ms is None else short_ms(ms)
