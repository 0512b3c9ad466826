"""`GET /v1/responses` as a WebSocket: requests in text frames, events back as text frames (spec/clients.md 2).

Each frame is one exchange under the same rules and with a record of its own, one at a time. The socket keeps its
conversation, so that a client sends only what is new. Messages, memory, silence and their number are bounded.
"""

import asyncio
import contextlib
import secrets
import time
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import WSMsgType, web

from gateway.auth import Tenant, authenticate
from gateway.body import too_large
from gateway.downstream import Downstream
from gateway.exchange import Exchange, unknown_model
from gateway.models import permitted
from gateway.record import Record, outcome_of
from gateway.transcript import Transcript, read
from translators.dialects import DIALECTS
from translators.fault import Fault, Refused
from translators.jsonio import encode
from translators.sse import Splitter

if TYPE_CHECKING:
    from gateway.app import Gateway

__all__ = ["IDLE_S", "MAX_SOCKETS", "SocketDownstream", "serve", "wanted"]

IDLE_S = 1800.0
"""A socket on which nothing is asked for so long is closed; clients open a new one."""
HEARTBEAT_S = 30.0
MAX_SOCKETS = 512
MAX_BYTES = 256 * 1024 * 1024
"""Of all sockets' conversations together; beyond that those that were longest silent are forgotten."""

DIALECT = DIALECTS["responses"]


def wanted(request: web.BaseRequest) -> bool:
    """Tell whether a request properly asks for a WebSocket."""
    upgrade = request.headers.get("upgrade", "").strip().lower() == "websocket"
    tokens = [token.strip().lower() for token in request.headers.get("connection", "").split(",")]
    return upgrade and "upgrade" in tokens and "sec-websocket-key" in request.headers


class SocketDownstream(Downstream):
    """Send one answer's events as text frames. Comments are not sent: pings keep a socket alive."""

    def __init__(
        self, request: web.BaseRequest, request_id: str, ws: web.WebSocketResponse, transcript: Transcript
    ) -> None:
        super().__init__(request, DIALECT, request_id)
        self._ws = ws
        self._transcript = transcript
        self._splitter = Splitter()

    async def write(self, data: bytes) -> None:
        """Send the events in stream bytes; waits while the client does not read (S23)."""
        self.writing_since = monotonic()
        self.sent_bytes += len(data)
        try:
            for frame in self._splitter.feed(data):
                self.started = True
                self._transcript.told(frame.data)
                await self._ws.send_str(frame.data.decode("utf-8", "replace"))
                self.first_write = self.first_write or monotonic()
        finally:
            self.last_write, self.writing_since = monotonic(), None

    async def end(self) -> web.StreamResponse:
        """Leave the socket open for the next request."""
        return web.Response()


async def serve(gateway: "Gateway", request: web.BaseRequest) -> web.StreamResponse:
    """Carry one socket from its upgrade to its end."""
    limit = gateway.runtime.config.server.max_request_bytes
    ws = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=limit, compress=False)
    await ws.prepare(request)
    talk = Talk(gateway, request, ws)
    gateway.sockets[ws] = talk.transcript
    try:
        await talk.run()
    finally:
        gateway.sockets.pop(ws, None)
        await talk.stop()
    return ws


