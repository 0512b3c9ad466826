"""Several workers: one ready line, all of them serve, signals reach them, none outlives the parent."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each starts several processes
ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[providers.demo]
[models."*"]
provider = "demo"
model = "demo"
[state]
url = "file:{folder}/state"
[log]
file = "{folder}/log"
"""
PATIENCE_S = 20


class Parent:
    """A `serve --workers` process and what it said."""

    def __init__(self, folder: Path, count: int, *more: str) -> None:
        config = folder / "config.toml"
        config.write_text(CONFIG.format(folder=folder))
        config.chmod(0o600)
        self.said = folder / "stderr"
        argv = [
            sys.executable,
            "-m",
            "gateway",
            "serve",
            "--config",
            str(config),
            "--port",
            "0",
            "--workers",
            str(count),
        ]
        with self.said.open("wb") as err:
            self.process = subprocess.Popen([*argv, *more], stderr=err, cwd=ROOT)

    def url(self) -> str:
        found = wait_for(lambda: re.search(r"listening on (http://\S+)", self.said.read_text()))
        return found[1]

    def workers(self) -> list[int]:
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def gone(pid: int) -> bool:
    try:
        return "Z" == Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True


@pytest.fixture
def parent(tmp_path):
    started = []

    def start(count: int, *more: str) -> Parent:
        started.append(Parent(tmp_path, count, *more))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def ask(url: str) -> bytes:
    body = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        return reply.read()


@pytest.mark.promise("S38")
def test_all_serve_and_end_together(parent, tmp_path):
    """One line says that they listen; SIGHUP reloads, SIGTERM ends all with 0; each has a log of its own."""
    running = parent(3)
    url = running.url()
    assert 3 == len(running.workers())
    for _ in range(12):
        assert b"Hello from Dragoman" in ask(url)
    running.process.send_signal(signal.SIGHUP)
    running.process.terminate()
    assert 0 == running.process.wait(PATIENCE_S)
    assert 1 == running.said.read_text().count("listening on")
    logs = [path.read_text() for path in sorted(tmp_path.glob("log.*"))]
    assert 12 == sum(text.count('"event":"request"') for text in logs)


def test_one_that_dies_ends_all(parent):
    """The parent restarts none: a supervisor does, and it sees a 1."""
    running = parent(2)
    running.url()
    first, second = running.workers()
    os.kill(first, signal.SIGKILL)
    assert 1 == running.process.wait(PATIENCE_S)
    assert gone(second)
    assert "ended with -9; stopping the others" in running.said.read_text()


def test_none_outlives_the_parent(parent):
    """Not even when it is killed."""
    running = parent(2)
    running.url()
    workers = running.workers()
    running.process.kill()
    running.process.wait()
    wait_for(lambda: all(gone(pid) for pid in workers))


def test_a_worker_that_cannot_listen_ends_it(parent, tmp_path, monkeypatch):
    """1, and nothing is left."""
    from gateway import lifecycle, workers
    from gateway.config import Config, Server

    held = lifecycle.bind("127.0.0.1", 0, shared=True)

    def serve(config, sock, lifeline, ready):
        raise OSError(98, "Address already in use")

    assert 1 == workers.serve_many(Config(server=Server(workers=2)), held, serve)
    held.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


async def test_the_lifeline_of_a_single_process():
    """`serve` ends when its pipe does; what comes through it before is not looked at."""
    from gateway import lifecycle
    from gateway.config import Config, Log, State

    told, tell = os.pipe()
    ready: list[str] = []
    sock = lifecycle.bind("127.0.0.1", 0)
    config = Config(state=State("memory:"), log=Log(level="error"))
    running = asyncio.create_task(
        lifecycle.serve(config, sock, lifeline=told, ready=lambda url, config: ready.append(url))
    )
    while not ready:
        await asyncio.sleep(0.01)
    os.write(tell, b"x")
    os.close(tell)
    assert 0 == await asyncio.wait_for(running, PATIENCE_S)
    os.close(told)
