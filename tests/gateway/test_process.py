"""The gateway as a process: start, refusal to start, reload, drain and end."""

import asyncio
import json
import signal
import socket
import time
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.live import CLIENT_KEY, PATHS, request
from tests.gateway.process import CONFIG, run, serving, write
from tests.gateway.smuggling import CANARY, MALFORMED
from tests.gateway.wire import talk
from tests.streams import STREAM, Say, Turn
from tests.upstream import End, Head, Upstream, Wait, sse

UP_KEY = "upstream-key-0001"
ENV = {"CLIENT_KEY": CLIENT_KEY, "UP_KEY": UP_KEY}
FRAMES = STREAM["chat"](Turn([Say("It is warm.")]))
ENDS = {"chat": b"data: [DONE]", "responses": b"event: response.completed", "messages": b"event: message_stop"}
FAILS = {"chat": b'data: {"error"', "responses": b"event: response.failed", "messages": b"event: error"}
OPEN = """
[server]
host = "{host}"
port = 0
[providers.up]
plugin = "openai"
base_url = "http://127.0.0.1:1/v1"
"""


def config(folder, url, *, drain_s=20, more=""):
    return write(folder, CONFIG.format(url=url, drain_s=drain_s) + more)


async def ask(session, url, dialect, *, model="m1", stream=True):
    """Status and whole body; a broken connection is a failure of the test."""
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    async with session.post(
        url + PATHS[dialect], json=request(dialect, model=model, stream=stream), headers=headers
    ) as response:
        return response.status, await response.read()


@asynccontextmanager
async def midway(folder, script, **more):
    """A process with one stream of each dialect in the middle of its answer."""
    async with Upstream(lambda _: script) as upstream:
        async with serving("serve", "--config", str(config(folder, upstream.url, **more)), env=ENV) as running:
            async with aiohttp.ClientSession() as session:
                reading = {name: asyncio.create_task(ask(session, running.url, name)) for name in PATHS}
                await upstream.received(len(PATHS))
                yield running, reading


@pytest.mark.slow
@pytest.mark.promise("S38")
async def test_a_terminated_process_lets_streams_end(tmp_path):
    """SIGTERM: nobody new gets in, running streams end whole, the code is 0."""
    go_on = asyncio.Event()
    async with midway(tmp_path, [Head(), *FRAMES[:3], Wait(go_on), *FRAMES[3:]]) as (running, reading):
        running.process.send_signal(signal.SIGTERM)
        host, port = running.url.removeprefix("http://").split(":")
        async with asyncio.timeout(5):
            while True:
                try:
                    _, writer = await asyncio.open_connection(host, int(port))
                except ConnectionRefusedError:
                    break
                writer.close()
                await asyncio.sleep(0.01)
        assert running.process.returncode is None
        go_on.set()
        for name, task in reading.items():
            status, body = await task
            assert (200, 1, 0) == (status, body.count(ENDS[name]), body.count(FAILS[name]))
        assert 0 == await asyncio.wait_for(running.process.wait(), 10)
    outcomes = [json.loads(line)["outcome"] for line in running.lines if '"request"' in line]
    assert ["complete"] * 3 == outcomes


@pytest.mark.slow
@pytest.mark.promise("S38")
async def test_a_stream_beyond_the_drain_is_told(tmp_path):
    """After drain_s each stream gets its protocol's error form, once, on a connection that ends properly."""
    async with midway(tmp_path, [Head(), *FRAMES[:3], End.STALL], drain_s=0.3) as (running, reading):
        await asyncio.sleep(0.2)
        running.process.send_signal(signal.SIGTERM)
        for name, task in reading.items():
            status, body = await task
            assert (200, 0, 1) == (status, body.count(ENDS[name]), body.count(FAILS[name]))
        assert 0 == await asyncio.wait_for(running.process.wait(), 10)
    assert ["shutdown"] * 3 == [json.loads(line)["outcome"] for line in running.lines if '"request"' in line]


