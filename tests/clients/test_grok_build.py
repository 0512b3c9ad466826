"""The real Grok Build before the gateway, and a proxy like its own behind it (spec/grok.md 17)."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.clients.offline import Offline
from tests.clients.programs import FOLDER, PROGRAMS, Command, Job, grok, missing
from tests.clients.stage import environment, run, write
from tests.gateways import Served, gateway
from tests.grok import Issuer, Proxy, auth_file, login
from tests.streams import Call, Say, Turn, responses
from tests.upstream import Delay, Upstream, reply_json, sse

PROGRAM = PROGRAMS["grok-responses"]
pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(missing(PROGRAM)), reason=missing(PROGRAM)),
]
SHELL = Call("run_terminal_command", '{"command": "echo grokstub-7319", "description": "say"}', "call_1")
KEYS = '[providers.up]\nplugin = "grok-cli"\nbase_url = "{url}/v1"\nkeys = [{{ name = "k", value = "up-key" }}]'
LOGIN = '[providers.up]\nplugin = "grok-cli"\nbase_url = "{url}/v1"\ncredentials = [{{ name = "me", file = "{file}" }}]'
MODELS = '\n[models."*"]\nprovider = "up"\n[server]\nkeepalive_s = 1\n'


@dataclass(slots=True)
class Ran:
    """A run of the program: its exit code, what it printed, and how long it took."""

    code: int | None
    told: dict[str, Any]
    stdout: str
    stderr: str
    seconds: float


@dataclass(slots=True)
class Scenery:
    """A gateway in a network of its own, in which the program runs too."""

    served: Served
    network: Offline
    folder: Path

    async def run(self, command: Command) -> Ran:
        home, work, temporary = (self.folder / name for name in ("home", "work", "tmp"))
        for needed in (home, work, temporary):
            needed.mkdir(exist_ok=True)
        for name, content in command.files.items():
            write(home / name, content)
        argv = self.network.sealed([str(FOLDER / command.argv[0]), *command.argv[1:]])
        out, err = self.folder / "stdout", self.folder / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            began = time.monotonic()
            code = await run(argv, environment(home, temporary) | command.env, work, stdout, stderr)
        text = out.read_text()
        told = json.loads(text[text.index("{") :]) if "{" in text else {}
        return Ran(code, told, text, err.read_text(), time.monotonic() - began)

    def command(self, backend: str = "responses", *, more: tuple[str, ...] = ()) -> Command:
        command = grok(
            Job(
                self.served.url,
                "any-key",
                "grok-4.5",
                "Run the echo command.",
                self.folder / "home",
                self.folder / "work",
            ),
            backend,
        )
        return replace(command, argv=[*command.argv, *more])


@asynccontextmanager
async def scenery(folder: Path, text: str) -> AsyncIterator[Scenery]:
    with Offline() as network:
        async with gateway(folder, text, network.listener()) as served:
            yield Scenery(served, network, folder)


@pytest.mark.parametrize("backend", ["responses", "chat_completions", "messages"])
async def test_plain_answer(tmp_path: Path, backend):
    """T1, T3, T4: one main request, nothing stored upstream, the text whole."""
    proxy = Proxy([Turn([Say("PONG")])])
    async with Upstream(proxy) as upstream, scenery(tmp_path, KEYS.format(url=upstream.url) + MODELS) as scene:
        ran = await scene.run(scene.command(backend))
    assert (0, "PONG", 1) == (ran.code, ran.told.get("text"), ran.told.get("num_turns")), ran
    (sent,) = proxy.bodies
    assert sent["store"] is False
    assert "previous_response_id" not in sent
    assert "" == proxy.problem


@pytest.mark.parametrize("backend", ["responses", "chat_completions", "messages"])
async def test_tool_turn(tmp_path: Path, backend):
    """T2, T3, T4: an empty final output and private events in between do not lose the call."""
    proxy = Proxy([Turn([SHELL]), Turn([Say("DONE-7319")], tag="2")])
    async with Upstream(proxy) as upstream, scenery(tmp_path, KEYS.format(url=upstream.url) + MODELS) as scene:
        ran = await scene.run(scene.command(backend))
    assert (0, "DONE-7319", 2) == (ran.code, ran.told.get("text"), ran.told.get("num_turns")), ran
    assert "" == proxy.problem
    call, output = proxy.bodies[1]["input"][-2:]
    assert ("function_call", "call_1") == (call["type"], call["call_id"])
    assert ("function_call_output", "exit: 0\ngrokstub-7319\n") == (output["type"], output["output"])


async def test_refused_token_is_refreshed(tmp_path: Path):
    """T5: the user does not notice that a token had expired; it was refreshed once."""
    proxy, issuer = Proxy([Turn([Say("PONG")])], accepts="FAKE.ACCESS.1"), Issuer()
    async with Upstream(proxy) as upstream, Upstream(issuer) as source:
        file = auth_file(tmp_path / "auth.json", login(source.url))
        async with scenery(tmp_path, LOGIN.format(url=upstream.url, file=file) + MODELS) as scene:
            ran = await scene.run(scene.command())
    assert (0, "PONG") == (ran.code, ran.told.get("text")), ran
    assert 1 == len(issuer.forms)


async def test_permanent_refusal_ends_at_once(tmp_path: Path):
    """T6: a 403 of the upstream reaches the user as such, without retries."""
    denied = reply_json({"code": "permission-denied", "error": "Access to the chat endpoint is denied for you"}, 403)
    proxy = Proxy([denied])
    async with Upstream(proxy) as upstream, scenery(tmp_path, KEYS.format(url=upstream.url) + MODELS) as scene:
        ran = await scene.run(scene.command())
    assert 1 == ran.code, ran
    assert "Access to the chat endpoint is denied" in ran.stdout + ran.stderr
    assert 1 == len(proxy.requests)
    assert ran.seconds < 5


async def test_silence_is_bridged(tmp_path: Path):
    """T7: five silent seconds are bridged by comments, which this client takes."""
    frames = responses(Turn([Say("PONG")]))
    proxy = Proxy([[*sse(frames[:1]), Delay(5), *frames[1:]]])
    async with Upstream(proxy) as upstream, scenery(tmp_path, KEYS.format(url=upstream.url) + MODELS) as scene:
        ran = await scene.run(scene.command())
    assert (0, "PONG") == (ran.code, ran.told.get("text")), ran
    assert ran.seconds > 5


async def test_resumed_session_keeps_its_key(tmp_path: Path):
    """T8: the second prompt of a session has the same cache key and conversation at the upstream, and no title call."""
    proxy = Proxy([Turn([Say("PONG")])])
    async with Upstream(proxy) as upstream, scenery(tmp_path, KEYS.format(url=upstream.url) + MODELS) as scene:
        first = await scene.run(scene.command())
        second = await scene.run(scene.command(more=("--resume", first.told["sessionId"])))
    assert (0, "PONG") == (second.code, second.told.get("text")), second
    keys = [sent["prompt_cache_key"] for sent in proxy.bodies]
    assert [first.told["sessionId"]] * 2 == keys
    assert keys == [request.header("x-grok-conv-id") for request in proxy.requests]
    assert 1 == len(proxy.titles)
    assert not [name for request in proxy.requests for name, _ in request.headers if name.lower() == "x-grok-turn-idx"]


async def test_title_of_an_unknown_model_costs_nothing(tmp_path: Path):
    """The title is asked of a model of its own; where that is not configured, a quick 404 does no harm."""
    proxy = Proxy([Turn([Say("PONG")])])
    models = MODELS.replace('"*"', '"grok-4.5"')
    async with Upstream(proxy) as upstream, scenery(tmp_path, KEYS.format(url=upstream.url) + models) as scene:
        command = scene.command()
        files = {name: text.replace('session_summary = "gateway"', "") for name, text in command.files.items()}
        ran = await scene.run(replace(command, files=files))
    assert (0, "PONG") == (ran.code, ran.told.get("text")), ran
    assert [] == proxy.titles


async def test_models_are_found_without_configuration(tmp_path: Path):
    """With nothing but our address it takes the first model of our list, over Responses."""
    proxy = Proxy([Turn([Say("PONG")])])
    models = MODELS.replace('"*"', '"grok-4.5"')
    async with Upstream(proxy) as upstream, scenery(tmp_path, KEYS.format(url=upstream.url) + models) as scene:
        command = scene.command()
        env = command.env | {"XAI_API_KEY": "any-key", "GROK_MODELS_BASE_URL": f"{scene.served.url}/v1"}
        ran = await scene.run(replace(command, env=env, files={".grok/config.toml": "[cli]\nauto_update = false\n"}))
        records = await scene.served.records(1)
    assert (0, "PONG") == (ran.code, ran.told.get("text")), ran
    assert {"responses"} == {record["dialect"] for record in records if record["outcome"] == "complete"}
