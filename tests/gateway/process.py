"""A gateway as its own process, as users start it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_S = 30.0
CONFIG = """
[server]
port = 0
keepalive_s = 0
drain_s = {drain_s}

[[clients]]
name = "alice"
key = {{ env = "CLIENT_KEY" }}

[providers.up]
plugin = "openai"
base_url = "{url}/v1"
keys = [ {{ name = "k1", value = {{ env = "UP_KEY" }} }} ]

[models.m1]
provider = "up"

[state]
url = "memory:"

[log]
format = "json"
"""


def write(folder: Path, text: str) -> Path:
    """A config file that only we can read, put in place at once."""
    path, new = folder / "config.toml", folder / "new.toml"
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)
    return path


@dataclass
class Running:
    """A started process: what it listens on, and the lines of its stderr so far."""

    process: asyncio.subprocess.Process
    url: str
    lines: list[str] = field(default_factory=list)

    async def until(self, words: str) -> None:
        """Wait for a line of stderr with these words."""
        async with asyncio.timeout(START_S):
            while not any(words in line for line in self.lines):
                await asyncio.sleep(0.01)


async def start(*argv: str, env: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    """A command of ours, with its output in pipes."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *argv,
        cwd=ROOT, env=os.environ | (env or {}), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def run(*argv: str, env: Mapping[str, str] | None = None) -> tuple[int | None, str, str]:
    """Code, stdout and stderr of a command that ends."""
    process = await start(*argv, env=env)
    async with asyncio.timeout(START_S):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def serving(*argv: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    """Start a command that listens, wait for its line, and kill it at the end if it still runs."""
    process = await start(*argv, env=env)
    assert process.stderr is not None
    running = Running(process, "")

    async def read() -> None:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            running.lines.append(line.decode().rstrip("\n"))

    reading = asyncio.create_task(read())
    try:
        await running.until("listening on ")
        line = next(line for line in running.lines if "listening on " in line)
        running.url = line.partition("listening on ")[2].split()[0]
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading
        if process.stdout is not None:
            await process.stdout.read()
