"""The CLI's lock: one holder, a heartbeat, and a way past one that is dead."""

import asyncio
import fcntl
import os

import pytest

from providers import filelock
from providers.filelock import STALE_S, Contended, held


async def test_holder_names_itself(tmp_path):
    """While it is held the file has our process and the time, and afterwards nothing."""
    path = tmp_path / "auth.json"
    async with held(path, now=lambda: 1000.5):
        assert f"{os.getpid()}:1000" == (tmp_path / "auth.json.lock").read_text()
    assert "" == (tmp_path / "auth.json.lock").read_text()


async def test_one_at_a_time(tmp_path):
    """A second one waits until the first lets go."""
    path, order = tmp_path / "auth.json", []

    async def second():
        async with held(path):
            order.append("second")

    async with held(path):
        task = asyncio.create_task(second())
        await asyncio.sleep(0.12)
        order.append("first")
    await task
    assert ["first", "second"] == order


async def test_living_holder_is_not_robbed(tmp_path):
    """A holder whose mark is new, or that has not marked yet, keeps its lock."""
    path = tmp_path / "auth.json"
    for mark in ("", "1:1000"):
        (tmp_path / "auth.json.lock").write_text(mark)
        with (tmp_path / "auth.json.lock").open("rb+") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.raises(Contended):
                async with held(path, wait_s=0.1, now=lambda: 1000 + STALE_S):
                    pass


async def test_stale_lock_is_replaced(tmp_path):
    """A mark that was not renewed for a minute is a dead holder's; others then lock the new file."""
    path = tmp_path / "auth.json"
    lock = tmp_path / "auth.json.lock"
    lock.write_text("1:1000")
    with lock.open("rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        async with held(path, now=lambda: 1001 + STALE_S):
            with lock.open("rb+") as third, pytest.raises(BlockingIOError):
                fcntl.flock(third, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_lock_of_a_file_that_went_is_taken_again(tmp_path, monkeypatch):
    """A lock on a file that somebody replaced meanwhile is none."""
    path, looks = tmp_path / "auth.json", []
    real = filelock._is_at

    def gone_once(lock, handle):
        looks.append(handle)
        if len(looks) == 1:
            lock.unlink()
        return real(lock, handle)

    monkeypatch.setattr(filelock, "_is_at", gone_once)
    async with held(path):
        assert 2 == len(looks)


def test_only_the_locked_file_is_removed(tmp_path):
    """A stale holder's file that is already gone, or another's by now, is left alone."""
    lock = tmp_path / "lock"
    with lock.open("w") as held_file:
        lock.unlink()
        lock.write_text("another's")
        filelock._unlink(lock, held_file.fileno())
    assert lock.exists()


async def test_heartbeat_renews_the_mark(tmp_path, monkeypatch):
    """A holder that takes long goes on telling that it lives."""
    monkeypatch.setattr(filelock, "HEARTBEAT_S", 0.01)
    times = iter(range(1000, 100_000))
    lock = tmp_path / "auth.json.lock"
    async with held(tmp_path / "auth.json", now=lambda: next(times)):
        first = lock.read_text()
        async with asyncio.timeout(5):
            while lock.read_text() in ("", first):
                await asyncio.sleep(0.01)


async def test_no_place_for_a_lock(tmp_path):
    """A folder that does not exist, or a link in place of the lock, is an OSError."""
    with pytest.raises(OSError, match="No such file"):
        async with held(tmp_path / "none" / "auth.json"):
            pass
    (tmp_path / "auth.json.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        async with held(tmp_path / "auth.json"):
            pass


async def test_other_errors_leave_no_descriptor(tmp_path, monkeypatch):
    """An error that is not about waiting is raised, and the file closed."""
    opened = []
    real = os.open
    monkeypatch.setattr(filelock.os, "open", lambda *given: opened.append(real(*given)) or opened[-1])

    def broken(handle, how):
        raise OSError(5, "broken")

    monkeypatch.setattr(filelock.fcntl, "flock", broken)
    with pytest.raises(OSError, match="broken"):
        async with held(tmp_path / "auth.json"):
            pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
