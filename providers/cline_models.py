"""The models that Cline recommends, fetched when somebody asks and kept; never needed to serve (spec/cline.md 1.13)."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from translators.jsonio import ERRORS

__all__ = ["EMPTY_TTL_S", "MAX_LIST_BYTES", "TTL_S", "Models", "names_in"]

TTL_S = 6 * 3600.0
EMPTY_TTL_S = 15 * 60.0
"""After a failure or an empty list the next try is not before this."""
MAX_LIST_BYTES = 256 * 1024
MAX_MODELS = 256
MAX_NAME_CHARS = 256

Fetch = Callable[[], Awaitable[bytes | None]]
"""Return the body of the list, None when it cannot be had."""


class _Entry(msgspec.Struct):
    id: str


class _Lists(msgspec.Struct, rename={"cline_pass": "clinePass"}):
    recommended: list[_Entry] = []
    free: list[_Entry] = []
    cline_pass: list[_Entry] = []


_lists = msgspec.json.Decoder(_Lists).decode


def names_in(body: bytes) -> tuple[str, ...]:
    """Return the model names of an answer, each once, in order; none for an answer that cannot be read."""
    try:
        lists = _lists(body)
    except ERRORS:
        return ()
    named = (entry.id for entries in (lists.recommended, lists.cline_pass, lists.free) for entry in entries)
    usable = dict.fromkeys(name for name in named if 0 < len(name) <= MAX_NAME_CHARS and name.isprintable())
    return tuple(usable)[:MAX_MODELS]


class Models:
    """Keep the list: fetched lazily, once for all who wait, the old one kept when a fetch fails."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._due = -1.0
        self._lock = asyncio.Lock()

    async def names(self) -> tuple[str, ...]:
        """Return the names, () when they are not known."""
        async with self._lock:
            if self._due < self._clock():
                body = await self._fetch()
                found = names_in(body) if body is not None else ()
                self._names = found or self._names
                self._due = self._clock() + (TTL_S if found else EMPTY_TTL_S)
            return self._names
