"""Plugins are found by entry point and imported only when named."""

from importlib.metadata import EntryPoint

import pytest

from providers import registry
from providers.api import Plugin
from providers.registry import BUILT_IN, GROUP, entries, load


@pytest.fixture
def installed(monkeypatch):
    """Let some entry points be installed."""

    def install(*entries):
        monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint(*entry, GROUP) for entry in entries])

    return install


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_built_in_plugin_loads(name):
    """Its record has its own name and a way to build it."""
    plugin = load(name)
    assert isinstance(plugin, Plugin)
    assert (name, True) == (plugin.name, callable(plugin.build))
    assert set(plugin.dialects) <= {"chat", "responses", "messages"}


def test_a_third_partys_plugin_is_found(installed):
    """Whatever the group holds is there beside our own."""
    installed(("theirs", "somewhere:plugin"))
    assert {*BUILT_IN, "theirs"} == set(entries())


@pytest.mark.promise("S44")
def test_built_in_names_cannot_be_taken(installed):
    """Another distribution that claims `openai` would get its keys."""
    installed(("openai", "evil:plugin"))
    assert BUILT_IN["openai"] == entries()["openai"].value


def test_an_unknown_name_is_a_key_error():
    """The caller checks names first; this is a bug."""
    with pytest.raises(KeyError):
        load("unknown")


def test_what_is_no_plugin_is_refused(installed):
    """An entry point may name anything; only a Plugin is used."""
    installed(("odd", "providers.registry:GROUP"))
    with pytest.raises(TypeError, match=r"'odd' of dragoman\.providers"):
        load("odd")
