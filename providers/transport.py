"""The only factory of HTTP client sessions, and the reply that all HTTP providers return.

Measured reasons for each setting are in docs/architecture.md: no total timeout, no connector limit, no
cookies across tenants, no redirects (they keep custom auth headers), no proxy environment unless configured.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar

import aiohttp
from yarl import URL

from providers.api import Unreachable
from translators.fault import Fault, broken

__all__ = ["ERRORS", "TRACEPARENT", "Reply", "new_session", "send"]

END_WAIT_S = 0.05
SLICE_BYTES = 512 * 1024
"""A larger body is written piece by piece, each once the one before it is on its way: others use the loop too."""
ERRORS = (aiohttp.ClientError, OSError, asyncio.IncompleteReadError)
"""What a broken connection raises while a body is read."""
TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""The W3C trace context of the request that this task carries, "" when nobody traces."""


def new_session(*, connect_s: float, trust_env: bool) -> aiohttp.ClientSession:
    """Return a session with explicit limits; `connect_s` bounds name look-up, TCP and TLS together."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=0, ttl_dns_cache=60, keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_s, sock_connect=connect_s, sock_read=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        trust_env=trust_env,
        # A line or header of the upstream may be long; bodies have limits of their own.
        max_line_size=64 * 1024,
        max_field_size=64 * 1024,
        read_bufsize=256 * 1024,
    )


class Reply:
    """An aiohttp client response as an Upstream."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers  # case-insensitive

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, decompressed."""
        return self._response.content.iter_any()

    async def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes of the body."""
        parts: list[bytes] = []
        left = limit
        async for chunk in self._response.content.iter_any():
            parts.append(chunk[:left])
            left -= len(parts[-1])
            if left <= 0:
                break
        return b"".join(parts)

    def abort(self) -> None:
        """Close the connection at once."""
        self._response.close()

    async def release(self) -> None:
        """Give the connection back, waiting a moment for the end of a body whose terminal has been read."""
        content = self._response.content
        if not content.at_eof():
            try:
                async with asyncio.timeout(END_WAIT_S):
                    while await content.readany():
                        pass
            except (*ERRORS, TimeoutError):
                self._response.close()
            except asyncio.CancelledError:
                self._response.close()
                raise
        self._response.release()


async def send(session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str], body: bytes) -> Reply:
    """POST a body and return the reply once its headers are in; raises Unreachable for every transport error."""
    if trace := TRACEPARENT.get():
        headers = {**headers, "traceparent": trace}
    data: bytes | AsyncIterator[bytes] = body
    if len(body) > SLICE_BYTES:
        data, headers = _slices(body), {**headers, "content-length": str(len(body))}
    try:
        return Reply(await session.post(url, data=data, headers=headers, allow_redirects=False))
    except ERRORS as error:
        raise Unreachable(explain(error)) from None


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), SLICE_BYTES):
        yield body[at : at + SLICE_BYTES]


def timed_out(message: str) -> Fault:
    """Return the Fault of a wait that was too long (504)."""
    return Fault(kind="timeout", message=message, cause="stall")


def explain(error: Exception) -> Fault:
    """Say in our own words why a connection failed: exception texts contain addresses and headers (S02)."""
    if isinstance(error, TimeoutError):
        return timed_out("the upstream did not accept a connection in time")
    if isinstance(error, aiohttp.ClientConnectorDNSError) or isinstance(
        getattr(error, "os_error", None), socket.gaierror
    ):
        return broken("the upstream's name cannot be resolved", cause="upstream")
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return broken("no secure connection to the upstream", cause="upstream")
    if isinstance(error, aiohttp.ClientConnectorError):
        return broken("the upstream refuses connections", cause="upstream")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientConnectionError | OSError):  # resets among them
        return broken("the upstream broke the connection", cause="eof")
    return broken("the upstream's reply is not valid HTTP", cause="protocol")
