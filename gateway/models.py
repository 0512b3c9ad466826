"""From the model name that a client sends to routes: pure look-ups in the configured aliases."""

from collections.abc import Iterable, Mapping

import msgspec

from gateway.config import Model, Route

__all__ = ["Resolved", "matches", "permitted", "resolve"]


class Resolved(msgspec.Struct, frozen=True):
    """Where a request goes. `alias` is the name that the client sent, `pattern` the table that it met.

    Every route names its model.
    """

    alias: str
    pattern: str
    routes: tuple[Route, ...]
    settings: Model


def matches(pattern: str, name: str) -> bool:
    """Return whether a name is the pattern, or begins with what stands before its trailing *."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def permitted(patterns: Iterable[str], name: str) -> bool:
    """Return whether one of a client's patterns allows a name."""
    return any(matches(pattern, name) for pattern in patterns)


def resolve(models: Mapping[str, Model], name: str) -> Resolved | None:
    """Return the routes of a name: an exact alias first, else the longest matching prefix; None when none matches."""
    pattern = _pattern(models, name)
    if pattern is None:
        return None
    settings = models[pattern]
    routes = tuple(Route(route.provider, route.model or name) for route in settings.routes)
    return Resolved(name, pattern, routes, settings)


def _pattern(models: Mapping[str, Model], name: str) -> str | None:
    if name in models and not name.endswith("*"):
        return name
    prefixes = (pattern for pattern in models if pattern.endswith("*") and matches(pattern, name))
    return max(prefixes, key=len, default=None)
