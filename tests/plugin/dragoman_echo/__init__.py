"""An OpenAI-compatible server that wants its key in a header of its own: a whole plugin."""

from collections.abc import Mapping

from yarl import URL

from providers.api import Call, Plugin, Provider, Setup, Upstream
from providers.openai import OpenAI
from providers.transport import send


class Echo(OpenAI):
    """Chat Completions with the key in `x-echo-key`."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._setup, self._echo = setup, URL(setup.base_url + "/chat/completions")

    async def open(self, call: Call, key: str) -> Upstream:
        """POST the request with one key."""
        if self._session is None:
            self._session = self._setup.session(connect_s=self._setup.connect_s, trust_env=self._setup.trust_env)
        headers: Mapping[str, str] = {
            "content-type": "application/json",
            "x-echo-key": self._setup.keys[key].reveal(),
            **self._setup.headers,
        }
        return await send(self._session, self._echo, headers, call.body)


def build(setup: Setup) -> Provider:
    """Return the provider of one config table."""
    return Echo(setup)


plugin = Plugin("echo", build, ("chat",))
