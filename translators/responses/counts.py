"""Token counts of Responses to and from the neutral record (spec/translation.md 1.7)."""

from typing import Any

from translators.events import Usage

__all__ = ["spent", "usage_of"]

TICKS_PER_USD = 10_000_000_000
"""Unit of `cost_in_usd_ticks`, which xAI adds."""


def usage_of(value: Any) -> Usage | None:
    """Return the counts of a decoded `usage` member, None when it holds none; senseless members are unknown."""
    if not isinstance(value, dict):
        return None
    prompt, output = _count(value, "input_tokens"), _count(value, "output_tokens")
    if prompt is None and output is None:
        return None
    details = value.get("input_tokens_details")
    read, write = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    reasoning = _count(value.get("output_tokens_details"), "reasoning_tokens")
    if prompt is not None:
        # A part is never more than the whole (spec/cline.md 12.30).
        read = None if read is None else min(read, prompt)
        write = None if write is None else min(write, prompt - (read or 0))
    if reasoning is not None and output is not None and reasoning > output:
        reasoning = None
    return Usage(
        uncached=None if prompt is None else prompt - (read or 0) - (write or 0),
        cache_read=read,
        cache_write=write,
        output=output,
        reasoning=reasoning,
        cost_usd=_cost(value),
    )


def spent(usage: Usage) -> dict[str, Any]:
    """Return the `usage` member that every reader accepts: all details as integers, totals computed here."""
    output = usage.output or 0
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.prompt + output,
    }


def _count(holder: Any, name: str) -> int | None:
    value = holder.get(name) if isinstance(holder, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def _cost(value: dict[str, Any]) -> float | None:
    cost, ticks = value.get("cost"), _count(value, "cost_in_usd_ticks")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0:
        return float(cost)
    return None if ticks is None else ticks / TICKS_PER_USD
