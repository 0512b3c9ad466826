"""serve, check, models and providers, as far as they need no running server."""

import asyncio
import json
import os
import socket
import sys

import pytest

from gateway import commands, lifecycle
from gateway.cli import main
from providers.registry import BUILT_IN

GOOD = """
[server]
port = 0

[[clients]]
name = "alice"
key_sha256 = "{digest}"

[providers.local]
plugin = "openai"
base_url = "http://127.0.0.1:1/v1"
keys = [ {{ name = "k1", value = "sk-canary-0123456789" }} ]

[models."a-1"]
provider = "local"
model = "up"
context_window = 1000

[models."b*"]
routes = [ {{ provider = "local" }}, {{ provider = "local", model = "x" }} ]
""".format(digest="0123456789abcdef" * 4)
BAD = "[server]\nport = 99999\nhots = 'x'\n[providers.local]\nplugin = 'openai'\nkeys = [{ name = 'k', value = 'sk-canary-0123456789' }]\n"
CANARY = "sk-canary-0123456789"


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Write a config and let $DRAGOMAN_CONFIG name it."""

    def write(text):
        path = tmp_path / "config.toml"
        path.write_text(text)
        path.chmod(0o600)
        monkeypatch.setenv("DRAGOMAN_CONFIG", str(path))
        return path

    return write


@pytest.fixture
def serving(monkeypatch):
    """What `serve` would run: the config and the address of the socket, without touching this process."""
    seen = []

    async def serve(config, sock):
        seen.append((config, sock.getsockname()))
        sock.close()
        return 7

    mask = os.umask(0o022)
    monkeypatch.setattr(lifecycle, "serve", serve)
    monkeypatch.setattr(lifecycle, "no_core_dumps", lambda: seen.append("no core"))
    yield seen
    os.umask(mask)


def test_check_counts_what_is_configured(configured, capsys):
    """A good file is one line on stdout."""
    path = configured(GOOD)
    assert 0 == main(["check"])
    assert f"{path}: fine (1 providers, 2 aliases, 1 clients)\n" == capsys.readouterr().out


def test_check_as_json_is_a_list_of_problems(configured, capsys):
    """Empty when there are none."""
    configured(GOOD)
    assert 0 == main(["check", "--json"])
    assert [] == json.loads(capsys.readouterr().out)


@pytest.mark.promise("S01")
def test_check_tells_everything_at_once(configured, capsys):
    """Each problem with file, line and key; no secret's value; nothing on stdout; 78."""
    path = configured(BAD)
    assert 78 == main(["check"])
    out, err = capsys.readouterr()
    assert "" == out
    assert f"{path}:2" in err
    assert f"{path}:3" in err
    assert CANARY not in err
    assert "\x1b" not in err


@pytest.mark.promise("S01")
def test_problems_as_json(configured, capsys):
    """The same problems as data, on stdout."""
    configured(BAD)
    assert 78 == main(["check", "--json"])
    out, err = capsys.readouterr()
    assert "" == err
    assert {2, 3} <= {problem["line"] for problem in json.loads(out)}
    assert CANARY not in out


def test_check_asks_the_plugins(configured, capsys):
    """What a plugin needs is checked once the file itself is right."""
    configured("[providers.p]\nplugin = 'openai'\n")
    assert 78 == main(["check"])
    assert "providers.p.base_url" in capsys.readouterr().err


@pytest.mark.promise("S06")
def test_check_sees_an_unsafe_address(configured, capsys):
    """What `serve` would refuse is a problem here too."""
    configured(
        GOOD.replace("port = 0", 'host = "0.0.0.0"').replace(
            '[[clients]]\nname = "alice"\nkey_sha256', "[admin]\nkey_sha256"
        )
    )
    assert 78 == main(["check"])
    assert "server.host" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "models", "serve"])
