"""What an operator may see: `/admin/status`, a snapshot, and `/admin/events`, the feed of summaries (S04).

Read-only: names from the config, counts and times. Nothing here changes the gateway, runs anything or returns a
secret, and it all needs the admin's own credential (`Gateway.handle` checks it before a handler runs).
"""

import asyncio
import os
import time
from contextlib import aclosing
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from gateway.config import is_loopback
from gateway.downstream import STREAM_HEADERS, id_headers
from gateway.feed import KEPT, Full
from gateway.hour import MinuteView
from gateway.lines import clean
from providers.identity import VERSION

if TYPE_CHECKING:
    from gateway.app import Gateway, Inbound

__all__ = ["PRIVATE", "Status", "events", "snapshot", "status", "trusted_peer"]

PRIVATE = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
WRITE_S = 30.0
"""A follower that takes nothing for so long is dropped; it can come back with its last id."""
IN_FLIGHT_SHOWN = 200
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


class RouteView(msgspec.Struct, frozen=True):
    """One alias and where it leads, as provider/model, in order."""

    alias: str
    targets: tuple[str, ...]
    dialects: tuple[str, ...]


class KeyState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One upstream key; `until` in seconds since the epoch while it rests, for one model when `model` is named."""

    provider: str
    name: str
    state: str
    in_flight: int
    lent: int
    outcomes: dict[str, int]
    active: bool = False
    until: float | None = None
    models: tuple["ModelRest", ...] = ()


class ModelRest(msgspec.Struct, frozen=True):
    """The rest of one model on a key."""

    model: str
    state: str
    until: float


class Flying(msgspec.Struct, frozen=True):
    """One request that runs now; `sent_bytes` went to the client."""

    request_id: str
    client: str | None
    dialect: str
    alias: str | None
    provider: str | None
    key: str | None
    stream: bool | None
    age_s: float
    sent_bytes: int
    answering: bool


class StoreSize(msgspec.Struct, frozen=True):
    """What a store in memory holds; None where it is not measured."""

    name: str
    entries: int
    bytes: int | None = None


class Refusal(msgspec.Struct, frozen=True):
    """One problem of a configuration that was offered and refused."""

    where: str
    key: str
    what: str


class Status(msgspec.Struct, frozen=True):
    """The whole snapshot. Times are seconds since the epoch."""

    version: str
    pid: int
    now: float
    started: float
    uptime_s: float
    draining: bool
    ready: bool
    config: str
    """The first digits of the configuration's hash."""
    reloaded: float | None
    reload_problems: tuple[Refusal, ...]
    routes: tuple[RouteView, ...]
    clients: tuple[str, ...]
    keys: tuple[KeyState, ...]
    in_flight: tuple[Flying, ...]
    in_flight_count: int
    sockets: int
    stores: tuple[StoreSize, ...]
    state: str
    """Where state is kept: memory, file or valkey."""
    state_kept: bool
    log_dropped: int
    followers: int
    hour: list[MinuteView]


def trusted_peer(request: web.BaseRequest) -> bool:
    """Tell whether a request came straight from this machine.

    A reverse proxy on the same host would make everybody a loopback peer, so a request that names another host,
    or says that it was forwarded, is not one.
    """
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    if not peer or not is_loopback(str(peer[0])):
        return False
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return is_loopback(name) and not any(name in request.headers for name in _FORWARDED)


async def status(gateway: "Gateway", inbound: "Inbound") -> web.StreamResponse:
    """GET /admin/status."""
    body = msgspec.json.encode(snapshot(gateway))
    return web.Response(body=body, content_type="application/json", headers=PRIVATE)


