"""The HTTP surface: a table of routes, one handler around them, nothing served that the table does not list (S05).

A low-level aiohttp server is used on purpose: routes are matched by exact path in our own table, so what is
public is a property of the table, and the parser's error texts, which echo header lines, never reach a client.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any, Literal

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway import admin, catalog, metrics, page, socket
from gateway.admission import Admission
from gateway.auth import Tenant, allowed_host, allowed_origin, authenticate, is_admin
from gateway.body import read_body
from gateway.config import Config
from gateway.discovery import card_of, discovered
from gateway.downstream import SERVER, error_response, id_headers
from gateway.exchange import Exchange, unknown_model
from gateway.keeper import Keeper
from gateway.models import permitted
from gateway.peers import Full, Peers, network
from gateway.problems import Problem
from gateway.record import Record, outcome_of
from gateway.runtime import PAIRS, Runtime
from gateway.telemetry import Telemetry
from gateway.tokens import Files
from gateway.transcript import Transcript
from gateway.watchers import Watchers
from translators.conversation import DialectName
from translators.dialects import DIALECTS
from translators.fault import Fault, Refused
from translators.pair import Asked

__all__ = ["Gateway", "Server"]

Access = Literal["public", "client", "admin"]
Handler = Callable[["Gateway", "Inbound"], Awaitable[web.StreamResponse]]

MAX_REQUEST_ID_CHARS = 128
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nserver: dragoman\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"retry-after: 5\r\ncontent-length: 21\r\nconnection: close\r\n\r\ntoo many connections\n"
)
"""What a connection gets for which there is no place (S22)."""
TURNED_AWAY_S = 1.0
"""How long a connection that was turned away may take to send something; it is closed at once then."""
CROWDED_S = 60.0
"""Connections that are turned away are logged once in so many seconds."""
LAST_FRAME_S = 2.0
"""Time that an interrupted exchange has to write its last frame."""


class Inbound(msgspec.Struct):
    """One request on its way in: whose it is, what it is called, what is known of it so far."""

    request: web.BaseRequest
    dialect: DialectName
    record: Record
    tenant: Tenant
    runtime: Runtime
    rest: str = ""
    """What follows the route's own path."""


class Route(msgspec.Struct, frozen=True):
    """One entry of the table; `recorded` requests leave a summary record."""

    handler: Handler
    access: Access
    dialect: DialectName = "chat"
    recorded: bool = False


