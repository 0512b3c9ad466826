"""One login file in use: its token while that is fresh, and a refresh that happens once for all who wait for it.

A refresh token works once and reusing it may end the login for good, so: one refresh at a time in this process, the
CLI's own lock against others, the file read again under the lock, and the new refresh token written before the new
access token is used (spec/grok.md 6.2).
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import msgspec

from providers.grok_credentials import Login, Tokens, Unusable, parse, read, replace, updated
from providers.grok_issuer import Declined, Issuer
from providers.grok_lock import Contended, held
from translators.fault import Fault

__all__ = ["LEAD_S", "MIN_LEFT_S", "Credential", "Token"]

LEAD_S = 120.0
"""A token is refreshed this long before its end, and by up to SPREAD_S more so that not all go at once."""
SPREAD_S = 300.0
MIN_LEFT_S = 60.0
"""With less life left a token is not used any more."""
FRESH_S = 30.0
"""A token that is refused so soon after its refresh will not be helped by another one."""
RETRY_S = 30.0
"""Pause after a refresh that failed, while the token still has life left."""
LOOK_S = 1.0
"""A file is looked at for a change at most this often."""

Stamp = tuple[int, int, int]


class Token(msgspec.Struct, frozen=True):
    """An access token in use and the generation it belongs to."""

    login: Login
    generation: int


class Credential:
    """One login file. `disabled` says why it is out of use; a change of the file brings it back."""

    def __init__(
        self,
        name: str,
        path: Path,
        issuer: Callable[[str], Issuer],
        *,
        wall: Callable[[], float],
        scope: str = "",
        gate: asyncio.Semaphore | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.disabled = ""
        self.generation = 0
        self._issuer = issuer
        self._wall = wall
        self._scope = scope
        self._gate = gate or asyncio.Semaphore(1)
        self._login: Login | None = None
        self._stamp: Stamp | None = None
        self._looked = 0.0
        self._renewed_at = -FRESH_S
        self._retry_at = 0.0
        self._unsaved = False
        self._running: asyncio.Task[Fault | None] | None = None
        self._spread = (int.from_bytes(name.encode()[:4].ljust(4, b"\0")) % 1000) / 1000 * SPREAD_S

    # ------------------------------------------------------------------ the file

    def changed(self) -> bool:
        """Read the file anew if it changed; True when that brought a disabled login back."""
        now = monotonic()
        if self._stamp is not None and now - self._looked < LOOK_S:
            return False
        self._looked = now
        stamp = self._seen()
        if stamp == self._stamp:
            return False
        was = self.disabled
        self._stamp = stamp
        self._load()
        return bool(was) and not self.disabled

    def _seen(self) -> Stamp:
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0, 0)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _load(self) -> None:
        try:
            self._adopt(parse(read(self.path), self._scope))
        except Unusable as unusable:
            self._login, self.disabled = None, str(unusable)

    def _adopt(self, login: Login) -> None:
        if self._login is None or login.access != self._login.access:
            self.generation += 1
        self._login, self.disabled = login, ""

    # ------------------------------------------------------------------ tokens

    async def token(self) -> Token | Fault:
        """Return a token with life left, refreshed if its end is near; a Fault when there is none."""
        self.changed()
        if self._login is None or self.disabled:
            return self._refusal()
        left = self._login.expires_at - self._wall()
        if left < LEAD_S + self._spread and self._login.refresh is not None:
            # After a failure a token that still lives is used for a while before the issuer is asked again.
            if left >= MIN_LEFT_S and monotonic() < self._retry_at:
                return Token(self._login, self.generation)
            fault = await self.renew(self.generation)
            if fault is not None and (fault.kind == "authentication" or left < MIN_LEFT_S):
                return fault
        elif left <= 0:
            return Fault(kind="authentication", message=f"the login {self.name!r} has expired", cause="upstream")
        return Token(self._login, self.generation)

    def _refusal(self) -> Fault:
        message = f"the login {self.name!r} cannot be used: {self.disabled}"
        return Fault(kind="authentication", message=message, cause="upstream", code="login_unusable")

    @property
    def api_plane(self) -> bool:
        """Tell whether the file holds an API key, which belongs to the other address."""
        if self._stamp is None:
            self.changed()
        return self._login is not None and self._login.api_key

    def disable(self, reason: str) -> None:
        """Take the login out of use until its file changes."""
        self.disabled = reason

    def spent(self, generation: int | None) -> bool:
        """Tell whether a refused token was the newest one and fresh, so that another refresh cannot help."""
        newest = generation is None or generation == self.generation
        return newest and monotonic() - self._renewed_at < FRESH_S

    async def renew(self, generation: int) -> Fault | None:
        """Get a newer token than that of `generation`; None when there is one, whoever fetched it."""
        if self.generation != generation and not self.disabled:
            return None
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._renew())
            self._running.add_done_callback(self._over)
        # A client that leaves must not stop a refresh that has begun: its token may be spent already.
        return await asyncio.shield(self._running)

    def _over(self, _task: asyncio.Task[Fault | None]) -> None:
        self._running = None

    async def _renew(self) -> Fault | None:
        try:
            async with self._gate, held(self.path):
                return await self._under_lock()
        except Contended:
            self._stamp = None
            before = self.generation
            self.changed()
            return None if self.generation != before else _unavailable("another process holds the login's lock")
        except OSError as error:
            return _unavailable(f"the login's file cannot be written ({error.strerror})")

    async def _under_lock(self) -> Fault | None:
        try:
            content = read(self.path)
            login = parse(content, self._scope)
        except Unusable as unusable:
            self.disabled = str(unusable)
            return self._refusal()
        known = self._login
        if self._unsaved and known is not None:
            login = known  # what the file holds is spent already
        newer = known is None or login.access != known.access
        if newer and login.expires_at - self._wall() > MIN_LEFT_S:
            self._adopt(login)  # somebody else refreshed it; a second POST would spend their token
            self._stamp = self._seen()
            return None
        if login.refresh is None:
            self.disabled = "its token was refused or has expired, and there is no refresh token"
            return self._refusal()
        try:
            tokens = await self._fetched(login)
        except Declined as declined:
            if not declined.terminal:
                self._retry_at = monotonic() + RETRY_S
                return _unavailable(str(declined))
            self._stamp, self.disabled = self._seen(), f"{declined}; log in again"
            return self._refusal()
        await self._save(updated(content, login, tokens))
        self._adopt(
            msgspec.structs.replace(
                login, access=tokens.access, refresh=tokens.refresh or login.refresh, expires_at=tokens.expires_at
            )
        )
        self._renewed_at = monotonic()
        return None

    async def _save(self, content: bytes) -> None:
        """Write the new tokens; should that fail they live on in memory, for the old ones are spent."""
        try:
            await asyncio.to_thread(replace, self.path, content)
            self._unsaved = False
        except OSError:
            self._unsaved = True
        self._stamp = self._seen()

    async def _fetched(self, login: Login) -> Tokens:
        assert login.refresh is not None
        issuer = self._issuer(login.issuer)
        address = await issuer.endpoint("token_endpoint", "/oauth2/token", login.token_endpoint)
        form = {
            "grant_type": "refresh_token",
            "refresh_token": login.refresh.reveal(),
            "client_id": login.client_id,
        }
        if login.principal_type:
            form["principal_type"] = login.principal_type
        if login.principal_id:
            form["principal_id"] = login.principal_id
        return await issuer.tokens(address, form)


def _unavailable(message: str) -> Fault:
    return Fault(kind="overloaded", message=f"the login cannot be refreshed now: {message}", retry_after_s=5)
