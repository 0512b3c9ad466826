"""A real gateway in the test's own loop: sockets, log and all, before scripted upstreams."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from gateway.config import Client, Config, Key, Log, Model, Pool, Provider, Route, Server, State, Timeouts
from gateway.lifecycle import Listening, bind, listen
from gateway.telemetry import Telemetry, quiet_libraries
from providers.secret import Secret

CLIENT_KEY = "client-key-for-tests-0001"
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
DEADLINE_S = 10.0


@dataclass
class Reply:
    """What a client got: status, headers, the whole body, and what broke it off (None when it ended properly)."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    broken: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Live:
    """A running gateway with a client session before it and its log beside it."""

    listening: Listening
    session: aiohttp.ClientSession
    out: io.StringIO
    keys: Sequence[str] = field(default_factory=tuple)

    @property
    def url(self) -> str:
        return self.listening.url

    async def send(
        self,
        dialect: str,
        *,
        stream: bool = True,
        model: str = "m1",
        key: str = CLIENT_KEY,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Reply:
        """Send a small request of a dialect and read the reply to its end."""
        body = request(dialect, model=model, stream=stream) | more
        return await self.post(PATHS[dialect], json.dumps(body).encode(), key=key, headers=headers)

    async def post(
        self, path: str, data: bytes, *, key: str = CLIENT_KEY, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """POST bytes to a path."""
        sent = {"content-type": "application/json", "authorization": f"Bearer {key}", **(headers or {})}
        return await self.ask("POST", path, data, sent)

    async def ask(self, method: str, path: str, data: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send any request."""
        got = b""
        async with asyncio.timeout(DEADLINE_S):
            async with self.session.request(method, self.url + path, data=data or None, headers=headers) as response:
                try:
                    async for chunk in response.content.iter_any():
                        got += chunk
                except aiohttp.ClientError as error:
                    return Reply(response.status, response.headers, got, type(error).__name__)
                return Reply(response.status, response.headers, got)

    async def records(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the summary records, once there are that many."""
        end = time.monotonic() + DEADLINE_S
        while True:
            lines = [json.loads(line) for line in self.out.getvalue().splitlines()]
            found = [line for line in lines if line.get("event") == "request"]
            if len(found) >= count:
                return found
            assert time.monotonic() < end, f"{len(found)} records, not {count}: {lines}"
            await asyncio.sleep(0.01)


def request(dialect: str, *, model: str = "m1", stream: bool = True) -> dict[str, Any]:
    """Return the smallest request of a dialect."""
    if dialect == "responses":
        return {"model": model, "input": "hi", "stream": stream}
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    return body | ({"max_tokens": 256} if dialect == "messages" else {})


def provider(
    url: str, dialect: str = "chat", *, name: str = "up", keys: int = 1, pool: Pool | None = None, **timeouts: float
) -> Provider:
    """Return a provider table of any upstream dialect; keys are named k1, k2, ..."""
    return Provider(
        name=name,
        plugin="anthropic" if dialect == "messages" else "openai",
        base_url=f"{url}/v1",
        dialect=None if dialect == "messages" else dialect,  # type: ignore[arg-type]
        keys=tuple(Key(f"k{n}", Secret(f"upstream-key-{n:04}")) for n in range(1, keys + 1)),
        timeouts=Timeouts(**timeouts),
        pool=pool or Pool(),
    )


def config(
    *providers: Provider, models: Mapping[str, Model] | None = None, clients: Sequence[Client] = (), **server: Any
) -> Config:
    """Return a configuration with the alias m1 over the first provider and one client."""
    alice = Client("alice", Secret(CLIENT_KEY).sha256())
    return Config(
        server=Server(**{"keepalive_s": 0, "drain_s": 1, "port": 0} | server),
        clients=tuple(clients) or (alice,),
        providers={table.name: table for table in providers},
        models=dict(models) if models else {"m1": Model(routes=(Route(providers[0].name, "up-m"),))},
        state=State(url="memory:"),
        log=Log(format="json"),
        secrets=tuple(key.value for table in providers for key in table.keys),
    )


@asynccontextmanager
async def running(settings: Config) -> AsyncIterator[Live]:
    """Run a gateway until the block ends."""
    out = io.StringIO()
    telemetry = Telemetry(settings.log, out)
    quiet_libraries(telemetry, asyncio.get_running_loop())
    listening = await listen(settings, telemetry, bind("127.0.0.1", 0))
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            yield Live(listening, session, out)
    finally:
        await listening.close(0)
        telemetry.close()
