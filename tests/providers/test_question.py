"""A question for a status: one GET, no redirect followed, and failures in our words."""

import aiohttp
import pytest
from yarl import URL

from providers.api import Unreachable
from providers.question import status_of
from tests.upstream import End, Head, Upstream, closed_port, reply_json


async def test_the_status_is_all_that_is_read():
    """The headers are those that were given; a redirect is an answer like any other."""
    moved = [Head(302, [("location", "/elsewhere"), ("content-length", "0")])]
    async with Upstream([reply_json({"a": 1}, 403), moved]) as upstream, aiohttp.ClientSession() as session:
        url = URL(upstream.url + "/v1/models")
        assert 403 == await status_of(session, url, {"x-key": "k"})
        assert 302 == await status_of(session, url, {})
        assert [("GET", "/v1/models")] * 2 == [(request.method, request.path) for request in upstream.requests]
        assert "k" == upstream.requests[0].header("x-key")


async def test_failures_are_unreachable():
    """Refused, and too slow; without the address."""
    port = closed_port()
    async with aiohttp.ClientSession() as session:
        with pytest.raises(Unreachable) as refused:
            await status_of(session, URL(f"http://127.0.0.1:{port}/"), {})
    assert "the upstream refuses connections" == refused.value.fault.message
    limit = aiohttp.ClientTimeout(total=0.1)
    async with Upstream([[End.STALL]]) as upstream, aiohttp.ClientSession(timeout=limit) as session:
        with pytest.raises(Unreachable) as slow:
            await status_of(session, URL(upstream.url), {})
    assert ("timeout", "the upstream did not answer in time") == (slow.value.fault.kind, slow.value.fault.message)
