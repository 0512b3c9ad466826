"""launch and env: what a client gets, which gateway it meets, what comes back; keys are never shown."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway import launch as launched
from gateway.cli import main
from gateway.clients import Wiring
from tests.gateways import gateway

pytestmark = pytest.mark.slow  # each starts programs
CLIENT = """#!{python}
import json, os, sys, urllib.request
names = [n for n in os.environ if n.split("_")[0] in ("ANTHROPIC", "DRAGOMAN", "GROK", "XAI", "OPENCODE", "CLAUDE", "NO")]
told = {{"argv": sys.argv[1:], "env": {{n: os.environ[n] for n in names}}}}
url, key = os.environ.get("ANTHROPIC_BASE_URL"), os.environ.get("ANTHROPIC_AUTH_TOKEN")
if "--settings" in sys.argv:
    path = sys.argv[sys.argv.index("--settings") + 1]
    told["settings"] = json.load(open(path))
    told["mode"] = os.stat(path).st_mode & 0o777
if url:
    asked = urllib.request.Request(url + "/v1/models", headers={{"authorization": "Bearer " + key}})
    told["models"] = [entry["id"] for entry in json.load(urllib.request.urlopen(asked))["data"]]
print(json.dumps(told))
sys.exit(int(os.environ.get("FAKE_EXIT", "0")))
"""
DEMO = """
[server]
port = {port}

[providers.demo]

[models."demo"]
provider = "demo"
context_window = 150_000
"""
SECRET = "client-key-canary-0001"


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A folder of stand-in clients on PATH, an empty home, and a config for the demo upstream."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name in ("claude", "codex", "grok"):
        path = bin_folder / name
        path.write_text(CLIENT.format(python=sys.executable))
        path.chmod(0o755)
    for name in ("DRAGOMAN_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(tmp_path / "config.toml"))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    write(tmp_path, DEMO.format(port=free_port()))
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


def write(folder: Path, text: str) -> None:
    path = folder / "config.toml"
    path.write_text(text)
    path.chmod(0o600)


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def told(capfd) -> dict:
    return json.loads(capfd.readouterr().out)


def test_a_private_gateway_serves_one_run(bench, monkeypatch, capfd):
    """The client meets it with a key of its own, and its exit code comes back; nothing is left behind."""
    monkeypatch.setenv("FAKE_EXIT", "7")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
    assert 7 == main(["launch", "claude", "--", "-p", "two words", "--model", "x"])
    said = told(capfd)
    assert ["-p", "two words", "--model", "x"] == said["argv"][2:]
    assert ["demo"] == said["models"]
    assert "ANTHROPIC_API_KEY" not in said["env"]
    assert "150000" == said["env"]["CLAUDE_CODE_AUTO_COMPACT_WINDOW"]
    assert said["env"]["ANTHROPIC_AUTH_TOKEN"] == said["settings"]["env"]["ANTHROPIC_AUTH_TOKEN"]
    assert 0o600 == said["mode"]
    assert not Path(said["argv"][1]).parent.exists()
    with pytest.raises(OSError):
        import urllib.request

        urllib.request.urlopen(said["env"]["ANTHROPIC_BASE_URL"] + "/livez", timeout=5)
    assert not (bench / "home").exists()


def test_the_private_gateway_serves_nobody_else(bench, capfd):
    """Without clients in the configuration too: another user of the machine would need the run's key."""
    assert 0 == main(["launch", "claude", "--demo"])
    said = told(capfd)
    assert said["env"]["ANTHROPIC_AUTH_TOKEN"].startswith("dragoman-launch-")
    assert "demo" in said["models"]


