"""`GET /metrics`: counters and histograms for Prometheus, with the extra `metrics` installed.

Every label value is a word of ours or a name from the config (S33): a client can add no series, whatever it sends.
Counters are kept here; gauges are read from the gateway when it is asked.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway.record import Record
from providers.identity import VERSION

if TYPE_CHECKING:
    from gateway.admin import Status
    from gateway.app import Gateway, Inbound

__all__ = ["Metrics", "load", "serve"]

ABSENT = "metrics need the extra: pip install 'dragoman-gateway[metrics]'\n"
SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 900)
OVERHEAD = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_TOKENS = (
    ("input", "input_tokens"),
    ("cached", "cached_tokens"),
    ("cache_write", "cache_write_tokens"),
    ("output", "output_tokens"),
    ("reasoning", "reasoning_tokens"),
)


class Metrics:
    """The series of one gateway in a registry of its own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

        self.registry = CollectorRegistry()
        self._children: dict[tuple[int, tuple[str, ...]], Any] = {}
        own = self.registry
        by = ("dialect", "alias", "provider")
        self._requests = Counter("dragoman_requests", "Ended requests.", (*by, "outcome"), registry=own)
        self._ends = Counter(
            "dragoman_stream_ends", "Ended streams by what ended them.", ("dialect", "reason"), registry=own
        )
        self._overhead = Histogram(
            "dragoman_overhead_seconds",
            "Whole time less waiting for the upstream.",
            by[:1],
            buckets=OVERHEAD,
            registry=own,
        )
        self._first = Histogram(
            "dragoman_first_meaning_seconds", "Time to the first content.", by, buckets=SECONDS, registry=own
        )
        self._whole = Histogram(
            "dragoman_duration_seconds", "Whole time of a request.", by, buckets=SECONDS, registry=own
        )
        self._tokens = Counter(
            "dragoman_tokens", "Tokens as upstreams report them.", ("alias", "provider", "kind"), registry=own
        )
        self._cost = Counter("dragoman_cost_usd", "Cost as upstreams report it.", ("alias", "provider"), registry=own)
        self._keys = Gauge("dragoman_keys", "Upstream keys by state.", ("provider", "state"), registry=own)
        self._flying = Gauge("dragoman_in_flight", "Requests that run now.", ("dialect",), registry=own)
        self._dropped = Gauge(
            "dragoman_log_dropped", "Log events that found the queue full or the log closed.", registry=own
        )
        self._entries = Gauge("dragoman_store_entries", "Entries of a store in memory.", ("store",), registry=own)
        self._bytes = Gauge("dragoman_store_bytes", "Bytes of a store in memory.", ("store",), registry=own)
        self._healthy = Gauge(
            "dragoman_state_kept", "1 while state is kept on disk or none is asked for.", registry=own
        )
        self._followers = Gauge("dragoman_feed_followers", "Pages and tails that follow the feed.", registry=own)
        self._started = Gauge("dragoman_start_time_seconds", "When the gateway started, since the epoch.", registry=own)
        Info("dragoman_build", "The version.", registry=own).info({"version": VERSION})

    def count(self, record: Record, pattern: str) -> None:
        """Count an ended request; `pattern` is the configured alias that it met, "" for none."""
        dialect, provider, outcome = record.dialect or "", record.provider or "", record.outcome or ""
        child = self._child
        child(self._requests, dialect, pattern, provider, outcome).inc()
        if record.stream:
            child(self._ends, dialect, outcome).inc()
        if record.overhead_ms is not None:
            child(self._overhead, dialect).observe(record.overhead_ms / 1000)
        if record.first_meaning_ms is not None:
            child(self._first, dialect, pattern, provider).observe(record.first_meaning_ms / 1000)
        if record.attempts and record.duration_ms is not None:
            child(self._whole, dialect, pattern, provider).observe(record.duration_ms / 1000)
        for kind, name in _TOKENS:
            if number := getattr(record, name):
                child(self._tokens, pattern, provider, kind).inc(number)
        if record.cost_usd:
            self._cost.labels(pattern, provider).inc(max(0.0, record.cost_usd))

    def _child(self, family: Any, *labels: str) -> Any:
        """Return a family's series; `labels()` checks and locks each time, which costs more than the counting.

        Labels are names from the config, so the table is as bounded as the series are.
        """
        key = (id(family), labels)
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = family.labels(*labels)
        return found

    def render(self, status: "Status") -> tuple[bytes, str]:
        """Return the text and its content type; gauges show the given state."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        for gauge in (self._keys, self._flying, self._entries, self._bytes):
            gauge.clear()
        for key in status.keys:
            self._keys.labels(key.provider, key.state).inc()
        for dialect in ("chat", "messages", "responses"):
            self._flying.labels(dialect).set(0)
        for stream in status.in_flight:
            self._flying.labels(stream.dialect).inc()
        for store in status.stores:
            self._entries.labels(store.name).set(store.entries)
            if store.bytes is not None:
                self._bytes.labels(store.name).set(store.bytes)
        self._dropped.set(status.log_dropped)
        self._healthy.set(status.state_kept)
        self._followers.set(status.followers)
        self._started.set(status.started)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


def load() -> Metrics | None:
    """Return the metrics of a new gateway, None when the extra is not installed."""
    return Metrics() if find_spec("prometheus_client") is not None else None


async def serve(gateway: "Gateway", inbound: "Inbound") -> web.StreamResponse:
    """GET /metrics; 501 in words when the extra is not installed."""
    from gateway.admin import PRIVATE, snapshot

    metrics = gateway.watchers.metrics
    if metrics is None:
        return web.Response(status=501, text=ABSENT, headers=PRIVATE)
    text, kind = metrics.render(snapshot(gateway))
    return web.Response(body=text, headers={"content-type": kind, **PRIVATE})
