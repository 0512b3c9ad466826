"""A Cline account's tokens: kept in a file, refreshed before they expire, one refresh at a time (spec/cline.md 1.4).

The file is our own (`dragoman login cline`) or the official client's `providers.json`, of which only the tokens are
changed. It is written at once after each refresh, 0600, by rename: the service rotates refresh tokens, and a lost
one means a new login. Nothing in here ever logs or returns a token in a message.
"""

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from providers.filelock import Contended, held
from providers.secret import Held, Secret
from providers.tokenfile import MAX_FILE_BYTES, Stamp, replace, rewrite, stamp
from translators.jsonio import ERRORS

__all__ = ["EARLY_S", "Account", "Expired", "Grant", "Unavailable", "bearer", "default_file", "expiry_of", "save"]

EARLY_S = 300.0
"""A token is renewed when it has less than this left."""
SPARE_S = 30.0
"""With more than this left a token still serves when it could not be renewed."""
RECENT_S = 30.0
"""A token that is younger than this was renewed by another request, and needs no second renewal."""
RETRY_S = 30.0
"""Pause after a renewal that failed, while the token still serves."""
PATIENCE_S = 2.0
"""A token that still serves is used when its renewal takes longer, as behind another process's lock."""
PREFIX = "workos:"

Refresh = Callable[[str], Awaitable["Grant"]]
"""Exchange a refresh token at the service; raises Expired or Unavailable."""


class Expired(Exception):
    """The account needs a new login: the service refuses its refresh token, or its file has none."""


class Unavailable(Exception):
    """The service could not be asked now; the credential may still be good."""


class Grant(msgspec.Struct):
    """What a login or a refresh gives: tokens, and the end of the access token in Unix seconds."""

    access: str
    refresh: str | None = None
    expires_at: float | None = None


def bearer(token: str) -> str:
    """Return the Authorization value of an account token, with its prefix exactly once."""
    return f"Bearer {PREFIX}{_bare(token)}"


def _bare(token: str) -> str:
    return token[len(PREFIX) :] if token[: len(PREFIX)].lower() == PREFIX else token


def expiry_of(expires_at: Any, token: str) -> float:
    """Return when a token ends in Unix seconds: as told (ms, s or ISO 8601), else by its own `exp`, else long ago."""
    if isinstance(expires_at, str):
        with suppress(ValueError):
            date = datetime.fromisoformat(expires_at)
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if isinstance(expires_at, int | float) and not isinstance(expires_at, bool) and expires_at > 0:
        return expires_at / 1000 if expires_at > 1e11 else float(expires_at)
    return _jwt_expiry(_bare(token))


