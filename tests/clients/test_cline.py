"""Real agents over a Cline upstream: whatever they do with reasoning, the model gets its own back in the tool loop."""

from pathlib import Path

import pytest

from tests.clients.model import THOUGHT, Scene
from tests.clients.programs import PROGRAMS, missing
from tests.clients.test_clients import PROMPT, SHELL, check_tool_turn

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.clients, pytest.mark.timeout(180)]
programs = pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=name, marks=pytest.mark.skipif(bool(missing(program)), reason=missing(program)))
        for name, program in PROGRAMS.items()
    ],
)


@pytest.fixture
def token(tmp_path: Path) -> str:
    """What only the file in the client's workspace holds."""
    token = "token-0123456789abcdef"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "token.txt").write_text(token + "\n")
    return token


@pytest.mark.parametrize("kind", ["cline", "cline-quiet"])
@programs
async def test_reasoning_returns_to_the_model(stage_of, kind, program, token, tmp_path):
    """The call of the second request has the reasoning before it exactly once, shown to the client or not."""
    stage = await stage_of(kind)
    outcome = await stage.run(program, Scene([("shell", SHELL)], think=True), PROMPT, tmp_path)
    check_tool_turn(stage, outcome, token)
    told = [message for message in stage.model.turns[1].json["messages"] if message.get("tool_calls")]
    # The official client names no session to a compatible server, so what it is not shown is not kept (S31).
    anonymous = program.name == "cline"
    kept = None if anonymous and kind == "cline-quiet" else THOUGHT
    assert [kept] == [message.get("reasoning_content") for message in told]
    assert anonymous == (stage.model.turns[0].header("x-task-id") is None)
