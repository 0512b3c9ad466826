"""The list of recommended models is fetched when asked for, kept, and never more than a convenience."""

import json

import pytest

from providers.cline_models import EMPTY_TTL_S, TTL_S, Models, names_in


def listed(**lists: list[str]) -> bytes:
    return json.dumps(
        {name: [{"id": entry, "name": entry} for entry in found] for name, found in lists.items()}
    ).encode()


def test_names_of_all_lists_once():
    """Recommended, plan and free models come out in that order, each once."""
    body = listed(free=["f", "r"], recommended=["r"], clinePass=["p"])
    assert ("r", "p", "f") == names_in(body)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"free":[{"id":1}]}', b'{"free":[{"id":""}]}', b"\xff"])
def test_unreadable_lists_are_empty(body):
    """Whatever else comes back names no model."""
    assert () == names_in(body)


async def test_fetched_lazily_and_kept():
    """One fetch serves for hours; a failing one keeps the old list and is repeated sooner."""
    now, bodies, asked = 0.0, [listed(free=["a"]), None, listed(free=["b"])], []

    async def fetch() -> bytes | None:
        asked.append(now)
        return bodies[len(asked) - 1]

    models = Models(fetch, lambda: now)
    assert [] == asked
    assert ("a",) == await models.names() == await models.names()
    now = TTL_S + 1
    assert ("a",) == await models.names()
    now += EMPTY_TTL_S - 1
    assert ("a",) == await models.names()
    now += 2
    assert ("b",) == await models.names()
    assert 3 == len(asked)
