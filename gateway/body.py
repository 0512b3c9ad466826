"""Read a request body under limits of size and time, decompressed (S20, S22)."""

import asyncio
import zlib
from typing import Protocol

from aiohttp import web

from translators.fault import Fault

__all__ = ["BODY_S", "read_body"]

BODY_S = 60.0
"""Seconds within which a whole body has to arrive."""
MEMBERS = 16
"""Streams that a gzip or zstd body may consist of, one behind the other; each costs a copy of what follows it."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /, max_length: int = ...) -> bytes: ...


def too_large(limit: int) -> Fault:
    """Return the Fault for a body over the limit (413)."""
    return Fault(kind="too_large", message=f"the request body is larger than {limit} bytes", cause="client")


def _unsupported(encoding: str) -> Fault:
    known = "gzip, deflate, zstd" if _zstd() is not None else "gzip, deflate (zstd needs the extra `zstd`)"
    message = f"content-encoding {encoding[:40]!r} is not supported here; send {known} or none"
    return Fault(kind="unsupported_media", message=message, cause="client")


def _zstd() -> _Decompressor | None:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            return None
    decompressor: _Decompressor = zstd.ZstdDecompressor()
    return decompressor


def _decompressor(encoding: str, data: bytes = b"") -> _Decompressor | None:
    if encoding in ("gzip", "x-gzip"):
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    if encoding == "deflate":  # some leave out the envelope of zlib that RFC 9110 8.4.1.2 asks for
        return zlib.decompressobj(zlib.MAX_WBITS if _enveloped(data) else -zlib.MAX_WBITS)
    return _zstd() if encoding == "zstd" else None


def _enveloped(data: bytes) -> bool:
    """Tell whether deflated data begin with the header of zlib (RFC 1950 2.2)."""
    return not data or (data[0] & 0x8F == 8 and int.from_bytes(data[:2]) % 31 == 0)


async def read_body(request: web.BaseRequest, limit: int) -> bytes | Fault:
    """Return the decompressed body, or a Fault: 413 over `limit` bytes (before or after), 415, 408, 400."""
    if request.content_length is not None and request.content_length > limit:
        return too_large(limit)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity") and _decompressor(encoding) is None:
        return _unsupported(encoding)
    if request.content.is_eof():  # a small body is there with its headers: no timer then
        raw = await _read(request, limit)
    else:
        try:
            async with asyncio.timeout(BODY_S):
                raw = await _read(request, limit)
        except TimeoutError:
            message = "the request body did not arrive in time"
            return Fault(kind="timeout", status=408, message=message, cause="client")
    if isinstance(raw, Fault) or encoding in ("", "identity"):
        return raw
    return _inflated(raw, encoding, limit)


async def _read(request: web.BaseRequest, limit: int) -> bytes | Fault:
    parts: list[bytes] = []
    size = 0
    while True:
        chunk = await request.content.readany()
        if not chunk:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        size += len(chunk)
        if size > limit:
            return too_large(limit)
        parts.append(chunk)


def _inflated(raw: bytes, encoding: str, limit: int) -> bytes | Fault:
    """Decompress at most `limit` bytes: a bomb is refused before it is built."""
    parts: list[bytes] = []
    room = limit + 1
    for _ in range(1 if encoding == "deflate" else MEMBERS):
        machine = _decompressor(encoding, raw)
        assert machine is not None
        try:
            part = machine.decompress(raw, max_length=room)
        except Exception:  # noqa: BLE001  each library has errors of its own; all of them mean the same to the client
            return _bad(f"something follows the {encoding} body" if parts else f"the body is not valid {encoding}")
        parts.append(part)
        room -= len(part)
        if room <= 0:
            return too_large(limit)
        if not machine.eof:
            return _bad(f"the {encoding} body is cut off")
        raw = machine.unused_data
        if not raw:
            return b"".join(parts)
    return _bad(f"something follows the {encoding} body")


def _bad(message: str) -> Fault:
    return Fault(kind="invalid_request", message=message, cause="client")
