"""The file is found and read as the contract says, before a single key is looked at."""

import hashlib
from pathlib import Path

import pytest

from gateway import configfile
from gateway.config import Config, Server
from gateway.configfile import find, load
from gateway.problems import Problem


@pytest.fixture
def system(tmp_path, monkeypatch):
    """The system-wide file, in a folder of the test."""
    path = tmp_path / "etc" / "config.toml"
    monkeypatch.setattr(configfile, "SYSTEM_PATH", path)
    return path


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_a_named_file_wins_even_when_it_is_missing(tmp_path, system):
    """The option comes before the variable, and both before the default places, whether they exist or not."""
    made(system)
    environ = {"DRAGOMAN_CONFIG": "/nowhere/b.toml", "HOME": str(tmp_path)}
    assert Path("/nowhere/a.toml") == find("/nowhere/a.toml", environ)
    assert Path("/nowhere/b.toml") == find(None, environ)


def test_default_places_in_order(tmp_path, system):
    """XDG_CONFIG_HOME, else ~/.config, then the system's file; None when there is none."""
    home, xdg = tmp_path / "home", tmp_path / "xdg"
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(xdg), "DRAGOMAN_CONFIG": ""}
    assert find(None, environ) is None
    assert made(system) == find(None, environ)
    in_home = made(home / ".config" / "dragoman" / "config.toml")
    assert system == find(None, environ)
    assert in_home == find(None, {"HOME": str(home)})
    assert in_home == find(None, environ | {"XDG_CONFIG_HOME": "relative"})
    assert made(xdg / "dragoman" / "config.toml") == find(None, environ)
    assert system == find(None, {})


def test_an_empty_file_is_all_defaults(tmp_path):
    """Nothing is required; path and digest say which file it was."""
    path = made(tmp_path / "c.toml")
    assert Config(path=path, digest=hashlib.sha256(b"").hexdigest()) == load(str(path), {})


def test_a_byte_order_mark_and_crlf_are_read(tmp_path):
    """Files of other systems' editors are fine, and the digest is of the bytes."""
    path, data = tmp_path / "c.toml", b"\xef\xbb\xbf[server]\r\nport = 1\r\n"
    path.write_bytes(data)
    read = load(path, {})
    assert Server(port=1) == read.server
    assert hashlib.sha256(data).hexdigest() == read.digest


def test_unreadable_files_are_one_problem(tmp_path):
    """A missing file, a folder, a NUL in the name, a huge file and bytes that are no text are named."""
    huge, latin = tmp_path / "huge.toml", tmp_path / "latin.toml"
    huge.write_bytes(b"#" * (configfile.MAX_CONFIG_BYTES + 1))
    latin.write_bytes(b"# one\n# caf\xe9\n")
    gone = str(tmp_path / "gone.toml")
    mend = "make one with `dragoman init`, or name another"
    assert [Problem(gone, 0, "", "cannot be read: No such file or directory", mend)] == load(gone, {})
    assert [Problem(str(tmp_path), 0, "", "cannot be read: Is a directory", mend)] == load(tmp_path, {})
    assert [Problem("a\0b", 0, "", "cannot be read: not a usable path", mend)] == load("a\0b", {})
    assert [Problem(str(huge), 0, "", "is larger than 4194304 bytes", "name a config file")] == load(huge, {})
    assert [Problem(str(latin), 2, "", "is not UTF-8 text", "save the file as UTF-8")] == load(latin, {})


def test_faults_of_toml_and_of_keys_come_together_in_order(tmp_path):
    """Repeated tables do not hide other errors, and problems are sorted by line."""
    path = tmp_path / "c.toml"
    path.write_text('[log]\nlevel = "loud"\n[server]\nprot = 1\n[log]\n')
    assert [(2, "log.level"), (4, "server.prot"), (5, "log")] == [(p.line, p.key) for p in load(path, {})]


def test_broken_toml_is_one_problem(tmp_path):
    """What cannot be parsed has the parser's line and nothing else."""
    path = tmp_path / "c.toml"
    path.write_text("[server]\nport = \n")
    (problem,) = load(path, {})
    assert (str(path), 2, "") == (problem.file, problem.line, problem.key)


def test_plugins_come_from_the_registry_unless_given(tmp_path):
    """Built-in plugins are known by name; a caller may give other names."""
    path = tmp_path / "c.toml"
    path.write_text("[providers.demo]\n[providers.cline]\n")
    assert ["demo", "cline"] == [provider.plugin for provider in load(path, {}).providers.values()]
    (problem,) = load(path, {}, plugins=["cline"])
    assert (1, "providers.demo.plugin") == (problem.line, problem.key)