@pytest.mark.slow
@pytest.mark.promise("S38")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_aborts(tmp_path, number):
    """Whoever is in a hurry does not wait for streams; the code is still 0."""
    async with midway(tmp_path, [Head(), *FRAMES[:3], End.STALL]) as (running, reading):
        running.process.send_signal(number)
        await asyncio.sleep(0.3)
        assert running.process.returncode is None
        began = time.monotonic()
        running.process.send_signal(number)
        assert 0 == await asyncio.wait_for(running.process.wait(), 10)
        assert time.monotonic() - began < 6
        await asyncio.gather(*reading.values(), return_exceptions=True)


@pytest.mark.slow
@pytest.mark.promise("S39")
async def test_reloads_under_load_lose_no_request(tmp_path):
    """Valid, broken, half-written, unreadable and missing files, by signal and by change: not one request fails."""
    async with Upstream(lambda _: sse(FRAMES)) as upstream:
        path = config(tmp_path, upstream.url)
        good = path.read_text()
        async with serving("serve", "--config", str(path), env=ENV) as running, aiohttp.ClientSession() as session:
            stop = asyncio.Event()
            statuses = []

            async def load(dialect):
                while not stop.is_set():
                    status, body = await ask(session, running.url, dialect)
                    statuses.append((status, ENDS[dialect] in body))

            async def signalled(words):
                seen = len(running.lines)
                running.process.send_signal(signal.SIGHUP)
                async with asyncio.timeout(10):
                    while not any(words in line for line in running.lines[seen:]):
                        await asyncio.sleep(0.01)

            loads = [asyncio.create_task(load(dialect)) for dialect in PATHS]
            write(tmp_path, good + '\n[models.m2]\nprovider = "up"\n')
            await signalled('"reloaded"')
            assert 200 == (await ask(session, running.url, "chat", model="m2"))[0]
            for broken in ("[server]\nport = 'x'\n", good[: len(good) // 2], good.replace("UP_KEY", "UNSET_KEY"), ""):
                write(tmp_path, broken)
                await signalled("reload_refused")
            path.write_bytes(b"\xff\xfe\x00")
            await signalled("reload_refused")
            path.unlink()
            await signalled("reload_refused")
            path.mkdir()
            await signalled("reload_refused")
            assert 200 == (await ask(session, running.url, "chat", model="m2"))[0]
            path.rmdir()
            write(tmp_path, good + '\n[models.m3]\nprovider = "up"\n')  # no signal: the change is seen
            async with asyncio.timeout(10):
                while (await ask(session, running.url, "chat", model="m3"))[0] != 200:
                    await asyncio.sleep(0.05)
            stop.set()
            await asyncio.gather(*loads)
            running.process.terminate()
            await asyncio.wait_for(running.process.wait(), 10)
        text = "\n".join(running.lines)
    assert {(200, True)} == set(statuses)
    assert len(statuses) >= 3
    assert f"{path}:" in text
    assert [] == [secret for secret in (CLIENT_KEY, UP_KEY) if secret in text]


REFUSED = {
    "open-without-clients": (OPEN.format(host="0.0.0.0"), "server.host"),
    "open-v6-without-clients": (OPEN.format(host="::"), "server.host"),
    "no-toml": ("[server\n", "config.toml:1"),
    "unknown-key": ("[server]\nprot = 1\n", "port"),
    "unset-variable": (CONFIG.format(url="http://127.0.0.1:1", drain_s=1).replace("UP_KEY", "UNSET_KEY"), "UNSET_KEY"),
    "plain-http": (OPEN.format(host="127.0.0.1").replace("127.0.0.1:1", "example.org"), "http"),
    "unknown-plugin": (OPEN.format(host="127.0.0.1").replace("openai", "opnai"), "openai"),
    "no-address": ("[providers.up]\nplugin = 'openai'\n", "base_url"),
    "owned-header": (OPEN.format(host="127.0.0.1") + "headers = { authorization = 'x' }\n", "authorization"),
    "several": ("[server]\nport = -1\nhost = 5\n", "config.toml:3"),
}


@pytest.mark.slow
@pytest.mark.promise("S06")
async def test_what_is_unsafe_or_wrong_does_not_start(tmp_path):
    """Exit 78, every problem with its place on stderr, nothing on stdout, no traceback and no secret."""

    async def refused(name):
        folder = tmp_path / name
        folder.mkdir()
        text, words = REFUSED[name]
        code, out, err = await run("serve", "--config", str(write(folder, text)), env=ENV)
        return name, code, out, words in err, "Traceback" in err, UP_KEY in err

    names = list(REFUSED)
    results = [*await asyncio.gather(*map(refused, names[:5])), *await asyncio.gather(*map(refused, names[5:]))]
    assert [(name, 78, "", True, False, False) for name in names] == results


@pytest.mark.slow
async def test_a_taken_port_is_a_sentence_and_a_1(tmp_path):
    """The address and the reason, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, out, err = await run(
            "serve", "--config", str(config(tmp_path, "http://127.0.0.1:1")), "--port", port, env=ENV
        )
    assert (1, "", f"dragoman: cannot listen on 127.0.0.1:{port}: Address already in use\n") == (code, out, err)


@pytest.mark.slow
@pytest.mark.promise("S07", "S08")
@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads /proc")
async def test_memory_and_command_line_hold_no_secret(tmp_path):
    """No core files, files of ours for us alone, and no secret among the arguments."""
    async with serving("serve", "--config", str(config(tmp_path, "http://127.0.0.1:1")), env=ENV) as running:
        of = Path(f"/proc/{running.process.pid}")
        limits = next(
            line for line in (of / "limits").read_text().splitlines() if line.startswith("Max core file size")
        )
        status = (of / "status").read_text()
        arguments = (of / "cmdline").read_text()
    assert ["0", "0"] == limits.split()[4:6]
    assert "Umask:\t0077" in status
    assert [] == [secret for secret in ENV.values() if secret in arguments]


@pytest.mark.slow
@pytest.mark.promise("S14", "S01")
@pytest.mark.parametrize("pure", ["", "1"], ids=["c", "python"])
async def test_both_parsers_refuse_the_same(tmp_path, pure):
    """aiohttp's parser in C and the one in Python: the same table, the same 400, and nothing echoed by either."""
    path = config(tmp_path, "http://127.0.0.1:1")
    env = ENV | ({"AIOHTTP_NO_EXTENSIONS": pure} if pure else {})
    async with serving("serve", "--config", str(path), env=env) as running:
        answers = {name: await talk(running.url, data) for name, data in MALFORMED.items()}
        alive = await talk(running.url, b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        running.process.terminate()
        await asyncio.wait_for(running.process.wait(), 10)
    assert dict.fromkeys(MALFORMED, (400, b"bad request\n")) == {
        name: (answer.status, answer.body) for name, answer in answers.items()
    }
    assert 200 == alive.status
    assert CANARY not in "\n".join(running.lines)


@pytest.mark.slow
async def test_the_demo_shows_each_protocol_and_ends():
    """`demo --once` needs no key, network or file: three answers as they arrive, and 0."""
    code, out, err = await run("demo", "--once", env={"NO_COLOR": "1", "HOME": "/nowhere"})
    assert (0, "") == (code, err)
    assert 3 == out.count("Hello from Dragoman")
    assert 3 == out.count("reasoning ")
    for path in PATHS.values():
        assert f"POST {path.removeprefix('/')}" in out
    assert "\x1b" not in out


@pytest.mark.slow
async def test_the_demo_serves_until_it_is_stopped():
    """It prints what to paste, answers, and Ctrl-C is 130."""
    async with serving("demo", "--port", "0") as running, aiohttp.ClientSession() as session:
        async with session.post(
            running.url + PATHS["chat"], json=request("chat", model="any", stream=False)
        ) as response:
            assert "Hello from Dragoman" in (await response.json())["choices"][0]["message"]["content"]
        running.process.send_signal(signal.SIGINT)
        assert running.process.stdout is not None
        out = (await running.process.stdout.read()).decode()
        assert 130 == await asyncio.wait_for(running.process.wait(), 10)
    assert f"curl -N {running.url}/v1/messages" in out
    assert [] == [name for name in ("Claude Code", "Codex", "Grok Build") if name not in out]
