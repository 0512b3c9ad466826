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

from providers.filelock import Contended, held
from providers.grok_credentials import Login, Tokens, Unusable, parse, read, updated
from providers.grok_issuer import Declined, Issuer
from providers.secret import Held, Secret
from providers.tokenfile import Stamp, rewrite, stamp
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
PATIENCE_S = 2.0
"""A token with life left is used when its refresh takes longer, as behind another process's lock."""
LOOK_S = 1.0
"""A file is looked at for a change at most this often."""


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
        self._back = False
        self._spent: Secret | None = None
        """The token that the file still holds while newer ones could not be written there."""
        self.secrets = Held()
        self._running: asyncio.Task[Fault | None] | None = None
        self._spread = (int.from_bytes(name.encode()[:4].ljust(4, b"\0")) % 1000) / 1000 * SPREAD_S

    # ------------------------------------------------------------------ the file

    def changed(self) -> bool:
        """Read the file anew if it changed; True when that brought a disabled login back."""
        now = monotonic()
        if self._stamp is not None and now - self._looked < LOOK_S:
            return False
        self._looked = now
        found = stamp(self.path)
        if found == self._stamp:
            return False
        was = self.disabled
        self._stamp = found
        self._load()
        return bool(was) and not self.disabled

    def returned(self) -> bool:
        """Tell, once, that a login that was out of use is back."""
        if self.disabled:
            self.changed()
        back, self._back = self._back, False
        return back

    def _load(self) -> None:
        try:
            login = parse(read(self.path), self._scope)
        except Unusable as unusable:
            self._login, self.disabled = None, str(unusable)
            return
        if self._login is None or login.access != self._spent:
            self._spent = None
            self._adopt(login)

    def _adopt(self, login: Login) -> None:
        if self._login is None or login.access != self._login.access:
            self.generation += 1
        self._back = self._back or bool(self.disabled)
        self._login, self.disabled = login, ""
        self.secrets.add(login.access, login.refresh)

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
            fault = await self._renewed(patience=PATIENCE_S if left >= MIN_LEFT_S else None)
            if fault is not None and (fault.kind == "authentication" or left < MIN_LEFT_S):
                return fault
        elif left <= 0:
            return Fault(kind="authentication", message=f"the login {self.name!r} has expired", cause="upstream")
        return self._current()

    def _current(self) -> Token | Fault:
        return Token(self._login, self.generation) if self._login is not None else self._refusal()

    async def _renewed(self, patience: float | None) -> Fault | None:
        try:
            async with asyncio.timeout(patience):
                return await self.renew(self.generation)
        except TimeoutError:
            self._retry_at = monotonic() + RETRY_S
            return None

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
            self._stamp, self._retry_at = None, monotonic() + RETRY_S
            before = self.generation
            self.changed()
            return None if self.generation != before else _unavailable("another process holds the login's lock")
        except OSError as error:
            self._retry_at = monotonic() + RETRY_S
            return _unavailable(f"the login's file cannot be written ({error.strerror})")

    async def _under_lock(self) -> Fault | None:
        try:
            login = parse(read(self.path), self._scope)
        except Unusable as unusable:
            self.disabled = str(unusable)
            return self._refusal()
        known, stored = self._login, login.access
        self.secrets.add(login.access, login.refresh)
        if known is not None and stored == self._spent:
            login = known
        newer = known is None or login.access != known.access
        if newer and login.expires_at - self._wall() > MIN_LEFT_S:
            self._adopt(login)  # somebody else refreshed it; a second POST would spend their token
            self._stamp = stamp(self.path)
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
            self._stamp, self.disabled = stamp(self.path), f"{declined}; log in again"
            return self._refusal()
        self.secrets.add(tokens.access, tokens.refresh)
        await self._save(stored, login, tokens)
        self._adopt(
            msgspec.structs.replace(
                login, access=tokens.access, refresh=tokens.refresh or login.refresh, expires_at=tokens.expires_at
            )
        )
        self._renewed_at = monotonic()
        return None

    async def _save(self, stored: Secret, login: Login, tokens: Tokens) -> None:
        """Write the new tokens; should that fail they live on in memory, for the old ones are spent.

        `stored` is the token that the file held before. Others may have written there since, without the lock: their
        entries stay, and so does a new login in place of ours.
        """

        def change(content: bytes) -> bytes | None:
            ours = parse(content, login.scope).access == stored
            return updated(content, login, tokens) if ours else None

        self._spent = stored
        try:
            if await asyncio.to_thread(rewrite, self.path, change, Unusable):
                self._spent, self._stamp = None, stamp(self.path)
            else:
                self._spent = self._stamp = None  # theirs is read with the next request
        except (FileNotFoundError, Unusable):
            self._stamp = None  # a logout is noticed with the next request
        except OSError:
            self._stamp = stamp(self.path)

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