class Gateway:
    """The running gateway: the current Runtime, exchanges in flight, and the handler that aiohttp calls."""

    def __init__(self, config: Config, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self.watchers = Watchers(telemetry)
        self.keeper: Keeper | None = None
        self.runtime = Runtime(config)
        self.admission = Admission()
        self.tokenizers = Files(lambda file, why: telemetry.log.warning("tokenizer_unfit", file=file, why=why))
        self.exchanges: set[Exchange] = set()
        self.sockets: dict[web.WebSocketResponse, Transcript] = {}
        self.draining = False
        self._idle: asyncio.Event | None = None
        self._crowded: float | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.started = time.time()
        self.reloaded: float | None = None
        self.reload_problems: tuple[Problem, ...] = ()
        """What was wrong with the last configuration that was offered and refused."""
        self.bound: tuple[str, ...] = ()
        """Host names and addresses that we listen on, for the Host check."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request: check where it comes from and whose it is before anything else looks at it."""
        began = monotonic()
        runtime = self.runtime
        path, route, rest = match(request)
        named = DIALECTS[_dialect(path, route, request)]
        record = Record(ts=_now(), request_id=_request_id(request), dialect=named.name)
        if self.watchers.traces is not None and (route is None or route.recorded):
            self.watchers.traces.begin(request.headers)
        fault: Fault | None = self._origin_fault(request, runtime.config)
        tenant: Tenant | Fault | None = None
        if fault is None and route is not None and route.access == "admin":
            fault = _not_admin(request, runtime.config)
        elif fault is None and (route is None or route.access != "public"):
            tenant = authenticate(request.headers, runtime.config.clients)
            fault = tenant if isinstance(tenant, Fault) else None
        if fault is None and route is None:
            fault = _no_route(request)
        if fault is not None or route is None:
            response = self._refused(named.name, fault or _no_route(request), record, began, route)
            if response.status == 405:
                response.headers["allow"] = ", ".join(_methods(path))
            return response
        who = tenant if isinstance(tenant, Tenant) else Tenant("")
        record.client = who.name or None
        inbound = Inbound(request, named.name, record, who, runtime, rest)
        if not route.recorded:
            return await self._plain(route, inbound)
        return await self._recorded(route, inbound, began)

    def _origin_fault(self, request: web.BaseRequest, config: Config) -> Fault | None:
        """Refuse foreign Host and Origin headers: a web page must not drive a local gateway (S13)."""
        local = request.transport.get_extra_info("sockname") if request.transport is not None else None
        bound = (*self.bound, str(local[0])) if local else self.bound
        allowed = config.server.allowed_hosts
        host = request.headers.get("host", "")
        if not allowed_host(host, bound=bound, allowed=allowed):
            message = "this Host is not served here; the operator can add it to server.allowed_hosts"
            return Fault(kind="permission", message=message, cause="client")
        origin = request.headers.get("origin")
        if origin is not None and not allowed_origin(origin, bound=bound, allowed=allowed):
            message = "web pages of this Origin may not use the gateway"
            return Fault(kind="permission", message=message, cause="client")
        return None

    def _refused(
        self, dialect: DialectName, fault: Fault, record: Record, began: float, route: Route | None
    ) -> web.Response:
        response = error_response(DIALECTS[dialect], fault, record.request_id)
        if fault.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        record.outcome, record.error_kind = "client_error", fault.kind
        self.summary(record, fault.status, began)
        return response

    async def _plain(self, route: Route, inbound: Inbound) -> web.StreamResponse:
        try:
            response = await route.handler(self, inbound)
        except Refused as refused:
            response = error_response(DIALECTS[inbound.dialect], refused.fault, inbound.record.request_id)
        except Exception as error:  # noqa: BLE001  the last line of defence: a bug costs one request, not the server
            response = self._crashed(error, inbound)
        if not response.prepared:
            response.headers.update(id_headers(DIALECTS[inbound.dialect], inbound.record.request_id))
        return response

    async def _recorded(self, route: Route, inbound: Inbound, began: float) -> web.StreamResponse:
        """Run a generation request; whatever happens, exactly one record is written (promise 8)."""
        record = inbound.record
        status: int | None = None
        inbound.runtime.running += 1
        try:
            response = await self._plain(route, inbound)
            status = response.status
            return response
        except asyncio.CancelledError:
            record.outcome = record.outcome or "client_disconnected"
            raise
        except ConnectionError:
            record.outcome = record.outcome or "client_disconnected"
            raise
        finally:
            self.summary(record, status, began)
            await self.leave(inbound.runtime)

    async def leave(self, runtime: Runtime) -> None:
        """Close a Runtime that a reload replaced once its last request is over."""
        runtime.running -= 1
        if runtime.running == 0 and runtime.retired.is_set():
            await runtime.close()

    def summary(self, record: Record, status: int | None, began: float) -> None:
        """Complete a record and write it."""
        record.status = record.status or status
        record.duration_ms = round((monotonic() - began) * 1000, 2)
        if record.outcome is None:
            record.outcome = "client_error" if status is not None and status >= 400 else "complete"
        met = self.runtime.resolve(record.alias) if record.alias else None
        self.watchers.told(record, met.pattern if met is not None else "")

    def malformed(self, status: int) -> None:
        """Leave a record of a request that the parser refused; nothing of it is known."""
        record = Record(ts=_now(), request_id=secrets.token_hex(12), outcome="client_error")
        record.error_kind = "invalid_request" if status < 500 else "api"
        self.summary(record, status, monotonic())

    def crowded(self, full: Full) -> None:
        """Log that connections are turned away, now and then only."""
        now = monotonic()
        if self._crowded is None or now - self._crowded >= CROWDED_S:
            self._crowded = now
            self.telemetry.log.warning("connections_full", of=full)

    def _crashed(self, error: Exception, inbound: Inbound) -> web.Response:
        """Answer for a bug of ours: the log gets type and place, the client neither (S02)."""
        if isinstance(error, ConnectionError):
            raise error
        self.telemetry.log.error("crash", request_id=inbound.record.request_id, exc_info=error)
        fault = Fault(kind="api", status=500, message="the gateway failed; its log has the request id", cause="gateway")
        inbound.record.outcome, inbound.record.error_kind = outcome_of(fault, None), fault.kind
        return error_response(DIALECTS[inbound.dialect], fault, inbound.record.request_id)

    def reload(self, config: Config) -> None:
        """Swap in a new configuration; running requests end on the old one (S39)."""
        old = self.runtime
        self.runtime = Runtime(config, old)
        self.reload_problems = ()
        self.reloaded = time.time()
        old.retired.set()
        if old.running == 0:
            closing = asyncio.get_running_loop().create_task(old.close())
            self._closing.add(closing)  # the loop alone would not keep it alive
            closing.add_done_callback(self._closing.discard)

    async def drain(self, wait_s: float) -> None:
        """Let running exchanges end; after `wait_s` seconds give those left their protocol's error form (S38)."""
        self.draining = True
        await self._until_idle(wait_s)
        fault = Fault(kind="overloaded", message="the gateway is shutting down", cause="shutdown", retry_after_s=5)
        for exchange in list(self.exchanges):
            exchange.stop(fault)
        await self._until_idle(LAST_FRAME_S)
        self.watchers.feed.close()

    async def _until_idle(self, wait_s: float) -> None:
        """Wait until no exchange runs, at most `wait_s` seconds."""
        if self.exchanges:
            self._idle = asyncio.Event()
            try:
                await asyncio.wait_for(self._idle.wait(), wait_s)
            except TimeoutError:
                return

    def left(self, exchange: Exchange) -> None:
        """Take note that an exchange is over."""
        self.exchanges.discard(exchange)
        if not self.exchanges and self._idle is not None:
            self._idle.set()

    async def close(self) -> None:
        """Release the upstream connections."""
        await asyncio.gather(self.runtime.close(), self.watchers.close(), *self._closing)


class _Connection(RequestHandler):
    """aiohttp's connection handler, save that some are turned away and error replies do not echo (S01, S22)."""

    _peer: str | None = None
    """Whose place the connection has among the peers; None for one that was turned away."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve a connection, or turn it away when its peer or all of them have too many."""
        assert isinstance(self._manager, Server)
        address = transport.get_extra_info("peername")
        peer = network(str(address[0])) if address else ""
        full = self._manager.peers.enter(peer)
        if full is None:
            self._peer = peer
            super().connection_made(transport)
            return
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._manager.crowded is not None:
            self._manager.crowded(full)
        transport.write(FULL)
        self._loop.call_later(TURNED_AWAY_S, transport.close)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place free."""
        if self._peer is None or not isinstance(self._manager, Server):
            return
        self._manager.peers.leave(self._peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came; who is turned away has sent its request by then, and has its answer."""
        if self._peer is not None:
            super().data_received(data)
        elif self.transport is not None:
            self.transport.close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Return a plain error without the parser's text, which echoes header lines."""
        gone = isinstance(exc, ConnectionError)  # a client that left; its request has a record
        if isinstance(self._manager, Server) and self._manager.malformed is not None and not gone:
            self._manager.malformed(status)
        text = "bad request\n" if status < 500 else "the gateway failed\n"
        response = web.Response(status=status, text=text, headers={"server": SERVER})
        response.force_close()
        return response


class Server(web.Server):
    """aiohttp's server with our connection handler.

    `malformed` is told of requests that never became one, `crowded` of connections that were turned away.
    """

    malformed: Callable[[int], None] | None = None
    crowded: Callable[[Full], None] | None = None

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], **options: Any) -> None:
        super().__init__(handler, **options)
        self.peers = Peers()

    def __call__(self) -> RequestHandler:
        """Return the handler of a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)


# ---------------------------------------------------------------------- handlers


async def generate(gateway: Gateway, inbound: Inbound) -> web.StreamResponse:
    """POST of a generation request in the dialect that the path names."""
    if (fault := _not_json(inbound.request)) is not None:
        return _fault(inbound, fault)
    if gateway.draining:
        fault = Fault(kind="overloaded", message="the gateway is shutting down", cause="shutdown", retry_after_s=5)
        return _fault(inbound, fault)
    refused = gateway.admission.enter(inbound.tenant, monotonic(), time.time())
    if refused is not None:
        return _fault(inbound, refused)
    record = inbound.record
    exchange = Exchange(
        inbound.runtime, inbound.request, DIALECTS[inbound.dialect], inbound.tenant, record, int(time.time())
    )
    gateway.exchanges.add(exchange)
    try:
        return await exchange.run()
    finally:
        gateway.left(exchange)
        exchange.finish()
        tokens = (record.input_tokens or 0) + (record.output_tokens or 0)
        gateway.admission.leave(inbound.tenant, tokens, time.time())


async def count_tokens(gateway: Gateway, inbound: Inbound) -> web.StreamResponse:
    """POST /v1/messages/count_tokens: a local count of the request as it would be sent, and how it was made."""
    if (fault := _not_json(inbound.request)) is not None:
        return _fault(inbound, fault)
    body = await read_body(inbound.request, inbound.runtime.config.server.max_request_bytes)
    if isinstance(body, Fault):
        return _fault(inbound, body)
    dialect = DIALECTS[inbound.dialect]
    peek = dialect.peek(body)
    resolved = inbound.runtime.resolve(peek.model)
    if resolved is None or not permitted(inbound.tenant.models, peek.model):
        return _fault(inbound, unknown_model(peek.model))
    route = resolved.routes[0]
    provider = inbound.runtime.upstreams[route.provider].provider
    target = inbound.runtime.target(resolved, provider, route.model or peek.model)
    asked = Asked(alias=peek.model, native=False, count=lambda _: 0)  # the context guard is for generation
    # A count refuses nothing for what the upstream cannot take: the client asks how long its prompt is.
    target = msgspec.structs.replace(target, strict=False)
    prepared = PAIRS["messages", provider.dialect].request(_countable(body), peek, target, asked)
    if isinstance(prepared, Fault):
        return _fault(inbound, prepared)
    exact = await gateway.tokenizers.count(resolved.settings.tokenizer, prepared.body)
    count, _ = inbound.runtime.tokens.count(route.provider, target.model, prepared.body)
    answer = msgspec.json.encode({"input_tokens": count if exact is None else exact})
    how = {"x-dragoman-token-count": "estimate" if exact is None else "exact"}
    return web.Response(body=answer, content_type="application/json", headers=how)


def _countable(body: bytes) -> bytes:
    """Return a body of count_tokens with the max_tokens that it need not have, but a generation request must."""
    members: dict[str, msgspec.Raw] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if bytes(members.get("max_tokens", b"null")) == b"null":
        members["max_tokens"] = msgspec.Raw(b"1024")
    return msgspec.json.encode(members)


async def models(gateway: Gateway, inbound: Inbound) -> web.StreamResponse:
    """GET /v1/models and /v1/models/{id}."""
    request, config = inbound.request, await discovered(inbound.runtime)
    card = partial(card_of, inbound.runtime, config)
    if not inbound.rest:
        return _json(catalog.listing(config, inbound.tenant, request.headers, request.query, card))
    entry = catalog.find(config, inbound.tenant, request.headers, inbound.rest, card)
    return _fault(inbound, unknown_model(inbound.rest)) if entry is None else _json(entry)


async def upgrade(gateway: Gateway, inbound: Inbound) -> web.StreamResponse:
    """GET /v1/responses: a WebSocket, or a 426 in the words that make Codex fall back to POST at once."""
    began = monotonic()
    room = len(gateway.sockets) < socket.MAX_SOCKETS and not gateway.draining
    if socket.wanted(inbound.request) and room:
        return await socket.serve(gateway, inbound.request)
    message = "no WebSocket is served for this request; use POST /v1/responses"
    response = _fault(inbound, Fault(kind="invalid_request", status=426, message=message, cause="client"))
    response.headers["upgrade"] = "websocket"
    gateway.summary(inbound.record, response.status, began)
    return response


async def live(gateway: Gateway, inbound: Inbound) -> web.StreamResponse:
    """GET /livez: the process answers."""
    return web.Response(text="ok\n")


async def ready(gateway: Gateway, inbound: Inbound) -> web.StreamResponse:
    """GET /readyz: 503 while draining or when no route can serve."""
    if gateway.draining:
        return web.Response(status=503, text="draining\n")
    if not inbound.runtime.ready():
        return web.Response(status=503, text="no key can serve\n")
    return web.Response(text="ready\n")


def _table() -> dict[tuple[str, str], Route]:
    table: dict[tuple[str, str], Route] = {
        ("GET", "/"): Route(page.root, "public"),
        ("HEAD", "/"): Route(page.root, "public"),
        ("GET", "/livez"): Route(live, "public"),
        ("HEAD", "/livez"): Route(live, "public"),
        ("GET", "/readyz"): Route(ready, "public"),
        ("HEAD", "/readyz"): Route(ready, "public"),
        ("GET", "/metrics"): Route(metrics.serve, "admin"),
        ("GET", "/admin/status"): Route(admin.status, "admin"),
        ("GET", "/admin/events"): Route(admin.events, "admin"),
        **{("GET", f"/web/{name}"): Route(page.serve, "public") for name in page.FILES},
    }
    served = {
        ("POST", "/chat/completions"): Route(generate, "client", "chat", recorded=True),
        ("POST", "/responses"): Route(generate, "client", "responses", recorded=True),
        ("GET", "/responses"): Route(upgrade, "client", "responses"),
        ("POST", "/messages"): Route(generate, "client", "messages", recorded=True),
        ("POST", "/messages/count_tokens"): Route(count_tokens, "client", "messages"),
        ("GET", "/models"): Route(models, "client"),
    }
    for (method, path), route in served.items():
        table[method, path] = table[method, f"/v1{path}"] = route
    return table


ROUTES = _table()
"""Every route by method and exact path; those of /v1 answer without the prefix too."""


def match(request: web.BaseRequest) -> tuple[str, Route | None, str]:
    """Return (path, route, rest) for a request; only `/v1/models/{id}` has a rest."""
    path = request.path
    route = ROUTES.get((request.method, path))
    if route is None and request.method == "GET":
        for prefix in ("/v1/models/", "/models/"):
            if path.startswith(prefix) and len(path) > len(prefix):
                return path, ROUTES["GET", "/v1/models"], path[len(prefix) :]
    return path, route, ""


def _dialect(path: str, route: Route | None, request: web.BaseRequest) -> DialectName:
    """Return the dialect whose error envelope a request gets."""
    if route is not None and route.handler is not models and route.access == "client":
        return route.dialect
    anthropic = "anthropic-version" in request.headers or "/messages" in path
    return "messages" if anthropic else "responses" if "/responses" in path else "chat"


def _no_route(request: web.BaseRequest) -> Fault:
    if known := _methods(request.path):
        message = f"{request.method} is not served at this path; use {', '.join(known)}"
        return Fault(kind="invalid_request", status=405, message=message, cause="client")
    return _no_path()


def _methods(path: str) -> list[str]:
    return sorted(method for method, known in ROUTES if known == path)


def _no_path() -> Fault:
    served = "/v1/messages, /v1/responses, /v1/chat/completions and /v1/models"
    message = f"no such path; this gateway serves {served}"
    return Fault(kind="not_found", message=message, cause="client", code="")  # the kind's own speaks of a model


def _not_admin(request: web.BaseRequest, config: Config) -> Fault | None:
    """Refuse whoever may not read admin data: 404 for a client's key, as for a path that is not there (S04)."""
    if is_admin(request.headers, config.admin, loopback_peer=admin.trusted_peer(request)):
        return None
    if config.clients and not isinstance(authenticate(request.headers, config.clients), Fault):
        return _no_path()
    message = "admin data need the admin key, sent as `Authorization: Bearer KEY`"
    if config.admin is None:
        message = "without an [admin] key, admin data are for this machine only"
    return Fault(kind="authentication", message=message, cause="client", code="invalid_api_key")


def _not_json(request: web.BaseRequest) -> Fault | None:
    """Refuse bodies that a web page can send without asking (S13)."""
    kind = request.content_type
    if kind == "application/json" or kind.endswith("+json"):
        return None
    message = f"content-type {kind[:60]!r} is not accepted; send application/json"
    return Fault(kind="unsupported_media", message=message, cause="client")


def _request_id(request: web.BaseRequest) -> str:
    given = request.headers.get("x-request-id", "")
    if 0 < len(given) <= MAX_REQUEST_ID_CHARS and given.isascii() and given.isprintable():
        return given
    return secrets.token_hex(12)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fault(inbound: Inbound, fault: Fault) -> web.Response:
    record = inbound.record
    record.outcome, record.error_kind = record.outcome or outcome_of(fault, None), fault.kind
    return error_response(DIALECTS[inbound.dialect], fault, record.request_id)


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
