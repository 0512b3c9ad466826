"""The file that carries cooldowns over a restart (spec/cline.md 2.3, S39b).

A finished write survives a crash: temporary file, fsync, rename, fsync of the directory. A file that cannot be used
is set aside, never overwritten and never fatal. It holds key names, model names and times, no secrets and no
upstream text. There is no clock and no task in here: the caller asks `Debounce` when to write.
"""

import fcntl
import math
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from gateway.keypool import PoolState

__all__ = [
    "DELAY_S",
    "MAX_STATE_BYTES",
    "NAME",
    "VERSION",
    "Debounce",
    "Loaded",
    "Lock",
    "encode",
    "file_of",
    "load",
    "save",
]

VERSION = 1
NAME = "cooldowns.json"
DELAY_S = 0.15
"""Time in which further changes join a write (spec/cline.md 2.3)."""
MAX_STATE_BYTES = 16 * 1024 * 1024
"""A larger file is not ours."""


class _Header(msgspec.Struct):
    version: int


class _State(msgspec.Struct):
    version: int
    saved: float
    """Seconds since the epoch."""
    pools: dict[str, PoolState]


class Loaded(msgspec.Struct, frozen=True):
    """Hold the pools' states by provider name, and why a file was not used and where it went."""

    pools: dict[str, PoolState] = {}
    reason: str | None = None
    aside: Path | None = None


_header = msgspec.json.Decoder(_Header).decode
_state = msgspec.json.Decoder(_State).decode


def file_of(url: str, default: Path) -> Path | None:
    """Return the state file for the config's `state.url`: `file:` means the default directory, `memory:` none.

    Other schemes are other stores' business, and have no file either.
    """
    scheme, _, directory = url.partition(":")
    if scheme != "file":
        return None
    return (Path(directory).expanduser() if directory else default) / NAME


def encode(pools: dict[str, PoolState], wall: float) -> bytes:
    """Return the content of the file; `wall` is in seconds since the epoch."""
    return msgspec.json.encode(_State(VERSION, wall, pools)) + b"\n"


def save(path: Path, content: bytes) -> None:
    """Replace the file so that a crash leaves the old content or the new, mode 0600 in a directory of mode 0700.

    Raise OSError when that fails; the old file is then still there. Blocks for two fsyncs: call it in a thread.
    """
    _make_directory(path.parent)
    temporary = path.with_name(path.name + ".tmp")
    # One fixed name, so that crashes leave no litter; the lock keeps other writers out.
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_directory(path.parent)


def load(path: Path) -> Loaded:
    """Return the stored states; a missing file is an empty state, an unusable one is set aside with the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_STATE_BYTES + 1)
    except FileNotFoundError:
        return Loaded()
    except OSError as error:
        return Loaded(reason=f"cannot be read: {error.strerror}")
    state = _decode(content)
    if isinstance(state, _State):
        return Loaded(state.pools)
    mark, reason = state
    aside = path.with_name(f"{path.name}.{mark}")
    try:
        path.replace(aside)
    except OSError as error:
        return Loaded(reason=f"{reason}; cannot be set aside: {error.strerror}")
    return Loaded(reason=reason, aside=aside)


def _decode(content: bytes) -> _State | tuple[str, str]:
    """Return the state, or the mark of the set-aside file and the reason, which quotes nothing from the file."""
    if len(content) > MAX_STATE_BYTES:
        return "corrupt", f"larger than {MAX_STATE_BYTES} bytes"
    try:
        version = _header(content).version
        if version > VERSION:
            # Named by its version: a corrupt file later on must not take its place.
            return f"v{version}", f"written by a newer version ({version}, this is {VERSION})"
        state = _state(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "corrupt", "not a readable state file"
    if version < 1 or not 0 < state.saved < math.inf:
        return "corrupt", "not a readable state file"
    return state


def _make_directory(directory: Path) -> None:
    """Create the directory for its owner alone; one that exists keeps the mode that its owner chose."""
    if not directory.is_dir():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Lock:
    """Keep other processes off a state file while open; the system drops it when the process dies."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Return the lock of a state file, or None while another process or Lock has it."""
        _make_directory(path.parent)
        # A file beside it, since the state file itself is replaced; never unlinked, as that would free it for two.
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return cls(handle)

    def close(self) -> None:
        """Let others have the file; twice is harmless."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Debounce:
    """Say when changes are to be written: a fixed time after the first, so that steady change delays nothing."""

    def __init__(self, delay_s: float = DELAY_S) -> None:
        self._delay_s = delay_s
        self._revision: object = None
        self._due_at: float | None = None

    def note(self, revision: object, now: float) -> None:
        """Note the present revision of what is to be stored (`Pool.revision`); only a new one asks for a write.

        The first is new, too: writing it at start shows that the file can be written.
        """
        if revision != self._revision:
            self._revision = revision
            if self._due_at is None:
                self._due_at = now + self._delay_s

    def deadline(self) -> float | None:
        """Return when to write, or None when there is nothing to write."""
        return self._due_at

    def take(self, now: float) -> bool:
        """Tell whether to write now, and count it as done; with `math.inf` for now as the last flush does."""
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True

    def failed(self, now: float, retry_s: float) -> None:
        """Ask for another write after one that failed."""
        self._due_at = now + retry_s
