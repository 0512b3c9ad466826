"""Token counts in Chat's terms and in neutral terms (spec/translation.md 1.7)."""

from typing import Any

import msgspec

from translators.events import Usage
from translators.jsonio import ERRORS

__all__ = ["all_zero", "decreased", "impossible", "read_usage", "usage_object"]


class _PromptDetails(msgspec.Struct):
    cached_tokens: Any = None
    cache_write_tokens: Any = None
    cached_creation_tokens: Any = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: Any = None


class _CostDetails(msgspec.Struct):
    upstream_inference_cost: Any = None


class _Usage(msgspec.Struct):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    input_tokens: Any = None
    output_tokens: Any = None
    """What relays of other protocols leave standing, in place of the former two."""
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    cached_tokens: Any = None
    """Kimi's place for it."""
    prompt_cache_hit_tokens: Any = None
    """DeepSeek's."""
    cache_creation_input_tokens: Any = None
    """Cline's, for writes."""
    cost: Any = None
    market_cost: Any = None
    is_byok: Any = None
    cost_details: _CostDetails | None = None


_decode = msgspec.json.Decoder(_Usage).decode


def read_usage(raw: bytes | msgspec.Raw) -> Usage | None:
    """Return the counts of a `usage` object; None when it is no such object or tells nothing.

    Negative members, and reasoning beyond the output, count as unknown.
    """
    try:
        wire = _decode(raw)
    except ERRORS:
        return None
    prompt = _first(wire.prompt_tokens, wire.input_tokens)
    output = _first(wire.completion_tokens, wire.output_tokens)
    details = wire.prompt_tokens_details or _PromptDetails()
    read = _first(details.cached_tokens, wire.cached_tokens, wire.prompt_cache_hit_tokens)
    write = _first(details.cache_write_tokens, details.cached_creation_tokens, wire.cache_creation_input_tokens)
    reasoning = _count(wire.completion_tokens_details.reasoning_tokens) if wire.completion_tokens_details else None
    if prompt is not None:
        # A part is never more than the whole (spec/cline.md 12.30).
        read = None if read is None else min(read, prompt)
        write = None if write is None else min(write, prompt - (read or 0))
    if reasoning is not None and output is not None and reasoning > output:
        reasoning = None
    found = Usage(
        uncached=None if prompt is None else prompt - (read or 0) - (write or 0),
        cache_read=read,
        cache_write=write,
        output=output,
        reasoning=reasoning,
        cost_usd=_cost(wire),
    )
    return found if found.known else None


def impossible(raw: bytes | msgspec.Raw) -> bool:
    """Tell whether a `usage` object has a negative count, or more reasoning than output (1.7)."""
    try:
        wire = _decode(raw)
    except ERRORS:
        return False
    details = wire.completion_tokens_details
    counts = (wire.prompt_tokens, wire.completion_tokens, wire.input_tokens, wire.output_tokens)
    reasoning = details.reasoning_tokens if details is not None else None
    output = _first(wire.completion_tokens, wire.output_tokens)
    thought = _count(reasoning)
    return any(isinstance(count, int | float) and count < 0 for count in (*counts, reasoning)) or (
        thought is not None and output is not None and thought > output
    )


def decreased(before: Usage, after: Usage) -> bool:
    """Tell whether cumulative counts went down (I8)."""
    return after.prompt < before.prompt or (after.output or 0) < (before.output or 0)


def all_zero(usage: Usage) -> bool:
    """Tell whether a usage looks like the placeholder that some servers put into every chunk."""
    return not usage.prompt and not usage.output


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return Chat's `usage` object: sums recomputed, unknown as 0, detail members only where known."""
    output = usage.output or 0
    out: dict[str, Any] = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": output,
        "total_tokens": usage.prompt + output,
    }
    details = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    known = {name: count for name, count in details.items() if count is not None}
    if known:
        out["prompt_tokens_details"] = known
    if usage.reasoning is not None:
        out["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return out


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _first(*values: Any) -> int | None:
    return next((count for value in values if (count := _count(value)) is not None), None)


def _money(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    return None


def _cost(wire: _Usage) -> float | None:
    """Return the price in dollars as the vendors' own SDK reckons it: own keys pay the gateway and the vendor."""
    charged = _money(wire.cost)
    vendor = _money(wire.cost_details.upstream_inference_cost) if wire.cost_details else None
    if wire.is_byok is True and charged is not None and vendor is not None:
        charged += vendor
    prices = (charged, vendor, _money(wire.market_cost))
    known = [price for price in prices if price is not None]
    return next((price for price in known if price), known[0] if known else None)
