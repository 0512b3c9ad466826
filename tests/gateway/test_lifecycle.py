"""Listening, reloading, draining and ending, in this process."""

import asyncio
import gc
import io
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import msgspec
import pytest

from gateway import lifecycle
from gateway.config import Config, Log, Server, State
from gateway.configfile import load
from gateway.lifecycle import Listening, Reloads, announce, bind, listen, serve, unsafe_bind
from gateway.plugins import options_type
from gateway.telemetry import Telemetry
from tests.gateway.live import DEADLINE_S, config, provider
from tests.gateway.process import CONFIG, write
from tests.gateway.wire import talk

ALIVE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


async def until(true):
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.005)


def local(**server):
    return Config(server=Server(port=0, drain_s=1, **server), state=State("memory:"), log=Log(format="json"))


@pytest.fixture
def telemetry():
    made = Telemetry(Log(format="json"), io.StringIO())
    yield made
    made.close()


# listening


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_a_configured_address_is_served(telemetry, host):
    """Its url is one that a client can use, with brackets where they belong."""
    try:
        listening = await listen(local(host=host), telemetry)
    except OSError:
        pytest.skip("no such address here")
    try:
        sites = list(listening._runner.sites)
        shown = "[::1]" if host == "::1" else "127.0.0.1"
        assert listening.url.startswith(f"http://{shown}:")
        assert 1 == len(sites)
        if host != "::1":
            assert 200 == (await talk(listening.url, ALIVE)).status
    finally:
        await listening.close(0)


async def test_a_closed_gateway_listens_no_more(telemetry):
    """The port is free again, and closing took no time without requests."""
    listening = await listen(local(), telemetry)
    port = int(listening.url.rpartition(":")[2])
    await listening.close(30)
    assert isinstance(listening, Listening)
    with pytest.raises(ConnectionRefusedError):
        await talk(listening.url, ALIVE)
    bind("127.0.0.1", port).close()


