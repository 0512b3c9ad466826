"""Which credential made which encrypted reasoning, for the policy `bind` (spec/grok.md 10.4). Digests only."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping

import msgspec

from providers.api import Upstream
from providers.grok_input import token
from translators.fault import Refused
from translators.sse import Splitter

__all__ = ["MAX_SEALS", "Seals", "Watched"]

MAX_SEALS = 20_000
"""Remembered values; an older one is forgotten and then no longer sent back."""

_MARK = b'"encrypted_content"'


class _Item(msgspec.Struct):
    encrypted_content: str | None = None


class _Event(msgspec.Struct):
    item: _Item | None = None


_decode = msgspec.json.Decoder(_Event).decode


class Seals:
    """Digests of encrypted reasoning by the credential that it came through."""

    def __init__(self, limit: int = MAX_SEALS) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, str] = OrderedDict()

    def put(self, encrypted: str, key: str) -> None:
        """Remember where a value came from."""
        digest = token(encrypted)
        self._kept[digest] = key
        self._kept.move_to_end(digest)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def of(self, key: str) -> frozenset[str]:
        """Return the digests of one credential's values."""
        return frozenset(digest for digest, owner in self._kept.items() if owner == key)

    def watcher(self, key: str, wanted: bool) -> "Callable[[bytes], None] | None":
        """Return what learns from one reply's bytes, None when nothing is to be learned."""
        if not wanted:
            return None
        splitter = Splitter()

        def learn(chunk: bytes) -> None:
            try:
                for frame in splitter.feed(chunk):
                    if _MARK in frame.data and (found := _encrypted(frame.data)):
                        self.put(found, key)
            except Refused:
                return  # too large for the decoder as well, which says so

        return learn


def _encrypted(data: bytes) -> str | None:
    try:
        event = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event.item.encrypted_content if event.item else None


class Watched:
    """A reply with headers of ours added and its bytes shown to a watcher on their way."""

    def __init__(self, reply: Upstream, extra: Mapping[str, str], watch: Callable[[bytes], None] | None) -> None:
        self.status = reply.status
        self.headers: Mapping[str, str] = {**{name.lower(): text for name, text in reply.headers.items()}, **extra}
        self._reply = reply
        self._watch = watch

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return self._reply.chunks() if self._watch is None else self._watched(self._watch)

    async def _watched(self, watch: Callable[[bytes], None]) -> AsyncIterator[bytes]:
        async for chunk in self._reply.chunks():
            watch(chunk)
            yield chunk

    async def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes of the body."""
        return await self._reply.read(limit)

    def abort(self) -> None:
        """Close the connection at once."""
        self._reply.abort()

    async def release(self) -> None:
        """Give the connection back."""
        await self._reply.release()
