"""The documents tell the truth: commands parse, configurations load, options and promises are all there."""

import importlib.util
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from gateway.cli import parse
from gateway.config import Config
from gateway.configfile import load
from gateway.options import parser
from gateway.plugins import options_type, requirements

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
TEXTS = {path.name: path.read_text() for path in DOCUMENTS}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACES = {"FILE": "x", "NAME": "name", "CLIENT": "claude", "ALIAS": "alias", "URL": "http://h", "KEY": "k"}


def blocks(language: str) -> list[tuple[str, str]]:
    return [(name, body) for name, text in TEXTS.items() for kind, body in FENCE.findall(text) if kind == language]


def commands() -> list[tuple[str, str]]:
    """Every line of a code block, and every phrase in backquotes, that runs `dragoman`."""
    found = set()
    for name, text in TEXTS.items():
        outside = FENCE.sub("", text)
        lines = [line for _, body in FENCE.findall(text) for line in body.replace("\\\n", " ").splitlines()]
        lines += [line.strip() for line in outside.splitlines() if line.startswith("    ")]
        lines += re.findall(r"`([^`\n]+)`", outside)
        for line in lines:
            at = re.search(r"(?:^|[;&|] |/bin/)dragoman( |$)", line.strip())
            if at and "…" not in line.partition("dragoman")[2] and "[" not in line:
                found.add((name, "dragoman" + line.strip()[at.start() :].partition("dragoman")[2].partition(" #")[0]))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize(("document", "line"), commands())
def test_every_command_that_is_shown_is_one(document, line):
    """It parses as the command line would parse it."""
    words = [PLACES.get(word, word) for word in shlex.split(line.partition(" |")[0].partition(";")[0])][1:]
    names = {choice for action in parser()._actions if action.choices for choice in action.choices}
    if words and (len(words) > 1 or words[0] not in names):
        try:
            parse(words)
        except SystemExit as ended:
            assert 0 == ended.code, line
    elif words:
        assert words[0] in names


@pytest.mark.parametrize(("document", "text"), blocks("toml"))
def test_every_configuration_that_is_shown_loads(document, text, tmp_path):
    """With every variable set that it names; a packaging example only has to be TOML."""
    if "[project]" in text:
        tomllib.loads(text)
        return
    path = tmp_path / "config.toml"
    if "models" in tomllib.loads(text) and "providers" not in tomllib.loads(text):
        used = set(re.findall(r'provider = "([\w-]+)"', text))
        text += "".join(f'\n[providers.{name}]\nplugin = "demo"\n' for name in used)
    path.write_text(text)
    path.chmod(0o600)
    config = load(path, Variables(), options_type=options_type)
    assert isinstance(config, Config), config
    assert [] == requirements(config)


class Variables(dict):
    """An environment in which every variable is set, each to a value of its own."""

    def get(self, name, default=None):
        return "/nonexistent" if name == "HOME" else f"value-of-{name}"

    def __getitem__(self, name):
        return self.get(name)


@pytest.mark.parametrize(("document", "text"), blocks("json"))
def test_json_is_json(document, text):
    """What is to be pasted into a file of that kind is of that kind."""
    json.loads(text)


@pytest.mark.parametrize(("document", "text"), [*blocks("sh"), *blocks("bash")])
def test_shell_lines_are_shell(document, text):
    """They can be pasted into one."""
    done = subprocess.run(["/bin/sh", "-n"], input=text, text=True, capture_output=True, check=False)
    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize(("document", "text"), blocks("python"))
def test_python_compiles(document, text):
    """Examples are whole."""
    compile(text, document, "exec")


async def test_the_plugin_of_the_document_conforms():
    """The twenty lines of docs/plugins.md keep every rule of the kit."""
    from providers.testing import conform

    space: dict = {}
    exec(next(body for name, body in blocks("python") if name == "plugins.md"), space)
    await conform(space["plugin"])


def test_the_reference_is_what_the_code_makes():
    """docs/configuration.md has every key with its type and default; run docs/configuration.py after a change."""
    spec = importlib.util.spec_from_file_location("docs_configuration", ROOT / "docs" / "configuration.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.document() == TEXTS["configuration.md"]
    empty = re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|\s*\|$", TEXTS["configuration.md"], re.MULTILINE)
    assert [] == empty


def test_every_promise_has_a_test():
    """Each id of docs/security.md marks at least one test, and no test keeps a promise that is not told."""
    told = set(re.findall(r"^\| (S\d+b?) \|", TEXTS["security.md"], re.MULTILINE))
    kept = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        kept |= set(re.findall(r'"(S\d+b?)"', "\n".join(re.findall(r"promise\(([^)]*)\)", path.read_text()))))
    assert told == kept


@pytest.mark.parametrize("document", sorted(TEXTS))
def test_links_lead_somewhere(document):
    """Every relative link is a file of the repository."""
    folder = ROOT if document == "README.md" else ROOT / "docs"
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", TEXTS[document])
    assert [] == [link for link in links if not (folder / link).exists()]


def test_every_command_is_documented():
    """The README or a document names each one."""
    text = "\n".join(TEXTS.values())
    names = next(set(action.choices) for action in parser()._actions if action.choices)
    assert set() == {name for name in names if not re.search(rf"dragoman {name}\b|`{name}`", text)}
