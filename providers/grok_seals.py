"""Which credential made which encrypted reasoning, for the policy `bind` (spec/grok.md 10.4). Digests only."""

from collections import OrderedDict
from collections.abc import Callable, Container

import msgspec

from providers.grok_input import token
from translators.fault import Refused
from translators.jsonio import ERRORS
from translators.sse import Splitter

__all__ = ["MAX_DOCUMENT_BYTES", "MAX_SEALS", "Learner", "Seals"]

MAX_SEALS = 20_000
"""Remembered values; an older one is forgotten and then no longer sent back."""
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""Of a larger answer in one piece nothing is learned; the gateway refuses it as well."""

_MARK = b'"encrypted_content"'


class _Item(msgspec.Struct):
    encrypted_content: str | None = None


class _Answer(msgspec.Struct):
    output: list[_Item] = []


class _Told(msgspec.Struct):
    """An event of a stream, or a whole answer."""

    item: _Item | None = None
    response: _Answer | None = None
    output: list[_Item] | None = None


_decode = msgspec.json.Decoder(_Told).decode


class Seals:
    """Digests of encrypted reasoning by tenant, with the credential that each came through."""

    def __init__(self, limit: int = MAX_SEALS) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, str], str] = OrderedDict()

    def put(self, tenant: str, encrypted: str, key: str) -> None:
        """Remember whose a value is and where it came from."""
        name = tenant, token(encrypted)
        self._kept[name] = key
        self._kept.move_to_end(name)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def key(self, tenant: str, digest: str) -> str | None:
        """Return the credential that a tenant's value came through."""
        return self._kept.get((tenant, digest))

    def of(self, tenant: str, key: str) -> Container[str]:
        """Return the digests that a tenant got through one credential; looked up, never copied."""
        return _Own(self, tenant, key)

    def learner(self, tenant: str, key: str) -> "Learner":
        """Return what learns from one reply's bytes."""
        return Learner(lambda encrypted: self.put(tenant, encrypted, key))


class _Own:
    def __init__(self, seals: Seals, tenant: str, key: str) -> None:
        self._seals, self._tenant, self._key = seals, tenant, key

    def __contains__(self, digest: object) -> bool:
        return isinstance(digest, str) and self._seals.key(self._tenant, digest) == self._key


class Learner:
    """Find encrypted reasoning in a reply, be it a stream of events or one document (E27)."""

    def __init__(self, found: Callable[[str], None]) -> None:
        self._found = found
        self._splitter = Splitter()
        self._document: list[bytes] | None = None
        self._size = 0
        self._begun = False

    def feed(self, chunk: bytes) -> None:
        """Take a chunk of the body."""
        if not self._begun and (first := chunk.lstrip()[:1]):
            self._begun = True
            self._document = [] if first == b"{" else None
        if self._document is not None:
            self._size += len(chunk)
            if self._size <= MAX_DOCUMENT_BYTES:
                self._document.append(chunk)
            return
        try:
            for frame in self._splitter.feed(chunk):
                self._learn(frame.data)
        except Refused:
            return  # too large for the decoder as well, which says so

    def end(self) -> None:
        """Learn from a document, which is complete now."""
        if self._document is not None and self._size <= MAX_DOCUMENT_BYTES:
            self._learn(b"".join(self._document))

    def _learn(self, data: bytes) -> None:
        if _MARK not in data:
            return
        try:
            told = _decode(data)
        except ERRORS:
            return
        for item in (told.item, *(told.response.output if told.response else ()), *(told.output or ())):
            if item is not None and item.encrypted_content:
                self._found(item.encrypted_content)
