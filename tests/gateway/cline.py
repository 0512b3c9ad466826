"""A gateway before a scripted Cline, in this process: real sockets on both sides, records in a list."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from gateway.config import Client, Config, Credential, Key, Log, Model, Pool, Provider, Route, Server, State, Timeouts
from gateway.lifecycle import Listening, bind, listen
from gateway.record import Record
from gateway.telemetry import Telemetry
from providers.secret import Secret
from tests.clients.upstreams import cline as dressed
from tests.streams import Block, Turn, chat, frame
from tests.upstream import Reply, Upstream, sse

CLIENT_KEY = "client-key-canary"
GLM = "z-ai/glm-5.3-flash"
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


class Records(Telemetry):
    """Telemetry that keeps the summaries."""

    def __init__(self) -> None:
        super().__init__(Log(format="json", level="warning"))
        self.records: list[Record] = []

    def summary(self, record: Record) -> None:
        self.records.append(record)


def config(
    url: str,
    *,
    keys: Sequence[str] = ("k1",),
    credentials=(),
    state="memory:",
    timeouts=None,
    pool=None,
    **model,
):
    provider = Provider(
        "cline",
        "cline",
        f"{url}/api/v1",
        keys=tuple(Key(name, Secret(f"{name}-canary")) for name in keys),
        credentials=tuple(Credential(name, file) for name, file in credentials),
        timeouts=timeouts or Timeouts(),
        pool=pool or Pool(),
    )
    clients = tuple(Client(name, Secret(f"{CLIENT_KEY}-{name}").sha256()) for name in ("a", "b"))
    secrets = (*(key.value for key in provider.keys), Secret(f"{CLIENT_KEY}-a"))
    models = {"*": Model(routes=(Route("cline", GLM),), **model)}
    return Config(
        Server(port=0), clients, providers={"cline": provider}, models=models, state=State(state), secrets=secrets
    )


class Stage:
    """One gateway with its upstream, and requests to it."""

    def __init__(self, listening: Listening, telemetry: Records, session: aiohttp.ClientSession) -> None:
        self.listening = listening
        self.telemetry = telemetry
        self.session = session

    @property
    def runtime(self):
        return self.listening.gateway.runtime

    async def record(self, count: int = 1) -> Record:
        """The latest record, once there are that many."""
        async with asyncio.timeout(5):
            while len(self.telemetry.records) < count:
                await asyncio.sleep(0.005)
        return self.telemetry.records[-1]

    def post(self, dialect: str, body: dict[str, Any], *, client: str = "a", path: str = ""):
        """A request in the context of which its reply can be read."""
        sent = {"authorization": f"Bearer {CLIENT_KEY}-{client}"}
        return self.session.post(self.listening.url + PATHS[dialect] + path, json=body, headers=sent)

    async def ask(self, dialect: str, body: dict[str, Any], **options) -> tuple[int, str]:
        async with self.post(dialect, body, **options) as reply:
            return reply.status, await reply.text()


@asynccontextmanager
async def stage(url: str, **settings) -> AsyncIterator[Stage]:
    telemetry = Records()
    listening = await listen(config(url, **settings), telemetry, bind("127.0.0.1", 0))
    async with aiohttp.ClientSession() as session:
        try:
            yield Stage(listening, telemetry, session)
        finally:
            await listening.close(0)
            telemetry.close()


@asynccontextmanager
async def served(script, **settings) -> AsyncIterator[tuple[Upstream, Stage]]:
    async with Upstream(script) as upstream, stage(upstream.url, **settings) as made:
        yield upstream, made


def answer(*blocks: Block, tag: str = "1") -> Reply:
    """A turn as Cline streams it: comments, reasoning twice, usage with cost, `error: null`, CRLF."""
    return sse(dressed(chat(Turn(blocks, model=GLM, tag=tag))))


def chunks(*deltas: dict[str, Any], finish: str | None = "stop", done: bool = True, **more) -> list[bytes]:
    """Plain chunks of these deltas."""
    base = {"id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": GLM}
    made = [frame(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} | more) for delta in deltas]
    if finish:
        made.append(frame(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    return [*made, frame("[DONE]")] if done else made


def ask(dialect: str, *, stream: bool = True, session: str = "", said: str = "hi", **more) -> dict[str, Any]:
    """A first request of each dialect, naming its session where the body has a place for it."""
    if dialect == "responses":
        return {
            "model": "m",
            "stream": stream,
            "input": said,
            **({"prompt_cache_key": session} if session else {}),
            **more,
        }
    body: dict[str, Any] = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": said}], **more}
    if dialect == "messages":
        body["max_tokens"] = 1000
        if session:
            body["metadata"] = {"user_id": f"user_x_account__session_{session}"}
    elif session:
        body["prompt_cache_key"] = session
    return body


def events(text: str) -> list[dict[str, Any]]:
    """The JSON events of a stream."""
    datas = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(data) for data in datas if data != "[DONE]"]
