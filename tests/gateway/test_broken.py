"""Twenty broken configurations from the command line: the line, the words and the exit code of each."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import main

ROOT = Path(__file__).resolve().parents[2]
SECRET = "sk-canary-0123456789"
GOOD = """\
[server]
port = 0

[providers.local]
plugin = "openai"
base_url = "http://127.0.0.1:8000/v1"
keys = [ { name = "k", value = "sk-canary-0123456789" } ]

[models."a"]
provider = "local"
"""
CASES = {
    "misspelt key": ("port = 0", "prot = 0", 2, 'did you mean "port"?'),
    "misspelt table": ("[server]", "[sever]", 1, 'did you mean "server"?'),
    "wrong type": ("port = 0", 'port = "eighty"', 2, "must be an integer, not a string"),
    "out of range": ("port = 0", "port = 70000", 2, "65535"),
    "wrong choice": ("port = 0", 'port = 0\n[log]\nlevel = "loud"', 4, "must be one of"),
    "missing variable": (
        'value = "sk-canary-0123456789"',
        'value = { env = "NO_SUCH_KEY" }',
        7,
        "NO_SUCH_KEY is not set",
    ),
    "missing file": ('value = "sk-canary-0123456789"', 'value = { file = "/no/such" }', 7, "does not exist"),
    "placeholder": ('value = "sk-canary-0123456789"', 'value = "changeme"', 7, "placeholder"),
    "same alias twice": (
        '[models."a"]',
        '[models."a"]\nprovider = "local"\n[models."a"]',
        11,
        "two routes under one alias",
    ),
    "same table twice": ("[providers.local]", "[server]\n[providers.local]", 4, "is defined twice"),
    "unknown plugin": ('plugin = "openai"', 'plugin = "opneai"', 5, 'did you mean "openai"?'),
    "unknown provider": ('provider = "local"', 'provider = "locla"', 10, 'did you mean "local"?'),
    "address without scheme": ("http://127.0.0.1:8000/v1", "127.0.0.1:8000/v1", 6, "is not an http address"),
    "password in address": (
        "http://127.0.0.1:8000",
        "http://me:sk-canary-0123456789@127.0.0.1",
        6,
        "user name or password",
    ),
    "plain http far away": ("http://127.0.0.1:8000", "http://llm.example.org", 6, "would send keys unencrypted"),
    "owned header": ("keys =", 'headers = { authorization = "x" }\nkeys =', 7, "only the gateway sets"),
    "unsafe address": ("port = 0", 'host = "0.0.0.0"', 2, "anybody could use your keys"),
    "no address": ('base_url = "http://127.0.0.1:8000/v1"\n', "", 4, "is missing"),
    "dialect not spoken": ('plugin = "openai"', 'plugin = "anthropic"\ndialect = "chat"', 6, "does not speak"),
    "broken TOML": ('provider = "local"', "provider = local", 10, "is not valid TOML"),
    "alias without quotes": ('[models."a"]', "[models.gpt-5.5]", 9, "a dot in an alias needs quotes"),
    "two keys of one name": (
        "keys = [",
        'keys = [ { name = "k", value = "another-key-1" },',
        7,
        "is the name of another key",
    ),
    "client without key": ("[models", '[[clients]]\nname = "x"\n[models', 9, "has no key"),
}


def write(folder: Path, case: str, mode: int = 0o600) -> tuple[Path, int, str]:
    old, new, line, words = CASES[case]
    assert old in GOOD
    path = folder / "config.toml"
    path.write_text(GOOD.replace(old, new))
    path.chmod(mode)
    return path, line, words


@pytest.mark.slow
@pytest.mark.promise("S01")
@pytest.mark.parametrize("case", CASES)
def test_a_broken_file_is_told_line_by_line(case, tmp_path, capsys):
    """78, file and line, what is wrong; never a secret; the same as data; and `serve` says the same."""
    path, line, words = write(tmp_path, case)
    assert 78 == main(["check", "--config", str(path)])
    out, err = capsys.readouterr()
    assert "" == out
    assert re.search(rf"^{re.escape(str(path))}:{line}\b(?!\d)", err, re.MULTILINE)
    assert words in err
    assert SECRET not in err
    assert 78 == main(["check", "--config", str(path), "--json"])
    problems = json.loads(capsys.readouterr().out)
    assert line in {problem["line"] for problem in problems}
    assert SECRET not in str(problems)
    assert 78 == main(["serve", "--config", str(path)])
    assert err == capsys.readouterr().err


@pytest.mark.promise("S07")
def test_a_secret_that_others_can_read(tmp_path, capsys):
    """The mode of the file is the problem, and chmod the way out."""
    path = tmp_path / "config.toml"
    path.write_text(GOOD)
    path.chmod(0o644)
    assert 78 == main(["check", "--config", str(path)])
    err = capsys.readouterr().err
    assert f"{path}:7  " in err
    assert f"chmod 600 {path}" in err
    assert SECRET not in err


def test_all_errors_at_once(tmp_path, capsys):
    """Three faults in three tables are three blocks, in the order of the file."""
    path = tmp_path / "config.toml"
    path.write_text(GOOD.replace("port", "prot").replace("openai", "opneai").replace('"local"', '"locla"'))
    path.chmod(0o600)
    assert 78 == main(["check", "--config", str(path)])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(str(path))]
    assert [f"{path}:{number}" for number in (2, 5, 10)] == [line.split()[0] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv", [["serve"], ["check"], ["models"], ["doctor"], ["keys", "list"], ["launch", "claude"], ["env", "grok"]]
)
def test_no_command_shows_a_traceback(argv, tmp_path):
    """In a process of its own, over a broken file: 78, talk on stderr alone."""
    path, _, words = write(tmp_path, "misspelt key")
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *argv, "--config", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (78, "") == (done.returncode, done.stdout)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
