"""A scripted HTTP/1.1 server on 127.0.0.1: it plays exact bytes and faults and keeps exactly what it was sent.

    async with Upstream([[Head(), b"data: 1\\n\\n", Delay(0.1), End.RESET]]) as upstream:
        ...                                     # talk to upstream.url
        assert "POST" == upstream.requests[0].method

A reply is a list of steps. A `bytes` step is one write, and one chunk where the head announced chunks. A list that runs
out is completed as its framing demands and the connection is kept; a list that holds an `End` stops there. The bytes of
the model protocols come from `tests/streams.py`; this file knows nothing about them.
"""

import asyncio
import enum
import http
import json
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias

HOST = "127.0.0.1"
HEAD_LIMIT_BYTES = 1 << 20
LINGER_NOT = struct.pack("ii", 1, 0)  # on, 0 s: the kernel drops what is unsent and answers with RST


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers. Without `content-length` or `connection: close` among them the body is chunked."""

    status: int = 200
    headers: Sequence[tuple[str, str]] = (("content-type", "text/event-stream"),)

    def header(self, name: str) -> str | None:
        return find(self.headers, name)

    @property
    def chunked(self) -> bool:
        return self.header("content-length") is None and self.header("connection") != "close"

    def encode(self) -> bytes:
        reason = http.HTTPStatus(self.status).phrase if self.status in set(http.HTTPStatus) else "Scripted"
        lines = [f"HTTP/1.1 {self.status} {reason}", *(f"{name}: {value}" for name, value in self.headers)]
        if self.chunked:
            lines.append("transfer-encoding: chunked")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes outside the framing, for broken heads and half chunks: `Raw(b"ff\\r\\nonly this")`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Delay:
    """Silence for that long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Silence until the test sets the event."""

    event: asyncio.Event


class End(enum.Enum):
    """How a reply stops short."""

    RESET = "RST; what the peer has not read yet may be lost with it"
    CLOSE = "FIN, with neither the last chunk nor the rest of the announced length"
    STALL = "not another byte until the peer hangs up"


Step: TypeAlias = Head | bytes | Raw | Delay | Wait | End
Reply: TypeAlias = Sequence[Step]


@dataclass(frozen=True, slots=True)
class Hangup:
    """The peer closed the connection: how, at which `loop.time()`, and whether the reply was still being played."""

    how: str  # "eof" or "reset"
    at: float
    early: bool


@dataclass(slots=True, eq=False)
class Request:
    """One request as it came, and what became of its connection."""

    method: str
    target: str
    headers: list[tuple[str, str]]  # in order, names as they were spelled
    body: bytes
    connection: int  # the first connection is 1; equal numbers mean that the peer used it again
    at: float
    replied: asyncio.Event = field(default_factory=asyncio.Event)
    hangup: Hangup | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return find(self.headers, name)

    async def hung_up(self, within_s: float = 5.0) -> Hangup:
        """Wait for the peer to close the connection, and say how it did."""
        await asyncio.wait_for(self.gone.wait(), within_s)
        assert self.hangup is not None
        return self.hangup


Script: TypeAlias = Sequence[Reply] | Callable[[Request], Reply]


def find(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """The first value of a header, whatever the case of its name."""
    return next((value for key, value in headers if key.lower() == name.lower()), None)


def sse(frames: Iterable[bytes], *, headers: Sequence[tuple[str, str]] = ()) -> list[Step]:
    """A complete event stream, one write for each frame."""
    return [Head(headers=[("content-type", "text/event-stream"), *headers]), *frames]


def reply_json(value: object, status: int = 200, *, headers: Sequence[tuple[str, str]] = ()) -> list[Step]:
    """A whole JSON answer."""
    body = json.dumps(value).encode()
    return [Head(status, [("content-type", "application/json"), ("content-length", str(len(body))), *headers]), body]


def closed_port() -> int:
    """A port on which connections are refused."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


