"""What crosses the gateway in headers, both ways, as raw bytes on the other side (S10, S11, S12)."""

import json

import msgspec
import pytest

from tests.gateway.live import CLIENT_KEY, PATHS, config, provider, request, running
from tests.gateway.wire import JSON, KEY, LOCAL, head, talk, whole
from tests.streams import STREAM, WHOLE, Say, Turn
from tests.upstream import Upstream, reply_json, sse

TURN = Turn([Say("It is warm.")])
FOREIGN = [
    ("cookie", "tenant=a"),
    ("proxy-authorization", "Basic c2VjcmV0"),
    ("te", "trailers"),
    ("trailer", "x-late"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "keep-alive"),
    ("forwarded", "for=10.0.0.1"),
    ("x-forwarded-for", "10.0.0.1"),
    ("x-forwarded-host", "evil.example"),
    ("x-real-ip", "10.0.0.1"),
    ("via", "1.1 evil"),
    ("origin", "http://localhost"),
    ("referer", "http://localhost/"),
    ("sec-fetch-mode", "cors"),
    ("user-agent", "spoof/1.0"),
    ("accept", "text/html"),
    ("accept-encoding", "br"),
    ("expect", "nothing"),
    ("range", "bytes=0-1"),
    ("x-request-id", "client-id"),
    ("x-gateway-route", "elsewhere"),
    ("x-dragoman-provider", "other"),
    ("x-secret", "canary-named-in-connection"),
    ("x_api_key", "canary-underscore"),
    ("x-goog-api-key", "canary-goog"),
    ("api-key", "canary-azure"),
    ("openai-organization", "canary-organization"),
    ("anthropic-dangerous-direct-browser-access", "true"),
    ("anthropic_version", "canary-underscore"),
    ("x-stainless-lang", "js"),
    ("x-bytes", "caf\xe9"),
]
CONNECTION = ("connection", "close, x-secret, authorization, anthropic-version, openai-beta")
every_pair = pytest.mark.parametrize(("client", "up"), [(client, up) for client in PATHS for up in PATHS])


@every_pair
@pytest.mark.promise("S10")
async def test_headers_up_are_built_and_not_copied(client, up):
    """Of everything that a client can send nothing arrives but its body: the whole list of names is ours."""
    async with Upstream([sse(STREAM[up](TURN))]) as upstream, running(config(provider(upstream.url, up))) as live:
        body = json.dumps(request(client)).encode()
        length = ("content-length", str(len(body)))
        sent = (
            head(f"POST {PATHS[client]}", LOCAL, CONNECTION, length, KEY, JSON, ("x-api-key", CLIENT_KEY), *FOREIGN)
            + body
        )
        answer = await talk(live.url, sent)
        [received] = upstream.requests
    assert 200 == answer.status
    names = [name.lower() for name, _ in received.headers]
    credential = "x-api-key" if up == "messages" else "authorization"
    fixed = {"host", "content-type", "accept", "accept-encoding", "user-agent", "content-length", credential}
    assert fixed | ({"anthropic-version"} if up == "messages" else set()) == set(names)
    assert len(names) == len(set(names))
    values = " ".join(value for _, value in received.headers)
    assert not [
        word for word in ("canary", "spoof", "evil", CLIENT_KEY, "tenant=a", "10.0.0.1", "br") if word in values.split()
    ]
    assert "upstream-key-0001" in received.header(credential)
    assert upstream.url.removeprefix("http://") == received.header("host")
    assert str(len(received.body)) == received.header("content-length")


@pytest.mark.promise("S10")
@pytest.mark.parametrize(
    ("dialect", "name"), [("messages", "anthropic-version"), ("messages", "anthropic-beta"), ("chat", "openai-beta")]
)
@pytest.mark.parametrize(("named", "passes"), [(False, True), (True, False)])
async def test_the_allow_list_passes_to_the_same_dialect(dialect, name, named, passes):
    """A few headers of a protocol reach an upstream of that protocol, unless Connection names them."""
    async with (
        Upstream([sse(STREAM[dialect](TURN))]) as upstream,
        running(config(provider(upstream.url, dialect))) as live,
    ):
        body = json.dumps(request(dialect)).encode()
        connection = ("connection", f"close, {name}" if named else "close")
        length = ("content-length", str(len(body)))
        sent = head(f"POST {PATHS[dialect]}", LOCAL, connection, length, KEY, JSON, (name, "flag-2099-01-01")) + body
        await talk(live.url, sent)
    assert passes == ("flag-2099-01-01" == upstream.requests[0].header(name))


UP_HEADERS = [
    ("set-cookie", "session=canary; Path=/"),
    ("set-cookie2", "a=canary"),
    ("server", "canary-server"),
    ("x-powered-by", "canary"),
    ("x-ratelimit-limit-requests", "canary"),
    ("x-ratelimit-remaining-tokens", "canary"),
    ("anthropic-ratelimit-tokens-remaining", "canary"),
    ("x-request-id", "canary-upstream-id"),
    ("request-id", "canary-upstream-id"),
    ("anthropic-organization-id", "canary"),
    ("openai-organization", "canary"),
    ("access-control-allow-origin", "*"),
    ("strict-transport-security", "max-age=1"),
    ("alt-svc", 'h3="canary"'),
    ("link", "<http://canary>; rel=preload"),
    ("location", "http://canary/"),
    ("www-authenticate", 'Bearer realm="canary"'),
    ("via", "canary"),
    ("x-secret", "canary"),
]
DOWN = {"content-type", "date", "server", "x-request-id", "request-id", "content-length", "transfer-encoding",
        "cache-control", "x-accel-buffering", "connection"}  # fmt: skip


