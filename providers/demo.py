"""A scripted upstream in the same process: Chat Completions on a loopback socket, no key, no network.

It is what `dragoman demo` and first experiments talk to. The model's name picks the script: `demo` reasons and
answers, `demo-tool` calls the client's first tool and then reports its result, `demo-429`, `demo-500`,
`demo-cut` and `demo-silent` show what a client sees on a bad day.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from aiohttp import web
from yarl import URL

from providers.api import Call, Plugin, Provider, Setup, Upstream, Verdict
from providers.client import Client
from providers.judgement import judged
from translators.carrier import origin_of
from translators.conversation import Conversation, DialectName
from translators.dialect import Target
from translators.jsonio import encode
from translators.sse import DONE, data_frame
from translators.traits import Traits

__all__ = ["SCRIPTS", "Demo", "plugin"]

PAUSE_S = 0.02
"""Time between two streamed words, so that a person sees them arrive."""
SILENCE_S = 3600
ANSWER = (
    "Hello from Dragoman. You spoke your own protocol, this upstream spoke Chat Completions, "
    "and every word was translated on the way."
)
REASONING = "The client greets me, so I greet it back and say what just happened."
SCRIPTS = ("demo", "demo-tool", "demo-429", "demo-500", "demo-cut", "demo-silent")


class _Message(msgspec.Struct):
    role: str
    content: Any = None


class _Function(msgspec.Struct):
    name: str
    parameters: dict[str, Any] = {}


class _Tool(msgspec.Struct):
    function: _Function


class _Request(msgspec.Struct):
    model: str
    messages: list[_Message]
    tools: list[_Tool] = []
    stream: bool = False


_decode = msgspec.json.Decoder(_Request).decode


class Script:
    """The server side: answers POST /v1/chat/completions by the model's name."""

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None
        self._lock = asyncio.Lock()
        self.url = URL()

    async def start(self) -> None:
        """Listen on a free loopback port; does nothing when already listening."""
        async with self._lock:
            if self._runner is not None:
                return
            app = web.Application()
            app.router.add_post("/v1/chat/completions", self._answer)
            runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = URL.build(scheme="http", host=host, port=port, path="/v1/chat/completions")
            self._runner = runner

    async def stop(self) -> None:
        """Close the socket."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = _decode(await request.read())
        if asked.model == "demo-429":
            error = {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}
            return web.json_response(error, status=429, headers={"retry-after": "30"})
        if asked.model == "demo-500":
            error = {"error": {"message": "the demo fails on request", "type": "server_error"}}
            return web.json_response(error, status=500)
        if not asked.stream:
            return web.json_response(_whole(asked))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        async for piece in _pieces(asked):
            await response.write(piece)
            await asyncio.sleep(PAUSE_S)
        if asked.model == "demo-cut" and request.transport is not None:
            request.transport.abort()
        return response


def _result(asked: _Request) -> str | None:
    """Return the result of the tool that this conversation just ran, None before that."""
    last = asked.messages[-1]
    return str(last.content) if last.role == "tool" else None


def _calls(asked: _Request) -> bool:
    return asked.model == "demo-tool" and bool(asked.tools) and _result(asked) is None


def _text(asked: _Request) -> str:
    result = _result(asked)
    return ANSWER if result is None else f"The tool returned: {result}"


def _arguments(tool: _Tool) -> dict[str, Any]:
    """Return arguments that fit the tool's schema: an echo for shells, empty values elsewhere."""
    schema = tool.function.parameters
    properties: dict[str, Any] = schema.get("properties") or {}
    out: dict[str, Any] = {}
    for name in schema.get("required") or list(properties)[:1]:
        kind = properties.get(name, {}).get("type", "string")
        echo = "echo hello from dragoman" if name in ("command", "cmd", "input") else "hello from dragoman"
        values = {"string": echo, "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
        out[name] = values.get(kind, echo) if isinstance(kind, str) else echo
    return out


def _call(asked: _Request) -> dict[str, Any]:
    tool = asked.tools[0]
    arguments = encode(_arguments(tool)).decode()
    return {"id": "call_demo_1", "type": "function", "function": {"name": tool.function.name, "arguments": arguments}}


def _usage(asked: _Request) -> dict[str, int]:
    prompt = sum(len(str(message.content or "")) for message in asked.messages) // 4 + 1
    answer = len(_text(asked).split()) + len(REASONING.split())
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _whole(asked: _Request) -> dict[str, Any]:
    calls = _calls(asked)
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else _text(asked)}
    message["reasoning_content"] = REASONING
    if calls:
        message["tool_calls"] = [_call(asked)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": asked.model,
        "choices": [choice],
        "usage": _usage(asked),
    }


def _chunk(asked: _Request, delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _frame(asked, {"choices": [choice]})


def _frame(asked: _Request, more: dict[str, Any]) -> bytes:
    head = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 1_750_000_000, "model": asked.model}
    return data_frame(encode(head | more))


async def _pieces(asked: _Request) -> AsyncIterator[bytes]:
    yield _chunk(asked, {"role": "assistant", "content": ""})
    if asked.model == "demo-silent":
        await asyncio.sleep(SILENCE_S)
    for word in REASONING.split(" "):
        yield _chunk(asked, {"reasoning_content": word + " "})
    if _calls(asked):
        yield _chunk(asked, {"tool_calls": [{"index": 0, **_call(asked)}]})
        yield _chunk(asked, {}, "tool_calls")
    else:
        words = _text(asked).split(" ")
        for n, word in enumerate(words):
            if asked.model == "demo-cut" and n > len(words) // 2:
                return
            yield _chunk(asked, {"content": word if n == 0 else " " + word})
        yield _chunk(asked, {}, "stop")
    yield _frame(asked, {"choices": [], "usage": _usage(asked)})
    yield DONE


class Demo:
    """The provider side: posts to its own Script, which it starts on first use."""

    native = True
    dialect: DialectName = "chat"

    def __init__(self, setup: Setup) -> None:
        self.name = setup.name
        self.key_names: tuple[str, ...] = ("demo",)
        self._setup = setup
        self._script = Script()
        self._client = Client(setup)

    def origin(self, model: str) -> str:
        """Return the tag of opaque state (there is none here)."""
        return origin_of(self.name, "demo:", model)

    def traits(self, model: str) -> Traits:
        """Return the traits of a generic server."""
        return Traits()

    def amend(self, conversation: Conversation, target: Target) -> Conversation:
        """Return the request unchanged."""
        return conversation

    async def open(self, call: Call, key: str) -> Upstream:
        """POST the request to the script."""
        await self._script.start()
        return await self._client.post(self._script.url, self._client.headers(call), call.body)

    async def judge(self, status: int, headers: Mapping[str, str], body: bytes, call: Call, key: str) -> Verdict:
        """Apply the shared judgement."""
        return judged(status, headers, body)

    async def close(self) -> None:
        """Close session and socket."""
        await self._client.close()
        await self._script.stop()


def build(setup: Setup) -> Provider:
    """Return the demo provider."""
    return Demo(setup)


plugin = Plugin("demo", build, ("chat",), base_url="http://127.0.0.1", needs_keys=False)
