"""Headers cross the gateway by allow-list only, in both directions."""

import pytest
from multidict import CIMultiDict

from providers.headers import HOP_BY_HOP, OWNED, client_headers, owned, upstream_headers, usable_value

NEVER_UP = [
    *sorted(OWNED),
    "Authorization",
    "X-API-Key",
    "x_api_key",
    "Proxy-Anything",
    "X-Forwarded-For",
    "x-forwarded-prefix",
    "X_Forwarded_Host",
    "X-Gateway-Admin",
    "x-dragoman-tenant",
    "Sec-WebSocket-Key",
]


@pytest.mark.promise("S10")
@pytest.mark.parametrize("name", NEVER_UP)
def test_an_owned_name_never_comes_from_the_client(name):
    """An owned header of the client stays behind even where a plugin lists it as allowed."""
    assert owned(name)
    assert {} == upstream_headers({name: "canary"}, {name.lower()}, {})


@pytest.mark.promise("S10")
def test_what_is_not_allowed_stays_behind():
    """Only names on the allow-list are taken from the client."""
    sent = {"Anthropic-Version": "2023-06-01", "X-Secret": "canary", "User-Agent": "agent/1"}
    assert {"anthropic-version": "2023-06-01"} == upstream_headers(sent, ("anthropic-version",), {})


@pytest.mark.promise("S10")
@pytest.mark.parametrize("connection", ["x-trick", "close, X-Trick", "X-TRICK ,keep-alive"])
def test_headers_named_by_connection_are_hop_by_hop(connection):
    """A header that the client's Connection header names is not forwarded."""
    sent = [("X-Trick", "canary"), ("Connection", connection), ("x-kept", "1")]
    assert {"x-kept": "1"} == upstream_headers(sent, {"x-trick", "x-kept"}, {})


@pytest.mark.promise("S10")
@pytest.mark.parametrize("value", ["a\r\nx-api-key: canary", "a\nb", "nul\x00", "\x1b[2J", "\udc80", "\u00e9"])
def test_values_that_could_break_out_stay_behind(value):
    """A value that is not printable ASCII is left out."""
    assert not usable_value(value)
    assert {} == upstream_headers({"anthropic-beta": value}, {"anthropic-beta"}, {})
    assert {} == client_headers({"retry-after": value})


def test_repeated_headers_are_joined_in_order():
    """A list header that was sent in several lines keeps all its members."""
    sent = CIMultiDict([("anthropic-beta", "a"), ("Anthropic-Beta", "b,c")])
    assert {"anthropic-beta": "a, b,c"} == upstream_headers(sent, {"anthropic-beta"}, {})


def test_extra_headers_win():
    """What the gateway sets replaces what the client sent, and may be an owned name."""
    extra = {"Content-Type": "application/json", "anthropic-version": "ours"}
    made = upstream_headers({"anthropic-version": "theirs"}, {"anthropic-version"}, extra)
    assert {"content-type": "application/json", "anthropic-version": "ours"} == made


@pytest.mark.promise("S11")
def test_only_listed_headers_go_down():
    """Cookies, server names, CORS, rate limits of the pool and hop-by-hop headers end here."""
    sent = CIMultiDict(
        [
            ("Content-Type", "text/event-stream"),
            ("Retry-After", "7"),
            ("retry-after", "8"),
            ("retry-after-ms", "7000"),
            ("Set-Cookie", "canary"),
            ("Server", "canary"),
            ("x-request-id", "canary"),
            ("access-control-allow-origin", "*"),
            ("x-ratelimit-remaining-requests", "1"),
            ("anthropic-ratelimit-tokens-reset", "1"),
            ("Location", "https://elsewhere.example"),
            *((name, "canary") for name in sorted(HOP_BY_HOP)),
        ]
    )
    wanted = {"content-type": "text/event-stream", "retry-after": "7", "retry-after-ms": "7000"}
    assert wanted == client_headers(sent)
    assert wanted == client_headers(list(sent.items()))


def test_names_that_config_may_set_are_not_owned():
    """Ordinary headers, such as the user agent, are free."""
    assert [False] * 4 == [owned(name) for name in ("User-Agent", "http-referer", "x-title", "anthropic-beta")]
