"""The address of an upstream, as the config gives it: checked once, trimmed to its version path (S12)."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from gateway.config import is_loopback

__all__ = ["Unfit", "base_url"]

ENDPOINTS = ("/chat/completions", "/responses", "/messages")
"""What people copy along from documentation. Not /models: one vendor's base address ends so."""

_ODD = re.compile(r"[^\x21-\x7e]|\\")


class Unfit(NamedTuple):
    """Why an address cannot be used, and how to mend it; never the address, which may hold a password."""

    what: str
    mend: str


def base_url(text: str, *, allow_http: bool = False) -> str | Unfit:
    """Return an address up to and including its version path, without a trailing slash."""
    if _ODD.search(text):
        return Unfit("holds characters that an address cannot have", "write spaces as %20 and host names in punycode")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # both are parsed, and refused, on access
    except ValueError:
        return Unfit("has a host or port that is not valid", "write https://HOST:PORT/v1")
    if parts.scheme not in {"http", "https"} or not host:
        return Unfit("is not an http address", "write https://HOST/v1")
    if "@" in parts.netloc:
        return Unfit("holds a user name or password", 'put it under keys, as value = { env = "NAME" }')
    if "?" in text or "#" in text:
        return Unfit("holds a query or fragment", "end the address with its version path, such as /v1")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        return Unfit("would send keys unencrypted", "use https, or set allow_http = true for a network that you trust")
    return f"{parts.scheme}://{parts.netloc.lower()}{_trimmed(parts.path)}"


def _trimmed(path: str) -> str:
    path = path.rstrip("/")
    for endpoint in ENDPOINTS:
        if path.endswith(endpoint):
            return path.removesuffix(endpoint).rstrip("/")
    return path
