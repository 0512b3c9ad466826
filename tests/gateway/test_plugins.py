"""What the configuration learns from plugins, without importing more than it names."""

import subprocess
import sys

import pytest

from gateway import plugins
from gateway.config import Config, Credential, Key, Provider
from gateway.plugins import names, options_type, requirements
from providers.anthropic import Options
from providers.secret import Secret

KEYS = (Key("k", Secret("x" * 10)),)


def lacks(**table):
    return [
        (problem.key, problem.what, problem.mend)
        for problem in requirements(Config(providers={"p": Provider("p", **table)}))
    ]


def test_every_built_in_plugin_is_known():
    """The five of our own distribution are there, in alphabetical order."""
    assert {"anthropic", "cline", "demo", "grok-cli", "openai"} <= set(names())
    assert sorted(names()) == list(names())


@pytest.mark.slow
@pytest.mark.promise("S44")
def test_naming_plugins_imports_none():
    """A list of names runs no plugin's code."""
    code = "import sys, gateway.plugins as p; p.names(); print([m for m in sys.modules if m.startswith('providers.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "['providers.api', 'providers.registry', 'providers.secret']" == str(sorted(eval(done.stdout)))


def test_options_of_a_plugin():
    """A plugin's own keys come as its Struct, none as None, and an unknown plugin has none."""
    assert Options is options_type("anthropic")
    assert options_type("demo") is None
    assert options_type("unknown") is None


def test_a_plugin_that_does_not_load_is_a_problem(monkeypatch):
    """A third party's broken module stops `check` with a message, not with a traceback."""

    def broken(name):
        raise ImportError("no module named x")

    monkeypatch.setattr(plugins, "load", broken)
    assert options_type("openai") is None
    [(key, what, mend)] = lacks(plugin="openai")
    assert "providers.p.plugin" == key
    assert "does not load: ImportError: no module named x" in what
    assert mend


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ({"plugin": "openai"}, ["providers.p.base_url"]),
        ({"plugin": "openai", "base_url": "https://h/v1"}, []),
        ({"plugin": "demo"}, []),
        ({"plugin": "anthropic"}, ["providers.p.keys"]),
        ({"plugin": "anthropic", "keys": KEYS}, []),
        ({"plugin": "grok-cli", "credentials": (Credential("me"),)}, []),
        ({"plugin": "anthropic", "keys": KEYS, "dialect": "chat"}, ["providers.p.dialect"]),
        ({"plugin": "openai", "dialect": "responses"}, ["providers.p.base_url"]),
    ],
)
def test_what_plugins_need(table, keys):
    """An address, keys and a dialect, each only where the plugin needs it."""
    assert keys == [key for key, _, _ in lacks(**table)]


def test_a_missing_key_is_shown_as_it_would_be_written():
    """The mend is a line for the file, with the provider's name in the variable."""
    [(_, what, mend)] = lacks(plugin="anthropic")
    assert "is missing" == what
    assert "P_API_KEY" in mend


def test_missing_things_have_lines(tmp_path):
    """The line of the provider's table, or of the key; none when the file has gone since."""
    path = tmp_path / "c.toml"
    path.write_text('# one\n[providers.p]\nplugin = "anthropic"\ndialect = "chat"\n')
    config = Config(providers={"p": Provider("p", "anthropic", dialect="chat")}, path=path)
    assert [("providers.p.keys", 2), ("providers.p.dialect", 4)] == [(p.key, p.line) for p in requirements(config)]
    path.unlink()
    assert [0, 0] == [problem.line for problem in requirements(config)]