def test_without_a_file_the_way_out_is_told(monkeypatch, tmp_path, capsys, command):
    """No file anywhere: 78 and what to do."""
    for name in ("DRAGOMAN_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert 78 == main([command])
    assert "dragoman init" in capsys.readouterr().err


@pytest.mark.parametrize(("no_color", "colored"), [(None, True), ("1", False)])
def test_problems_are_colored_on_terminals(configured, monkeypatch, capsys, no_color, colored):
    """NO_COLOR wins."""
    configured(BAD)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    main(["check"])
    assert colored == ("\x1b[31m" in capsys.readouterr().err)


def test_models_are_a_table(configured, capsys):
    """Alias, routes, dialects and window, in columns."""
    configured(GOOD)
    assert 0 == main(["models"])
    head, first, second = capsys.readouterr().out.splitlines()
    assert ["ALIAS", "ROUTES", "DIALECT", "CONTEXT"] == head.split()
    assert ["a-1", "local/up", "chat", "1000"] == first.split()
    assert ["b*", "local/b*,", "local/x", "chat,", "chat", "-"] == second.split()
    assert head.index("ROUTES") == first.index("local/up")


def test_models_as_json(configured, capsys):
    """The same rows as data."""
    configured(GOOD)
    assert 0 == main(["models", "--json"])
    first, second = json.loads(capsys.readouterr().out)
    assert {"alias": "a-1", "routes": ["local/up"], "dialects": ["chat"], "context_window": 1000} == first
    assert second["context_window"] is None


def test_a_configured_dialect_is_shown(configured, capsys):
    """The table's dialect wins over the plugin's first."""
    configured(GOOD.replace('plugin = "openai"', 'plugin = "openai"\ndialect = "responses"'))
    main(["models", "--json"])
    assert ["responses"] == json.loads(capsys.readouterr().out)[0]["dialects"]


def test_providers_are_listed_without_a_config(capsys):
    """Plugin, distribution, version and entry point of each."""
    assert 0 == main(["providers"])
    lines = capsys.readouterr().out.splitlines()
    assert ["PLUGIN", "DISTRIBUTION", "VERSION", "ENTRY", "POINT"] == lines[0].split()
    assert set(BUILT_IN) <= {line.split()[0] for line in lines[1:]}


def test_providers_as_json(capsys):
    """The same as data."""
    assert 0 == main(["providers", "--json"])
    found = {row["plugin"]: row["entry_point"] for row in json.loads(capsys.readouterr().out)}
    assert set(BUILT_IN.items()) <= set(found.items())


def test_serve_runs_on_the_configured_address(configured, serving):
    """Files of ours are private, memory is kept out of core files, and the code is the loop's."""
    configured(GOOD)
    assert 7 == main(["serve"])
    assert "no core" == serving[0]
    assert "127.0.0.1" == serving[1][1][0]
    assert 0o077 == os.umask(0o022)


def test_options_win_over_the_file(configured, serving):
    """Host, port and workers of the command line count; several workers are test_workers.py's."""
    configured(GOOD.replace("port = 0", "port = 0\nworkers = 2"))
    assert 7 == main(["serve", "--host", "127.0.0.2", "--port", "0", "--workers", "1"])
    config, address = serving[1]
    assert ("127.0.0.2", 1) == (address[0], config.server.workers)


@pytest.mark.promise("S06")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_open_address_needs_clients(configured, serving, capsys, host):
    """Without keys for clients only loopback is served, whoever asks; nothing is bound."""
    configured("[providers.local]\nplugin = 'openai'\nbase_url = 'http://127.0.0.1:1/v1'\n")
    assert 78 == main(["serve", "--host", host])
    assert "anyone could use your keys" in capsys.readouterr().err
    assert [] == serving


def test_a_taken_port_is_a_sentence(configured, serving, capsys):
    """1, the address and the reason; no traceback."""
    configured(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert 1 == main(["serve", "--port", str(port)])
    assert f"dragoman: cannot listen on 127.0.0.1:{port}: Address already in use\n" == capsys.readouterr().err


async def nothing():
    return 5


def test_uvloop_runs_when_it_is_there(monkeypatch):
    """Else the loop is asyncio's own."""
    pytest.importorskip("uvloop")

    async def loop_of():
        return type(asyncio.get_running_loop()).__module__

    assert "uvloop" == commands.run_loop(loop_of())
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert "asyncio.unix_events" == commands.run_loop(loop_of())
