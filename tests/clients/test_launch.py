"""`launch` with the real programs: each ends with the answer, and no file of the user's has changed."""

import asyncio
import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from tests.clients.model import ANSWER, Model, Scene
from tests.clients.programs import FOLDER, PROGRAMS, ROOT, missing
from tests.clients.stage import environment, write
from tests.clients.upstreams import KINDS
from tests.upstream import Upstream

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240)]

# Settings that lead elsewhere, in the form that the programs themselves leave behind at their first start.
SETTINGS = {
    ".claude/settings.json": json.dumps(
        {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_MODEL": "other"}}
    ),
    ".codex/config.toml": 'model = "other"\nmodel_provider = "x"\n[model_providers.x]\nname = "x"\nbase_url = "http://127.0.0.1:1/v1"\n',
    ".grok/config.toml": '[models]\ndefault = "grok-4.5"\n\n[marketplace]\ndefault_skills_installs_purged = true\n',
    ".config/opencode/opencode.json": json.dumps({"$schema": "https://opencode.ai/config.json", "model": "a/b"}),
    ".cline/data/settings/providers.json": "{}",
    ".bashrc": "export MINE=1\n",
}
LINES = {
    "claude": ["-p", "hi"],
    "codex": ["exec", "--skip-git-repo-check", "hi there"],
    "grok": ["-p", "hi"],
    "cline": ["--json", "say hello please"],
    "opencode": ["run", "hi"],
}
CONFIG = """
[server]
port = 0

[providers.up]
plugin = "openai"
base_url = "{url}/v1"
keys = [ {{ name = "k", value = "upstream-key-0001" }} ]

[models.{alias}]
provider = "up"
model = "scripted"
context_window = 150_000

[state]
url = "memory:"
"""


def needs(client: str) -> pytest.MarkDecorator:
    program = PROGRAMS[client if client in PROGRAMS else f"{client}-responses"]
    return pytest.mark.skipif(bool(missing(program)), reason=missing(program))


def digests(home: Path) -> dict[str, str]:
    return {name: hashlib.sha256((home / name).read_bytes()).hexdigest() for name in SETTINGS}


async def launch(home: Path, work: Path, *argv: str) -> tuple[int, str, str]:
    temporary = work / "tmp"
    temporary.mkdir(exist_ok=True)
    env = environment(home, temporary) | {"PATH": f"{FOLDER}:{os.defpath}", "IS_SANDBOX": "1", "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway",
        "launch",
        *argv,
        cwd=work,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=-1,
        stderr=-1,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 200)
    finally:
        if process.returncode is None:
            process.kill()
    assert [] == [entry.name for entry in temporary.iterdir() if entry.name.startswith("dragoman-")]
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("client", [pytest.param(name, marks=needs(name)) for name in LINES])
@pytest.mark.parametrize("alias", ['"my-model"', '"my-*"'], ids=["listed", "prefix"])
async def test_launch_ends_with_the_answer(client, alias, tmp_path):
    """By a private gateway, over settings of the user's that lead elsewhere, which stay as they are."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    for name, content in SETTINGS.items():
        write(home / name, content)
    before = digests(home)
    model = Model(KINDS["chat"])
    model.begin(Scene())
    async with Upstream(model) as upstream:
        config = tmp_path / "config.toml"
        write(config, CONFIG.format(url=upstream.url, alias=alias))
        code, out, err = await launch(
            home, work, client, "--config", str(config), "--model", "my-model", "--", *LINES[client]
        )
    assert 0 == code, out[-2000:] + err[-2000:]
    assert ANSWER in out.replace('\\"', '"')  # some of them print JSON
    assert before == digests(home)
    assert {"scripted"} == {request.json["model"] for request in model.turns}


@needs("claude")
async def test_a_projects_settings_do_not_lead_away(tmp_path):
    """The settings of a repository cannot redirect a launched client (CVE-2026-21852)."""
    work = tmp_path / "work"
    write(work / ".claude" / "settings.json", SETTINGS[".claude/settings.json"])
    code, out, err = await launch(tmp_path / "home", work, "claude", "--demo", "--", "-p", "hi")
    assert 0 == code, out + err
    assert "Hello from Dragoman" in out
