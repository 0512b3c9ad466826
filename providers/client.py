"""A provider's HTTP client: one session, opened on first use, and the headers that every request to it has."""

import aiohttp
from yarl import URL

from providers.api import Call, Setup
from providers.headers import upstream_headers
from providers.identity import USER_AGENT
from providers.transport import Reply, send

__all__ = ["Client"]


class Client:
    """Send one provider's requests. Headers are built from nothing, never copied (S10)."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """Return the session, opened when it is first needed."""
        if self._session is None:
            self._session = self._setup.session(connect_s=self._setup.connect_s, trust_env=self._setup.trust_env)
        return self._session

    def headers(
        self, call: Call, forwarded: tuple[str, ...] = (), *, stream: bool | None = None, **own: str
    ) -> dict[str, str]:
        """Return the headers of a call without its credential: ours, the plugin's `own`, the config's, and those of
        the client that are `forwarded`. `stream` says what is accepted where the call does not decide.
        """
        streaming = call.stream if stream is None else stream
        fixed = {
            "content-type": "application/json",
            "accept": "text/event-stream" if streaming else "application/json",
            "accept-encoding": "identity" if streaming else "gzip, deflate",
            "user-agent": USER_AGENT,
            **{name.replace("_", "-"): value for name, value in own.items()},
            **self._setup.headers,
        }
        return upstream_headers(call.client_headers if forwarded else {}, forwarded, fixed)

    async def post(self, url: URL, headers: dict[str, str], body: bytes) -> Reply:
        """POST a body; raises Unreachable."""
        return await send(self.session, url, headers, body)

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
