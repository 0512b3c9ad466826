"""The canary finds what leaks, wherever it comes out, and keeps silent otherwise."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.canary import Canary, values, windows

ROOT = Path(__file__).resolve().parents[1]
SECRET = "sk-marker-0123456789"
PROMPT = "the marmot sleeps under the third stone"

LEAKS = {
    "nothing": "",
    "a prompt in the log": "exchange.runtime.log.info('debug', body=exchange.sent_body)",
    "a prompt in a record": "exchange.record.effort = exchange.sent_body[-60:]",
    "a key in a record": "exchange.record.session = 'upstream-key-0001'",
    "a prompt on stdout": "print(exchange.sent_body)",
    "a key on stderr": "print('upstream-key-0001', file=sys.stderr)",
    "output in a record": "exchange.record.prefix_hash = 'Seven degrees in Gent today'",
    "a tool name in a record": "exchange.record.prefix_hash = 'canary_tool_of_the_client'",
    "a session in a record": "exchange.record.session = 'session-of-alice-0001'",
    "a crash that prints locals": "raise_with_text(exchange)",
}


def heard(canary: Canary) -> Canary:
    canary.secret(SECRET)
    canary.document(json.dumps({"model": "m1", "messages": [{"role": "user", "content": PROMPT}]}).encode())
    return canary


def test_silence_is_no_leak():
    """What is not told comes not out."""
    canary = heard(Canary())
    canary.sink("the log", '{"event": "request", "alias": "m1", "outcome": "complete"}')
    assert [] == canary.leaks()


@pytest.mark.parametrize("text", [f"x {SECRET} y", f'{{"a": "{SECRET}"}}'])
def test_a_secret_in_a_sink_is_a_leak(text):
    """The finding shows the place and only the begin of the secret."""
    canary = heard(Canary())
    canary.sink("the log", text)
    assert ["a secret in the log: sk-m…"] == canary.leaks()


def test_a_secret_in_an_answer_is_a_leak_but_content_is_none():
    """Clients get what they asked for, and no key."""
    canary = heard(Canary())
    canary.answers.append(PROMPT)
    assert [] == canary.leaks()
    canary.answers.append(SECRET)
    assert ["a secret in an answer: sk-m…"] == canary.leaks()


@pytest.mark.parametrize("part", [PROMPT, PROMPT[5:25], f"cut {PROMPT[:18]}"])
def test_a_part_of_a_prompt_is_a_leak(part):
    """Sixteen characters are enough; fewer are too often words that a gateway uses too."""
    canary = heard(Canary())
    canary.sink("/metrics", f'x{{alias="{part}"}} 1')
    assert canary.leaks()[0].startswith("content in /metrics: ")


def test_deltas_are_put_together():
    """A stream's pieces are too short to be found one by one."""
    canary = Canary()
    canary.document(
        b'data: {"delta": {"content": "Seven deg"}}\n\ndata: {"delta": {"content": "rees in Gent"}}\n\ndata: [DONE]\n\n'
    )
    canary.sink("the log", "said: en degrees in Gent")
    assert [] != canary.leaks()


def test_names_that_belong_there_are_no_leak():
    """A prompt may name a model, and a record too."""
    canary = Canary()
    canary.content("please use claude-sonnet-4-6 for it")
    canary.sink("the log", "claude-sonnet-4-6")
    assert [] != canary.leaks()
    canary.allow("claude-sonnet-4-6", None)
    assert [] == canary.leaks()


def test_the_syntax_of_json_is_nobodys_content():
    """A prompt that is JSON itself shares commas and quotes with the log."""
    canary = Canary()
    canary.content('{"model":"m1","stream":true,"status":200}')
    canary.sink("the log", '{"event":"request","stream":true,"status":200}')
    assert [] == canary.leaks()


def test_values_are_the_strings_of_json_and_of_events():
    """Other text is taken as it stands."""
    assert "a\nb" == values('{"x": "a", "y": [1, "b"]}')
    assert "a" == values('id: 1\nevent: request\ndata: {"x": "a"}\n\n')
    assert "plain text" == values("plain text")


def test_rows_of_one_character_say_nothing():
    """A megabyte of x is no marker."""
    assert set() == windows("x" * 100)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("leak", LEAKS)
def test_a_deliberate_leak_fails_a_test(leak, tmp_path):
    """A gateway that leaks in one of many ways fails a test that looks at nothing; one that does not passes."""
    (tmp_path / "test_leaking.py").write_text(TEST % LEAKS[leak])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [
            *command,
            "--rootdir",
            str(ROOT),
            f"--confcutdir={ROOT}",
            "-p",
            "tests.conftest",
            str(tmp_path / "test_leaking.py"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert (leak != "nothing") == ("the canary: " in done.stdout), done.stdout + done.stderr
    assert (1 if leak != "nothing" else 0) == done.returncode


TEST = textwrap.dedent('''
    """A gateway with a hole in it."""
    import sys
    from gateway.exchange import Exchange
    from tests.gateway.live import config, provider, running
    from tests.streams import Call, Say, Turn, chat
    from tests.upstream import Upstream, sse

    def raise_with_text(exchange):
        import traceback
        try:
            raise ValueError(exchange.sent_body)
        except ValueError:
            traceback.print_exc()

    async def test_leaking(monkeypatch):
        """Looks at nothing."""
        original = Exchange.finish

        def finish(exchange):
            original(exchange)
            exchange.sent_body = "the marmot sleeps under the third stone"
            exchange.runtime.log = gateway.telemetry.log
            %s

        monkeypatch.setattr(Exchange, "finish", finish)
        turn = Turn([Say("Seven degrees in Gent today."), Call("Bash", "{}")])
        tool = {"type": "function", "function": {"name": "canary_tool_of_the_client", "parameters": {"type": "object"}}}
        async with Upstream([sse(chat(turn))]) as upstream, running(config(provider(upstream.url))) as live:
            gateway = live.listening.gateway
            messages = [{"role": "user", "content": "the marmot sleeps under the third stone"}]
            await live.send("chat", messages=messages, tools=[tool], prompt_cache_key="session-of-alice-0001")
            await live.records()
''')


def test_the_watcher_is_on_duty(pytestconfig):
    """The suite runs with the canary, so that the tests above are about something."""
    assert pytestconfig.pluginmanager.has_plugin("dragoman-canary")
