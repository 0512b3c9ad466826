"""Secrets and fields are read without ever showing a value, and every problem is kept."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from gateway.configread import MAX_SECRET_BYTES, Reader, Source
from gateway.tomllines import parse
from providers.secret import Secret


class Inner(msgspec.Struct, frozen=True):
    """A nested table."""

    size: int = 1


class Thing(msgspec.Struct, frozen=True):
    """A table with a field of each kind."""

    name: str
    mode: Literal["slow", "fast"] = "slow"
    many: tuple[Literal["one", "two"], ...] = ()
    pairs: dict[str, int] = msgspec.field(default_factory=dict)
    inner: Inner = Inner()
    quick: bool = True
    token: Secret | None = None
    word: Annotated[str, msgspec.Meta(pattern="^x", description="a word with x")] = "x"


@pytest.fixture
def reader(tmp_path):
    return made(tmp_path)


def made(folder: Path, *, private: bool = True, text: str = "", **environ: str) -> Reader:
    return Reader(Source("c.toml", folder, private, environ), parse(text).lines)


def said(reader: Reader) -> list[tuple[str, str]]:
    return [(problem.key, f"{problem.what} | {problem.mend}") for problem in reader.problems]


def test_a_whole_table_becomes_its_struct(tmp_path):
    """Every kind of field is converted, and a secret is collected."""
    reader = made(tmp_path, TOKEN="canary")
    table = {
        "name": "n",
        "mode": "fast",
        "many": ["one"],
        "pairs": {"a": 1},
        "inner": {"size": 2},
        "quick": False,
        "token": {"env": "TOKEN"},
        "word": "xy",
    }
    made_thing = reader.record(("t",), table, Thing)
    assert Thing("n", "fast", ("one",), {"a": 1}, Inner(2), False, Secret("canary"), "xy") == made_thing
    assert ([], [Secret("canary")]) == (reader.problems, reader.secrets)


def test_wrong_fields_are_left_to_their_defaults(reader):
    """A table with errors still gives its other fields, and each error has its place."""
    table = {
        "name": "n",
        "mode": "fsat",
        "many": ["one", "tow"],
        "pairs": {"a": "b"},
        "inner": {"size": "2", "sise": 1},
        "quick": "no",
        "token": 1,
        "word": "y",
        "wrod": 1,
    }
    assert Thing("n") == reader.record(("t",), table, Thing)
    assert [
        ("t.wrod", 'is not a known key | did you mean "word"?'),
        ("t.mode", 'must be one of "slow", "fast" | did you mean "fast"?'),
        ("t.many[1]", 'must be one of "one", "two" | did you mean "two"?'),
        ("t.pairs", "must be an integer, not a string | "),
        ("t.inner.sise", 'is not a known key | did you mean "size"?'),
        ("t.inner.size", "must be an integer, not a string | for example size = 1"),
        ("t.quick", "must be true or false, not a string | for example quick = true"),
        ("t.token", 'must be a secret | write { env = "NAME" } or { file = "PATH" }'),
        ("t.word", "must be a word with x | "),
    ] == said(reader)


def test_missing_and_misplaced_tables(reader):
    """A required field that is missing, and a value where a table belongs, give no Struct."""
    assert reader.record(("t",), {}, Thing) is None
    assert reader.record(("t", 0), {"inner": 1}, Thing) is None
    assert reader.record(("u",), [], Thing) is None
    assert [
        ("t.name", "is missing | add name to [t]"),
        ("t[0].name", "is missing | add name to t[0]"),
        ("t[0].inner", "must be a table | write [t[0].inner]"),
        ("u", "must be a table | write [u]"),
    ] == said(reader)


def test_place_of_the_whole_file(reader):
    """A key that is missing at the top is missing in the file."""
    assert {} == reader.fields((), {}, Thing, own=("mode",), hidden=("many",))
    assert [("name", "is missing | add name to the file")] == said(reader)


@pytest.mark.promise("S07")
def test_plain_secrets_only_in_private_files(tmp_path):
    """A secret in plain text is taken from a file that only its owner can read, and from no other."""
    private, shared = made(tmp_path), made(tmp_path, private=False)
    assert Secret("canary") == private.secret(("k",), "canary")
    assert shared.secret(("k",), "canary") is None
    mend = 'chmod 600 c.toml, or write { env = "NAME" } or { file = "PATH" }'
    assert [("k", f"is a secret in a file that others can read | {mend}")] == said(shared)


def test_secrets_from_variables_and_files(tmp_path):
    """Blanks around a secret are not part of it; a relative path begins beside the config, ~ is the home folder."""
    (tmp_path / "key").write_text("canary-1\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / "key").write_text("canary-2")
    reader = made(tmp_path, private=False, K=" canary-3\n", HOME=str(home))
    values = [{"file": "key"}, {"file": str(tmp_path / "key")}, {"file": "~/key"}, {"env": "K"}]
    assert ["canary-1", "canary-1", "canary-2", "canary-3"] == [
        reader.secret(("k",), value).reveal() for value in values
    ]
    assert [] == reader.problems


@pytest.mark.promise("S01")
@pytest.mark.parametrize(
    ("value", "key", "words"),
    [
        ({"env": "UNSET_KEY"}, "k.env", "variable UNSET_KEY is not set"),
        ({"env": "unset_key"}, "k.env", "variable unset_key is not set"),
        ({"env": "EMPTY"}, "k.env", "variable EMPTY is not set"),
        ({"env": "sk-canary-1Ab"}, "k.env", "variable named here is not set"),
        ({"env": "ghp_canary1Ab"}, "k.env", "variable named here is not set"),
        ({"file": "/nowhere/key"}, "k.file", "file /nowhere/key does not exist"),
        ({"file": "keys/main.txt"}, "k.file", "file keys/main.txt does not exist"),
        ({"file": "sk-canary-1Ab"}, "k.file", "file named here does not exist"),
        ({"file": "."}, "k.file", "file . cannot be read (Is a directory)"),
        ({"file": "./a\0b"}, "k.file", "cannot be read (not a usable path)"),
        ({"file": "~nobody-here/key"}, "k.file", "file ~nobody-here/key does not exist"),
        ({"file": "./latin"}, "k.file", "is not text"),
        ({"file": "./huge"}, "k.file", "is too large for a secret"),
        ({"file": "./blank"}, "k", "is empty"),
        ({"file": "./two-lines"}, "k", "holds characters that no header can carry"),
        ({"evn": "canary"}, "k.evn", 'did you mean "env"?'),
        ({"vault": "canary"}, "k.vault", "is not a known key"),
        ({"env": "A", "file": "B"}, "k", "must be a secret"),
        ({"env": 1}, "k", "must be a secret"),
        ({}, "k", "must be a secret"),
        (["canary"], "k", "must be a secret"),
        ("", "k", "is empty"),
        ("canary two", "k", "holds characters that no header can carry"),
        ("canary-é", "k", "holds characters that no header can carry"),
        ("…", "k", "holds characters that no header can carry"),
        ("ChangeMe", "k", "is the placeholder of an example"),
    ],
)
def test_secrets_that_cannot_be_used(tmp_path, value, key, words):
    """Each is one problem, which names a variable or file, and never what may be the secret itself."""
    (tmp_path / "latin").write_bytes(b"canary-\xe9")
    (tmp_path / "huge").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    (tmp_path / "blank").write_text(" \n")
    (tmp_path / "two-lines").write_text("canary\ncanary")
    reader = made(tmp_path, EMPTY="")
    assert reader.secret(("k",), value) is None
    ((found, text),) = said(reader)
    assert (key, True) == (found, words in text)
    assert "canary" not in text
    assert [] == reader.secrets


def test_paths_without_a_home(tmp_path, monkeypatch):
    """Where the environment names no home folder, ~ is that of the user who runs."""
    monkeypatch.setenv("HOME", "/users/me")
    reader = made(tmp_path)
    assert Path("/users/me/a") == reader.path("~/a")
    assert tmp_path / "a" == reader.path("a")
    assert Path("/a") == reader.path("/a")
    assert Path("/h/etc") == made(tmp_path, HOME="/h").path("~//etc")
    assert Path("/h") == made(tmp_path, HOME="/h").path("~")


def test_problems_have_the_lines_of_their_places(tmp_path):
    """The line comes from the text; a missing key has that of its table."""
    reader = made(tmp_path, text="[t]\nname = 1\n")
    reader.record(("t",), {"name": 1}, Thing)
    reader.record(("t",), {}, Thing)
    assert [2, 2] == [problem.line for problem in reader.problems]
    assert 1 == reader.line(("t", "mode"))


def test_lists_and_tables_of_tables(reader):
    """Only tables come out; what else stands there is a problem with the form that is meant."""
    assert [(("a", 0), {}), (("a", 2), {"x": 1})] == list(reader.tables(("a",), [{}, 1, {"x": 1}], "[[a]]"))
    assert [] == list(reader.tables(("b",), {}, "[[b]]"))
    assert [(("c", "x"), "x", {})] == list(reader.named(("c",), {"x": {}, "y": 1}))
    assert [] == list(reader.named(("d",), 1))
    assert ["a[1]", "b", "c.y", "d"] == [key for key, _ in said(reader)]


def test_types_are_explained_by_their_description(reader):
    """A value of the wrong form is reported in the words of its type."""
    annotation = msgspec.structs.fields(Thing)[-1].type
    assert reader.fits(("k",), "xx", annotation)
    assert not reader.fits(("k",), "yy", annotation)
    assert [("k", "must be a word with x | ")] == said(reader)
