"""The summary record: one for each request, whatever happened (promise 8). Names, counts and times, no content."""

from typing import Literal

import msgspec

from translators.fault import Fault
from translators.tally import Tally

__all__ = ["MAX_STEPS", "OUTCOMES", "Outcome", "Record", "Step", "outcome_of"]

Outcome = Literal[
    "complete",
    "incomplete",
    "client_error",
    "upstream_error",
    "rate_limited",
    "upstream_eof",
    "protocol_error",
    "stalled_first_event",
    "stalled_first_meaning",
    "stalled_idle",
    "stalled_meaning_idle",
    "limit",
    "client_disconnected",
    "shutdown",
]
OUTCOMES: tuple[str, ...] = Outcome.__args__  # type: ignore[attr-defined]

_BY_CAUSE: dict[str, Outcome] = {
    "client": "client_error",
    "upstream": "upstream_error",
    "protocol": "protocol_error",
    "eof": "upstream_eof",
    "limit": "limit",
    "stall": "stalled_first_event",
    "shutdown": "shutdown",
    "gateway": "upstream_error",
}
_INCOMPLETE = ("length", "context", "refusal", "pause")

MAX_STEPS = 32
"""Steps of a flight list (spec/cline.md 10.1); later ones are counted."""
SLOW_FIRST_MS = 15_000
SLOW_WHOLE_MS = 60_000
"""A request that was slower than one of these leaves its flight list, like one that failed."""
_MILESTONES = ("first_event", "first_meaning", "first_text", "first_tool", "first_byte")


class Step(msgspec.Struct, frozen=True):
    """One moment of a request, in milliseconds since it began; `kind` is a word of ours with config names at most."""

    at_ms: float
    kind: str


class Record(msgspec.Struct, omit_defaults=True):
    """What one request amounted to; a field that is not known is absent, never 0. Times are milliseconds."""

    ts: str = ""
    request_id: str = ""
    client: str | None = None
    dialect: str | None = None
    alias: str | None = None
    provider: str | None = None
    upstream_dialect: str | None = None
    upstream_model: str | None = None
    stream: bool | None = None
    status: int | None = None
    outcome: Outcome | None = None
    error_kind: str | None = None
    attempts: int | None = None
    failovers: int | None = None
    key: str | None = None
    session: str | None = None
    effort: str | None = None
    reasoning_shown: bool | None = None
    request_bytes: int | None = None
    upstream_request_bytes: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_ratio: float | None = None
    cost_usd: float | None = None
    headers_ms: float | None = None
    first_byte_ms: float | None = None
    first_event_ms: float | None = None
    first_meaning_ms: float | None = None
    first_text_ms: float | None = None
    first_tool_ms: float | None = None
    duration_ms: float | None = None
    overhead_ms: float | None = None
    text_bytes: int | None = None
    reasoning_bytes: int | None = None
    tool_bytes: int | None = None
    tool_calls: int | None = None
    events: int | None = None
    notes: int | None = None
    prefix_hash: str | None = None
    prefix_bytes: int | None = None
    prefix_kept_bytes: int | None = None
    prefix_broken_at: str | None = None
    flight: list[Step] = []
    """What happened when; kept for anomalous requests only."""
    flight_dropped: int = 0

    def step(self, at_ms: float, kind: str) -> None:
        """Note a moment, as long as there is room beside the milestones and the end."""
        if len(self.flight) < MAX_STEPS - len(_MILESTONES) - 1:
            self.flight.append(Step(at_ms, kind))
        else:
            self.flight_dropped += 1

    @property
    def anomalous(self) -> bool:
        """Tell whether the request failed, or was slow enough for somebody to ask why."""
        failed = self.outcome not in ("complete", "incomplete")
        return failed or (self.first_meaning_ms or 0) > SLOW_FIRST_MS or (self.duration_ms or 0) > SLOW_WHOLE_MS

    def close(self) -> None:
        """Complete the flight list of an anomalous request, and drop that of any other."""
        if not self.anomalous or not self.flight:
            self.flight, self.flight_dropped = [], 0
            return
        for name in _MILESTONES:
            if (at := getattr(self, f"{name}_ms")) is not None:
                self.flight.append(Step(at, name))
        self.flight.append(Step(self.duration_ms or self.flight[-1].at_ms, f"end {self.outcome}"))
        self.flight.sort(key=lambda step: step.at_ms)

    def take(self, tally: Tally, *, native: bool) -> None:
        """Copy what the answer amounted to; content sizes of native streams are not measured."""
        usage = tally.usage
        if usage.known:
            self.input_tokens = usage.prompt
            self.cached_tokens = usage.cache_read
            self.cache_write_tokens = usage.cache_write
            self.output_tokens = usage.output
            self.reasoning_tokens = usage.reasoning
            if usage.cache_read is not None and usage.prompt:
                self.cache_ratio = round(usage.cache_read / usage.prompt, 4)
        self.cost_usd = usage.cost_usd
        self.events = tally.events or None
        if not native:
            self.text_bytes, self.reasoning_bytes = tally.text_bytes, tally.reasoning_bytes
            self.tool_bytes, self.tool_calls = tally.tool_bytes, tally.tool_calls


def outcome_of(fault: Fault | None, stop: str | None) -> Outcome:
    """Name how a request ended, from the fault that ended it or the stop reason of its answer."""
    if fault is None:
        return "incomplete" if stop in _INCOMPLETE else "complete"
    if fault.kind == "rate_limited" and fault.cause != "client":
        return "rate_limited"
    return _BY_CAUSE[fault.cause]
