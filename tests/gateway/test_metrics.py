"""`/metrics`: the series, where their labels come from, and the gateway without the extra."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway import metrics
from gateway.config import Model, Route
from gateway.metrics import Metrics
from gateway.record import OUTCOMES, Record
from tests.gateway.live import PATHS, config, provider, running
from tests.streams import Say, Turn, chat
from tests.upstream import Upstream, closed_port, reply_json, sse

TURN = Turn([Say("Good morning, all.")])
DEAD = f"http://127.0.0.1:{closed_port()}"


async def scrape(live) -> dict[tuple[str, frozenset], float]:
    """Every sample by name and labels."""
    reply = await live.ask("GET", "/metrics")
    assert 200 == reply.status
    assert reply.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(reply.body.decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def labels(**names: str) -> frozenset:
    return frozenset(names.items())


async def test_an_answered_request_is_counted():
    """Request, stream end, tokens, times, keys and stores of one stream."""
    async with Upstream([sse(chat(TURN))]) as upstream, running(config(provider(upstream.url))) as live:
        await live.send("messages")
        await live.records()
        found = await scrape(live)
    by = {"dialect": "messages", "alias": "m1", "provider": "up"}
    assert 1 == found["dragoman_requests_total", labels(**by, outcome="complete")]
    assert 1 == found["dragoman_stream_ends_total", labels(dialect="messages", reason="complete")]
    tokens = {
        kind: found["dragoman_tokens_total", labels(alias="m1", provider="up", kind=kind)]
        for kind in ("input", "cached", "output", "reasoning")
    }
    assert {"input": 11, "cached": 3, "output": 7, "reasoning": 2} == tokens
    assert 1 == found["dragoman_duration_seconds_count", labels(**by)]
    assert 1 == found["dragoman_first_meaning_seconds_count", labels(**by)]
    assert 1 == found["dragoman_overhead_seconds_count", labels(dialect="messages")]
    assert 1 == found["dragoman_keys", labels(provider="up", state="healthy")]
    assert 0 == found["dragoman_in_flight", labels(dialect="messages")]
    assert (0, 1) == (found["dragoman_log_dropped", labels()], found["dragoman_state_kept", labels()])
    assert found["dragoman_start_time_seconds", labels()] > 1e9
    assert {"replay", "shadow", "feed"} <= {
        dict(name)["store"] for series, name in found if series == "dragoman_store_entries"
    }


async def test_a_resting_key_is_counted_by_its_state():
    """Gauges follow the pool; a state that no key has any more is gone."""
    limited = reply_json({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, 429)
    async with Upstream([limited]) as upstream, running(config(provider(upstream.url))) as live:
        before = await scrape(live)
        await live.send("chat")
        await live.records()
        after = await scrape(live)
    healthy, cooling = (("dragoman_keys", labels(provider="up", state=state)) for state in ("healthy", "cooling"))
    assert (1, None) == (before.get(healthy), before.get(cooling))
    assert (None, 1) == (after.get(healthy), after.get(cooling))
    assert (
        1 == after["dragoman_requests_total", labels(dialect="chat", alias="m1", provider="up", outcome="rate_limited")]
    )


@pytest.mark.promise("S33", "S24")
async def test_no_client_adds_a_series():
    """Hundreds of model names, user agents and ids leave as many series as one, and none of them in a label."""
    models = {"m1": Model(routes=(Route("up", "up-m"),)), "canary-*": Model(routes=(Route("up"),))}
    async with running(config(provider(DEAD), models=models)) as live:
        for dialect in PATHS:
            await live.send(dialect, model="canary-0")
            await live.send(dialect, model="nobody-0")
        before = set(await scrape(live))
        for number in range(1, 60):
            for name in ("canary", "nobody"):
                headers = {"user-agent": f"canary-agent-{number}", "x-request-id": f"canary-id-{number}"}
                await live.send("chat", model=f"{name}-{number}", headers=headers)
        after = set(await scrape(live))
    assert before == after
    values = {value for _, names in after for _, value in names}
    assert {"canary-*"} == {value for value in values if "canary" in value}
    assert not [value for value in values if "nobody" in value]


def test_every_outcome_has_its_series():
    """What ended a stream is told apart."""
    found = Metrics()
    for outcome in OUTCOMES:
        found.count(Record(dialect="chat", stream=True, outcome=outcome), "")
    samples = [
        s for family in found.registry.collect() for s in family.samples if s.name == "dragoman_stream_ends_total"
    ]
    assert dict.fromkeys(OUTCOMES, 1) == {s.labels["reason"]: s.value for s in samples}


def test_costs_are_summed_and_never_fall():
    """A counter that falls would be an error of the library; an upstream's negative cost is none of ours."""
    found = Metrics()
    for cost in (0.25, 0.5, -3.0):
        found.count(Record(dialect="chat", provider="up", outcome="complete", cost_usd=cost), "m1")
    assert 0.75 == found.registry.get_sample_value("dragoman_cost_usd_total", {"alias": "m1", "provider": "up"})


async def test_without_the_extra_it_says_what_to_install(monkeypatch):
    """501 and the command, and everything else works."""
    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    async with Upstream([sse(chat(TURN))]) as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.ask("GET", "/metrics")
        assert 200 == (await live.send("chat")).status
    assert 501 == reply.status
    assert b"dragoman-gateway[metrics]" in reply.body


async def test_names_follow_the_conventions():
    """One prefix, base units, and help for each."""
    async with running(config(provider(DEAD))) as live:
        text = (await live.ask("GET", "/metrics")).body.decode()
    names = re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE)
    assert names
    assert [] == [name for name, told in names if not name.startswith("dragoman_") or not told.strip()]