def test_a_taken_address_is_an_error():
    """And leaves no socket behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", taken.getsockname()[1])


def test_a_shared_port_is_bound_twice():
    """Several processes can listen on it."""
    first = bind("127.0.0.1", 0, shared=True)
    second = bind("127.0.0.1", first.getsockname()[1], shared=True)
    assert first.getsockname() == second.getsockname()
    first.close()
    second.close()


@pytest.mark.promise("S06")
@pytest.mark.parametrize(
    ("host", "clients", "safe"),
    [
        ("127.0.0.1", False, True),
        ("localhost", False, True),
        ("::1", False, True),
        ("127.8.8.8", False, True),
        ("0.0.0.0", False, False),
        ("::", False, False),
        ("192.0.2.1", False, False),
        ("localhost.example.org", False, False),
        ("0.0.0.0", True, True),
    ],
)
def test_an_open_address_needs_client_keys(host, clients, safe):
    """Loopback needs none; everything else does, and the problem says how to mend it."""
    made = config(provider("http://127.0.0.1:1"), host=host)
    problem = unsafe_bind(made if clients else msgspec.structs.replace(made, clients=()))
    assert safe == (problem is None)
    assert safe or ("server.host", True) == (problem.key, "keys new" in problem.mend)


@pytest.mark.parametrize("clients", [True, False])
def test_listening_is_announced_on_stderr(capsys, clients):
    """One line that scripts wait for, and a word about who is served without clients."""
    made = config(provider("http://127.0.0.1:1")) if clients else local()
    announce("http://127.0.0.1:1", made)
    out, err = capsys.readouterr()
    assert ("", "dragoman: listening on http://127.0.0.1:1") == (out, err.splitlines()[0])
    assert (1 if clients else 2) == len(err.splitlines())


@pytest.mark.slow
@pytest.mark.promise("S08")
def test_core_files_are_off():
    """In a process that asked for it, both limits are 0."""
    code = "import resource; from gateway.lifecycle import no_core_dumps as n; n(); print(resource.getrlimit(resource.RLIMIT_CORE))"
    assert "(0, 0)\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert resource.RLIMIT_CORE >= 0


@pytest.mark.promise("S22")
@pytest.mark.parametrize(
    ("soft", "hard", "left"),
    [
        (256, 512, 512),
        (256, -1, lifecycle.FILES),
        (256, 1 << 20, lifecycle.FILES),
        (1 << 20, 1 << 20, None),
        (-1, -1, None),
    ],
)
def test_open_files_suffice_for_the_connections(monkeypatch, soft, hard, left):
    """The limit is raised as far as that takes and we may, and never lowered."""
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append((what, limits)))
    lifecycle.enough_files()
    assert ([] if left is None else [(resource.RLIMIT_NOFILE, (left, hard))]) == asked


# reloading


@pytest.fixture
async def reloads(tmp_path, monkeypatch, telemetry):
    """A running gateway with a file, what reloads it, and a function that tells its log events."""
    for name, value in {"CLIENT_KEY": "client-key", "UP_KEY": "upstream-key"}.items():
        monkeypatch.setenv(name, value)
    path = write(tmp_path, CONFIG.format(url="http://127.0.0.1:1", drain_s=1))
    made = load(path, os.environ, options_type=options_type)
    listening = await listen(made, telemetry)
    made = Reloads(listening.gateway)
    made.text = path.read_text()
    made.write = lambda text: write(tmp_path, text)
    made.path = path
    yield made
    await listening.close(0)


def events(telemetry):
    telemetry.close()
    return [json.loads(line) for line in telemetry._out.getvalue().splitlines()]


@pytest.mark.promise("S39")
async def test_a_new_file_is_swapped_in(reloads, telemetry):
    """Everything of it, and no problem of an earlier attempt is shown any more."""
    gateway = reloads._gateway
    reloads.write("[server")
    reloads.now()
    assert gateway.reload_problems
    reloads.write(reloads.text + '[models.m2]\nprovider = "up"\n')
    reloads.now()
    assert {"m1", "m2"} == set(gateway.runtime.config.models)
    assert () == gateway.reload_problems
    assert ["reload_refused", "reloaded"] == [event["event"] for event in events(telemetry)]


@pytest.mark.promise("S39")
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[server\n", ""),
        ("[server]\nport = 'x'\n", "server.port"),
        ("", "models"),
        ("[providers.up]\nplugin = 'openai'\n", "providers.up.base_url"),
        ("[server]\nhost = '0.0.0.0'\n[providers.d]\nplugin = 'demo'\n[models.m]\nprovider = 'd'\n", "server.host"),
    ],
    ids=["syntax", "value", "empty", "plugin", "unsafe"],
)
async def test_a_wrong_file_changes_nothing(reloads, telemetry, text, key):
    """It is logged with its place, shown to the operator, and the running configuration stays."""
    gateway = reloads._gateway
    before = gateway.runtime
    reloads.write(text)
    reloads.now()
    assert before is gateway.runtime
    assert key in [problem.key for problem in gateway.reload_problems]
    assert {"reload_refused"} == {event["event"] for event in events(telemetry)}


@pytest.mark.promise("S39")
@pytest.mark.parametrize(
    "make", [lambda path: path.unlink(), lambda path: (path.unlink(), path.mkdir())], ids=["gone", "folder"]
)
async def test_a_file_that_cannot_be_read_changes_nothing(reloads, make):
    """The problem says why."""
    before = reloads._gateway.runtime
    make(reloads.path)
    reloads.now()
    assert before is reloads._gateway.runtime
    assert "cannot be read" in reloads._gateway.reload_problems[0].what


@pytest.mark.promise("S39", "S01")
async def test_whatever_a_file_provokes_the_old_one_stays(reloads, telemetry, monkeypatch):
    """Even a bug of the reader, of which the log has type and place only."""

    def broken(*args, **options):
        raise RuntimeError("canary")

    before = reloads._gateway.runtime
    monkeypatch.setattr(lifecycle, "load", broken)
    reloads.now()
    assert before is reloads._gateway.runtime
    [problem] = reloads._gateway.reload_problems
    [event] = events(telemetry)
    assert "RuntimeError" in problem.what
    assert "RuntimeError" in event["at"]
    assert "canary" not in json.dumps(event) + problem.what


@pytest.mark.promise("S39")
async def test_a_signal_reads_key_files_anew(reloads, monkeypatch):
    """The text may be the same while a variable or a key file has another value; a touched file alone is no news."""
    gateway = reloads._gateway
    before = gateway.runtime
    reloads.now(changed=True)
    assert before is gateway.runtime
    monkeypatch.setenv("UP_KEY", "another-key")
    reloads.now()
    assert "another-key" == gateway.runtime.config.providers["up"].keys[0].value.reveal()


@pytest.mark.promise("S06", "S39")
async def test_the_address_is_what_was_bound(reloads):
    """Host and port change with a restart only, so a reload can never open what listens elsewhere to everybody."""
    gateway = reloads._gateway
    bound = gateway.runtime.config.server
    changed = reloads.text.replace("port = 0", "port = 1\nhost = '127.0.0.9'\nworkers = 3\nkeepalive_s = 1", 1)
    reloads.write(changed.replace("keepalive_s = 0\n", "", 1))
    reloads.now()
    server = gateway.runtime.config.server
    assert (bound.host, bound.port, bound.workers, 1) == (server.host, server.port, server.workers, server.keepalive_s)
    gateway.runtime.config = msgspec.structs.replace(
        gateway.runtime.config, server=msgspec.structs.replace(server, host="0.0.0.0")
    )
    without = reloads.text[: reloads.text.index("[[clients]]")] + reloads.text[reloads.text.index("[providers") :]
    reloads.write(without)
    reloads.now()
    assert ["server.host"] == [problem.key for problem in gateway.reload_problems]


async def test_a_gateway_without_a_file_has_nothing_to_reload(telemetry):
    """The demo's configuration is built in."""
    listening = await listen(local(), telemetry)
    reloads = Reloads(listening.gateway)
    before = listening.gateway.runtime
    reloads.now()
    assert before is listening.gateway.runtime
    assert reloads._stamp() is None
    await listening.close(0)


