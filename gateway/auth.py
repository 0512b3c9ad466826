"""Who is asking, and from where: client keys by digest, the admin key, Host and Origin (S03, S04, S13).

Pure: headers in, a tenant or a Fault out. Keys are compared as SHA-256 digests in constant time, all of them
even after a match, so that neither the answer nor its timing tells how close a guess was.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec
from multidict import MultiMapping

from gateway.config import Client, is_loopback
from translators.fault import Fault

__all__ = ["ANYONE", "Tenant", "allowed_host", "allowed_origin", "authenticate", "is_admin", "key_of"]

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?\Z")


class Tenant(msgspec.Struct, frozen=True):
    """A client of this gateway: its name in the record, and what it may use."""

    name: str
    models: tuple[str, ...] = ("*",)
    requests_per_minute: int = 0
    max_concurrent: int = 0
    tokens_per_day: int = 0


ANYONE = Tenant("local")
"""The tenant of a gateway without configured clients, which serves loopback only (S06)."""


def _unauthorised(message: str) -> Fault:
    return Fault(kind="authentication", message=message, cause="client", code="invalid_api_key")


def key_of(headers: Mapping[str, str]) -> str | Fault | None:
    """Return the client key from `Authorization: Bearer` or `x-api-key`, None without one; two different ones: 401."""
    bearers = [value.partition(" ") for value in _all(headers, "authorization")]
    found = [token.strip() for scheme, _, token in bearers if scheme.lower() == "bearer"]
    found = [key for key in (*found, *map(str.strip, _all(headers, "x-api-key"))) if key]
    if any(not hmac.compare_digest(_digest(found[0]), _digest(key)) for key in found[1:]):
        return _unauthorised("authorization and x-api-key carry different keys; send one of them")
    return found[0] if found else None


def _all(headers: Mapping[str, str], name: str) -> Sequence[str]:
    """Return every value of a header, of which a multidict may have several."""
    if isinstance(headers, MultiMapping):
        return headers.getall(name, ())
    return (headers[name],) if name in headers else ()


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def authenticate(headers: Mapping[str, str], clients: tuple[Client, ...]) -> Tenant | Fault:
    """Return the tenant of a request's key; missing and wrong keys get the same 401."""
    key = key_of(headers)
    if isinstance(key, Fault):
        return key
    if not clients:
        return ANYONE
    digest = _digest(key or "")
    found: Client | None = None
    for client in clients:
        if hmac.compare_digest(digest, client.key_sha256):
            found = client
    if found is None or key is None:
        return _unauthorised("missing or invalid API key; send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")
    return Tenant(found.name, found.models, found.requests_per_minute, found.max_concurrent, found.tokens_per_day)


def is_admin(headers: Mapping[str, str], admin_sha256: str | None, *, loopback_peer: bool) -> bool:
    """Tell whether a request may read admin data: by the admin key, or from loopback where none is configured."""
    if admin_sha256 is None:
        return loopback_peer
    key = key_of(headers)
    return isinstance(key, str) and hmac.compare_digest(_digest(key), admin_sha256)


@lru_cache(maxsize=256)
def allowed_host(host: str, *, bound: tuple[str, ...], allowed: tuple[str, ...]) -> bool:
    """Tell whether a Host header is a loopback name, an address that we listen on, or configured."""
    match = _HOST.match(host)
    if match is None:
        return False
    name = match[1].lower()
    bare = name.removesuffix(".").strip("[]")
    return is_loopback(name) or bare in {known.lower().strip("[]") for known in (*bound, *allowed)}


def allowed_origin(origin: str, *, bound: tuple[str, ...], allowed: tuple[str, ...]) -> bool:
    """Tell whether a browser's Origin may drive this gateway; `null` and foreign pages may not."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and allowed_host(parts.netloc, bound=bound, allowed=allowed)
