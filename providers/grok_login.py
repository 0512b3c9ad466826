"""Log in to Grok by device code, into a file of our own (spec/grok.md 6.3). The CLI's folder is left alone.

The command line calls `start`, shows the address and code, then `finish` until the person has agreed.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import msgspec

from providers.filelock import held
from providers.grok_credentials import CLIENT_ID, ISSUER, Tokens, Unusable, entry_of, read
from providers.grok_issuer import Declined, Issuer
from providers.tokenfile import replace

__all__ = ["SCOPES", "Device", "finish", "log_in", "own_file", "start", "store"]

SCOPES = (
    "openid profile email offline_access grok-cli:access api:access conversations:read conversations:write "
    "workspaces:read workspaces:write"
)
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
MIN_INTERVAL_S = 5.0
SLOWER_S = 5.0
MAX_WAIT_S = 1800.0


class Device(msgspec.Struct, frozen=True):
    """What the person has to do: open `uri` and enter `code`, within `expires_s` seconds."""

    uri: str
    code: str
    device_code: str
    interval_s: float = MIN_INTERVAL_S
    expires_s: float = MAX_WAIT_S


def own_file(name: str = "default") -> Path:
    """Return the file that our own login keeps: in the user's config folder, one for each credential name."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "dragoman" / "grok" / f"{name}.json"


async def start(issuer: Issuer, client_id: str = CLIENT_ID) -> Device:
    """Ask for a device code. Raises Declined."""
    address = await issuer.endpoint("device_authorization_endpoint", "/oauth2/device/code")
    form = {"client_id": client_id, "scope": SCOPES, "referrer": "grok-build"}
    status, told = await issuer.post(address, form)
    uri = told.get("verification_uri_complete") or told.get("verification_uri")
    code, device = told.get("user_code"), told.get("device_code")
    if status != 200 or not (isinstance(uri, str) and isinstance(code, str) and isinstance(device, str)):
        raise Declined(f"the issuer gave no device code (HTTP {status})")
    if not uri.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise Declined("the issuer names an address that is not to be trusted")
    interval, expires = told.get("interval"), told.get("expires_in")
    return Device(
        uri,
        code,
        device,
        max(MIN_INTERVAL_S, float(interval)) if isinstance(interval, int | float) else MIN_INTERVAL_S,
        min(MAX_WAIT_S, float(expires)) if isinstance(expires, int | float) and expires > 0 else MAX_WAIT_S,
    )


async def finish(
    issuer: Issuer,
    device: Device,
    client_id: str = CLIENT_ID,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Tokens:
    """Wait until the person has agreed; raises Declined when they did not, or not in time."""
    address = await issuer.endpoint("token_endpoint", "/oauth2/token")
    form = {"grant_type": GRANT, "device_code": device.device_code, "client_id": client_id}
    interval, waited = device.interval_s, 0.0
    while waited < device.expires_s:
        await sleep(interval)
        waited += interval
        try:
            return await issuer.tokens(address, form)
        except Declined as declined:
            if declined.code == "slow_down":
                interval += SLOWER_S
            elif declined.code != "authorization_pending":
                raise
    raise Declined("nobody agreed to the login in time", terminal=True, code="expired_token")


async def store(path: Path, tokens: Tokens, issuer: str = ISSUER, client_id: str = CLIENT_ID) -> None:
    """Put a login into a file (0600, its folder 0700), beside what other entries it has. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with held(path):
        try:
            document = msgspec.json.decode(read(path), type=dict[str, object])
        except (msgspec.DecodeError, Unusable):  # a first login, or a file that held none
            document = {}
        document |= entry_of(tokens, issuer, client_id, time.time())
        content = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        await asyncio.to_thread(replace, path, content)


async def log_in(
    session: aiohttp.ClientSession, show: Callable[[Device], None], *, path: Path | None = None, issuer: str = ISSUER
) -> Path:
    """Run the whole login and return the file that holds it; `show` tells the person what to do. Raises Declined."""
    source = Issuer(lambda: session, issuer, agent="grok-shell", wall=time.time)
    device = await start(source)
    show(device)
    tokens = await finish(source, device)
    target = path or own_file()
    await store(target, tokens, issuer)
    return target
