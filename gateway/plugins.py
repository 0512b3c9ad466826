"""What the configuration reader has to know of plugins: which exist, and which keys of their own they take."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway.config import Config, Provider
from gateway.problems import Place, Problem, dotted
from gateway.tomllines import Lines, parse
from providers.registry import entries, load

__all__ = ["names", "options_type", "requirements"]


def names() -> tuple[str, ...]:
    """Return the names of all installed plugins; imports none."""
    return tuple(sorted(entries()))


def options_type(plugin: str) -> type[msgspec.Struct] | None:
    """Return the Struct of a plugin's own config keys, None when it has none or cannot be imported."""
    try:
        return load(plugin).options
    except Exception:  # noqa: BLE001  `requirements` then says that it does not load
        return None


def requirements(config: Config) -> list[Problem]:
    """Return what configured providers lack that their plugins need: an address, keys, a dialect they speak."""
    lacking = [lack for table in config.providers.values() for lack in _lacks(table)]
    if not lacking:
        return []
    lines = _lines(config.path)
    file = str(config.path or "config")
    return [Problem(file, lines.of(place) if lines else 0, dotted(place), what, mend) for place, what, mend in lacking]


def _lines(path: Path | None) -> Lines | None:
    """Read the file once more, now for the places of its keys."""
    try:
        return parse(path.read_text(encoding="utf-8-sig")).lines if path is not None else None
    except (OSError, ValueError):  # it has gone, or changed to something else, since it was loaded
        return None


def _lacks(table: Provider) -> Iterator[tuple[Place, str, str]]:
    at = ("providers", table.name)
    try:
        plugin = load(table.plugin)
    except Exception as error:  # noqa: BLE001  a third party's module may fail in any way
        what = f"plugin {table.plugin!r} does not load: {type(error).__name__}: {error}"
        yield (*at, "plugin"), what, "install or mend the plugin's package"
        return
    if not (table.base_url or plugin.base_url):
        yield (*at, "base_url"), "is missing", 'add base_url = "https://HOST/v1"'
    if plugin.needs_keys and not (table.keys or table.credentials):
        mend = f'add keys = [ {{ name = "main", value = {{ env = "{table.name.upper()}_API_KEY" }} }} ]'
        yield (*at, "keys"), "is missing", mend
    if table.dialect and table.dialect not in plugin.dialects:
        what = f"plugin {table.plugin!r} does not speak {table.dialect!r}"
        yield (*at, "dialect"), what, f"use {', '.join(plugin.dialects)}"
