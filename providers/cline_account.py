"""A Cline account's tokens: kept in a file, refreshed before they expire, one refresh at a time (spec/cline.md 1.4).

The file is our own (`dragoman login cline`) or the official client's `providers.json`, of which only the tokens are
changed. It is written at once after each refresh, 0600, by rename: the service rotates refresh tokens, and a lost
one means a new login. Nothing in here ever logs or returns a token in a message.
"""

import asyncio
import base64
import binascii
import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from providers.secret import Secret
from translators.jsonio import ERRORS

__all__ = ["EARLY_S", "Account", "Expired", "Grant", "Unavailable", "bearer", "default_file", "expiry_of", "save"]

EARLY_S = 300.0
"""A token is renewed when it has less than this left."""
SPARE_S = 30.0
"""With more than this left a token still serves when it could not be renewed."""
RECENT_S = 30.0
"""A token that is younger than this was renewed by another request, and needs no second renewal."""
MAX_FILE_BYTES = 1024 * 1024
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
    _replace(path, document.changed(msgspec.structs.replace(grant, access=_bare(grant.access))))


def _replace(path: Path, content: bytes) -> None:
    """Replace a file by rename, mode 0600, so that a crash leaves the old content or the new."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other gateways from refreshing the same account meanwhile; blocks, so it is for threads."""
    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class Account:
    """One account of one provider. `token` gives an access token that is good now; `renew` makes a new one."""

    def __init__(self, path: Path, refresh: Refresh, clock: Callable[[], float]) -> None:
        self._path = path
        self._refresh = refresh
        self._clock = clock
        self._grant: Grant | None = None
        self._on_disk = ""
        """The access token that the file held when last seen."""
        self._renewed_at = 0.0
        self._renewing: asyncio.Task[Grant] | None = None
        self._ended: tuple[int, int] | None = None
        """Stamp of the file when its login was found to be over."""

    async def token(self) -> Secret:
        """Return the access token, renewed before it ends; raises Expired or Unavailable."""
        with self._ending():
            grant = self._grant or await self._read()
            if self._left(grant) < EARLY_S:
                try:
                    grant = await self._shared(grant)
                except Unavailable:
                    if self._left(grant) <= SPARE_S:
                        raise
            return Secret(grant.access)

    async def renew(self) -> None:
        """Replace a token that the service refused before its time; raises Expired or Unavailable."""
        with self._ending():
            grant = self._grant or await self._read()
            if self._clock() - self._renewed_at >= RECENT_S:
                await self._shared(grant)

    def refused(self) -> None:
        """Note that the service refuses even a fresh token."""
        self._ended = self._stamp()

    def mended(self) -> bool:
        """Tell, once, that the file of a login that was over has been replaced since."""
        if self._ended is None or self._ended == self._stamp():
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

    def _stamp(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError:
            return 0, 0
        return status.st_mtime_ns, status.st_size

    def _left(self, grant: Grant) -> float:
        return (grant.expires_at or 0.0) - self._clock()

    async def _read(self) -> Grant:
        self._grant = (await asyncio.to_thread(self._load)).grant
        self._on_disk = self._grant.access
        return self._grant

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
        lock = _locked(self._path)
        try:
            await asyncio.to_thread(lock.__enter__)
        except OSError as error:
            raise Unavailable(f"the credential file cannot be locked: {error.strerror}") from None
        try:
            document = await asyncio.to_thread(self._load)
            found = document.grant
            if self._grant is not None and found.access == self._on_disk:
                found = self._grant  # a file that could not be written is older than what we hold
            if found.access == stale.access or self._left(found) < EARLY_S:
                found = await self._exchange(found, document)
            self._grant, self._renewed_at = found, self._clock()
            return found
        finally:
            lock.__exit__(None, None, None)

    async def _exchange(self, old: Grant, document: _Document) -> Grant:
        if not old.refresh:
            raise Expired("the account has no refresh token")
        new = await self._refresh(old.refresh)
        grant = Grant(_bare(new.access), new.refresh or old.refresh, new.expires_at or expiry_of(None, new.access))
        # The old refresh token may be spent now: without a file to write to, memory has to do.
        self._on_disk = document.grant.access
        with suppress(OSError):
            await asyncio.to_thread(_replace, self._path, document.changed(grant))
            self._on_disk = grant.access
        return grant


def _seen(task: asyncio.Task[Grant]) -> None:
    """Look at a result that nobody may have waited for, or asyncio would report it as lost."""
    if not task.cancelled():
        task.exception()
