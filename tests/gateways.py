"""A whole gateway in this process, from the text of a configuration file, behind a real socket.

`async with gateway(tmp_path, TOML) as served:` and then `await served.post("/v1/responses", {...})`.
"""

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from gateway.config import Config
from gateway.configfile import load
from gateway.lifecycle import Listening, bind, listen
from gateway.plugins import options_type
from gateway.telemetry import Telemetry

STATE = '\n[state]\nurl = "memory:"\n'


@dataclass(slots=True)
class Served:
    """A gateway that listens, a client of it, and the summary records so far."""

    listening: Listening
    session: aiohttp.ClientSession
    out: io.StringIO

    async def records(self, count: int = 1) -> list[dict[str, Any]]:
        """The summary records, once there are that many."""
        async with asyncio.timeout(5):
            while (
                len(found := [r for line in self.out.getvalue().splitlines() if "outcome" in (r := json.loads(line))])
                < count
            ):
                await asyncio.sleep(0.01)
        return found

    @property
    def url(self) -> str:
        return self.listening.url

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        """Status and decoded answer: JSON, or for a stream its events."""
        async with self.session.post(self.url + path, json=body, headers=headers) as reply:
            text = await reply.text()
            if reply.content_type == "text/event-stream":
                return reply.status, events(text)
            return reply.status, json.loads(text)


def events(text: str) -> list[dict[str, Any]]:
    """The JSON of a stream's events."""
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


def config_of(folder: Path, text: str) -> Config:
    path = folder / "config.toml"
    path.write_text(text if "[state]" in text else text + STATE)
    path.chmod(0o600)
    config = load(path, {}, options_type=options_type)
    assert isinstance(config, Config), config
    return config


@asynccontextmanager
async def gateway(folder: Path, text: str, sock: socket.socket | None = None) -> AsyncIterator[Served]:
    config = config_of(folder, text)
    out = io.StringIO()
    telemetry = Telemetry(config.log, out)
    listening = await listen(config, telemetry, sock or bind("127.0.0.1", 0))
    session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))
    try:
        yield Served(listening, session, out)
    finally:
        await session.close()
        await listening.close(0.5)
        telemetry.close()
        await asyncio.sleep(0)