async def test_a_gateway_that_runs_is_used(tmp_path, bench, capfd):
    """No second one is started, and the key is the configuration's own."""
    import socket

    port = free_port()
    sock = socket.create_server(("127.0.0.1", port))
    sock.setblocking(False)
    keyed = DEMO.format(port=port) + f'\n[[clients]]\nname = "me"\nkey = "{SECRET}"\nmodels = ["d*"]\n'
    folder = tmp_path / "running"
    folder.mkdir()
    async with gateway(folder, keyed, sock):
        write(bench, keyed)
        assert 0 == await asyncio.to_thread(run_here, ["launch", "claude", "--print"])
        shown = capfd.readouterr().out
        assert SECRET not in shown
        assert 'ANTHROPIC_AUTH_TOKEN="$DRAGOMAN_KEY"' in shown
        assert f"ANTHROPIC_BASE_URL=http://127.0.0.1:{port}" in shown
        assert "private" not in shown.lower().replace("private_folder", "")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", "launch", "claude", stdout=-1, stderr=-1, cwd=Path(__file__).parents[2]
        )
        out, err = await process.communicate()
        assert SECRET == json.loads(out)["env"]["ANTHROPIC_AUTH_TOKEN"]
        assert b"private" not in err
        # The key is not known from the configuration: the client still runs, on a gateway of its own.
        import hashlib

        digest = hashlib.sha256(SECRET.encode()).hexdigest()
        write(bench, keyed.replace(f'key = "{SECRET}"', f'key_sha256 = "{digest}"'))
        assert 0 == await asyncio.to_thread(run_here, ["launch", "claude", "--print"])
        out, err = capfd.readouterr()
        assert "put it into $DRAGOMAN_KEY" in err
        assert "a private one would be started" in out


def run_here(argv: list[str]) -> int:
    return main(argv)


async def test_a_gateway_elsewhere(tmp_path, bench, monkeypatch, capfd):
    """--url asks it what it has; a key that it refuses, and silence, are sentences."""
    keyed = DEMO.format(port=0) + f'\n[[clients]]\nname = "me"\nkey = "{SECRET}"\n'
    folder = tmp_path / "running"
    folder.mkdir()
    async with gateway(folder, keyed) as served:
        assert 1 == await asyncio.to_thread(run_here, ["launch", "claude", "--url", served.url, "--print"])
        assert "wants a key" in capfd.readouterr().err
        monkeypatch.setenv("DRAGOMAN_KEY", "wrong")
        assert 1 == await asyncio.to_thread(run_here, ["env", "claude", "--url", served.url])
        assert "refuses the key" in capfd.readouterr().err
        monkeypatch.setenv("DRAGOMAN_KEY", SECRET)
        assert 0 == await asyncio.to_thread(run_here, ["env", "claude", "--url", served.url + "/v1/"])
        out = capfd.readouterr().out
        assert SECRET not in out
        assert "export ANTHROPIC_MODEL=demo\n" in out
        assert "CLAUDE_CODE_AUTO_COMPACT_WINDOW=150000" in out
    assert 1 == main(["env", "claude", "--url", f"http://127.0.0.1:{free_port()}"])
    assert "no gateway answers" in capfd.readouterr().err


def test_print_shows_files_and_flags(bench, capfd):
    """For every client; nothing runs, and the key is a word."""
    for client in ("claude", "codex", "grok", "cline", "opencode"):
        assert 0 == main(["launch", client, "--print", "--model", "demo", "--", "--flag"])
        out = capfd.readouterr().out
        assert out.splitlines()[-1].startswith(client)
        assert out.rstrip().endswith("--flag")
        assert "demo" in out


def test_env_is_shell(bench, capfd):
    """The lines run in a shell and say the same."""
    assert 0 == main(["env", "codex"])
    out, err = capfd.readouterr()
    assert "dragoman serve" in err
    assert out.splitlines()[-1].startswith("alias codex='codex -c ")
    shown = subprocess.run(
        ["/bin/sh", "-c", out + "\necho $DRAGOMAN_CLIENT_KEY"], check=False, capture_output=True, text=True
    )
    assert "local\n" == shown.stdout


def test_env_has_limits(bench, capfd):
    """cline takes no address from the environment, and Grok Build no model that is not listed."""
    assert 1 == main(["env", "cline"])
    assert "launch cline" in capfd.readouterr().err
    write(
        bench,
        DEMO.format(port=1)
        .replace('"demo"]', '"de*"]')
        .replace('provider = "demo"', 'provider = "demo"\nmodel = "demo"'),
    )
    assert 1 == main(["env", "grok"])
    out, err = capfd.readouterr()
    assert "" == out
    assert "launch grok" in err
    assert 0 == main(["launch", "grok", "--print"])
    assert "GROK_HOME=PRIVATE_FOLDER/grok" in capfd.readouterr().out


