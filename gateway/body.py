"""Read a request body under limits of size and time, decompressed (S20, S22)."""

import asyncio
import zlib
from typing import Protocol

from aiohttp import web

from translators.fault import Fault

__all__ = ["BODY_S", "read_body"]

BODY_S = 60.0
"""Seconds within which a whole body has to arrive."""


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


def _decompressor(encoding: str) -> _Decompressor | None:
    if encoding in ("gzip", "x-gzip"):
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    if encoding == "deflate":
        return zlib.decompressobj()
    return _zstd() if encoding == "zstd" else None


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
    machine = _decompressor(encoding)
    assert machine is not None
    try:
        out = machine.decompress(raw, max_length=limit + 1)
    except Exception:  # noqa: BLE001  each library has errors of its own; all of them mean the same to the client
        return Fault(kind="invalid_request", message=f"the body is not valid {encoding}", cause="client")
    if len(out) > limit:
        return too_large(limit)
    if not machine.eof:
        return Fault(kind="invalid_request", message=f"the {encoding} body is cut off", cause="client")
    if machine.unused_data:
        return Fault(kind="invalid_request", message=f"something follows the {encoding} body", cause="client")
    return out
