"""Aliases resolve exactly, then by the longest prefix."""

import pytest

from gateway.config import Model, Route
from gateway.models import Resolved, matches, permitted, resolve

EXACT = Model(routes=(Route("exact", "up"),))
LONG = Model(routes=(Route("long"), Route("spare", "other")))
SHORT = Model(routes=(Route("short"),))
ALL = Model(routes=(Route("all"),))
MODELS = {"*": ALL, "gpt-*": SHORT, "gpt-5*": LONG, "gpt-5": EXACT}


@pytest.mark.parametrize(
    ("name", "pattern", "routes"),
    [
        ("gpt-5", "gpt-5", (Route("exact", "up"),)),
        ("gpt-5.5", "gpt-5*", (Route("long", "gpt-5.5"), Route("spare", "other"))),
        ("gpt-4", "gpt-*", (Route("short", "gpt-4"),)),
        ("gpt-", "gpt-*", (Route("short", "gpt-"),)),
        ("claude", "*", (Route("all", "claude"),)),
        ("", "*", (Route("all", ""),)),
        ("gpt-*", "gpt-*", (Route("short", "gpt-*"),)),
    ],
)
def test_the_longest_match_wins(name, pattern, routes):
    """An exact alias beats every prefix, a longer prefix a shorter one; a route without model gets the sent name."""
    assert Resolved(name, pattern, routes, MODELS[pattern]) == resolve(MODELS, name)


@pytest.mark.parametrize("name", ["gpt", "GPT-5", "gpt-55", " gpt-5", "gpt-5*"])
def test_no_match_is_none(name):
    """Names are compared as they are, and an exact alias is no prefix."""
    assert resolve({"gpt-5": EXACT}, name) is None


def test_order_in_the_file_does_not_matter():
    """The same pattern is found whatever the order of the tables."""
    backwards = dict(reversed(MODELS.items()))
    assert ["gpt-5*", "gpt-*"] == [resolve(backwards, name).pattern for name in ("gpt-5.5", "gpt-4")]


def test_patterns_of_a_client():
    """A client may use what one of its patterns matches."""
    assert matches("*", "")
    assert permitted(("a", "b-*"), "b-1")
    assert not permitted(("a", "b-*"), "b")
    assert not permitted((), "a")
