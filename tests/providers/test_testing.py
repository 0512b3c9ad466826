"""The conformance kit: our own providers keep its rules, and a plugin that breaks them is told which."""

import importlib.util
import sys
from pathlib import Path

import pytest

from providers.api import Plugin, Verdict
from providers.openai import OpenAI
from providers.registry import BUILT_IN, load
from providers.testing import CLIENT_SECRET, Nonconforming, conform
from translators.fault import Fault

ECHO = Path(__file__).resolve().parents[1] / "plugin" / "dragoman_echo" / "__init__.py"
SETTLED = Fault(kind="api", message="no", cause="upstream")


@pytest.mark.parametrize("name", sorted(set(BUILT_IN) - {"demo"}))
async def test_our_providers_conform(name):
    """Every built-in plugin keeps every rule."""
    await conform(load(name))


async def test_the_demo_conforms():
    """It does not send to its address, so the rules about that are left out."""
    await conform(load("demo"), networked=False)


async def test_the_plugin_of_the_documentation_conforms():
    """So does the example that plugin authors start from."""
    spec = importlib.util.spec_from_file_location("dragoman_echo", ECHO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("dragoman_echo", None)
    await conform(module.plugin)


class Chatty(OpenAI):
    """Sends twice, with the client's own credentials and the key in the URL."""

    async def open(self, call, key):
        await super().open(call, key)
        self._setup.headers.update({"x-client": call.client_headers["authorization"]})
        self._url = self._url.with_query(key=self._setup.keys[key].reveal())
        return await super().open(call, key)


class Harsh(OpenAI):
    """Takes keys out of use for anything, and fails on bodies that are no JSON."""

    def __init__(self, setup):
        super().__init__(setup)
        self.key_names = ()
        self.name = "other"

    async def judge(self, status, headers, body, call, key):
        if not body:
            raise ValueError("no body")
        return Verdict(SETTLED, rejected=True)

    def origin(self, model):
        return ""

    def traits(self, model):
        return None

    def amend(self, conversation, target):
        return None

    async def close(self):
        raise RuntimeError("closed")


async def test_every_broken_rule_is_named():
    """One exception lists them all, each with its rule."""
    with pytest.raises(Nonconforming) as caught:
        await conform(Plugin("Harsh", Harsh, ("chat",)), networked=False)
    text = str(caught.value)
    for part in ("plain name", "build", "origin", "traits", "amend", "close", "judge"):
        assert part in text
    assert 7 == text.count("\n- ")


async def test_what_is_sent_is_looked_at():
    """A second request, a forwarded secret and a key in the URL are found."""
    with pytest.raises(Nonconforming) as caught:
        await conform(Plugin("chatty", Chatty, ("chat",)))
    assert "2 requests for one call" in str(caught.value)
    assert CLIENT_SECRET not in str(caught.value)