class Talk:
    """The requests of one socket, one after the other."""

    def __init__(self, gateway: "Gateway", request: web.BaseRequest, ws: web.WebSocketResponse) -> None:
        self._gateway = gateway
        self._request = request
        self._ws = ws
        self.transcript = Transcript()
        self._answer: asyncio.Task[None] | None = None
        self._idle_since = monotonic()

    async def run(self) -> None:
        """Take frames until the client closes the socket, or has asked for nothing for too long."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    message = await self._ws.receive()
            except TimeoutError:
                if self._busy():
                    continue
                await self._ws.close(message=b"idle")
                return
            if message.type is not WSMsgType.TEXT:
                if message.type is WSMsgType.BINARY:
                    await self._error(Fault(kind="invalid_request", message="send text frames", cause="client"))
                    continue
                return
            if self._busy():
                busy = "a response is running on this socket; wait for its end"
                await self._error(Fault(kind="invalid_request", message=busy, cause="client"))
                continue
            self._answer = asyncio.create_task(self._asked(message.data))

    def _busy(self) -> bool:
        return self._answer is not None and not self._answer.done()

    async def stop(self) -> None:
        """End the answer that still runs; its client has gone."""
        if self._answer is not None:
            self._answer.cancel()
            await asyncio.gather(self._answer, return_exceptions=True)

    async def _asked(self, text: str) -> None:
        began = monotonic()
        gateway, runtime = self._gateway, self._gateway.runtime
        ts = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = Record(ts=ts, request_id=secrets.token_hex(12), dialect="responses")
        status: int | None = None
        runtime.running += 1
        try:
            fault = await self._served(text, record)
            status = fault.status if fault is not None else 200
            if fault is not None:
                record.outcome, record.error_kind = record.outcome or outcome_of(fault, None), fault.kind
                await self._error(fault)
        except (asyncio.CancelledError, ConnectionError):
            record.outcome = record.outcome or "client_disconnected"
        except Exception as error:  # a bug costs one answer, not the socket
            gateway.telemetry.log.exception("crash", request_id=record.request_id, exc_info=error)
            fault = Fault(kind="api", status=500, message="the gateway failed; its log has the request id")
            record.outcome, record.error_kind, status = "upstream_error", fault.kind, 500
            await self._error(fault)
        finally:
            gateway.summary(record, status, began)
            self._bound()
            await gateway.leave(runtime)

    def _bound(self) -> None:
        """Count this socket as the latest, and keep all conversations within their budget."""
        sockets = self._gateway.sockets
        if self._ws in sockets:
            sockets[self._ws] = sockets.pop(self._ws)
        held = sum(transcript.size for transcript in sockets.values())
        for transcript in sockets.values():
            if held <= MAX_BYTES:
                break
            held -= transcript.size
            transcript.forget()

    async def _served(self, text: str, record: Record) -> Fault | None:
        """Answer one frame; returns the fault that the client has not been told yet."""
        gateway = self._gateway
        # Asked anew for each frame: a reload may have taken the key away.
        tenant = authenticate(self._request.headers, gateway.runtime.config.clients)
        if isinstance(tenant, Fault):
            return tenant
        record.client = tenant.name or None
        frame = read(text)
        if isinstance(frame, Fault):
            return frame
        if gateway.draining:
            message = "the gateway is shutting down"
            return Fault(kind="overloaded", message=message, cause="shutdown", retry_after_s=5)
        body = self.transcript.body(frame)
        record.alias, record.stream = frame.model[:200], True
        if len(body) > gateway.runtime.config.server.max_request_bytes:
            return too_large(gateway.runtime.config.server.max_request_bytes)
        refused = gateway.admission.enter(tenant, monotonic(), time.time())
        if refused is not None:
            return refused
        try:
            if frame.generate:
                return await self._exchange(body, tenant, record)
            return await self._warm(body, tenant, record)
        finally:
            tokens = (record.input_tokens or 0) + (record.output_tokens or 0)
            gateway.admission.leave(tenant, tokens, time.time())

    async def _exchange(self, body: bytes, tenant: Tenant, record: Record) -> Fault | None:
        gateway = self._gateway
        downstream = SocketDownstream(self._request, record.request_id, self._ws, self.transcript)
        exchange = Exchange(
            gateway.runtime,
            self._request,
            DIALECT,
            tenant,
            record,
            int(time.time()),
            body=body,
            downstream=downstream,
        )
        gateway.exchanges.add(exchange)
        try:
            response = await exchange.run()
        finally:
            gateway.left(exchange)
            exchange.finish()
        if not downstream.started and isinstance(response, web.Response) and response.status >= 400:
            record.status = response.status
            await self._ws.send_str(_error_frame(response))
        return None

    async def _warm(self, body: bytes, tenant: Tenant, record: Record) -> Fault | None:
        """Answer a warm-up (`generate: false`): nothing is asked of the upstream, its input is kept.

        Only for models that the client may use: it is refused what the request behind it would be refused.
        """
        try:
            model = DIALECT.peek(body).model
        except Refused as fault:
            return fault.fault
        if self._gateway.runtime.resolve(model) is None or not permitted(tenant.models, model):
            return unknown_model(model)
        name = f"resp_{record.request_id}"
        response: dict[str, Any] = {
            "id": name,
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "status": "in_progress",
            "output": [],
        }
        done = response | {"status": "completed", "usage": _NOTHING_SPENT}
        for number, (kind, told) in enumerate((("created", response), ("completed", done))):
            event = {"type": f"response.{kind}", "sequence_number": number, "response": told}
            await self._ws.send_str(encode(event).decode())
        self.transcript.completed(name)
        record.outcome = "complete"
        return None

    async def _error(self, fault: Fault) -> None:
        told = msgspec.json.decode(DIALECT.envelope(fault, ""), type=dict[str, Any])
        frame = {"type": "error", "status": fault.status, "error": told.get("error")}
        with contextlib.suppress(ConnectionError):  # its client may have gone
            await self._ws.send_str(encode(frame).decode())


_NOTHING_SPENT = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _error_frame(response: web.Response) -> str:
    """Return an HTTP error reply as the frame that says the same."""
    body = response.body if isinstance(response.body, bytes) else b"{}"
    told = msgspec.json.decode(body, type=dict[str, Any])
    frame = {"type": "error", "status": response.status, "error": told.get("error")}
    if "retry-after" in response.headers:
        frame["headers"] = {"retry-after": response.headers["retry-after"]}
    return encode(frame).decode()