@pytest.mark.promise("S39")
async def test_a_changed_file_is_seen_once_it_rests(reloads, monkeypatch):
    """A file that is still being written is left alone, and so is one that is gone for a moment."""
    monkeypatch.setattr(lifecycle, "POLL_S", 0.02)
    gateway = reloads._gateway
    seen = []
    now = reloads.now
    monkeypatch.setattr(reloads, "now", lambda **how: (seen.append(how), now(**how)))
    watching = asyncio.create_task(reloads.watch())
    try:
        await asyncio.sleep(0.1)
        reloads.path.unlink()
        await asyncio.sleep(0.1)
        assert [] == seen
        reloads.write(reloads.text + '[models.m2]\nprovider = "up"\n')
        await until(lambda: "m2" in gateway.runtime.config.models)
        await asyncio.sleep(0.1)
        assert [{"changed": True}] == seen
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


# a whole life


@pytest.fixture
def life(monkeypatch, tmp_path, capsys):
    """Run `serve` in this loop; its signal handlers are those of this process while it runs."""
    for name, value in {"CLIENT_KEY": "client-key", "UP_KEY": "upstream-key"}.items():
        monkeypatch.setenv(name, value)
    path = write(tmp_path, CONFIG.format(url="http://127.0.0.1:1", drain_s=30))
    tasks = []

    async def begin():
        task = asyncio.create_task(serve(load(path, os.environ, options_type=options_type), bind("127.0.0.1", 0)))
        tasks.append(task)
        text = ""

        def listening():
            nonlocal text
            text += capsys.readouterr().err
            return "listening on" in text

        await until(lambda: task.done() or listening())
        assert not task.done(), task.result()
        return task, text.partition("listening on ")[2].split()[0]

    yield begin
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.promise("S38")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it(life, number):
    """Without requests at once, with code 0."""
    task, url = await life()
    assert 200 == (await talk(url, ALIVE)).status
    os.kill(os.getpid(), number)
    assert 0 == await asyncio.wait_for(task, DEADLINE_S)


@pytest.mark.slow
@pytest.mark.promise("S38")
async def test_a_second_signal_does_not_wait(life, monkeypatch):
    """A drain that would take long is left."""
    draining = asyncio.Event()

    async def drain(self, wait_s):
        draining.set()
        await asyncio.sleep(wait_s)

    monkeypatch.setattr(lifecycle.Gateway, "drain", drain)
    task, _ = await life()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(draining.wait(), DEADLINE_S)
    assert not task.done()
    os.kill(os.getpid(), signal.SIGTERM)
    assert 0 == await asyncio.wait_for(task, DEADLINE_S)


@pytest.mark.slow
@pytest.mark.promise("S39")
async def test_hangup_reloads(life, monkeypatch):
    """SIGHUP is no end."""
    seen = []
    monkeypatch.setattr(lifecycle.Reloads, "now", lambda self: seen.append(self))  # noqa: PLW0108  a method
    task, _ = await life()
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: seen)
    assert not task.done()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, DEADLINE_S)
