"""Everyone who is told of an ended request: the log, the feed, the last hour, metrics, traces.

Each gets the same finished record; none of them can fail or slow the request, which is over by then.
"""

import time

from gateway.feed import Feed
from gateway.hour import Hour
from gateway.metrics import Metrics, load
from gateway.otel import Traces
from gateway.otel import load as load_traces
from gateway.record import Record
from gateway.telemetry import Telemetry

__all__ = ["Watchers"]


class Watchers:
    """Tell all of them."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self.feed = Feed()
        self.hour = Hour()
        self.metrics: Metrics | None = load()
        self.traces: Traces | None = load_traces()

    def told(self, record: Record, pattern: str) -> None:
        """Finish a record and pass it on; `pattern` is the configured alias that it met, "" for none."""
        record.close()
        self.telemetry.summary(record)
        self.feed.put(record)
        self.hour.note(record, time.time())
        if self.metrics is not None:
            self.metrics.count(record, pattern)
        if self.traces is not None:
            self.traces.end(record, pattern)

    async def close(self) -> None:
        """Send what is left of the traces."""
        self.feed.close()
        if self.traces is not None:
            await self.traces.close()
