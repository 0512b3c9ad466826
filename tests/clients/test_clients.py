"""Real coding agents do their work through the gateway, whatever dialect stands behind it."""

import asyncio
import json
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clients.model import ANSWER, MARK, SEAL, Scene, results
from tests.clients.programs import PROGRAMS, Program, missing
from tests.clients.stage import CLIENT_KEY, RUN_S, Outcome
from tests.clients.upstreams import KINDS

DIALECTS = ("chat", "responses", "messages")  # upstream, with nothing odd about them
PROMPT = "Read the file token.txt in the current directory and tell me what it holds."
SHELL = f"cat token.txt && printf '%s' '{MARK}'"

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.clients, pytest.mark.timeout(180)]


def needs(name: str) -> pytest.MarkDecorator:
    reason = missing(PROGRAMS[name])
    return pytest.mark.skipif(bool(reason), reason=reason)


ALL = [pytest.param(program, id=name, marks=needs(name)) for name, program in PROGRAMS.items()]
programs = pytest.mark.parametrize("program", ALL)
upstreams = pytest.mark.parametrize("kind", DIALECTS)
both_ways = pytest.mark.parametrize("native", [True, False], ids=["passed-through", "translated"])


def upstream_of(program: Program, native: bool) -> str:
    """An upstream that speaks the client's own dialect, or one that does not."""
    return DIALECTS[DIALECTS.index(program.dialect) - (not native)]


@pytest.fixture
def token(tmp_path: Path) -> str:
    """What only the file token.txt in the client's workspace holds."""
    return hidden(tmp_path, "token.txt")


def hidden(folder: Path, name: str) -> str:
    """A new token in a file of the client's workspace."""
    token = f"token-{secrets.token_hex(8)}"
    (folder / "work").mkdir(exist_ok=True)
    (folder / "work" / name).write_text(token + "\n")
    return token


def check_tool_turn(stage, outcome: Outcome, *tokens: str) -> None:
    """The tools ran on exact arguments, each result reached the model under its call, and the model's text the user."""
    assert "" == stage.model.problem
    assert f"It holds {' and '.join(tokens)}." == outcome.text, str(outcome)
    assert 0 == outcome.code
    assert 2 == len(stage.model.turns)
    returned = results(stage.model.turns[1].json)
    for call_id, token in zip(stage.model.called, tokens, strict=True):
        result = returned.pop(call_id)
        assert token in result
        assert MARK in result
    assert {} == returned


@programs
async def test_client_alone(stage_of, program, token, tmp_path):
    """The control: with the scripted model in its own dialect and no gateway, each client does its tool turn."""
    stage = await stage_of(None)
    outcome = await stage.run(program, Scene([("shell", SHELL)]), PROMPT, tmp_path)
    check_tool_turn(stage, outcome, token)


@upstreams
@programs
async def test_plain_answer(stage_of, kind, program, tmp_path):
    """The answer arrives whole, for one request upstream that does not hold the client's key."""
    stage = await stage_of(kind)
    outcome = await stage.run(program, Scene(), PROMPT, tmp_path)
    assert ANSWER == outcome.text, str(outcome)
    assert 0 == outcome.code
    (request,) = stage.model.turns
    assert CLIENT_KEY not in str(request.headers)
    assert CLIENT_KEY.encode() not in request.body


@upstreams
@programs
async def test_tool_turn(stage_of, kind, program, token, tmp_path):
    """A tool call reaches the client, and its result the model."""
    stage = await stage_of(kind)
    outcome = await stage.run(program, Scene([("shell", SHELL)]), PROMPT, tmp_path)
    check_tool_turn(stage, outcome, token)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cline-quiet"])
@programs
async def test_reasoning_and_two_calls(stage_of, kind, program, token, tmp_path):
    """Reasoning before two calls is in the way of neither, and its opaque state comes back where it came from."""
    other = hidden(tmp_path, "other.txt")
    calls = [("shell", SHELL), ("shell", SHELL.replace("token.txt", "other.txt"))]
    stage = await stage_of(kind)
    outcome = await stage.run(program, Scene(calls, think=True), PROMPT, tmp_path)
    check_tool_turn(stage, outcome, token, other)
    if "chat" not in (program.dialect, KINDS[kind].dialect):  # the protocol has no place for it
        assert SEAL.encode() in stage.model.turns[1].body