def test_what_cannot_run_is_a_sentence(bench, capfd):
    """A client that is not installed, an alias that is not there, no configuration, one that is wrong."""
    assert 1 == main(["launch", "opencode"])
    assert "npm install -g opencode-ai" in capfd.readouterr().err
    assert 1 == main(["launch", "claude", "--model", "nope"])
    assert "configured: demo" in capfd.readouterr().err
    write(bench, "[server]\nprot = 1\n")
    assert 78 == main(["launch", "claude"])
    assert "did you mean" in capfd.readouterr().err
    (bench / "config.toml").unlink()
    assert 78 == main(["env", "claude"])
    assert "dragoman init" in capfd.readouterr().err


def test_a_program_that_is_none(bench, capfd):
    """It is on PATH but cannot be executed by the system."""
    (bench / "bin" / "grok").write_bytes(b"\x7fELF nothing")
    assert 1 == main(["launch", "grok", "--demo"])
    assert "cannot be run" in capfd.readouterr().err


def test_a_private_gateway_that_fails_says_why(bench, monkeypatch, capfd):
    """What the child said is shown."""
    monkeypatch.setattr(launched, "Private", lambda *_: (_ for _ in ()).throw(launched.Unstarted("because")))
    assert 1 == main(["launch", "claude"])
    assert "did not start:\nbecause" in capfd.readouterr().err


def test_a_client_that_dies_of_a_signal(bench, capfd):
    """The code is the shell's, 128 and the signal's number."""
    (bench / "bin" / "grok").write_text("#!/bin/sh\nkill -TERM $$\n")
    assert 143 == main(["launch", "grok", "--demo"])


def test_signals_are_passed_on(bench):
    """SIGTERM reaches the client, and the private gateway ends too."""
    (bench / "bin" / "grok").write_text("#!/bin/sh\ntrap 'exit 9' TERM\necho up\nwhile :; do /bin/sleep 0.05; done\n")
    argv = [sys.executable, "-m", "gateway", "launch", "grok", "--demo"]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert "up\n" == process.stdout.readline()
    process.terminate()
    assert 9 == process.wait(20)
    process.stdout.close()
    process.stderr.close()


def test_the_users_settings_file_replaces_ours(bench, capfd):
    """Two --settings cannot be given; the user's stays."""
    assert 0 == main(["launch", "claude", "--demo", "--", "--settings={}"])
    out, err = capfd.readouterr()
    assert ["--settings={}"] == json.loads(out)["argv"]
    assert "replace" in err


def test_proxies_do_not_see_loopback():
    """Where a proxy is set, this machine is excepted."""
    made = launched.environment(
        {"https_proxy": "http://p", "NO_PROXY": "x", "GONE": "1"}, Wiring({"A": "1"}, ("GONE",))
    )
    assert {
        "https_proxy": "http://p",
        "NO_PROXY": "x,127.0.0.1,localhost,::1",
        "no_proxy": "127.0.0.1,localhost,::1",
        "A": "1",
    } == made
    assert {"A": "1"} == launched.environment({}, Wiring({"A": "1"}))


def test_the_gateway_ends_with_a_killed_launcher(bench):
    """Nothing is left of a run that was killed outright."""
    code = (
        "import sys, pathlib; from gateway.private import Private\n"
        "private = Private(None, pathlib.Path(sys.argv[1])); print(private._process.pid, flush=True); input()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(bench)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    pid = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    starter.stdin.close()
    starter.stdout.close()
    deadline = time.monotonic() + 15
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return "Z" != Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_gateway_that_does_not_start(bench):
    """Its own words come back."""
    from gateway.private import Private, Unstarted

    write(bench, "[server]\nprot = 1\n")
    with pytest.raises(Unstarted) as caught:
        Private(bench / "config.toml", bench)
    assert "is not a known key" in str(caught.value)
    assert os.environ["PATH"]
