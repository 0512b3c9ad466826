"""Which key served a session last, so that the session stays in that key's prompt cache (spec/cline.md 8, S30, S31).

A preference, never a pin: the pool leaves a resting key. Pure, bounded in entries and time, and without raw session
ids: it holds fingerprints, which differ by tenant and dialect. It never guesses a session from content.
"""

import hashlib
import hmac
from collections import OrderedDict

__all__ = ["MAX_SESSIONS", "SHOWN_CHARS", "TTL_S", "Affinity", "fingerprint", "short"]

MAX_SESSIONS = 10_000
"""Sessions, each with one model, that one provider remembers: about 4 MB (S24)."""
TTL_S = 3600.0
"""Seconds without a request after which a session is forgotten; upstream caches have long gone by then."""
SHOWN_CHARS = 16
"""Characters of a fingerprint that logs and upstream headers show (spec/cline.md 8)."""

# The first two are cline-proxy's own, so that a fingerprint stays the same for who moves here.
DOMAINS = {
    "messages": b"",
    "responses": b"cline-proxy/responses/v1\x00\x00",
    "chat": b"dragoman/chat/v1\x00\x00",
}


def fingerprint(secret: bytes, tenant: str, dialect: str, session: str) -> str:
    """Return the HMAC-SHA256 of a session id as 64 hex digits, or "" when there is no id (S30).

    Each tenant has a key of its own, derived from the secret; the tenant "" has the secret itself.
    """
    if not session:
        return ""
    key = hmac.digest(secret, b"dragoman/tenant/v1\x00" + _bytes(tenant), "sha256") if tenant else secret
    return hmac.new(key, DOMAINS[dialect] + _bytes(session), hashlib.sha256).hexdigest()


def short(digest: str) -> str:
    """Return the part of a fingerprint that is fit to be shown; too short to be a key of shared state."""
    return digest[:SHOWN_CHARS]


def _bytes(text: str) -> bytes:
    # JSON may carry lone surrogates, which strict UTF-8 refuses.
    return text.encode("utf-8", "surrogatepass")


class Affinity:
    """Map tenant, fingerprint and model to a key's name, for one provider; the least recently used goes first.

    By model too, since a limit of one model moves its requests alone (spec/grok.md 10.2).
    """

    def __init__(self, limit: int = MAX_SESSIONS, ttl_s: float = TTL_S) -> None:
        self._limit = limit
        self._ttl_s = ttl_s
        self._bound: OrderedDict[tuple[str, str, str], tuple[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bound)

    def get(self, tenant: str, session: str, model: str, now: float) -> str | None:
        """Return the key that served this session's model within the TTL, and count that as a use."""
        bound = self._bound.get((tenant, session, model))
        if bound is None:
            return None
        if now - bound[1] >= self._ttl_s:
            del self._bound[tenant, session, model]
            return None
        self.put(tenant, session, model, bound[0], now)
        return bound[0]

    def put(self, tenant: str, session: str, model: str, key: str, now: float) -> None:
        """Bind a session's model to a key; without a fingerprint nothing is kept."""
        if not session:
            return
        self._bound[tenant, session, model] = (key, now)
        self._bound.move_to_end((tenant, session, model))
        if len(self._bound) > self._limit:
            self._bound.popitem(last=False)
        self._expire(now)

    def _expire(self, now: float) -> None:
        """Drop what has expired; uses are in order of time, so it is all at the front."""
        while self._bound:
            oldest = next(iter(self._bound.values()))
            if now - oldest[1] < self._ttl_s:
                return
            self._bound.popitem(last=False)
