"""What holds for every test of the gateway: it leaves no task, socket or file behind (S26)."""

import asyncio
import gc
import inspect
import time
from pathlib import Path

import pytest

PATIENCE_S = 3.0


def open_files() -> dict[str, str]:
    """The open descriptors of this process and what they lead to."""
    found = {}
    for file in Path("/proc/self/fd").iterdir():
        try:
            found[file.name] = str(file.readlink())
        except OSError:  # the descriptor of the listing itself
            continue
    return found


def tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.fixture(autouse=True)
def leak_free(request: pytest.FixtureRequest) -> None:
    """Watch over each test that runs in a loop."""
    if inspect.iscoroutinefunction(getattr(request.function, "__wrapped__", request.function)):
        request.getfixturevalue("watched")


@pytest.fixture
async def watched():
    """After the test there are no tasks and descriptors that were not there before."""
    before, running = open_files(), tasks()
    yield
    end = time.monotonic() + PATIENCE_S
    while True:
        left = {task.get_name(): repr(task.get_coro()) for task in tasks() - running}
        opened = {number: where for number, where in open_files().items() if before.get(number) != where}
        if not left and not opened:
            return
        assert time.monotonic() < end, f"left behind: {left} {opened}"
        gc.collect()
        await asyncio.sleep(0.01)
