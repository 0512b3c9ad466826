"""How much of a session's previous prompt each request keeps, for the record (spec/cline.md 8).

Agents of one client session interleave their conversations, so a session has several lines; a request continues
the line of which it keeps most. Digests and sizes only; bounded in sessions, lines and messages (S24).
"""

from collections import OrderedDict

from gateway.record import Record
from translators.prefix import Kept, Prefix, digest_of, kept, prefix_of

__all__ = ["MAX_ELEMENTS", "MAX_LINES", "MAX_SESSIONS", "Prefixes"]

MAX_SESSIONS = 1024
MAX_LINES = 4
MAX_ELEMENTS = 4096
"""A longer prompt is not remembered."""


class Prefixes:
    """Remember the latest prompts of each session of each tenant; the session used longest ago goes first."""

    def __init__(self, sessions: int = MAX_SESSIONS) -> None:
        self._limit = sessions
        self._sessions: OrderedDict[tuple[str, str, str], list[Prefix]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def note(self, record: Record, tenant: str, session: str, body: bytes) -> None:
        """Write into a request's record what its prompt is, and what it keeps of the session's earlier ones."""
        if not session:
            # Nothing to compare with, so the messages need not be told apart.
            record.prefix_hash, record.prefix_bytes = digest_of(body) or (None, None)
            return
        prefix = prefix_of(body)
        if prefix is None:
            return
        record.prefix_hash, record.prefix_bytes = prefix.hash, prefix.size
        found = self.follow(tenant, session, f"{record.provider}/{record.upstream_model}", prefix)
        if found is not None:
            record.prefix_kept_bytes, record.prefix_broken_at = found.bytes, found.broken_at

    def follow(self, tenant: str, session: str, upstream: str, prefix: Prefix) -> Kept | None:
        """Return what a prompt keeps of its session's earlier ones; None for the first, or without a session."""
        if not session or len(prefix.elements) > MAX_ELEMENTS:
            return None
        key = (tenant, session, upstream)
        lines = self._sessions.setdefault(key, [])
        self._sessions.move_to_end(key)
        if len(self._sessions) > self._limit:
            self._sessions.popitem(last=False)
        best, index = None, -1
        for number, line in enumerate(lines):
            found = kept(line, prefix)
            if best is None or (found.bytes, found.broken_at is None) >= (best.bytes, best.broken_at is None):
                best, index = found, number
        # Without a common message it is another conversation, unless there is no place to keep both.
        if best is not None and (best.messages or best.broken_at is None or len(lines) >= MAX_LINES):
            del lines[index]
        lines.append(prefix)
        return best
