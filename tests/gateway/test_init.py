"""The starter configuration: it is right as it is written, private, and never in place of another."""

import io
import stat
import sys

import pytest

from gateway.cli import main
from gateway.config import Config
from gateway.configfile import load
from gateway.init import STARTERS, Choice, default_path, document
from gateway.plugins import options_type, requirements

KEYS = {starter.variable: "key-0001" for starter in STARTERS.values() if starter.variable}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("DRAGOMAN_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def loaded(path):
    config = load(path, KEYS, options_type=options_type)
    assert isinstance(config, Config), config
    assert [] == requirements(config)
    return config


@pytest.mark.parametrize("name", STARTERS)
def test_every_starter_is_a_right_configuration(name, tmp_path):
    """It loads, its plugin lacks nothing, and all names lead to its model."""
    path = tmp_path / "c.toml"
    path.write_text(document(Choice((name,))))
    config = loaded(path)
    assert [name] == list(config.providers)
    assert [STARTERS[name].model, "*"] == list(config.models)


def test_all_starters_together(tmp_path):
    """The first one serves the models."""
    path = tmp_path / "c.toml"
    path.write_text(document(Choice(("cline", *[n for n in STARTERS if n != "cline"]), model="z/x")))
    config = loaded(path)
    assert set(STARTERS) == set(config.providers)
    assert {"cline"} == {route.provider for model in config.models.values() for route in model.routes}


@pytest.mark.promise("S07")
def test_the_file_is_private_and_at_the_usual_place(home, capsys):
    """0600 in a folder of 0700; its path on stdout, the next steps on stderr."""
    assert 0 == main(["init", "--provider", "cline", "--provider", "grok"])
    path = home / ".config" / "dragoman" / "config.toml"
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)
    out, err = capsys.readouterr()
    assert f"{path}\n" == out
    for step in ("export CLINE_API_KEY=", "dragoman login grok", "dragoman check\n", "dragoman launch claude "):
        assert step in err


def test_a_local_server_needs_no_key(tmp_path, capsys):
    """The line of the key is there, as a comment."""
    path = tmp_path / "c.toml"
    argv = [
        "init",
        "--path",
        str(path),
        "--provider",
        "openai",
        "--base-url",
        "http://localhost:1234/v1/chat/completions",
        "--model",
        "q",
    ]
    assert 0 == main(argv)
    config = loaded(path)
    assert ("http://localhost:1234/v1", ()) == (config.providers["openai"].base_url, config.providers["openai"].keys)
    err = capsys.readouterr().err
    assert "export" not in err
    assert f"dragoman check --config {path}" in err


def test_a_remote_server_needs_one(tmp_path):
    """Over https the key is asked for."""
    path = tmp_path / "c.toml"
    assert 0 == main(["init", "--path", str(path), "--provider", "openai", "--base-url", "https://api.openai.com/v1"])
    assert ["main"] == [key.name for key in loaded(path).providers["openai"].keys]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_an_existing_file_is_left_alone(tmp_path, capsys, kind):
    """Neither overwritten nor written through."""
    path = tmp_path / "c.toml"
    path.write_text("mine") if kind == "file" else path.symlink_to(tmp_path / "elsewhere")
    assert 1 == main(["init", "--path", str(path), "--provider", "demo"])
    assert "left as it is" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()
    assert kind == "link" or "mine" == path.read_text()


def test_wrong_wishes_are_usage_errors(tmp_path, capsys):
    """Nothing chosen and nobody to ask, or an address that cannot be used."""
    path = str(tmp_path / "c.toml")
    assert 2 == main(["init", "--path", path])
    assert "--provider" in capsys.readouterr().err
    assert 2 == main(["init", "--path", path, "--provider", "openai", "--base-url", "http://far.example/v1"])
    assert "unencrypted" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    """One line, 1."""
    (tmp_path / "file").write_text("")
    assert 1 == main(["init", "--path", str(tmp_path / "file" / "c.toml"), "--provider", "demo"])
    assert "cannot be written" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("typed", "providers", "address"),
    [
        ("\n\n", ["openai"], "http://127.0.0.1:8000/v1"),
        ("what\ngrok, openai\nhttp://localhost:9/v1\n", ["grok", "openai"], "http://localhost:9/v1"),
        ("demo demo\n", ["demo"], None),
    ],
)
def test_it_asks_on_a_terminal(tmp_path, monkeypatch, typed, providers, address):
    """Enter takes what is proposed; an unknown name is asked again."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", Terminal())
    path = tmp_path / "c.toml"
    assert 0 == main(["init", "--path", str(path)])
    config = loaded(path)
    assert providers == list(config.providers)
    assert address is None or address == config.providers["openai"].base_url


def test_the_end_of_the_input_is_an_interruption(tmp_path, monkeypatch):
    """Ctrl-D instead of an answer writes nothing."""
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert 130 == main(["init", "--path", str(tmp_path / "c.toml")])
    assert not (tmp_path / "c.toml").exists()


def test_places():
    """The variable, XDG, the home folder; a relative XDG path is ignored."""
    assert "/x/y.toml" == str(default_path({"DRAGOMAN_CONFIG": "/x/y.toml"}))
    assert "/x/dragoman/config.toml" == str(default_path({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}))
    assert "/h/.config/dragoman/config.toml" == str(default_path({"XDG_CONFIG_HOME": "x", "HOME": "/h"}))