@every_pair
@pytest.mark.promise("S11")
@pytest.mark.parametrize("kind", ["stream", "whole", "error", "limited"])
async def test_headers_down_are_an_allow_list(client, up, kind):
    """Whatever an upstream sets, its clients see type, our ids and the time to wait."""
    answer = {
        "stream": sse(STREAM[up](TURN), headers=UP_HEADERS),
        "whole": reply_json(WHOLE[up](TURN), headers=UP_HEADERS),
        "error": reply_json({"error": {"message": "no"}}, 400, headers=UP_HEADERS),
        "limited": reply_json({"error": {"message": "no"}}, 429, headers=[*UP_HEADERS, ("retry-after", "7")]),
    }[kind]
    async with Upstream([answer]) as upstream, running(config(provider(upstream.url, up))) as live:
        body = json.dumps(request(client, stream=kind == "stream")).encode()
        got = await talk(live.url, whole(f"POST {PATHS[client]}", body, KEY, JSON))
    assert {name for name, _ in got.headers} <= DOWN | ({"retry-after"} if kind == "limited" else set())
    assert b"canary" not in got.raw.partition(b"\r\n\r\n")[0]
    if kind == "limited":
        assert "7" == got.header("retry-after")


@pytest.mark.promise("S11")
async def test_one_tenants_cookie_never_goes_out_with_another():
    """The upstream sets one, and the next request does not have it."""
    first = sse(STREAM["chat"](TURN), headers=[("set-cookie", "tenant=a; Path=/")])
    async with (
        Upstream([first, sse(STREAM["chat"](TURN))]) as upstream,
        running(config(provider(upstream.url))) as live,
    ):
        for _ in range(2):
            await live.send("chat")
        assert [None, None] == [one.header("cookie") for one in upstream.requests]


@pytest.mark.promise("S12")
@pytest.mark.parametrize("client", PATHS)
async def test_a_client_cannot_choose_where_it_goes(client):
    """What other gateways obey is here a header of no meaning, and a field for the configured upstream at most."""
    async with Upstream([sse(STREAM["chat"](TURN))] * 2) as upstream, Upstream() as other:
        async with running(config(provider(upstream.url))) as live:
            headers = dict.fromkeys(
                (
                    "x-base-url",
                    "x-portkey-custom-host",
                    "x-target-url",
                    "x-upstream",
                    "x-forwarded-host",
                    "helicone-target-url",
                ),
                other.url,
            )
            fields = dict.fromkeys(("api_base", "base_url", "custom_host", "endpoint", "url", "target"), other.url)
            by_header = await live.send(client, headers=headers)
            by_field = await live.send(client, **fields)
    assert 200 == by_header.status
    assert by_field.status in (200, 400)
    assert [] == other.requests


@pytest.mark.promise("S12")
async def test_a_redirect_is_an_error():
    """Following it would take the key to wherever it leads."""
    async with Upstream() as other:
        moved = reply_json({}, 307, headers=[("location", f"{other.url}/v1/chat/completions")])
        async with Upstream([moved]) as upstream, running(config(provider(upstream.url))) as live:
            reply = await live.send("chat")
    assert 502 == reply.status
    assert other.url.encode() not in reply.body
    assert [] == other.requests


@pytest.mark.promise("S12")
@pytest.mark.parametrize("client", PATHS)
async def test_addresses_of_images_are_data(client):
    """They are passed on, and never fetched here."""
    async with Upstream([sse(STREAM["responses"](TURN))]) as upstream, Upstream() as other:
        image = f"{other.url}/image.png"
        parts = {
            "chat": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}]},
            "responses": {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": image}]}]},
            "messages": {
                "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": image}}]}]
            },
        }[client]
        async with running(config(provider(upstream.url, "responses"))) as live:
            reply = await live.send(client, **parts)
        assert [] == other.requests
        if reply.status == 200:
            assert image.encode() in upstream.requests[0].body


@pytest.mark.promise("S12")
async def test_a_proxy_of_the_environment_sees_nothing(monkeypatch):
    """HTTP_PROXY is used only where `trust_env` says so."""
    async with Upstream() as proxy, Upstream([sse(STREAM["chat"](TURN))]) as upstream:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        async with running(config(provider(upstream.url))) as live:
            assert 200 == (await live.send("chat")).status
        assert [] == proxy.requests
        upstream.play([sse(STREAM["chat"](TURN))])
        trusting = msgspec.structs.replace(provider(upstream.url), trust_env=True)
        async with running(config(trusting)) as live:
            await live.send("chat")
        assert 1 == len(proxy.requests)
