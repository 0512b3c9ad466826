"""Any server that speaks an OpenAI protocol: Chat Completions or Responses, chosen by config."""

from collections.abc import Mapping

from yarl import URL

from providers.api import Call, Plugin, Provider, Setup, Upstream, Verdict
from providers.client import Client
from providers.judgement import judged
from translators.carrier import origin_of
from translators.conversation import Conversation
from translators.dialect import Target
from translators.traits import Traits, traits_for

__all__ = ["OpenAI", "plugin"]

PATHS = {"chat": "/chat/completions", "responses": "/responses"}
NO_KEY = "none"
"""Pool name of a server that asks for no key, as local model servers do."""
FORWARDED = ("openai-beta",)
"""Client headers that reach an upstream of the same dialect."""


class OpenAI:
    """One OpenAI-compatible server with bearer keys."""

    native = True

    def __init__(self, setup: Setup) -> None:
        self.name = setup.name
        self.dialect = setup.dialect
        self.key_names = tuple(setup.keys) or (NO_KEY,)
        self._keys = setup.keys
        self._setup = setup
        self._url = URL(setup.base_url + PATHS[setup.dialect])
        self._client = Client(setup)

    def origin(self, model: str) -> str:
        """Return the tag of opaque state: this provider, its address, and the model's family."""
        return origin_of(self.name, self._setup.base_url, model.partition(":")[0])

    def traits(self, model: str) -> Traits:
        """Return the traits of the model's family."""
        return traits_for(model)

    def amend(self, conversation: Conversation, target: Target) -> Conversation:
        """Return the request unchanged: a generic server has no policy."""
        return conversation

    async def open(self, call: Call, key: str) -> Upstream:
        """POST the request with one key."""
        headers = self._client.headers(call, FORWARDED if call.native else ())
        if key in self._keys:
            headers["authorization"] = f"Bearer {self._keys[key].reveal()}"
        return await self._client.post(self._url, headers, call.body)

    async def judge(self, status: int, headers: Mapping[str, str], body: bytes, call: Call, key: str) -> Verdict:
        """Apply the shared judgement."""
        return judged(status, headers, body)

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()


def build(setup: Setup) -> Provider:
    """Return the provider of one config table."""
    return OpenAI(setup)


plugin = Plugin("openai", build, ("chat", "responses"), needs_keys=False)
