"""An OpenAI-compatible server that wants its key in a header of its own: a whole plugin."""

from yarl import URL

from providers.api import Call, Plugin, Provider, Setup, Upstream
from providers.client import Client
from providers.openai import OpenAI


class Echo(OpenAI):
    """Chat Completions with the key in `x-echo-key`."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.client, self.keys = Client(setup), setup.keys
        self.url = URL(setup.base_url + "/chat/completions")

    async def open(self, call: Call, key: str) -> Upstream:
        """POST the request with one key."""
        headers = self.client.headers(call) | {"x-echo-key": self.keys[key].reveal()}
        return await self.client.post(self.url, headers, call.body)

    async def close(self) -> None:
        """Close the session."""
        await self.client.close()


def build(setup: Setup) -> Provider:
    """Return the provider of one config table."""
    return Echo(setup)


plugin = Plugin("echo", build, ("chat",))