class Upstream:
    """The server, as an async context manager.

    `script` is a list of replies, one a request, or a function from the request to its reply. A request beyond the
    list is kept too and answered with a 500, so that a test can count requests. An exception of the function, or of
    a script that cannot be played, is raised at the end of the context.
    """

    def __init__(self, script: Script = (), *, gap_s: float = 0.0) -> None:
        self.play(script)
        self.gap_s = gap_s  # a pause after each write, for peers that should read each write by itself
        self.url = ""
        self.port = 0
        self._connections: set[_Connection] = set()
        self._accepted = 0
        self._arrived = asyncio.Condition()
        self._problem: Exception | None = None

    def play(self, script: Script) -> None:
        """Forget the requests so far and play another script."""
        if not callable(script) and any(isinstance(reply, Step) for reply in script):
            raise TypeError("a script is a list of replies, each a list of steps")
        self.script = script
        self.requests: list[Request] = []

    async def received(self, count: int = 1, within_s: float = 5.0) -> list[Request]:
        """The requests, once there are that many."""
        async with self._arrived, asyncio.timeout(within_s):
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def start(self, listener: socket.socket | None = None) -> None:
        """Listen on a free port, or on a socket made elsewhere."""
        listener = listener or socket.create_server((HOST, 0))
        self._server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), sock=listener)
        self.port = listener.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = [connection.abort() for connection in self._connections]
        await asyncio.gather(*tasks, return_exceptions=True)
        if error is None and self._problem is not None:
            raise self._problem

    def attach(self, connection: "_Connection") -> int:
        self._connections.add(connection)
        self._accepted += 1
        return self._accepted

    def detach(self, connection: "_Connection") -> None:
        self._connections.discard(connection)

    async def reply_to(self, request: Request) -> Reply:
        """Keep a request and find the reply to it."""
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        if callable(self.script):
            return self.script(request)
        number = len(self.requests)
        if number > len(self.script):
            return reply_json({"error": {"message": f"request {number} is not in the script"}}, 500)
        return self.script[number - 1]

    def fail(self, problem: Exception) -> None:
        self._problem = self._problem or problem


class _Connection(asyncio.StreamReaderProtocol):
    """One accepted connection. Below the streams, because only a protocol learns how a peer went away."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.request: Request | None = None
        self.left: tuple[str, float] | None = None  # how and when the peer went
        self.gone = asyncio.Event()
        self.ours = False  # the close is of our making
        super().__init__(asyncio.StreamReader(limit=HEAD_LIMIT_BYTES), self._opened)

    def _opened(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.number = self.upstream.attach(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def eof_received(self) -> bool:
        self._peer_left("eof")
        return super().eof_received() or False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._peer_left("reset")
        self.gone.set()
        self.upstream.detach(self)
        super().connection_lost(exc)

    def _peer_left(self, how: str) -> None:
        if self.left is None and not self.ours:
            self.left = how, asyncio.get_running_loop().time()
            self._note_hangup()
        self.gone.set()

    def _note_hangup(self) -> None:
        if self.request is not None and self.left is not None:
            self.request.hangup = Hangup(*self.left, early=not self.request.replied.is_set())
            self.request.gone.set()

    def abort(self) -> "asyncio.Task[None]":
        self.ours = True
        self.writer.transport.abort()
        self.task.cancel()
        return self.task

    async def _serve(self) -> None:
        try:
            while not self.gone.is_set() and (request := await self._read()):
                self.request = request
                self._note_hangup()  # the peer may have left before we had read all that it sent
                await self._answer(request, await self.upstream.reply_to(request))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the peer left; its request, if there was a whole one, says so
        except Exception as problem:  # noqa: BLE001 - a fault of the test itself, raised where the test can see it
            self.upstream.fail(problem)
        finally:
            self.writer.close()

    async def _read(self) -> Request | None:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        method, target, _ = start.split(" ", 2)
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        body = await self._body(headers)
        return Request(method, target, headers, body, self.number, asyncio.get_running_loop().time())

    async def _body(self, headers: list[tuple[str, str]]) -> bytes:
        if "chunked" not in (find(headers, "transfer-encoding") or ""):
            return await self.reader.readexactly(int(find(headers, "content-length") or 0))
        body = b""
        while size := int((await self.reader.readline()).partition(b";")[0], 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        while (await self.reader.readline()).strip():
            pass  # trailers
        return body

    async def _answer(self, request: Request, reply: Reply) -> None:
        """Play a reply until it is over or the peer is gone."""
        playing = asyncio.ensure_future(self._play(reply))
        leaving = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({playing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                playing.result()
                request.replied.set()
        finally:
            for task in (playing, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError, ConnectionError):
                    await task

    async def _play(self, reply: Reply) -> None:
        head: Head | None = None
        for step in reply:
            match step:
                case Head():
                    head = step
                    await self._write(step.encode())
                case bytes():
                    await self._write(framed(step) if head and head.chunked else step)
                case Raw():
                    await self._write(step.data)
                case Delay():
                    await asyncio.sleep(step.seconds)
                case Wait():
                    await step.event.wait()
                case End():
                    await self._end(step)
                    return
        if head and head.chunked:
            await self._write(b"0\r\n\r\n")
        elif head is None or head.header("content-length") is None:
            await self._end(End.CLOSE)

    async def _write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(self.upstream.gap_s)

    async def _end(self, end: End) -> None:
        if end is End.STALL:
            await asyncio.get_running_loop().create_future()  # cancelled when the peer is gone
        self.ours = True
        if end is End.RESET:
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            self.writer.transport.abort()
        else:
            self.writer.close()
        self.gone.set()


def framed(data: bytes) -> bytes:
    """The data as one chunk of a chunked body; nothing for no data, as an empty chunk would be the end."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
