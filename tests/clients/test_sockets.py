"""The real Codex over the WebSocket: with a provider of its own configuration, and with its built-in one."""

import json
import re
from dataclasses import replace

import pytest

from tests.clients.model import Scene, results
from tests.clients.programs import PROGRAMS, Command, Job, codex, missing
from tests.clients.stage import Stage
from tests.clients.test_clients import PROMPT, SHELL, check_tool_turn, token

__all__ = ["token"]

CODEX = PROGRAMS["codex"]
pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.clients,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(missing(CODEX)), reason=missing(CODEX)),
]


def with_sockets(job: Job) -> Command:
    """Codex with a provider that says it has WebSockets."""
    command = codex(job)
    config = command.files[".codex/config.toml"].rstrip() + "\n        supports_websockets = true\n"
    return replace(command, files={".codex/config.toml": config})


def built_in(job: Job) -> Command:
    """Codex with its own openai provider, whose address is ours."""
    command = codex(job)
    config = re.sub(r"\[model_providers\.gateway\].*", "", command.files[".codex/config.toml"], flags=re.DOTALL)
    config = config.replace('model_provider = "gateway"', f'openai_base_url = "{job.base_url}/v1"')
    env = command.env | {"CODEX_API_KEY": job.key}
    return replace(command, env=env, files={".codex/config.toml": config})


@pytest.mark.parametrize("kind", ["chat", "responses", "messages", "grok"])
@pytest.mark.parametrize("command", [with_sockets, built_in])
async def test_tool_turn_over_a_socket(stage_of, kind, command, token, tmp_path):
    """The tool turn is done over one socket, on which Codex sends only what is new."""
    stage = await stage_of(kind)
    warm = warmed(stage)
    program = replace(CODEX, command=command)
    outcome = await stage.run(program, Scene([("shell", SHELL)]), PROMPT, tmp_path)
    check_tool_turn(stage, outcome, token)
    assert 1 == len(results(stage.model.turns[1].json))
    assert warm + 1 == warmed(stage)


def warmed(stage: Stage) -> int:
    """How many warm-ups the gateway answered so far: successes that no provider had a part in."""
    lines = (stage.folder / "gateway.log").read_text().splitlines()
    records = [json.loads(line) for line in lines if '"outcome"' in line]
    return sum(record["outcome"] == "complete" and "provider" not in record for record in records)
