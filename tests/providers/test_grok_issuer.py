"""The issuer over HTTP: where tokens are asked for, how often, and what its answers mean."""

import aiohttp
import pytest

from providers import grok_issuer
from providers.grok_issuer import Declined, Issuer
from tests.upstream import End, Head, Upstream, reply_json

FORM = {"grant_type": "refresh_token", "refresh_token": "r"}


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(grok_issuer, "PAUSE_S", (0, 0))


def issuer(session, url, **more) -> Issuer:
    return Issuer(lambda: session, url, agent="test", wall=lambda: 1000.0, **more)


async def test_discovered_endpoint_is_asked_for_once(session):
    """The endpoint is discovered and then known for an hour; a login's own goes before."""
    async with Upstream() as upstream:
        upstream.play([reply_json({"token_endpoint": f"{upstream.url}/t"})])
        source = issuer(session, upstream.url + "/")
        for _ in range(2):
            assert f"{upstream.url}/t" == await source.endpoint("token_endpoint", "/oauth2/token")
        own = f"{upstream.url}/own"
        assert own == await source.endpoint("token_endpoint", "/oauth2/token", own)
        assert ["/.well-known/openid-configuration"] == [request.path for request in upstream.requests]


TEXT = [Head(headers=[("content-length", "4")]), b"<ht>"]


@pytest.mark.parametrize("reply", [reply_json({}, 404), reply_json([]), TEXT, [End.RESET]])
async def test_usual_path_without_discovery(session, reply):
    """An issuer that tells nothing has its endpoint at the usual path."""
    async with Upstream([reply] * 3) as upstream:
        found = await issuer(session, upstream.url).endpoint("token_endpoint", "/oauth2/token")
        assert f"{upstream.url}/oauth2/token" == found


@pytest.mark.promise("S01")
async def test_foreign_endpoints_are_refused(session):
    """A discovery document or issuer that would carry the token elsewhere is not followed."""
    for address in ("http://evil/", "https://evil.example/t", 7):
        async with Upstream([reply_json({"token_endpoint": address})]) as upstream:
            with pytest.raises(Declined, match="may not be sent"):
                await issuer(session, upstream.url).endpoint("token_endpoint", "/oauth2/token")
    with pytest.raises(Declined, match="not one that"):
        await issuer(session, "https://evil.example").endpoint("token_endpoint", "/oauth2/token")


async def test_tokens(session):
    """The answer's tokens and life are taken; what is left out has its usual value."""
    full = {"access_token": "a", "refresh_token": "b", "expires_in": 60}
    async with Upstream([reply_json(full), reply_json({"access_token": "a", "expires_in": -1})]) as upstream:
        source = issuer(session, upstream.url)
        first = await source.tokens(f"{upstream.url}/t", FORM)
        second = await source.tokens(f"{upstream.url}/t", FORM)
        sent = upstream.requests[0]
    assert ("a", "b", 1060) == (first.access.reveal(), first.refresh.reveal(), first.expires_at)
    assert (None, 4600) == (second.refresh, second.expires_at)
    assert (b"grant_type=refresh_token&refresh_token=r", "test") == (sent.body, sent.header("user-agent"))


@pytest.mark.parametrize(
    ("status", "told", "terminal", "words"),
    [
        (400, {"error": "invalid_grant"}, True, "invalid_grant"),
        (401, {"error": "invalid_client"}, True, "invalid_client"),
        (400, {"error": "x", "error_description": "Refresh token has been revoked"}, True, "(x)"),
        (400, {"error": "authorization_pending"}, False, "authorization_pending"),
        (429, {"error": "not a word <b>"}, False, "HTTP 429"),
        (302, {}, False, "HTTP 302"),
        (200, {"access_token": ""}, False, "HTTP 200"),
    ],
)
async def test_declined(session, status, told, terminal, words):
    """Some answers end a login for good, others may be over soon; the issuer's own text is never repeated."""
    async with Upstream([reply_json(told, status)]) as upstream:
        with pytest.raises(Declined) as declined:
            await issuer(session, upstream.url).tokens(f"{upstream.url}/t", FORM)
        assert 1 == len(upstream.requests)
    assert (terminal, told.get("error", "")) == (declined.value.terminal, declined.value.code)
    assert words in str(declined.value)
    assert "<b>" not in str(declined.value)


async def test_passing_failures_are_tried_again(session):
    """Network errors and 5xx are tried three times in all."""
    good = reply_json({"access_token": "a"})
    async with Upstream([[End.RESET], reply_json({}, 503), good]) as upstream:
        assert "a" == (await issuer(session, upstream.url).tokens(f"{upstream.url}/t", FORM)).access.reveal()
    async with Upstream([reply_json({}, 500)] * 4) as upstream:
        with pytest.raises(Declined, match="cannot be reached") as declined:
            await issuer(session, upstream.url).tokens(f"{upstream.url}/t", FORM)
        assert 3 == len(upstream.requests)
    assert not declined.value.terminal