def _jwt_expiry(token: str) -> float:
    parts = token.split(".")
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (*ERRORS, IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return 0.0


def default_file(name: str, environ: dict[str, str] | os._Environ[str] = os.environ) -> Path:
    """Return where our own login keeps an account: $XDG_CONFIG_HOME/dragoman/cline/NAME.json."""
    home = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "dragoman" / "cline" / f"{name}.json"


class _Document:
    """A credential file's content: the object in which the tokens stand, and all around it."""

    def __init__(self, content: bytes) -> None:
        try:
            self.whole = msgspec.json.decode(content) if content.strip() else {}
            self.official = isinstance(self.whole, dict) and "providers" in self.whole
            self._auth = self.whole["providers"]["cline"]["settings"]["auth"] if self.official else self.whole
            access, refresh = self._auth["accessToken"], self._auth.get("refreshToken")
        except (*ERRORS, KeyError, TypeError):
            raise Expired("the credential file holds no Cline account") from None
        if not (isinstance(access, str) and access and isinstance(refresh, str | None)):
            raise Expired("the credential file holds no Cline account")
        self.grant = Grant(_bare(access), refresh, expiry_of(self._auth.get("expiresAt"), access))

    def changed(self, grant: Grant) -> bytes:
        """Return the content with other tokens; times are milliseconds, as the official client writes them."""
        expires_ms = round((grant.expires_at or 0) * 1000)
        self._auth.update(accessToken=PREFIX + grant.access, refreshToken=grant.refresh, expiresAt=expires_ms)
        return msgspec.json.format(msgspec.json.encode(self.whole), indent=2) + b"\n"


def save(path: Path, grant: Grant) -> None:
    """Write a new account file, as a login does; raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    document = _Document(b'{"version":1,"accessToken":"new"}')
    replace(path, document.changed(msgspec.structs.replace(grant, access=_bare(grant.access))))


class Account:
    """One account of one provider. `token` gives an access token that is good now; `renew` makes a new one.

    `generation` counts the access tokens, so that it can be told whether a refused one was the newest.
    """

    def __init__(self, path: Path, refresh: Refresh, clock: Callable[[], float]) -> None:
        self._path = path
        self._refresh = refresh
        self._clock = clock
        self.generation = 0
        self.secrets = Held()
        self._grant: Grant | None = None
        self._on_disk = ""
        """The access token that the file held when last seen."""
        self._renewed_at = self._retry_at = 0.0
        self._renewing: asyncio.Task[Grant] | None = None
        self._ended: Stamp | None = None
        """Stamp of the file when its login was found to be over."""

    async def token(self) -> Secret:
        """Return the access token, renewed before it ends; raises Expired or Unavailable."""
        with self._ending():
            grant = self._grant or await self._read()
            serves = self._left(grant) > SPARE_S
            if self._left(grant) < EARLY_S and not (serves and self._clock() < self._retry_at):
                try:
                    async with asyncio.timeout(PATIENCE_S if serves else None):
                        grant = await self._shared(grant)
                except (Unavailable, TimeoutError):
                    if not serves:
                        raise
                    self._retry_at = self._clock() + RETRY_S
            return Secret(grant.access)

    async def renew(self, generation: int | None) -> None:
        """Replace a token that the service refused before its time, None for the newest; raises Expired or Unavailable.

        Nothing happens where there is a newer one already, whoever fetched it.
        """
        with self._ending():
            grant = self._grant or await self._read()
            if generation in (None, self.generation):
                await self._shared(grant)

    def spent(self, generation: int | None) -> bool:
        """Tell whether a refused token was the newest one and fresh, so that another renewal cannot help."""
        return generation in (None, self.generation) and self._clock() - self._renewed_at < RECENT_S

    def refused(self) -> None:
        """Note that the service refuses even a fresh token."""
        self._ended = stamp(self._path)

    def mended(self) -> bool:
        """Tell, once, that the file of a login that was over has been replaced since."""
        if self._ended is None or self._ended == stamp(self._path):
            return False
        self._ended = self._grant = None
        return True

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except Expired:
            self.refused()
            raise

    def _left(self, grant: Grant) -> float:
        return (grant.expires_at or 0.0) - self._clock()

    async def _read(self) -> Grant:
        grant = (await asyncio.to_thread(self._load)).grant
        self._on_disk = grant.access
        return self._adopt(grant)

    def _adopt(self, grant: Grant) -> Grant:
        if self._grant is None or grant.access != self._grant.access:
            self.generation += 1
        self._grant = grant
        self.secrets.add(Secret(grant.access), Secret(grant.refresh) if grant.refresh else None)
        return grant

    def _load(self) -> _Document:
        try:
            with self._path.open("rb") as file:
                return _Document(file.read(MAX_FILE_BYTES))
        except OSError as error:
            raise Expired(f"the credential file cannot be read: {error.strerror}") from None

    async def _shared(self, stale: Grant) -> Grant:
        """Renew once for all who wait; a waiter that leaves does not stop it, since the old token may be spent."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(stale))
            self._renewing.add_done_callback(_seen)
        return await asyncio.shield(self._renewing)

    async def _renew(self, stale: Grant) -> Grant:
        try:
            async with held(self._path):
                return await self._under_lock(stale)
        except Contended:
            raise Unavailable("another process holds the credential file's lock") from None
        except OSError as error:
            raise Unavailable(f"the credential file cannot be locked: {error.strerror}") from None

    async def _under_lock(self, stale: Grant) -> Grant:
        found = stored = (await asyncio.to_thread(self._load)).grant
        if self._grant is not None and found.access == self._on_disk:
            found = self._grant  # a file that could not be written is older than what we hold
        if found.access == stale.access or self._left(found) < EARLY_S:
            found = await self._exchange(found, stored)
        self._renewed_at = self._clock()
        return self._adopt(found)

    async def _exchange(self, old: Grant, stored: Grant) -> Grant:
        if not old.refresh:
            raise Expired("the account has no refresh token")
        new = await self._refresh(old.refresh)
        grant = Grant(_bare(new.access), new.refresh or old.refresh, new.expires_at or expiry_of(None, new.access))

        def change(content: bytes) -> bytes | None:
            document = _Document(content)
            # Others write without our lock: what they changed stays, a new login in place of ours as well.
            return document.changed(grant) if document.grant.access == stored.access else None

        # The old refresh token may be spent now: without a file to write to, memory has to do.
        self._on_disk = stored.access
        with suppress(OSError, Expired):
            if await asyncio.to_thread(rewrite, self._path, change, Expired):
                self._on_disk = grant.access
        return grant


def _seen(task: asyncio.Task[Grant]) -> None:
    """Look at a result that nobody may have waited for, or asyncio would report it as lost."""
    if not task.cancelled():
        task.exception()
