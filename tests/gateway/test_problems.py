"""Problems read well, and nothing in a broken file can drive the terminal."""

import pytest

from gateway.problems import Problem, did_you_mean, dotted, render_problems

PROBLEM = Problem("c.toml", 7, "server.prot", "is not a known key", 'did you mean "port"?')


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((), ""),
        (("providers", "local", "timeouts", "idle_s"), "providers.local.timeouts.idle_s"),
        (("models", "gpt-*", "routes", 0, "model"), 'models."gpt-*".routes[0].model'),
        (("models", "gpt-4.1"), 'models."gpt-4.1"'),
        (("clients", 2), "clients[2]"),
        (("models", "größe"), 'models."größe"'),
        (("models", "\x1b[2J"), r'models."\u001b[2J"'),
        (("models", "\u202e"), r'models."\u202e"'),
        (("",), '""'),
    ],
)
def test_places_are_written_as_toml_keys(place, text):
    """Keys that are not bare are quoted, and what cannot be printed is escaped."""
    assert text == dotted(place)


@pytest.mark.parametrize(
    ("word", "hint"),
    [("prot", 'did you mean "port"?'), ("Port", 'did you mean "port"?'), ("zzz", ""), (7, "")],
)
def test_hint_at_the_nearest_name(word, hint):
    """A near name is offered, a far one is not."""
    assert hint == did_you_mean(word, ("host", "port"))


def test_one_block_for_each_problem():
    """A block has place and key, what is wrong, and how to mend it; blocks are apart by an empty line."""
    whole = Problem("c.toml", 0, "", "cannot be read")
    text = 'c.toml:7  server.prot\n  is not a known key\n  did you mean "port"?\n\nc.toml\n  cannot be read'
    assert text == render_problems([PROBLEM, whole], color=False)
    assert "" == render_problems([], color=True)


def test_color_adds_nothing_but_color():
    """With colour the same words stand in the same lines."""
    colored = render_problems([PROBLEM], color=True)
    plain = colored
    for code in ("\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"):
        assert code in colored
        plain = plain.replace(code, "")
    assert render_problems([PROBLEM], color=False) == plain


@pytest.mark.promise("S15")
def test_control_characters_are_shown_not_sent():
    """Escape sequences from a file come out as text."""
    shown = render_problems([Problem("c\x1b.toml", 1, "k", "names \x1b]0;x\x07", "\n")], color=False)
    assert "c\\x1b.toml:1  k\n  names \\x1b]0;x\\x07\n  \\n" == shown
