"""Keep what has to survive a restart: cooldowns and the pepper of all fingerprints (spec/cline.md 2.3, S39b).

Everything lies in one folder, ours alone (0700, files 0600). One process at a time writes: the first one takes a
lock, another one reads what is there, says so in the log and writes nothing. A store that cannot be used is a
warning, never a reason not to serve.
"""

import asyncio
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Protocol

from gateway.config import State
from gateway.keypool import Pool
from gateway.stores.state import Debounce, Loaded, Lock, encode, file_of, load, save

__all__ = ["PEPPER_BYTES", "Keeper", "default_folder"]

PEPPER_BYTES = 32
LOOK_S = 0.25
"""How often pools are asked whether they changed; a change is written after this and the debounce."""
RETRY_S = 5.0
"""Wait after a write that failed."""


class Log(Protocol):
    """The part of a structlog logger that is used here."""

    def warning(self, event: str, **fields: object) -> object:
        """Log a warning."""


Pools = Callable[[], Mapping[str, Pool]]


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return $XDG_STATE_HOME/dragoman, ~/.local/state/dragoman without it."""
    home = environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home else Path("~/.local/state").expanduser()) / "dragoman"


class Keeper:
    """Own the state folder of one process. `pepper` is there at once; `start` begins to write."""

    def __init__(self, state: State, log: Log) -> None:
        self.pepper = secrets.token_bytes(PEPPER_BYTES)
        self.healthy = True
        """Whether the latest write, or attempt to own the folder, worked."""
        self.writes = 0
        self._log = log
        self._path = file_of(state.url, default_folder())
        self._lock: Lock | None = None
        self._loaded = Loaded()
        self._pools: Pools | None = None
        self._debounce = Debounce()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        if self._path is not None:
            self._open(self._path)

    def _open(self, path: Path) -> None:
        try:
            self._lock = Lock.take(path)
            self.pepper = _pepper(path.parent)
        except (OSError, ValueError) as error:
            self._failed(getattr(error, "strerror", None) or "the pepper file is damaged")
            return
        if self._lock is None:
            self.healthy = False
            self._log.warning("state_shared", file=str(path), what="another process owns it; nothing is written here")
        self._loaded = load(path)
        if self._loaded.reason is not None:
            aside = str(self._loaded.aside) if self._loaded.aside else None
            self._log.warning("state_unusable", file=str(path), why=self._loaded.reason, set_aside=aside)

    def restore(self, pools: Mapping[str, Pool]) -> None:
        """Give pools the rests that an earlier process left, by provider and key name."""
        now, wall = monotonic(), time.time()
        for name, state in self._loaded.pools.items():
            if name in pools:
                pools[name].restore(state, now, wall)

    def start(self, pools: Pools) -> None:
        """Write the pools' rests from now on, whenever they change."""
        self._pools = pools
        if self._lock is not None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while not self._stop.is_set():
            self._note()
            if self._debounce.take(monotonic()):
                await self._write()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), LOOK_S)

    def _note(self) -> None:
        assert self._pools is not None
        revision = tuple((name, id(pool), pool.revision) for name, pool in self._pools().items())
        self._debounce.note(revision, monotonic())

    async def _write(self) -> None:
        assert self._pools is not None
        assert self._path is not None
        now, wall = monotonic(), time.time()
        content = encode({name: pool.export(now, wall) for name, pool in self._pools().items()}, wall)
        try:
            await asyncio.to_thread(save, self._path, content)
        except OSError as error:
            self._debounce.failed(monotonic(), RETRY_S)
            self._failed(error.strerror or "write failed")
            return
        self.healthy = True
        self.writes += 1

    def _failed(self, why: str) -> None:
        if self.healthy:
            self._log.warning("state_not_kept", file=str(self._path), why=why)
        self.healthy = False

    async def close(self) -> None:
        """Write what is not yet written, and let go of the folder."""
        if self._task is not None:
            self._stop.set()  # not cancelled: a write in its thread has to end before the last one begins
            await self._task
            self._task = None
            self._note()
            if self._debounce.take(math.inf):
                await self._write()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _pepper(folder: Path) -> bytes:
    """Return the secret of this folder's fingerprints, made when there is none; raises OSError or ValueError."""
    path = folder / "pepper"
    fresh = secrets.token_hex(PEPPER_BYTES)
    temporary = folder / f"pepper.{os.getpid()}.tmp"
    if not path.exists():
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(fresh)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # of two processes that start together one wins, and both read its secret
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    pepper = bytes.fromhex(path.read_text())
    if len(pepper) != PEPPER_BYTES:
        raise ValueError("not a pepper")
    return pepper
