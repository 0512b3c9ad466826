"""HTTP as raw bytes: what no client library would send, and exactly what comes back."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from tests.gateway.live import CLIENT_KEY
from tests.upstream import find

DEADLINE_S = 10.0
KEY = ("authorization", f"Bearer {CLIENT_KEY}")
JSON = ("content-type", "application/json")
LOCAL = ("host", "localhost")


@dataclass
class Answer:
    """What a raw connection gave back before it was closed; status 0 when nothing came."""

    raw: bytes

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1]) if self.raw.startswith(b"HTTP/") else 0

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.raw.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    @property
    def body(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]

    def header(self, name: str) -> str | None:
        return find(self.headers, name)


def head(start: str, *headers: tuple[str, str]) -> bytes:
    """A request's start line and headers, as they stand."""
    lines = [f"{start} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def whole(start: str, body: bytes = b"", *headers: tuple[str, str]) -> bytes:
    """A request with its body and length, after which the connection is over."""
    length = ("content-length", str(len(body)))
    return head(start, LOCAL, ("connection", "close"), length, *headers) + body


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def talk(url: str, *pieces: bytes, pause_s: float = 0.0) -> Answer:
    """Send bytes on a connection of their own and read until the server closes it."""
    return (await talk_on(url, pieces, pause_s))[0]


async def talk_on(url: str, pieces: Iterable[bytes], pause_s: float = 0.0) -> tuple[Answer, bool]:
    """As `talk`, and whether the server reset the connection instead of closing it."""
    reader, writer = await connect(url)
    got, reset = b"", False

    async def write() -> None:
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)

    writing = asyncio.create_task(write())
    try:
        async with asyncio.timeout(DEADLINE_S):
            while chunk := await reader.read(65536):
                got += chunk
    except ConnectionError:
        reset = True
    finally:
        writing.cancel()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return Answer(got), reset
