"""Log in to a Cline account by device code, into a file of our own (spec/cline.md 1.4).

The command line calls `log_in`; `show` tells the person where to go. The official client's files are left alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from providers.api import Unreachable
from providers.cline_account import Grant, default_file, expiry_of, save
from providers.identity import USER_AGENT
from providers.transport import ERRORS, send
from translators.jsonio import ERRORS as JSON_ERRORS

__all__ = ["Declined", "Device", "log_in"]

WORKOS = "https://api.workos.com/user_management"
CLIENT_ID = "client_01K3A541FN8TA3EPPHTD2325AR"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SLOWER_S = 5.0
MIN_INTERVAL_S, MAX_INTERVAL_S = 1.0, 60.0
MAX_WAIT_S = 1800.0
ANSWER_S = 30.0
MAX_ANSWER_BYTES = 64 * 1024

Sleep = Callable[[float], Awaitable[None]]


class Declined(Exception):
    """The login did not come about; the text says why, without any token."""


class Device(msgspec.Struct, frozen=True):
    """What the person has to do: open `uri` and confirm `code`, within `expires_s` seconds."""

    uri: str
    code: str
    device_code: str
    interval_s: float
    expires_s: float


async def log_in(
    session: aiohttp.ClientSession,
    base_url: str,
    show: Callable[[Device], None],
    *,
    path: Path | None = None,
    issuer: str = WORKOS,
    sleep: Sleep = asyncio.sleep,
) -> Path:
    """Run the whole login and return the file that holds the account, 0600. Raises Declined or OSError."""
    device = await _start(session, issuer)
    show(device)
    tokens = await _agreed(session, issuer, device, sleep)
    body = msgspec.json.encode({"accessToken": tokens["access_token"], "refreshToken": tokens["refresh_token"]})
    status, answer = await _post(session, f"{base_url}/auth/register", body, "application/json")
    data = answer.get("data")
    if status >= 400 or not isinstance(data, dict) or not isinstance(data.get("accessToken"), str):
        raise Declined(f"the service did not register the login (HTTP {status})")
    refresh = data.get("refreshToken") or tokens["refresh_token"]
    target = path or default_file("default")
    save(target, Grant(data["accessToken"], refresh, expiry_of(data.get("expiresAt"), data["accessToken"])))
    return target


async def _start(session: aiohttp.ClientSession, issuer: str) -> Device:
    status, told = await _form(session, f"{issuer}/authorize/device", {"client_id": CLIENT_ID})
    uri = told.get("verification_uri_complete") or told.get("verification_uri")
    code, device = told.get("user_code"), told.get("device_code")
    if status != 200 or not (isinstance(uri, str) and isinstance(code, str) and isinstance(device, str)):
        raise Declined(f"no device code was given (HTTP {status})")
    if not uri.startswith("https://"):
        raise Declined("the address to open is not to be trusted")
    interval, expires = _number(told.get("interval"), 5.0), _number(told.get("expires_in"), 300.0)
    return Device(uri, code, device, min(max(interval, MIN_INTERVAL_S), MAX_INTERVAL_S), min(expires, MAX_WAIT_S))


async def _agreed(session: aiohttp.ClientSession, issuer: str, device: Device, sleep: Sleep) -> dict[str, str]:
    """Wait until the person has agreed and return the tokens."""
    form = {"grant_type": GRANT, "device_code": device.device_code, "client_id": CLIENT_ID}
    interval, waited = device.interval_s, 0.0
    while waited < device.expires_s:
        await sleep(interval)
        waited += interval
        status, told = await _form(session, f"{issuer}/authenticate", form)
        access, refresh = told.get("access_token"), told.get("refresh_token")
        if status == 200 and isinstance(access, str) and isinstance(refresh, str):
            return {"access_token": access, "refresh_token": refresh}
        error = told.get("error")
        if error == "slow_down":
            interval += SLOWER_S
        elif error != "authorization_pending":
            raise Declined("the login was refused" if isinstance(error, str) else f"no answer (HTTP {status})")
    raise Declined("nobody agreed to the login in time")


async def _form(session: aiohttp.ClientSession, url: str, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    body = "&".join(f"{name}={_quoted(value)}" for name, value in form.items()).encode()
    return await _post(session, url, body, "application/x-www-form-urlencoded")


def _quoted(value: str) -> str:
    return URL.build(query={"v": value}).raw_query_string.removeprefix("v=")


async def _post(session: aiohttp.ClientSession, url: str, body: bytes, kind: str) -> tuple[int, dict[str, Any]]:
    headers = {"content-type": kind, "accept": "application/json", "user-agent": USER_AGENT}
    try:
        async with asyncio.timeout(ANSWER_S):
            reply = await send(session, URL(url), headers, body)
            try:
                answer = await reply.read(MAX_ANSWER_BYTES)
            finally:
                reply.abort()
    except (*ERRORS, TimeoutError, Unreachable):
        raise Declined("the login service does not answer") from None
    try:
        document = msgspec.json.decode(answer)
    except JSON_ERRORS:
        document = None
    return reply.status, document if isinstance(document, dict) else {}


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else default
