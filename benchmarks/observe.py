"""What it costs to be watched: CPU of the gateway at 50 requests a second, with the status page's feed open, its
polling and a `dragoman tail`, against the same without. Rounds alternate within one run; the ratio is the result.

    python benchmarks/observe.py [--quick]
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

import aiohttp

from gateway import (
    CONFIG,
    PATHS,
    ROOT,
    body,
    free_port,
    post,
    ready,
    start,
)  # benchmarks/gateway.py, beside this script

RATE = 50
POLL_S = 2.0
WANTED = 1.05


def cpu_ns(pid: int) -> int:
    """Return the CPU time of all threads of a process; /proc/PID/stat has ticks of 10 ms, too coarse for 5 %."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


async def load(port: int, seconds: float) -> int:
    """Send RATE streamed requests a second, spread evenly; returns their number."""
    data = body("messages", "hot-60", stream=True)
    loop = asyncio.get_running_loop()
    began, tasks = loop.time(), []
    for number in range(int(RATE * seconds)):
        await asyncio.sleep(began + number / RATE - loop.time())
        tasks.append(asyncio.create_task(post(port, PATHS["messages"], data, 1)))
    await asyncio.gather(*tasks)
    return len(tasks)


class Watched:
    """The page as the gateway sees it (its feed and its polling), and a tail in a process of its own."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self.seen = 0

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        command = [sys.executable, "-m", "gateway", "tail", "--url", self._url]
        self._tail = subprocess.Popen(  # noqa: ASYNC220  once a round
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._tasks = [asyncio.create_task(self._feed()), asyncio.create_task(self._poll())]
        async with asyncio.timeout(20):
            while (await self._status())["followers"] < 2:  # noqa: ASYNC110  another process decides
                await asyncio.sleep(0.1)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tail.terminate()
        self._tail.wait(10)
        await self._session.close()

    async def _status(self) -> dict[str, int]:
        async with self._session.get(f"{self._url}/admin/status") as reply:
            return dict(await reply.json())

    async def _poll(self) -> None:
        while True:
            await self._status()
            await asyncio.sleep(POLL_S)

    async def _feed(self) -> None:
        async with self._session.get(f"{self._url}/admin/events?newest=0", timeout=aiohttp.ClientTimeout(None)) as feed:
            async for chunk in feed.content.iter_any():
                self.seen += chunk.count(b"event: request")


async def measure(rounds: int, seconds: float, folder: Path) -> float:
    up, gate = free_port(), free_port()
    config = folder / "config.toml"
    config.touch(0o600)
    config.write_text(CONFIG.format(up=up, log=folder / "log.jsonl"))
    processes = [
        start("benchmarks/upstream.py", up),
        start("-m", "gateway", "serve", "--config", config, "--port", gate),
    ]
    pid = processes[1].pid
    try:
        for port in (up, gate):
            await ready(port)
        await load(gate, 2)
        ratios = []
        for _ in range(rounds):
            # Either side of the watched round one without: a machine that gets busier or idler cancels out.
            first = await _cost(gate, pid, seconds)
            async with Watched(gate) as watched:
                with_it = await _cost(gate, pid, 2 * seconds)
                await asyncio.sleep(0.5)
                assert watched.seen == int(2 * RATE * seconds), watched.seen
            alone = (first + await _cost(gate, pid, seconds)) / 2
            ratios.append(with_it / alone)
            print(f"alone {alone:7.0f} us, watched {with_it:7.0f} us a request, ratio {ratios[-1]:.3f}", flush=True)
        return statistics.median(ratios)
    finally:
        for process in processes:
            process.terminate()
            process.wait(10)


async def _cost(port: int, pid: int, seconds: float) -> float:
    before = cpu_ns(pid)
    count = await load(port, seconds)
    return (cpu_ns(pid) - before) / 1000 / count


def main() -> None:
    """Print the rounds and their median ratio."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick = options.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        ratio = asyncio.run(measure(3 if quick else 7, 3 if quick else 6, Path(folder)))
    print(f"median ratio {ratio:.3f} (wanted: under {WANTED}), {RATE} requests/s, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