async def events(gateway: "Gateway", inbound: "Inbound") -> web.StreamResponse:
    """GET /admin/events: summaries as they come.

    It begins after the `Last-Event-ID`, without one with the `?newest=N` latest that are kept.
    """
    feed = gateway.watchers.feed
    response = web.StreamResponse(headers=STREAM_HEADERS | PRIVATE | id_headers(None, inbound.record.request_id))
    last = inbound.request.headers.get("last-event-id", "")
    newest = inbound.request.query.get("newest", "")
    wanted = int(newest) if newest.isascii() and newest.isdecimal() and len(newest) < 6 else KEPT
    try:
        async with aclosing(feed.follow(last, wanted)) as frames:
            async for data in frames:
                if not response.prepared:
                    await response.prepare(inbound.request)
                async with asyncio.timeout(WRITE_S):
                    await response.write(data)
    except Full:
        busy = "too many pages and tails follow already\n"
        return web.Response(status=503, text=busy, headers=PRIVATE | {"retry-after": "5"})
    except TimeoutError:
        if inbound.request.transport is not None:
            inbound.request.transport.abort()
        return response
    await response.write_eof()
    return response


def snapshot(gateway: "Gateway") -> Status:
    """Return what is so now."""
    runtime, wall = gateway.runtime, time.time()
    config, keeper = runtime.config, gateway.keeper
    flying = sorted(gateway.exchanges, key=lambda exchange: exchange.timing.began)
    return Status(
        version=VERSION,
        pid=os.getpid(),
        now=wall,
        started=gateway.started,
        uptime_s=round(wall - gateway.started, 1),
        draining=gateway.draining,
        ready=not gateway.draining and runtime.ready(),
        config=config.digest[:12],
        reloaded=gateway.reloaded,
        reload_problems=tuple(Refusal(p.where, p.key, p.what) for p in gateway.reload_problems),
        routes=_routes(gateway),
        clients=tuple(client.name for client in config.clients),
        keys=_keys(gateway, wall),
        in_flight=tuple(_flying(exchange) for exchange in flying[:IN_FLIGHT_SHOWN]),
        in_flight_count=len(flying),
        sockets=len(gateway.sockets),
        stores=_stores(gateway),
        state=config.state.url.partition(":")[0],
        state_kept=keeper is None or keeper.healthy,
        log_dropped=gateway.telemetry.dropped,
        followers=gateway.watchers.feed.followers,
        hour=gateway.watchers.hour.view(wall),
    )


def _routes(gateway: "Gateway") -> tuple[RouteView, ...]:
    upstreams = gateway.runtime.upstreams
    return tuple(
        RouteView(
            alias,
            tuple(f"{route.provider}/{route.model or '*'}" for route in model.routes),
            tuple(upstreams[route.provider].provider.dialect for route in model.routes),
        )
        for alias, model in gateway.runtime.config.models.items()
    )


def _keys(gateway: "Gateway", wall: float) -> tuple[KeyState, ...]:
    now = monotonic()
    found = []
    for provider, pool in gateway.runtime.pools().items():
        view = pool.snapshot(now, wall)
        for key in view.keys:
            # A rest can be for a model that a client named.
            rests = tuple(ModelRest(clean(rest.model, 200), rest.phase, round(rest.until, 1)) for rest in key.models)
            found.append(
                KeyState(
                    provider,
                    key.name,
                    key.phase,
                    key.in_flight,
                    key.lent,
                    {name: count for name, count in key.outcomes.items() if count},
                    active=key.name == view.active,
                    until=None if key.until is None else round(key.until, 1),
                    models=rests,
                )
            )
    return tuple(found)


def _flying(exchange: Any) -> Flying:
    record = exchange.record
    return Flying(
        record.request_id,
        record.client,
        exchange.dialect.name,
        clean(record.alias, 200) if record.alias is not None else None,
        record.provider,
        record.key,
        record.stream,
        round(monotonic() - exchange.timing.began, 1),
        exchange.downstream.sent_bytes,
        exchange.downstream.started,
    )


def _stores(gateway: "Gateway") -> tuple[StoreSize, ...]:
    runtime = gateway.runtime
    replay, shadow = runtime.replay, runtime.shadow
    return (
        StoreSize("replay", len(replay.calls), replay.calls.bytes),
        StoreSize("conversations", len(replay.pasts), replay.pasts.bytes),
        StoreSize("shadow", shadow.entries, shadow.bytes),
        StoreSize("prefixes", len(runtime.prefixes)),
        StoreSize("tokens", len(runtime.tokens)),
        StoreSize("feed", len(gateway.watchers.feed)),
    )
