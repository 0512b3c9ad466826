"""Find plugins by entry point: built-ins come through the same door, and only a named plugin is imported (S44)."""

from importlib.metadata import EntryPoint, entry_points

from providers.api import Plugin

__all__ = ["GROUP", "entries", "load"]

GROUP = "dragoman.providers"

BUILT_IN = {
    "openai": "providers.openai:plugin",
    "anthropic": "providers.anthropic:plugin",
    "cline": "providers.cline:plugin",
    "grok-cli": "providers.grok:plugin",
    "demo": "providers.demo:plugin",
}
"""The entry points of our own distribution, for a checkout that is run without being installed."""


def entries() -> dict[str, EntryPoint]:
    """Return all plugins by name, without importing any; built-in names cannot be taken by others."""
    found = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def load(name: str) -> Plugin:
    """Import one plugin. Raises KeyError for an unknown name and TypeError when it is no Plugin."""
    # Reading the metadata of all installed distributions is slow; the built-in plugins need none of it.
    entry = EntryPoint(name, BUILT_IN[name], GROUP) if name in BUILT_IN else entries()[name]
    plugin = entry.load()
    if not isinstance(plugin, Plugin):
        raise TypeError(f"entry point {name!r} of {GROUP} is not a providers.api.Plugin")
    return plugin
