"""`dragoman demo` in this process: the built-in configuration and what it shows."""

import asyncio
import socket
import sys

import aiohttp
import pytest

from gateway import demo as module
from gateway.demo import demo, demo_config
from providers import demo as script
from providers.demo import SCRIPTS
from tests.gateway.live import DEADLINE_S


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Words come at once, and this process keeps its own limits."""
    monkeypatch.setattr(script, "PAUSE_S", 0)
    monkeypatch.setattr(module, "no_core_dumps", lambda: None)


def test_every_script_has_an_alias_and_every_name_an_answer():
    """No client, key or file is needed."""
    config = demo_config(0)
    assert {*SCRIPTS, "*"} == set(config.models)
    assert ((), "memory:", 0) == (config.clients, config.state.url, config.server.port)


def test_once_shows_each_protocol(capsys):
    """Reasoning and answer of each, and where to go next."""
    assert 0 == demo(0, once=True)
    out = capsys.readouterr().out
    assert 3 == out.count("Hello from Dragoman")
    assert 3 == out.count("reasoning ")
    assert "dragoman init" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("no_color", "colored"), [(None, True), ("1", False)])
def test_once_is_colored_on_terminals(capsys, monkeypatch, no_color, colored):
    """NO_COLOR wins."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    assert 0 == demo(0, once=True)
    assert colored == ("\x1b[1m" in capsys.readouterr().out)


def test_an_answer_that_breaks_off_is_a_failure(capsys, monkeypatch):
    """The code is 1, and the text says so."""
    monkeypatch.setattr(module, "_requests", lambda: (("Cut", "/v1/chat/completions", {"model": "demo-cut", "stream": True, "messages": [{"role": "user", "content": "hi"}]}),))  # fmt: skip
    assert 1 == demo(0, once=True)
    assert "did not end well" in capsys.readouterr().out


def test_a_taken_port_is_a_sentence(capsys):
    """With the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert 1 == demo(taken.getsockname()[1], once=False)
    assert "try --port 0" in capsys.readouterr().err


async def test_it_serves_until_it_is_cancelled(capsys):
    """Recipes with the real address on stdout, the line that scripts wait for on stderr."""
    serving = asyncio.create_task(module._serve(0))
    out = err = ""
    async with asyncio.timeout(DEADLINE_S):
        while "listening on" not in err:
            await asyncio.sleep(0.01)
            more = capsys.readouterr()
            out, err = out + more.out, err + more.err
    url = err.partition("listening on ")[2].split()[0]
    async with aiohttp.ClientSession() as session, session.get(url + "/v1/models") as response:
        assert set(SCRIPTS) == {model["id"] for model in (await response.json())["data"]}
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert f"ANTHROPIC_BASE_URL={url}" in out
    assert out.count(url) >= 5
