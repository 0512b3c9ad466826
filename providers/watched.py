"""An upstream's reply with something of ours about it: the token generation it was asked with, an eye on its bytes."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from providers.api import Upstream

__all__ = ["GENERATION", "Watch", "Watched", "generation_of"]

GENERATION = "x-dragoman-generation"
"""Added to a reply's headers for `judge`: which token the request went out with."""


def generation_of(headers: Mapping[str, str]) -> int | None:
    """Return the token generation of a reply; None without headers, as for an error inside a stream."""
    given = headers.get(GENERATION, "")
    return int(given) if given.isdecimal() else None


class Watch(Protocol):
    """What sees a body on its way."""

    def feed(self, chunk: bytes) -> None:
        """Take a chunk."""

    def end(self) -> None:
        """Take note that the body is complete."""


class Watched:
    """A reply with headers of ours added and its bytes shown to a watch."""

    def __init__(self, reply: Upstream, extra: Mapping[str, str], watch: Watch | None = None) -> None:
        self.status = reply.status
        self.headers: Mapping[str, str] = {**{name.lower(): text for name, text in reply.headers.items()}, **extra}
        self._reply = reply
        self._watch = watch

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return self._reply.chunks() if self._watch is None else self._watched(self._watch)

    async def _watched(self, watch: Watch) -> AsyncIterator[bytes]:
        async for chunk in self._reply.chunks():
            watch.feed(chunk)
            yield chunk
        watch.end()

    async def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes of the body."""
        return await self._reply.read(limit)

    def abort(self) -> None:
        """Close the connection at once."""
        self._reply.abort()

    async def release(self) -> None:
        """Give the connection back."""
        await self._reply.release()
