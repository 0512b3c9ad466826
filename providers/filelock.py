"""The lock on a credential file, as the Grok CLI takes it (spec/grok.md 6.2): a sibling file, flock, a heartbeat.

The holder writes `PID:UNIX_SECONDS` and renews it, so that a waiter can tell a slow holder from a dead one.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

__all__ = ["HEARTBEAT_S", "STALE_S", "Contended", "held"]

HEARTBEAT_S = 5.0
STALE_S = 60.0
"""A holder that has not renewed its mark for so long is gone, though its descriptor may live on in a child."""
WAIT_S = 12.0
"""A living holder is waited for so long; then the caller looks at the file again and gives up."""
POLL_S = 0.05


class Contended(Exception):
    """Another process holds the lock and does not let go."""


@contextlib.asynccontextmanager
async def held(path: Path, *, wait_s: float = WAIT_S, now: Callable[[], float] = time.time) -> AsyncIterator[None]:
    """Hold the lock of a credential file; raises Contended after `wait_s`, and OSError where none can be made."""
    lock = path.with_name(path.name + ".lock")
    handle = await _taken(lock, wait_s, now)
    beat = asyncio.create_task(_beats(handle, now))
    try:
        yield
    finally:
        beat.cancel()
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
        os.close(handle)


async def _taken(lock: Path, wait_s: float, now: Callable[[], float]) -> int:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _abandoned(handle, now()):
                _unlink(lock, handle)  # what its holder locked is no longer the file of this name
            os.close(handle)
        except BaseException:
            os.close(handle)
            raise
        else:
            if _is_at(lock, handle):
                _mark(handle, now())
                return handle
            os.close(handle)
            continue
        if loop.time() >= deadline:
            raise Contended
        await asyncio.sleep(POLL_S)


def _abandoned(handle: int, now: float) -> bool:
    """Tell whether the holder's mark is stale. Its PID says nothing: it may be one of another container."""
    seconds = os.pread(handle, 64, 0).decode("ascii", "replace").strip().partition(":")[2]
    return seconds.isdecimal() and now - int(seconds) > STALE_S  # without a mark it was only just taken


def _is_at(lock: Path, handle: int) -> bool:
    try:
        found, ours = lock.stat(), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)


def _unlink(lock: Path, handle: int) -> None:
    if _is_at(lock, handle):
        lock.unlink(missing_ok=True)


def _mark(handle: int, now: float) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}:{int(now)}".encode(), 0)


async def _beats(handle: int, now: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        _mark(handle, now())
