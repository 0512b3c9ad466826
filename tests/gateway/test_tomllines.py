"""Keys get the lines they stand on, whatever TOML they are written in."""

import tomllib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.tomllines import parse

TEXT = '''# comment [not.a.table]
top = 1
"quoted" . 'key' = "a # b" # c
[server]
host = """
[fake]
x = 1
""\\""""
port = 1

[ models . "gpt-*" ]
routes = [   # one

  { provider = "a", model = "m" },

  { "provider" = "b", extra = { deep = [1, 2.5] } },
]
[[clients]]
name = \'\'\'x\'\'\'
[clients.limits]
rpm = 1
[[clients]]
name = "two"
limits.rpm = 1979-05-27T07:32:00Z
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("top",), 2),
        (("quoted",), 3),
        (("quoted", "key"), 3),
        (("server",), 4),
        (("server", "host"), 5),
        (("server", "port"), 9),
        (("models",), 11),
        (("models", "gpt-*"), 11),
        (("models", "gpt-*", "routes"), 12),
        (("models", "gpt-*", "routes", 0), 14),
        (("models", "gpt-*", "routes", 0, "model"), 14),
        (("models", "gpt-*", "routes", 1, "provider"), 16),
        (("models", "gpt-*", "routes", 1, "extra", "deep", 1), 16),
        (("clients", 0), 18),
        (("clients", 0, "name"), 19),
        (("clients", 0, "limits"), 20),
        (("clients", 0, "limits", "rpm"), 21),
        (("clients", 1, "name"), 23),
        (("clients", 1, "limits", "rpm"), 24),
        (("server", "missing"), 4),
        (("models", "gpt-*", "routes", 1, "missing"), 16),
        (("missing",), 0),
        ((), 0),
    ],
)
def test_lines_of_places(place, line):
    """Each place has the line of its key or header; a missing one that of the table around it."""
    parsed = parse(TEXT)
    assert tomllib.loads(TEXT) == parsed.table
    assert [] == parsed.flaws
    assert line == parsed.lines.of(place)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a = 1\nb = \nc = 2", 2, "Invalid value"),
        ("a = 1\n\n[x\ny = 1", 3, "Expected ']'"),
        ('a = "x\nb = 1', 1, "Illegal character"),
        ("a = 1\nb = [1,\n2\n", 4, "Unclosed array"),
        ("a = {", 1, ""),
        ("a = 1\n=", 2, "Invalid statement"),
        ("a = sk-canary", 1, "Invalid value"),
        ("a = 1\n[b]\nc = 1\n[[b]]", 4, "Cannot"),
        ("x.y 1", 1, "Expected '='"),
        ('"', 1, ""),
        ('"\\q" = 1', 1, ""),
        ("[[a", 1, ""),
        ("]", 1, ""),
        ("a = 1 2 } ]\n", 1, ""),
        ("a = [1 2]", 1, ""),
        ("a = { 1 }", 1, ""),
        ("a = { = }", 1, ""),
        ("a = [", 1, ""),
        ("a = [[", 1, ""),
        ("[]\nb = 1", 1, ""),
    ],
)
def test_syntax_errors_have_the_parsers_line(text, line, word):
    """Broken TOML is one flaw on the line where the parser stopped, in its words, without the text of the line."""
    parsed = parse(text)
    assert parsed.table is None
    ((found, key, what, mend),) = parsed.flaws
    assert (line, "") == (found, key)
    assert what.startswith("is not valid TOML: ")
    assert word in what
    assert "canary" not in what + mend
    assert "at line" not in what


@pytest.mark.slow
def test_nesting_without_end_is_a_flaw():
    """A file that is nested a hundred thousand deep is refused, not a crash."""
    parsed = parse("a = " + "[" * 100_000)
    assert [(0, "is nested too deeply to be read")] == [(flaw.line, flaw.what) for flaw in parsed.flaws]


def test_deep_places_have_the_line_of_the_nearest_key():
    """Nesting far below any key of ours is parsed, but not scanned."""
    parsed = parse("\na = " + "[" * 40 + "\n1" + "]" * 40)
    assert [] == parsed.flaws
    assert 2 == parsed.lines.of(("a", *[0] * 39))


def test_numbers_without_end_are_a_flaw():
    """A number of more digits than Python converts is refused on its line, or the last."""
    parsed = parse("a = " + "1" * 5000)
    assert [1] == [flaw.line for flaw in parsed.flaws]


TWICE = """[models.a]
provider = "x"
[models."a"]   # again
provider = "y"
model = "m"
[server]
port = 1
host = "h"
port = [
  2,
]
[models.a]
provider = "z"
"""


def test_every_repeated_table_and_key_is_reported_with_both_lines():
    """Repeated definitions are named with the line of each, and the first ones are still read."""
    parsed = parse(TWICE)
    assert [
        (3, "models.a", 'two routes under one alias: "a" is defined twice: on line 1 and again on line 3'),
        (9, "server.port", "is defined twice: on line 7 and again on line 9"),
        (12, "models.a", 'two routes under one alias: "a" is defined twice: on line 1 and again on line 12'),
    ] == [flaw[:3] for flaw in parsed.flaws]
    assert {"models": {"a": {"provider": "x"}}, "server": {"port": 1, "host": "h"}} == parsed.table
    assert 2 == parsed.lines.of(("models", "a", "provider"))


def test_repeated_keys_of_an_inline_table():
    """A repeated key inside a line is reported, but the line cannot be read without it."""
    parsed = parse('[log]\nx = { a = 1, b = 2, "a" = 3 }\n[log]\n')
    assert [(2, "log.x.a"), (3, "log")] == [flaw[:2] for flaw in parsed.flaws]
    assert parsed.table is None


def test_a_syntax_error_beside_a_repeated_table():
    """Both are reported when the file stays unreadable without the repeated table."""
    parsed = parse("[a]\n[a]\n[b]\nx = \n")
    assert [(2, "a"), (4, "")] == [flaw[:2] for flaw in parsed.flaws]
    assert parsed.table is None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab=.,[]{}\"'\n #1\\", max_size=60))
@example("a = '''")
@example('a = """b""""')
def test_the_scan_ends_on_any_text(text):
    """No text makes the scan fail or run on, and what tomllib can read has no flaws."""
    parsed = parse(text)
    try:
        assert tomllib.loads(text) == parsed.table
        assert [] == parsed.flaws
    except tomllib.TOMLDecodeError:
        assert parsed.flaws
