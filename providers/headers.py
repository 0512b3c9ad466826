"""Which headers cross the gateway: built from allow-lists in both directions, never copied (S10, S11).

Names come out in lower case. The same table of owned names tells what the config cannot set.
"""

import re
from collections.abc import Container, Iterable, Mapping

__all__ = ["HOP_BY_HOP", "OWNED", "client_headers", "owned", "upstream_headers", "usable_value"]

HOP_BY_HOP = frozenset(
    {
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
"""They speak about one connection (RFC 9110 section 7.6.1), and we are two."""

OWNED = HOP_BY_HOP | {
    # credentials and state
    "authorization",
    "cookie",
    "cookie2",
    "set-cookie",
    "www-authenticate",
    "x-api-key",
    # framing and content: they follow from the body that we send and the reply that we can read
    "accept",
    "accept-encoding",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "range",
    # where a request came from
    "forwarded",
    "origin",
    "via",
    "x-real-ip",
    # ids that name one request or session
    "request-id",
    "x-request-id",
    "x-task-id",
}
"""Only the gateway and its plugins set these; neither a client nor the config can."""

OWNED_PREFIXES = ("proxy-", "sec-", "x-dragoman-", "x-forwarded-", "x-gateway-")

DOWN = frozenset({"content-type", "retry-after", "retry-after-ms"})
"""All that an upstream may say to a client in headers; rate limit headers would describe a pooled key."""

_UNUSABLE = re.compile(r"[^\t\x20-\x7e]")


def owned(name: str) -> bool:
    """Return whether only the gateway may set a header; an underscore counts as the hyphen some servers make of it."""
    plain = name.lower().replace("_", "-")
    return plain in OWNED or plain.startswith(OWNED_PREFIXES)


def usable_value(value: str) -> bool:
    """Return whether a value is printable ASCII, which every server reads alike and JSON can hold."""
    return _UNUSABLE.search(value) is None


def upstream_headers(
    client_headers: Mapping[str, str] | Iterable[tuple[str, str]],
    allowed: Container[str],
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Return the headers of an upstream request: allowed ones of the client's, then `extra`, which wins.

    `allowed` holds lower-case names. An owned name never comes from the client, even when it is allowed, nor does
    one that its Connection header names. Repeated headers are joined in order; values that are not printable
    ASCII are left out.
    """
    pairs = [(name.lower(), value) for name, value in _pairs(client_headers)]
    dropped = {token.strip().lower() for name, value in pairs if name == "connection" for token in value.split(",")}
    made: dict[str, str] = {}
    for name, value in pairs:
        if name in allowed and name not in dropped and not owned(name) and usable_value(value):
            made[name] = f"{made[name]}, {value}" if name in made else value
    made.update({name.lower(): value for name, value in extra.items()})
    return made


def client_headers(upstream_headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers of an upstream reply that its client may see; the first of a repeated name counts."""
    made: dict[str, str] = {}
    for name, value in _pairs(upstream_headers):
        if name.lower() in DOWN and usable_value(value):
            made.setdefault(name.lower(), value)
    return made


def _pairs(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    # A multidict is a Mapping whose items() repeats names, so both kinds come out complete.
    return headers.items() if isinstance(headers, Mapping) else headers
