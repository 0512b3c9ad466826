"""The last hour by minutes, for the charts of the status page: counts, tokens, percentiles.

Pure: `wall` is seconds since the epoch. Durations go into buckets that grow by a constant factor, so a minute
costs the same for ten requests and for ten thousand, and a percentile is right to within GROWTH.
"""

import math
from collections import OrderedDict

import msgspec

from gateway.record import Record

__all__ = ["GROWTH", "MINUTES", "Hour", "MinuteView", "Sketch"]

MINUTES = 60
GROWTH = 1.08
_LOG = math.log(GROWTH)
MAX_BUCKET = 260
"""About 5.6 days in milliseconds: everything longer counts as that."""

FINE = ("complete", "incomplete")


class Sketch:
    """A distribution of times in milliseconds."""

    __slots__ = ("buckets", "count")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0

    def add(self, ms: float) -> None:
        """Count one time."""
        bucket = 0 if ms <= 1 else min(MAX_BUCKET, math.ceil(math.log(ms) / _LOG))
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1

    def quantile(self, share: float) -> float | None:
        """Return the time that a share (0 to 1) of all do not exceed, None without any."""
        left = max(1, math.ceil(share * self.count))
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return round(GROWTH**bucket, 1)
        return None


class MinuteView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One minute with requests in it; `at` is its start in seconds since the epoch."""

    at: int
    requests: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0
    first_p50: float | None = None
    first_p95: float | None = None
    whole_p50: float | None = None
    whole_p95: float | None = None


class _Minute:
    def __init__(self) -> None:
        self.requests = self.failed = self.input = self.cached = self.output = 0
        self.cost = 0.0
        self.first = Sketch()
        self.whole = Sketch()
        self.view: MinuteView | None = None

    def note(self, record: Record) -> None:
        self.view = None
        self.requests += 1
        self.failed += record.outcome not in FINE
        self.input += record.input_tokens or 0
        self.cached += record.cached_tokens or 0
        self.output += record.output_tokens or 0
        self.cost += record.cost_usd or 0
        if record.first_meaning_ms is not None:
            self.first.add(record.first_meaning_ms)
        if record.duration_ms is not None and record.outcome in FINE:
            self.whole.add(record.duration_ms)

    def seen(self, at: int) -> MinuteView:
        if self.view is None:
            times = (sketch.quantile(share) for sketch in (self.first, self.whole) for share in (0.5, 0.95))
            counts = (self.requests, self.failed, self.input, self.cached, self.output, round(self.cost, 6))
            self.view = MinuteView(at, *counts, *times)
        return self.view


class Hour:
    """The minutes of the last hour in which anything happened."""

    def __init__(self) -> None:
        self._minutes: OrderedDict[int, _Minute] = OrderedDict()

    def note(self, record: Record, wall: float) -> None:
        """Count an ended request in the minute of its end."""
        at = int(wall // 60) * 60
        minute = self._minutes.get(at)
        if minute is None:
            minute = self._minutes[at] = _Minute()
            while len(self._minutes) > MINUTES:
                self._minutes.popitem(last=False)
        minute.note(record)

    def view(self, wall: float) -> list[MinuteView]:
        """Return the minutes of the last hour, oldest first, without empty ones."""
        since = (int(wall // 60) - MINUTES + 1) * 60
        return [minute.seen(at) for at, minute in sorted(self._minutes.items()) if since <= at <= wall]
