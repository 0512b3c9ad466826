"""The first five minutes of a new user: an empty home, the built wheel, and the answer in each client's window."""

import asyncio
import hashlib
import os
import re
from pathlib import Path

import pytest

from tests.clients.model import ANSWER, Model, Scene
from tests.clients.programs import FOLDER
from tests.clients.stage import environment
from tests.clients.test_launch import LINES, SETTINGS, needs
from tests.clients.upstreams import KINDS
from tests.test_package import Installed
from tests.upstream import Upstream, closed_port

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(400)]
START_S, RUN_S = 20, 120


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("first"))


def digests(home: Path) -> dict[str, str]:
    files = [path for path in sorted(home.rglob("*")) if path.is_file()]
    return {str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


async def run(env: dict[str, str], cwd: Path, *argv: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=asyncio.subprocess.STDOUT
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), RUN_S)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, out.decode()


@needs("claude")
@needs("codex")
@needs("grok")
async def test_from_the_wheel_to_the_answer(installed, tmp_path):
    """init, check, serve, and three agents that ask the gateway that runs; what was in the home is as it was."""
    home, work = installed.home, tmp_path / "work"
    for folder in (work, tmp_path / "tmp"):
        folder.mkdir()
    for name in (".bashrc", ".claude/settings.json", ".codex/config.toml", ".grok/config.toml"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(SETTINGS[name])
    before = digests(home)
    dragoman = str(installed.bin / "dragoman")
    env = environment(home, tmp_path / "tmp") | {"PATH": f"{FOLDER}:{os.defpath}", "IS_SANDBOX": "1"}
    model = Model(KINDS["chat"])
    async with Upstream(model) as upstream:
        wanted = ("--provider", "openai", "--base-url", upstream.url + "/v1", "--model", "scripted")
        code, out = await run(env, work, dragoman, "init", *wanted)
        assert 0 == code, out
        config = home / ".config" / "dragoman" / "config.toml"
        config.write_text(config.read_text().replace("port = 8788", f"port = {closed_port()}"))
        assert 0 == (await run(env, work, dragoman, "check"))[0]
        serving = await asyncio.create_subprocess_exec(dragoman, "serve", env=env, cwd=work, stderr=-1)
        try:
            async with asyncio.timeout(START_S):
                while b"listening on" not in await serving.stderr.readline():
                    pass
            for client in ("claude", "codex", "grok"):
                model.begin(Scene())
                upstream.play(model)
                code, out = await run(env, work, dragoman, "launch", client, "--", *LINES[client])
                assert 0 == code, out
                assert ANSWER in out
                assert "private" not in out
                assert re.search(r"asks http://127.0.0.1:\d+ for scripted", out)
                assert {"scripted"} == {request.json["model"] for request in model.turns}
        finally:
            serving.terminate()
            _, log = await asyncio.wait_for(serving.communicate(), 60)
        assert 0 == serving.returncode
        assert log.count(b'"event":"request"') >= 3
    after = digests(home)
    assert before == {name: after[name] for name in before}
    assert {"config.toml"} == {Path(name).name for name in after if name.startswith(".config/dragoman")}
