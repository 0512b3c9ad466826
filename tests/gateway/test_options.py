"""The command line's words: every command has a module and teaches; help is quick; completion knows all of it."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from gateway.cli import COMMANDS, main, parse, parser
from gateway.completion import levels, script

ROOT = Path(__file__).resolve().parents[2]


def tree() -> dict[tuple[str, ...], argparse.ArgumentParser]:
    found = {}

    def walk(at, path):
        found[path] = at
        for action in at._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, inner in action.choices.items():
                    walk(inner, (*path, name))

    walk(parser(), ())
    return found


NAMES = sorted({path[0] for path in tree() if path})


def test_every_command_has_its_function():
    """The table of modules is whole, and has nothing else."""
    assert set(NAMES) == {*COMMANDS, "demo", "version"}
    for name, module in COMMANDS.items():
        assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize("path", [path for path in tree() if path], ids="-".join)
def test_every_argument_is_explained(path):
    """Commands have a description or a summary, and each option a help text."""
    for action in tree()[path]._actions:
        assert action.help or action.choices, f"{path} {action.dest}"


def test_after_the_dashes_everything_is_the_clients():
    """Options of the same name too; other commands know no such thing."""
    options = parse(["launch", "codex", "--model", "a", "--", "exec", "--model", "b", "--", "c"])
    assert ("a", ["exec", "--model", "b", "--", "c"]) == (options.model, options.rest)
    assert [] == parse(["launch", "codex"]).rest
    with pytest.raises(SystemExit):
        parse(["launch", "codex", "-p", "hi"])


def cpu_s(*argv: str) -> float:
    """Processor time of a run, which other processes on the machine do not change."""

    def once() -> float:
        process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.DEVNULL, cwd=ROOT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert 0 == process.returncode
        return used.ru_utime + used.ru_stime

    return statistics.median(once() for _ in range(5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv", [["--help"], *([name, "--help"] for name in ("serve", "launch", "keys", "init"))], ids=" ".join
)
def test_help_is_quick(argv):
    """Less than 150 ms more than starting Python at all (measured: 35 to 55 ms): imports are lazy."""
    assert cpu_s("-m", "gateway", *argv) < cpu_s("-c", "pass") + 0.15


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["--help"], *([name, "--help"] for name in NAMES)], ids=" ".join)
def test_help_loads_nothing_heavy(argv):
    """Neither the server, nor a translator, nor the codecs."""
    code = (
        "import sys; from gateway.cli import parse\n"
        f"try: parse({argv!r})\nexcept SystemExit: pass\n"
        "print({'aiohttp', 'translators', 'msgspec', 'asyncio', 'structlog'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "set()\n" == done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_word(shell, capsys):
    """Commands, actions, choices and options, in each shell's script."""
    assert 0 == main(["completion", shell])
    out = capsys.readouterr().out
    assert script(shell) == out
    for level in levels(parser()):
        for word in (*level.words, *level.options):
            assert word.lstrip("-") in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["dragoman", "laun"], "launch"),
        (["dragoman", "launch", "co"], "codex"),
        (["dragoman", "keys", "re"], "revoke"),
        (["dragoman", "keys", "new", "--mod"], "--models"),
        (["dragoman", "serve", "--config", "/et"], "/etc"),
    ],
)
def test_bash_completes(words, offered):
    """The script in a real bash."""
    call = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _dragoman; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", script("bash") + call], capture_output=True, text=True, check=True)
    assert offered == done.stdout.strip()


@pytest.mark.parametrize("argv", [["usage"], ["usage", "--json"]])
def test_usage_has_no_ledger(argv, capsys):
    """It says so, and exits with 1, since the question has no answer."""
    assert 1 == main(argv)
    out, err = capsys.readouterr()
    assert ("null\n" if "--json" in argv else "") == out
    assert "no ledger configured" in err
