"""The client's side of an exchange: status and headers sent once, bytes written in order, nothing after the end."""

from time import monotonic

from aiohttp import web

from translators.dialect import Dialect
from translators.fault import Fault
from translators.notes import Notes

__all__ = ["SERVER", "Downstream", "error_response", "id_headers"]

SERVER = "dragoman"
"""Instead of aiohttp's own `server` header, which names its version and Python's."""

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # reverse proxies would hold events back
}


def id_headers(dialect: Dialect | None, request_id: str) -> dict[str, str]:
    """Return the headers that name us and the request; Messages clients look for `request-id`."""
    headers = {"server": SERVER, "x-request-id": request_id}
    if dialect is not None and dialect.name == "messages":
        headers["request-id"] = request_id
    return headers


def error_response(dialect: Dialect, fault: Fault, request_id: str) -> web.Response:
    """Return a Fault as a whole HTTP reply in the dialect's envelope."""
    headers = id_headers(dialect, request_id)
    if fault.retry_after_s is not None:
        # To the nearest second: two seconds into a wait of ten, eight are left, not nine.
        headers["retry-after"] = str(max(1, round(fault.retry_after_s)))
    return web.Response(
        status=fault.status, body=dialect.envelope(fault, request_id), content_type="application/json", headers=headers
    )


class Downstream:
    """Write one client's reply. `started` is true once status and headers are out."""

    def __init__(self, request: web.BaseRequest, dialect: Dialect, request_id: str) -> None:
        self.request = request
        self.dialect = dialect
        self.request_id = request_id
        self.started = False
        self.sent_bytes = 0
        self.notes: Notes | None = None
        """What the translation lost; counted when the headers go out, so a whole answer's own losses are in it."""
        self.last_write = monotonic()
        self.writing_since: float | None = None
        self.first_write: float | None = None
        self._response: web.StreamResponse | None = None

    async def write(self, data: bytes) -> None:
        """Send stream bytes, headers first; waits while the client does not read (S23)."""
        if self._response is None:
            self._response = await self._begin()
        self.writing_since = monotonic()
        self.sent_bytes += len(data)
        try:
            await self._response.write(data)
        finally:
            self.last_write, self.writing_since = monotonic(), None
            self.first_write = self.first_write or self.last_write

    async def _begin(self) -> web.StreamResponse:
        self.started = True
        headers = STREAM_HEADERS | self._headers()
        response = web.StreamResponse(headers=headers)
        await response.prepare(self.request)
        return response

    async def end(self) -> web.StreamResponse:
        """Close a stream that was begun."""
        assert self._response is not None
        await self._response.write_eof()
        return self._response

    def whole(self, body: bytes) -> web.Response:
        """Return a whole JSON answer as the reply."""
        self.started = True
        return web.Response(body=body, content_type="application/json", headers=self._headers())

    def _headers(self) -> dict[str, str]:
        headers = id_headers(self.dialect, self.request_id)
        if self.notes is not None and self.notes.count:
            headers["x-dragoman-notes"] = str(self.notes.count)
        return headers

    def abort(self) -> None:
        """Drop the client's connection at once."""
        if self.request.transport is not None:
            self.request.transport.abort()