@both_ways
@programs
async def test_rate_limit_is_waited_out(stage_of, native, program, token, tmp_path):
    """A 429 reaches the client with its Retry-After, and the client goes on when that is over."""
    stage = await stage_of(upstream_of(program, native))
    outcome = await stage.run(program, Scene([("shell", SHELL)], fault="busy"), PROMPT, tmp_path)
    assert f"It holds {token}." == outcome.text, str(outcome)
    assert 3 == len(stage.model.turns)


@pytest.mark.promise("S37")
@pytest.mark.parametrize(("native", "fault"), [(True, "early"), (False, "early"), (False, "cut")])
@pytest.mark.parametrize("program", [program for program in ALL if program.id != "opencode"])  # see the next test
async def test_broken_stream_is_no_success(stage_of, native, fault, program, tmp_path):
    """A stream that breaks off is never the whole answer to the user, nor a reason to ask without end."""
    stage = await stage_of(upstream_of(program, native))
    outcome = await stage.run(program, Scene(fault=fault), PROMPT, tmp_path)
    assert outcome.code is not None, str(outcome)
    assert outcome.code != 0 or ANSWER == outcome.text, str(outcome)
    assert 1 <= len(stage.model.turns) <= 20


@pytest.mark.promise("S37")
@both_ways
@needs("opencode")
async def test_opencode_pauses_after_a_broken_stream(stage_of, native, tmp_path):
    """A stream that ends early has to look broken to opencode: a tidy end makes it ask again at once, for ever.

    When it is told of the break it asks again too, but ever more slowly; it would take more than a minute to give up.
    """
    program = PROGRAMS["opencode"]
    stage = await stage_of(upstream_of(program, native))
    running = asyncio.create_task(stage.run(program, Scene(fault="early"), PROMPT, tmp_path))
    await asyncio.sleep(0)  # it begins by forgetting the requests of earlier runs
    first, second = (await stage.upstream.received(2, within_s=RUN_S))[:2]
    running.cancel()
    await asyncio.wait({running})
    assert second.at - first.at >= 1


CODEX = PROGRAMS["codex"]
GPT = replace(CODEX, model="gpt-5.5")  # Codex knows it: apply_patch is a custom tool
SOL = replace(CODEX, model="gpt-6.2-sol")  # tools in namespaces; the shell is JavaScript given to a custom tool
PATCH = f"*** Begin Patch\n*** Add File: made.txt\n+{MARK}\n*** End Patch\n"
SCRIPT = f"text(await tools.exec_command({{cmd: {json.dumps(SHELL)}}}));\n"
VIA = pytest.mark.parametrize("kind", [None, *DIALECTS])  # None is the control


@VIA
@needs("codex")
async def test_codex_custom_tool(stage_of, kind, tmp_path):
    """A custom tool takes free text, which reaches it as such also where the upstream has only functions."""
    stage = await stage_of(kind)
    outcome = await stage.run(GPT, Scene([("apply_patch", PATCH)]), PROMPT, tmp_path)
    assert f"{MARK}\n" == (tmp_path / "work" / "made.txt").read_text(), str(outcome)
    assert 2 == len(stage.model.turns)


@VIA
@needs("codex")
async def test_codex_custom_tool_in_a_namespace(stage_of, kind, token, tmp_path):
    """A custom tool of a namespace is called by the name that the client declared."""
    stage = await stage_of(kind)
    check_tool_turn(stage, await stage.run(SOL, Scene([("exec", SCRIPT)]), PROMPT, tmp_path), token)


@VIA
@needs("codex")
async def test_codex_function_in_a_namespace(stage_of, kind, tmp_path):
    """Codex knows a namespaced function again only by its two separate names."""
    stage = await stage_of(kind)
    outcome = await stage.run(SOL, Scene([("list_agents", "")]), PROMPT, tmp_path)
    (result,) = results(stage.model.turns[1].json).values()
    assert "unsupported call" not in result, str(outcome)
    assert "agents" in result
