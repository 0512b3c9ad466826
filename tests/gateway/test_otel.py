"""Traces: one span a request, its attributes, and the trace context on both wires."""

import json

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from gateway import otel
from gateway.otel import ATTRIBUTES, Traces, load
from gateway.record import Record
from tests.gateway.live import PATHS, config, provider, running
from tests.streams import Call, Say, Think, Turn, chat
from tests.upstream import Upstream, reply_json, sse

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TURN = Turn([Think("canary-thought"), Say("canary-text"), Call("canary_tool", '{"file": "canary.py"}')])


@pytest.fixture
def spans(monkeypatch) -> InMemorySpanExporter:
    """The spans of every gateway that the test starts."""
    exporter = InMemorySpanExporter()
    monkeypatch.setattr("gateway.watchers.load_traces", lambda: Traces(SimpleSpanProcessor(exporter)))
    return exporter


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_request_is_one_span(spans, dialect):
    """Names and counts under the names of the GenAI conventions, from begin to end."""
    async with Upstream([sse(chat(TURN))]) as upstream, running(config(provider(upstream.url))) as live:
        await live.send(dialect)
        await live.records()
        [span] = spans.get_finished_spans()
    assert ("chat m1", SpanKind.SERVER, None) == (span.name, span.kind, span.parent)
    attributes = dict(span.attributes)
    assert ("chat", "m1", "up", "up-m", 11, 7, 200) == tuple(
        attributes[name]
        for name in (
            "gen_ai.operation.name",
            "gen_ai.request.model",
            "gen_ai.provider.name",
            "gen_ai.response.model",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "http.response.status_code",
        )
    )
    assert "complete" == attributes["dragoman.outcome"]
    assert StatusCode.UNSET == span.status.status_code
    assert span.end_time > span.start_time


async def test_the_trace_goes_on_upstream(spans):
    """The client's trace is the span's, the upstream gets the span as its parent, and nothing else of the client's."""
    async with Upstream([sse(chat(TURN))]) as upstream, running(config(provider(upstream.url))) as live:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=canary"}
        await live.send("chat", headers=headers)
        await live.records()
        [span] = spans.get_finished_spans()
        [sent] = upstream.requests
    assert (int(TRACE, 16), int(PARENT, 16)) == (span.context.trace_id, span.parent.span_id)
    assert f"00-{TRACE}-{span.context.span_id:016x}-01" == sent.header("traceparent")
    assert None is sent.header("tracestate")
    assert 0 == len(span.context.trace_state)


async def test_traces_do_not_mix_on_one_connection(spans):
    """Each request of a kept connection has a trace of its own, and one without leaves none behind."""
    async with Upstream([sse(chat(TURN))] * 2) as upstream, running(config(provider(upstream.url))) as live:
        await live.send("chat", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        await live.send("chat")
        await live.records(2)
        first, second = spans.get_finished_spans()
    assert first.context.trace_id != second.context.trace_id
    assert None is second.parent


@pytest.mark.parametrize("bad", ["nonsense", "00-0-0-01", f"ff-{TRACE}-{PARENT}-01", "x" * 5000])
async def test_a_broken_trace_context_begins_a_new_trace(spans, bad):
    """What a client sends there is checked before it goes anywhere."""
    async with Upstream([sse(chat(TURN))]) as upstream, running(config(provider(upstream.url))) as live:
        await live.send("chat", headers={"traceparent": bad})
        await live.records()
        [span] = spans.get_finished_spans()
        [sent] = upstream.requests
    assert None is span.parent
    assert bad not in (sent.header("traceparent") or "")


async def test_failures_and_refusals_are_errors(spans):
    """A span that did not end in an answer says so."""
    async with Upstream([reply_json({"error": {"message": "canary"}}, 500)]) as upstream:
        async with running(config(provider(upstream.url))) as live:
            await live.send("chat")
            await live.send("chat", key="wrong-key-0001")
            await live.records(2)
            failed, refused = spans.get_finished_spans()
    assert [StatusCode.ERROR] * 2 == [span.status.status_code for span in (failed, refused)]
    assert ("upstream_error", "client_error") == (failed.status.description, refused.status.description)
    assert ("chat m1", "chat") == (failed.name, refused.name)


@pytest.mark.promise("S32")
async def test_no_content_and_no_secret_is_in_a_span(spans):
    """Neither prompt, reasoning, output, tool, session nor keys."""
    async with Upstream([sse(chat(TURN))]) as upstream, running(config(provider(upstream.url))) as live:
        body = {
            "model": "m1",
            "stream": True,
            "user": "canary-user",
            "messages": [{"role": "user", "content": "canary"}],
        }
        await live.post("/v1/chat/completions", json.dumps(body).encode(), headers={"x-session-id": "canary-session"})
        await live.records()
    text = "".join(span.to_json() for span in spans.get_finished_spans())
    assert text
    assert not [word for word in ("canary", "upstream-key", "client-key") if word in text]


async def test_without_a_collector_there_are_no_traces():
    """No endpoint in the environment: nothing is imported, nothing is sent upstream."""
    assert None is load({})
    async with Upstream([sse(chat(TURN))]) as upstream, running(config(provider(upstream.url))) as live:
        await live.send("chat", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        [sent] = upstream.requests
    assert None is sent.header("traceparent")


def test_the_standard_switch_turns_them_off():
    """OTEL_SDK_DISABLED is obeyed."""
    assert None is load({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"})


def test_without_the_extra_there_are_none(monkeypatch):
    """A gateway without the packages serves without them."""
    monkeypatch.setattr(otel, "find_spec", lambda name: None)
    assert None is load({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})


async def test_spans_reach_a_collector(monkeypatch):
    """With the endpoint set, spans arrive there when the gateway closes at the latest."""
    async with Upstream([reply_json({})]) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        traces = load()
        assert traces is not None
        traces.begin({})
        traces.end(Record(outcome="complete"), "m1")
        traces.end(Record(outcome="complete"), "m1")  # without a begin there is nothing to end
        await traces.close()
        [sent] = await collector.received()
    assert "/v1/traces" == sent.path
    assert b"chat m1" in sent.body


async def test_a_silent_collector_does_not_hold_the_end_up(monkeypatch):
    """Closing waits CLOSE_S at most."""
    monkeypatch.setattr(otel, "CLOSE_S", 0.05)
    traces = Traces(SimpleSpanProcessor(InMemorySpanExporter()))

    def slow() -> None:
        import time

        time.sleep(0.3)

    monkeypatch.setattr(traces._provider, "shutdown", slow)
    await traces.close()


def test_attributes_name_fields_that_exist():
    """The one table of names follows the record."""
    assert set() == set(ATTRIBUTES) - set(Record.__struct_fields__)
