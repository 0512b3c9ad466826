"""`dragoman demo`: the whole gateway over a scripted upstream, no key, no network, no configuration."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

from gateway.commands import run_loop
from gateway.config import Config, Log, Model, Provider, Route, Server, State
from gateway.lifecycle import Listening, bind, listen, no_core_dumps
from gateway.telemetry import Telemetry, quiet_libraries
from providers.demo import SCRIPTS
from providers.transport import new_session
from translators.sse import Splitter

__all__ = ["demo", "demo_config"]

QUESTION = "Say hello."


def demo_config(port: int) -> Config:
    """Return the built-in configuration: one demo provider, an alias for each script, and one for all names."""
    models = {name: Model(routes=(Route("demo", name),), reasoning="always") for name in SCRIPTS}
    models["*"] = Model(routes=(Route("demo", "demo"),))
    return Config(
        server=Server(port=port),
        providers={"demo": Provider("demo", "demo")},
        models=models,
        state=State(url="memory:"),
        log=Log(level="info"),
    )


def demo(port: int, *, once: bool) -> int:
    """Serve the demo until stopped, or show one streamed request per dialect and exit."""
    no_core_dumps()
    try:
        return run_loop(_once() if once else _serve(port))
    except OSError as error:
        print(f"dragoman: cannot listen on 127.0.0.1:{port}: {error.strerror}; try --port 0", file=sys.stderr)
        return 1


async def _start(port: int, level: str) -> tuple[Listening, Telemetry]:
    config = demo_config(port)
    telemetry = Telemetry(Log(level=level))  # type: ignore[arg-type]
    quiet_libraries(telemetry, asyncio.get_running_loop())
    return await listen(config, telemetry, bind("127.0.0.1", port)), telemetry


async def _serve(port: int) -> int:
    listening, telemetry = await _start(port, "info")
    print(RECIPES.replace("GATEWAY", listening.url), flush=True)
    print(f"dragoman: listening on {listening.url}", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await listening.close(1)
        telemetry.close()
    return 0


async def _once() -> int:
    listening, telemetry = await _start(0, "warning")
    ok = True
    try:
        async with new_session(connect_s=5, trust_env=False) as session:
            for title, path, body in _requests():
                ok = await _show(session, listening.url + path, title, body) and ok
    finally:
        await listening.close(1)
        telemetry.close()
    print(_paint("2", "Next: `dragoman demo` keeps it running, `dragoman init` writes a configuration."))
    return 0 if ok else 1


def _requests() -> tuple[tuple[str, str, dict[str, Any]], ...]:
    messages = [{"role": "user", "content": QUESTION}]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    return (
        (
            "Anthropic Messages  (Claude Code)",
            "/v1/messages",
            {"model": "demo", "max_tokens": 2048, "stream": True, "thinking": thinking, "messages": messages},
        ),
        (
            "OpenAI Responses    (Codex, Grok Build)",
            "/v1/responses",
            {"model": "demo", "stream": True, "reasoning": {"summary": "auto"}, "input": QUESTION},
        ),
        (
            "Chat Completions    (Cline, opencode, SDKs)",
            "/v1/chat/completions",
            {"model": "demo", "stream": True, "messages": messages},
        ),
    )


async def _show(session: aiohttp.ClientSession, url: str, title: str, body: dict[str, Any]) -> bool:
    """Send one request and print what comes back as it arrives; returns whether it ended well."""
    print(_paint("1", title) + _paint("2", f"  POST {url.split('/', 3)[3]}"))
    headers = {"content-type": "application/json"}
    if "/messages" in url:
        headers["anthropic-version"] = "2023-06-01"
    ended, kind = False, ""
    async with session.post(url, data=msgspec.json.encode(body), headers=headers) as response:
        async for data in _events(response):
            if data == b"[DONE]":
                ended = True
                continue
            now, text, last = _text(msgspec.json.decode(data))
            if text:
                if now != kind:
                    sys.stdout.write(("\n" if kind else "") + _paint("2", f"  {now:<9} "))
                    kind = now
                sys.stdout.write(_paint("2", text) if now == "reasoning" else text)
                sys.stdout.flush()
            ended = ended or last
    print("\n" if ended else "\n  (the stream did not end well)\n")
    return ended


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    splitter = Splitter()
    async for chunk in response.content.iter_any():
        for frame in splitter.feed(chunk):
            yield frame.data


def _text(event: dict[str, Any]) -> tuple[str, str, bool]:
    """Return (kind, text, whether this is the terminal) of one event of any of the three protocols."""
    kind = event.get("type", "")
    delta = event.get("delta")
    if isinstance(delta, dict):
        thought = delta.get("thinking", "")
        return ("reasoning", thought, False) if thought else ("answer", delta.get("text", ""), False)
    if isinstance(delta, str):
        return ("reasoning" if "reasoning" in kind else "answer"), delta, False
    for choice in event.get("choices") or ():
        piece = choice["delta"]
        if piece.get("reasoning_content"):
            return "reasoning", piece["reasoning_content"], False
        return "answer", piece.get("content") or "", False
    return "answer", "", kind in ("message_stop", "response.completed")


def _paint(code: str, text: str) -> str:
    plain = "NO_COLOR" in os.environ or not sys.stdout.isatty()
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"


RECIPES = """\
Dragoman demo: a scripted upstream behind the real gateway. No key, no network. Ctrl-C stops it.

curl, each protocol:
  curl -N GATEWAY/v1/messages -H 'content-type: application/json' \\
    -d '{"model":"demo","max_tokens":2048,"stream":true,"messages":[{"role":"user","content":"hi"}]}'
  curl -N GATEWAY/v1/responses -H 'content-type: application/json' \\
    -d '{"model":"demo","stream":true,"input":"hi"}'
  curl -N GATEWAY/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]}'

Claude Code:
  ANTHROPIC_BASE_URL=GATEWAY ANTHROPIC_AUTH_TOKEN=demo ANTHROPIC_MODEL=demo claude -p 'say hello'

Codex:
  DEMO_KEY=demo codex exec --skip-git-repo-check -c model=demo -c model_provider=dragoman \\
    -c 'model_providers.dragoman={name="d",base_url="GATEWAY/v1",env_key="DEMO_KEY",wire_api="responses"}' \\
    'say hello'

Grok Build:
  XAI_API_KEY=demo GROK_MODELS_BASE_URL=GATEWAY/v1 grok -p 'say hello' -m demo

Other models to try: demo-tool calls the first tool, demo-429 demo-500 demo-cut demo-silent show bad days.
"""
