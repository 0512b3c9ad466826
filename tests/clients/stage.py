"""A gateway process with the scripted model behind it, and one run of a client before it, all with deadlines."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.clients.model import Model, Scene
from tests.clients.offline import Offline
from tests.clients.programs import FOLDER, ROOT, Command, Job, Program
from tests.clients.upstreams import Kind
from tests.upstream import Upstream

CLIENT_KEY = "dragoman-test-client-key"
UPSTREAM_KEY = "dragoman-test-upstream-key"
START_S, STOP_S, RUN_S = 20, 10, 90
READY = re.compile(r"listening on (http://[\w.:]+\d)")
CONFIG = """
[server]
drain_s = 1

[[clients]]
name = "test"
key = "{client_key}"
models = ["*"]

[providers.up]
{provider}
keys = [ {{ name = "k1", value = "{upstream_key}" }} ]

[models."*"]
provider = "up"
{route}

[state]
url = "memory:"
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of a client came to."""

    code: int | None  # None: it was stopped at the deadline
    text: str
    stdout: str
    stderr: str
    gateway: str  # what it logged meanwhile
    seconds: float

    def __str__(self) -> str:
        ended = "stopped at the deadline" if self.code is None else f"exit {self.code}"
        parts = {"stdout": self.stdout, "stderr": self.stderr, "gateway": self.gateway}
        said = "\n".join(f"--- {name}\n{text[-1500:]}" for name, text in parts.items())
        return f"{ended} after {self.seconds:.1f} s\n{said}"


class Stage:
    """The scripted model and, before it, a gateway that has it as its only provider. Without a kind: no gateway."""

    def __init__(self, folder: Path, kind: Kind | None) -> None:
        self.folder, self.kind = folder, kind
        self.model = Model(kind)
        self.url = ""
        self._network = Offline()
        self.upstream = Upstream(self.model)
        self._gateway: Process | None = None

    async def open(self) -> "Stage":
        self._network.__enter__()
        await self.upstream.start(self._network.listener())
        self.url = await self._serve(self.kind) if self.kind else self.upstream.url
        return self

    async def close(self) -> None:
        """End everything; a gateway that does not end well is an error."""
        try:
            if self._gateway is not None:
                await self._stop(self._gateway)
        finally:
            await self.upstream.__aexit__(None, None, None)
            self._network.__exit__()

    async def run(self, program: Program, scene: Scene, prompt: str, folder: Path, within_s: float = RUN_S) -> Outcome:
        """Play one scene with one client in an empty home and the workspace `folder/work`."""
        self.model.begin(scene)
        self.upstream.play(self.model)
        home, work = folder / "home", folder / "work"
        for needed in (home, work, folder / "tmp"):
            needed.mkdir(exist_ok=True)
        command = program.command(Job(self.url, CLIENT_KEY, program.model, prompt, home, work))
        for name, content in command.files.items():
            write(home / name, content)
        argv = self._network.sealed([str(FOLDER / command.argv[0]), *command.argv[1:]])
        env = environment(home, folder / "tmp") | command.env
        logged = len(self.log())
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            started = time.monotonic()
            code = await run(argv, env, work, out, err)
        seconds = time.monotonic() - started
        stdout, stderr = ((folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
        return Outcome(code, final_text(command, stdout), stdout, stderr, self.log()[logged:], seconds)

    def log(self) -> str:
        """All that the gateway has written so far."""
        path = self.folder / "gateway.log"
        return path.read_text(errors="replace") if path.exists() else ""

    async def _serve(self, kind: Kind) -> str:
        config = self.folder / "config.toml"
        provider = kind.provider.format(url=self.upstream.url)
        keys = {"client_key": CLIENT_KEY, "upstream_key": UPSTREAM_KEY}
        write(config, CONFIG.format(provider=provider, route=kind.route, **keys))
        argv = [sys.executable, "-m", "gateway", "serve", "--config", str(config), "--port", "0"]
        with (self.folder / "gateway.log").open("wb") as err:
            self._gateway = await asyncio.create_subprocess_exec(
                *self._network.joined(argv),
                cwd=ROOT,
                env=environment(self.folder, self.folder) | coverage_environment(),
                stdin=DEVNULL,
                stdout=err,
                stderr=err,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not (ready := READY.search(self.log())):
            if self._gateway.returncode is not None or time.monotonic() > deadline:
                await self.close()
                raise RuntimeError(f"the gateway did not start:\n{self.log()}")
            await asyncio.sleep(0.02)
        return ready[1]

    async def _stop(self, gateway: Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            gateway.terminate()
        try:
            code: int | None = await asyncio.wait_for(gateway.wait(), STOP_S)
        except TimeoutError:
            code = None
        await end_group(gateway)
        assert 0 == code, f"the gateway ended with {code}:\n{self.log()[-3000:]}"
        assert "Traceback" not in self.log(), self.log()[-3000:]


async def run(argv: list[str], env: dict[str, str], cwd: Path, out: IO[bytes], err: IO[bytes]) -> int | None:
    """Run a command to its end or the deadline; nothing of its process group is left."""
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, env=env, stdin=DEVNULL, stdout=out, stderr=err, start_new_session=True
    )
    try:
        return await asyncio.wait_for(process.wait(), RUN_S)
    except TimeoutError:
        return None
    finally:
        await end_group(process)


async def end_group(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def final_text(command: Command, out: str) -> str:
    """The client's final text; empty when it said nothing that can be read as one."""
    try:
        return command.text(out).strip()
    except (ValueError, LookupError):
        return ""


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)


def environment(home: Path, temporary: Path) -> dict[str, str]:
    """An environment made from nothing, so that no setting of the person who runs the tests plays a part."""
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PATH": os.defpath,
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "TMPDIR": str(temporary),
    }


def coverage_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
