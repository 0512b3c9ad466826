"""`dragoman status`: keys, routes and streams in flight of a running gateway, as tables or as its own JSON."""

import argparse
import asyncio
import sys
from datetime import datetime

import aiohttp
import msgspec

from gateway.admin import KeyState, Status
from gateway.cli import EXIT_OK, EXIT_PROBLEM
from gateway.commands import table
from gateway.lines import short_count, short_ms
from gateway.target import Target, refusal, target
from providers.transport import ERRORS

__all__ = ["status"]

WAIT_S = 10.0


def status(options: argparse.Namespace) -> int:
    """Ask once and print; 1 when the gateway does not answer or refuses."""
    asked = target(options)
    return asked if isinstance(asked, int) else asyncio.run(_ask(asked, as_json=options.json))


async def _ask(asked: Target, *, as_json: bool) -> int:
    timeout = aiohttp.ClientTimeout(total=WAIT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{asked.url}/admin/status", headers=asked.headers, allow_redirects=False) as response,
        ):
            body, code = await response.read(), response.status
    except (*ERRORS, TimeoutError):
        print(f"dragoman: no gateway answers at {asked.url}", file=sys.stderr)
        return EXIT_PROBLEM
    if code != 200:
        print(f"dragoman: {refusal(code, asked.url)}", file=sys.stderr)
        return EXIT_PROBLEM
    if as_json:
        sys.stdout.write(body.decode() + "\n")
        return EXIT_OK
    try:
        show(msgspec.json.decode(body, type=Status))
    except msgspec.MsgspecError:
        print(f"dragoman: {asked.url} is no Dragoman of this version", file=sys.stderr)
        return EXIT_PROBLEM
    return EXIT_OK


def show(now: Status) -> None:
    """Print the snapshot for people."""
    state = "draining" if now.draining else "ready" if now.ready else "no key can serve"
    print(f"Dragoman {now.version}, up {short_ms(now.uptime_s * 1000)}, {state}")
    kept = "kept" if now.state_kept else "NOT KEPT, see the log"
    print(
        f"config {now.config or 'built in'}, {_reload(now)}; state {now.state}, {kept}; log dropped {now.log_dropped}"
    )
    requests = sum(minute.requests for minute in now.hour)
    failed = sum(minute.failed for minute in now.hour)
    print(f"last hour: {requests} requests, {failed} failed; {now.in_flight_count} in flight\n")
    keys = [_key(key, now.now) for key in now.keys]
    table([("KEY", "STATE", "FREE AGAIN", "IN FLIGHT", "USED", "OUTCOMES"), *keys])
    if now.in_flight:
        print()
        rows = [
            (
                flying.request_id[:16],
                flying.client or "-",
                flying.alias or "-",
                f"{flying.provider or '-'}/{flying.key or '-'}",
                short_ms(flying.age_s * 1000),
                short_count(flying.sent_bytes),
            )
            for flying in now.in_flight
        ]
        table([("REQUEST", "CLIENT", "ALIAS", "UPSTREAM", "AGE", "BYTES"), *rows])
    print()
    routes = [(route.alias, ", ".join(route.targets), ", ".join(route.dialects)) for route in now.routes]
    table([("ALIAS", "ROUTES", "DIALECT"), *routes])
    for problem in now.reload_problems:
        print(f"refused configuration: {problem.where} {problem.key}: {problem.what}", file=sys.stderr)


def _reload(now: Status) -> str:
    if now.reloaded is None:
        return "never reloaded"
    return f"reloaded {datetime.fromtimestamp(now.reloaded).astimezone():%Y-%m-%d %H:%M:%S}"


def _key(key: KeyState, now: float) -> tuple[str, ...]:
    left = "-" if key.until is None else short_ms(max(0.0, key.until - now) * 1000)
    outcomes = " ".join(f"{name}={count}" for name, count in key.outcomes.items()) or "-"
    name = f"{key.provider}/{key.name}" + ("*" if key.active else "")
    state = key.state + (f" ({len(key.models)} models resting)" if key.models else "")
    return name, state, left, str(key.in_flight), str(key.lent), outcomes
