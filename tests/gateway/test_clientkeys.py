"""Client keys: shown once, stored as digests, and nothing else of the file is touched."""

import hashlib
import json
import stat

import pytest

from gateway.cli import main
from gateway.clientkeys import added, removed
from gateway.configfile import load

TEXT = """\
# mine
[server]            # where
port = 0

[[clients]]
name = "old"        # the first
key_sha256 = "{digest}"
models = ["m-*"]
max_concurrent = 3

# the upstream
[providers.demo]
""".format(digest="a" * 64)


@pytest.fixture
def path(tmp_path, monkeypatch):
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    path.chmod(0o600)
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(path))
    return path


@pytest.mark.promise("S03")
def test_a_new_key_is_shown_once(path, capsys):
    """On stdout and nowhere else; the file has its digest, all its comments, and its mode."""
    assert 0 == main(["keys", "new", "bob", "--models", "a", "--models", "b*"])
    out, err = capsys.readouterr()
    key = out.strip()
    assert 40 < len(key)
    assert key not in err
    text = path.read_text()
    assert text.startswith(TEXT)
    assert key not in text
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    bob = load(path, {}).clients[1]
    assert ("bob", hashlib.sha256(key.encode()).hexdigest(), ("a", "b*")) == (bob.name, bob.key_sha256, bob.models)
    assert ["config.toml"] == [entry.name for entry in path.parent.iterdir()]


def test_keys_differ(path, capsys):
    """Each is of its own making."""
    main(["keys", "new", "bob"])
    main(["keys", "new", "eve"])
    one, two = capsys.readouterr().out.split()
    assert one != two


def test_a_taken_or_odd_name_changes_nothing(path, capsys):
    """1, and the file as it was."""
    assert 1 == main(["keys", "new", "old"])
    assert 1 == main(["keys", "new", "no spaces"])
    assert TEXT == path.read_text()
    assert "revoke it first" in capsys.readouterr().err


def test_without_a_file_the_lines_are_printed(tmp_path, monkeypatch, capsys):
    """The key on stdout, the table to add on stderr."""
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert 0 == main(["keys", "new", "bob"])
    out, err = capsys.readouterr()
    assert f'key_sha256 = "{hashlib.sha256(out.strip().encode()).hexdigest()}"' in err


def test_revoking_takes_out_one_table(path, capsys):
    """Its lines alone; the comment above the next table stays."""
    main(["keys", "new", "bob"])
    assert 0 == main(["keys", "revoke", "old"])
    text = path.read_text()
    assert "# mine" in text
    assert "# the upstream\n[providers.demo]" in text
    assert "the first" not in text
    assert ["bob"] == [client.name for client in load(path, {}).clients]


def test_revoking_the_last_one_says_so(path, capsys):
    """Then everybody on the machine is served."""
    assert 0 == main(["keys", "revoke", "old"])
    assert "last client" in capsys.readouterr().err
    assert () == load(path, {}).clients


@pytest.mark.promise("S06")
def test_the_last_client_of_an_open_address_stays(path, capsys):
    """The file would be refused, and the revoked key would go on working in a gateway that runs."""
    path.write_text(TEXT.replace("port = 0", 'host = "0.0.0.0"'))
    before = path.read_text()
    assert 78 == main(["keys", "revoke", "old"])
    assert before == path.read_text()
    assert f"{path}:3" in capsys.readouterr().err
    assert ["config.toml"] == [entry.name for entry in path.parent.iterdir()]


def test_revoking_nobody(path, capsys):
    """1, and who there is."""
    assert 1 == main(["keys", "revoke", "zoe"])
    assert "configured: old" in capsys.readouterr().err


def test_inline_clients_are_left_to_their_writer(path, capsys):
    """A list in one line is not taken apart."""
    path.write_text('clients = [ { name = "old", key_sha256 = "' + "a" * 64 + '" } ]\n')
    assert 1 == main(["keys", "revoke", "old"])
    assert "by hand" in capsys.readouterr().err


def test_list(path, capsys):
    """A table, and the same as data; never a digest."""
    assert 0 == main(["keys", "list"])
    assert ["old", "m-*", "max_concurrent", "3"] == capsys.readouterr().out.splitlines()[1].split()
    assert 0 == main(["keys", "list", "--json"])
    out = capsys.readouterr().out
    assert [("old", ["m-*"], 3)] == [(row["name"], row["models"], row["max_concurrent"]) for row in json.loads(out)]
    assert "aaaa" not in out


def test_an_empty_list(path, capsys):
    """What that means is said."""
    path.write_text("")
    assert 0 == main(["keys", "list"])
    assert "everybody" in capsys.readouterr().err


@pytest.mark.parametrize("action", [["new", "bob"], ["list"], ["revoke", "old"]])
def test_a_wrong_file_is_not_edited(path, capsys, action):
    """78 and the problems."""
    path.write_text("[server]\nprot = 1\n")
    assert 78 == main(["keys", *action])
    assert 'did you mean "port"?' in capsys.readouterr().err


def test_a_link_stays_a_link(path, tmp_path, monkeypatch, capsys):
    """What it points to is replaced."""
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    assert 0 == main(["keys", "new", "bob", "--config", str(link)])
    assert link.is_symlink()
    assert "bob" in path.read_text()


def test_a_folder_without_writing(path, monkeypatch, capsys):
    """One line, 1, nothing changed."""
    import tempfile

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert 1 == main(["keys", "new", "bob"])
    out, err = capsys.readouterr()
    assert "" == out
    assert "Permission denied" in err


@pytest.mark.parametrize(("text", "made"), [("", "T"), ("a", "a\n\nT"), ("a\n", "a\n\nT"), ("a\n\n", "a\n\nT")])
def test_a_table_is_added_after_a_gap(text, made):
    """Whatever the file ended with."""
    assert made == added(text, "T")


def test_removing_keeps_all_other_bytes():
    """Of the first, middle and last table."""
    tables = [f'[[clients]]\nname = "c{n}"\nkey_sha256 = "{n}"\n' for n in range(3)]
    for n in range(3):
        assert "".join(tables[:n] + tables[n + 1 :]) == removed("".join(tables), f"c{n}")
