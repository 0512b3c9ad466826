"""OpenTelemetry traces, with the extra `otel` and the standard OTEL_EXPORTER_OTLP_ENDPOINT set: one span a request.

Names, counts and times only (S32). The client's `traceparent` is the span's parent, and the upstream request carries
the span's own; `tracestate` is free text of a client and goes nowhere. GenAI attribute names are still "Development"
upstream, so all of them stand in one table.
"""

import asyncio
import os
from collections.abc import Mapping
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gateway.record import Record
from providers.identity import VERSION
from providers.transport import TRACEPARENT

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

__all__ = ["ATTRIBUTES", "Traces", "load"]

CLOSE_S = 2.0
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

ATTRIBUTES = {
    "request_id": "dragoman.request_id",
    "client": "dragoman.client",
    "dialect": "dragoman.dialect",
    "outcome": "dragoman.outcome",
    "attempts": "dragoman.attempts",
    "failovers": "dragoman.failovers",
    "key": "dragoman.key",
    "overhead_ms": "dragoman.overhead_ms",
    "first_meaning_ms": "dragoman.first_meaning_ms",
    "cost_usd": "dragoman.cost_usd",
    "provider": "gen_ai.provider.name",
    "upstream_model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "status": "http.response.status_code",
    "error_kind": "error.type",
}
"""Record field to attribute name."""

_current: ContextVar["Span | None"] = ContextVar("dragoman_span", default=None)


class Traces:
    """Spans of one gateway."""

    def __init__(self, processor: "SpanProcessor") -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        name = os.environ.get("OTEL_SERVICE_NAME", "dragoman")
        resource = Resource.create({"service.name": name, "service.version": VERSION})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("dragoman", VERSION)
        self._wire = TraceContextTextMapPropagator()

    def begin(self, headers: Mapping[str, str]) -> None:
        """Start the span of the request that this task carries."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        parent = self._wire.extract({"traceparent": headers.get("traceparent", "")})
        span = self._tracer.start_span("chat", context=parent, kind=SpanKind.SERVER)
        carrier: dict[str, str] = {}
        self._wire.inject(carrier, set_span_in_context(span))
        _current.set(span)
        TRACEPARENT.set(carrier.get("traceparent", ""))

    def end(self, record: Record, pattern: str) -> None:
        """End the span of the request that this task carried, with what its record says."""
        from opentelemetry.trace import Status, StatusCode

        span = _current.get()
        if span is None:
            return
        _current.set(None)
        TRACEPARENT.set("")
        attributes: dict[str, Any] = {
            name: value for field, name in ATTRIBUTES.items() if (value := getattr(record, field)) is not None
        }
        attributes["gen_ai.operation.name"] = "chat"
        if pattern:
            attributes["gen_ai.request.model"] = pattern
            span.update_name(f"chat {pattern}")
        span.set_attributes(attributes)
        if record.outcome not in ("complete", "incomplete"):
            span.set_status(Status(StatusCode.ERROR, record.outcome))
        span.end()

    async def close(self) -> None:
        """Send what is queued, within CLOSE_S seconds."""
        try:
            await asyncio.wait_for(asyncio.to_thread(self._provider.shutdown), CLOSE_S)
        except TimeoutError:
            return


def load(environ: Mapping[str, str] = os.environ) -> Traces | None:
    """Return traces where the environment names a collector and the extra is installed."""
    wanted = any(environ.get(name) for name in ENDPOINTS) and environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
    if not wanted or find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # Its queue is bounded and its thread its own: a collector that is down costs spans, never a request.
    return Traces(BatchSpanProcessor(OTLPSpanExporter()))
