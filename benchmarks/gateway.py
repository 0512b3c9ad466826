"""Dragoman beside a bare aiohttp byte proxy, in one run: CPU of the process per event and per request, as ratios.

    python benchmarks/gateway.py [--quick]

Everything runs on loopback and is bounded in count and time. The rows are those of spec/performance.md 4.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
CONFIG = """
[providers.chat]
plugin = "openai"
base_url = "http://127.0.0.1:{up}/v1"
keys = [ {{ name = "a", value = "key-one-000001" }}, {{ name = "b", value = "key-two-000002" }} ]
[providers.responses]
plugin = "openai"
dialect = "responses"
base_url = "http://127.0.0.1:{up}/v1"
keys = [ {{ name = "a", value = "key-one-000001" }} ]
[[clients]]
name = "bench"
key = "client-key-000001"
[models."r/*"]
routes = [ {{ provider = "responses" }} ]
[models."*"]
provider = "chat"
[state]
url = "memory:"
[log]
file = "{log}"
"""
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def cpu_s(pid: int) -> float:
    """Return user and system time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def body(dialect: str, model: str, *, stream: bool, filler: int = 0) -> bytes:
    """Return a request body; `filler` bytes of prompt make it large."""
    text = "hi" + " lorem ipsum" * (filler // 12)
    request: dict[str, object] = {"model": model, "stream": stream}
    if dialect == "responses":
        request |= {"input": [{"type": "message", "role": "user", "content": text}]}
    else:
        request |= {"messages": [{"role": "user", "content": text}]}
    if dialect == "messages":
        request["max_tokens"] = 1000
    if dialect == "chat" and stream:
        request["stream_options"] = {"include_usage": True}
    return json.dumps(request).encode()


async def post(port: int, path: str, data: bytes, times: int) -> int:
    """Send one request `times` times over a connection; returns the bytes that came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer client-key-000001\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    ).encode()
    total = 0
    for _ in range(times):
        writer.write(head + data)
        total += await _reply(reader)
    writer.close()
    return total


async def _reply(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head:
        raise SystemExit(f"unexpected reply: {head!r}")
    if b"transfer-encoding: chunked" not in head:
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        return length
    total = 0
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
        total += size
    await reader.readline()
    return total


class Row:
    """One measurement: the same requests through both processes, alternating; CPU seconds per unit."""

    def __init__(
        self, name: str, client: str, prefix: str, model: str, *, units: int, times: int, **more: object
    ) -> None:
        self.name, self.client, self.prefix, self.model = name, client, prefix, model
        self.units, self.times, self.more = units, times, more

    async def cost(self, port: int, pid: int, dialect: str, model: str) -> float:
        """Return CPU microseconds per unit."""
        stream = bool(self.more.get("stream", True))
        lanes = int(str(self.more.get("lanes", 20 if stream else 4)))
        data = body(dialect, model, stream=stream, filler=int(str(self.more.get("filler", 0))))
        before = cpu_s(pid)
        await asyncio.gather(*(post(port, PATHS[dialect], data, self.times) for _ in range(lanes)))
        return (cpu_s(pid) - before) * 1e6 / (self.units * self.times * lanes)


def rows(quick: bool) -> list[Row]:
    """Return the rows of the table."""
    n, k = (800, 1) if quick else (4000, 2)
    few, many = (100, 300) if quick else (150, 800)
    return [
        Row("native Chat stream, per event", "chat", "", f"hot-{n}", units=n, times=k),
        Row("Chat -> Messages, per event", "messages", "", f"hot-{n}", units=n, times=k),
        Row("Chat -> Responses, per event", "responses", "", f"hot-{n}", units=n, times=k),
        Row("Responses -> Messages, per event", "messages", "r/", f"hot-{n}", units=n, times=k),
        Row("small request, native", "chat", "", "small", units=1, times=many, stream=False),
        Row("small request, translated", "messages", "", "small", units=1, times=many, stream=False),
        Row("200 KB request, native", "chat", "", "small", units=1, times=few, stream=False, filler=200_000),
        Row("200 KB request, translated", "messages", "", "small", units=1, times=few, stream=False, filler=200_000),
        Row("slow streams, native", "chat", "", "slow-40", units=40, times=1, lanes=100 if quick else 300),
        Row("slow streams, translated", "messages", "", "slow-40", units=40, times=1, lanes=100 if quick else 300),
    ]


async def ready(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise SystemExit(f"nothing listens on {port}")


def cores() -> tuple[set[int], set[int]]:
    """Return (core of the measured process, cores of everybody else): the measured one shares its core with nobody."""
    mine = sorted(os.sched_getaffinity(0))
    return ({mine[0]}, set(mine[1:])) if len(mine) > 1 else ({mine[0]}, {mine[0]})


def start(*argv: object, core: set[int]) -> subprocess.Popen[bytes]:
    """Start a Python process in the checkout, on the given cores."""
    command = [sys.executable, *(str(argument) for argument in argv)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    os.sched_setaffinity(process.pid, core)
    return process


async def measure(quick: bool, folder: Path) -> None:
    up, raw, gate = free_port(), free_port(), free_port()
    config = folder / "config.toml"
    config.touch(0o600)
    config.write_text(CONFIG.format(up=up, log=folder / "log.jsonl"))
    own, others = cores()
    os.sched_setaffinity(0, others)
    processes = [
        start("benchmarks/upstream.py", up, core=others),
        start("benchmarks/baseline.py", f"http://127.0.0.1:{up}", raw, core=own),
        start("-m", "gateway", "serve", "--config", config, "--port", gate, core=own),
    ]
    try:
        for port in (up, raw, gate):
            await ready(port)
        print(f"{'':36}{'aio-raw':>12}{'Dragoman':>12}{'ratio':>8}")
        for row in rows(quick):
            await show(row, (raw, processes[1].pid), (gate, processes[2].pid))
        yard, ours = (rss_mib(process.pid) for process in processes[1:])
        print(f"\nmemory after all: aio-raw {yard:.0f} MiB, Dragoman {ours:.0f} MiB")
    finally:
        for process in processes:
            process.terminate()
            process.wait(10)


async def show(row: Row, raw: tuple[int, int], gate: tuple[int, int], rounds: int = 3) -> None:
    """Measure a row in alternating rounds and print the medians."""
    yard, ours = [], []
    upstream = "responses" if row.prefix else "chat"
    for _ in range(rounds):
        yard.append(await row.cost(*raw, upstream, row.model))
        ours.append(await row.cost(*gate, row.client, row.prefix + row.model))
    base, cost = statistics.median(yard), statistics.median(ours)
    print(f"{row.name:36}{base:>9.1f} us{cost:>9.1f} us{cost / base if base else 0:>8.2f}", flush=True)


def main() -> None:
    """Run all rows and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a tenth of the work")
    chosen = options.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(chosen.quick, Path(folder)))
    took, python = time.monotonic() - began, sys.version.split()[0]
    print(f"{took:.0f} s on {os.cpu_count()} cores, the measured process alone on one, Python {python}")


if __name__ == "__main__":
    main()
