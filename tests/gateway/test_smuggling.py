"""Malformed and ambiguous requests end their connection, say nothing, and hide no second request (S14, S01)."""

import json

import pytest

from tests.gateway.live import config, provider, running
from tests.gateway.smuggling import CANARY, MALFORMED
from tests.gateway.wire import JSON, KEY, LOCAL, head, talk


@pytest.mark.promise("S14")
@pytest.mark.parametrize("name", MALFORMED)
async def test_an_ambiguous_request_is_a_400(name):
    """The connection is over with it, so what follows is not taken for another request."""
    second = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        answer = await talk(live.url, MALFORMED[name] + second)
    assert (400, b"bad request\n", 1) == (answer.status, answer.body, answer.raw.count(b"HTTP/1"))


@pytest.mark.promise("S01")
async def test_a_malformed_line_is_never_echoed():
    """aiohttp puts the line into its answer and its log; ours have neither the line nor the parser's words."""
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        raw = b"".join([(await talk(live.url, data)).raw for data in MALFORMED.values()])
        records = await live.records(len(MALFORMED))
        log = live.out.getvalue()
    assert CANARY.encode() not in raw
    assert CANARY not in log
    assert b"header" not in raw.lower()
    assert {"client_error"} == {record["outcome"] for record in records}
    assert {"event", "ts", "request_id", "status", "outcome", "error_kind", "duration_ms"} == set().union(*records)
    assert {"request", "library"} >= {json.loads(line)["event"] for line in log.splitlines()}


@pytest.mark.promise("S14")
async def test_pipelined_requests_are_answered_in_order():
    """Two proper requests in one packet are two requests."""
    one = head("GET /livez", LOCAL)
    two = head("GET /nothing", LOCAL, KEY, ("connection", "close"))
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        answer = await talk(live.url, one + two)
    assert [b"200", b"404"] == [part[:3] for part in answer.raw.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.promise("S14")
async def test_a_refused_body_is_no_request():
    """What was meant as the body of a refused request is read away, not served."""
    hidden = head("GET /livez", LOCAL)
    length = ("content-length", str(len(hidden)))
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        answer = await talk(live.url, head("POST /v1/messages", LOCAL, JSON, length, ("connection", "close")) + hidden)
    assert 1 == answer.raw.count(b"HTTP/1.1")
    assert 401 == answer.status
