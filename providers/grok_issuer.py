"""The issuer of Grok logins over HTTP: discovery, refresh, device login (spec/grok.md 6.2, 6.3).

Every address is checked before anything is sent to it, redirects are not followed, and neither tokens nor the
issuer's texts reach a message.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import aiohttp
import msgspec

from providers.grok_credentials import DEFAULT_LIFE_S, Tokens, pinned
from providers.secret import Secret

__all__ = ["ATTEMPTS", "DISCOVERY_S", "TIMEOUT_S", "Declined", "Issuer"]

DISCOVERY_S = 10.0
DISCOVERY_LIFE_S = 3600.0
TIMEOUT_S = 15.0
ATTEMPTS = 3
PAUSE_S = (0.2, 2.0)
"""Between attempts, after network errors and 5xx only: a token that may have been used is not tried blindly."""
MAX_REPLY_BYTES = 256 * 1024
TERMINAL = ("invalid_grant", "invalid_client", "unauthorized_client")
TERMINAL_WORDS = ("refresh_token_reused", "revoked", "already been used")


class Declined(Exception):
    """No tokens: `terminal` means that this login will never give any again. `code` is the protocol's own word."""

    def __init__(self, message: str, *, terminal: bool = False, code: str = "") -> None:
        super().__init__(message)
        self.terminal = terminal
        self.code = code


class Issuer:
    """One issuer, its endpoints known for an hour. `wall` and `pause` are the caller's clock and sleep."""

    def __init__(
        self,
        session: Callable[[], aiohttp.ClientSession],
        url: str,
        *,
        allowed: tuple[str, ...] = (),
        agent: str = "",
        wall: Callable[[], float],
    ) -> None:
        self.url = url.rstrip("/")
        self._session = session
        self._allowed = allowed
        self._agent = agent
        self._wall = wall
        self._found: tuple[dict[str, Any], float] | None = None

    async def endpoint(self, name: str, fallback: str, given: str = "") -> str:
        """Return an endpoint: the login's own, the discovered or the usual one; raises Declined for untrusted hosts."""
        if not pinned(f"{self.url}/", self.url, self._allowed):
            raise Declined("the issuer is not one that tokens may be sent to")
        address = given or (await self._discovered()).get(name) or self.url + fallback
        if not isinstance(address, str) or not pinned(address, self.url, self._allowed):
            raise Declined("the issuer names an address that tokens may not be sent to")
        return address

    async def _discovered(self) -> dict[str, Any]:
        if self._found is not None and monotonic() - self._found[1] < DISCOVERY_LIFE_S:
            return self._found[0]
        try:
            async with asyncio.timeout(DISCOVERY_S):
                status, told = await self._ask("GET", f"{self.url}/.well-known/openid-configuration")
        except (aiohttp.ClientError, OSError, TimeoutError):
            return {}
        if status != 200:
            return {}
        self._found = told, monotonic()
        return told

    async def post(self, address: str, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Return (status, JSON object) of a form, tried again after network errors and 5xx. Raises Declined."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(random.uniform(*PAUSE_S))  # noqa: S311 - jitter, no secret
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    status, told = await self._ask("POST", address, form)
            except (aiohttp.ClientError, OSError, TimeoutError):
                continue
            if status < 500:
                return status, told
        raise Declined("the issuer cannot be reached")

    async def _ask(self, method: str, url: str, form: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        headers = {"accept": "application/json", "user-agent": self._agent}
        async with self._session().request(method, url, data=form, headers=headers, allow_redirects=False) as reply:
            body = await reply.content.read(MAX_REPLY_BYTES)
            try:
                told = msgspec.json.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                told = {}
            return reply.status, told if isinstance(told, dict) else {}

    async def tokens(self, address: str, form: Mapping[str, str]) -> Tokens:
        """Return the tokens that a form is answered with. Raises Declined."""
        status, told = await self.post(address, form)
        access = told.get("access_token")
        if status == 200 and isinstance(access, str) and access:
            refresh, life = told.get("refresh_token"), told.get("expires_in")
            lasts = float(life) if isinstance(life, int | float) and 0 < life < 1e9 else DEFAULT_LIFE_S
            kept = Secret(refresh) if isinstance(refresh, str) and refresh else None
            return Tokens(Secret(access), kept, self._wall() + lasts)
        code = str(told.get("error") or "")
        text = f"{code} {told.get('error_description') or ''}".lower()
        terminal = code in TERMINAL or any(word in text for word in TERMINAL_WORDS)
        shown = code if code.isidentifier() and len(code) <= 64 else f"HTTP {status}"
        raise Declined(f"the issuer declined ({shown})", terminal=terminal, code=code)
