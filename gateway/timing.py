"""The clock of one exchange: when things happened since it began, and how long it waited for its upstream."""

from time import monotonic

from gateway.record import Record
from translators.tally import Tally

__all__ = ["Timing", "milliseconds"]


def milliseconds(seconds: float) -> float:
    """Return seconds as the record's milliseconds."""
    return round(seconds * 1000, 2)


class Timing:
    """Note moments in a record. `waited_s` is time spent on the upstream, which is nobody's overhead."""

    def __init__(self, record: Record) -> None:
        self.began = monotonic()
        self.waited_s = 0.0
        self._record = record
        self._asked = 0.0

    def step(self, kind: str) -> float:
        """Note a moment for the record's flight list; returns its milliseconds."""
        at = milliseconds(monotonic() - self.began)
        self._record.step(at, kind)
        return at

    def __enter__(self) -> None:
        """Count the block as time spent waiting for the upstream; blocks do not nest."""
        self._asked = monotonic()

    def __exit__(self, *_: object) -> None:
        self.waited_s += monotonic() - self._asked

    def first_event(self, now: float) -> None:
        """Note the first event."""
        if self._record.first_event_ms is None:
            self._record.first_event_ms = milliseconds(now - self.began)

    def first_meaning(self, tally: Tally, now: float) -> None:
        """Note the first content, and the first text and tool call among it."""
        record = self._record
        if record.first_meaning_ms is None:
            record.first_meaning_ms = milliseconds(now - self.began)
        if record.first_text_ms is None and tally.text_bytes:
            record.first_text_ms = milliseconds(now - self.began)
        if record.first_tool_ms is None and tally.tool_calls:
            record.first_tool_ms = milliseconds(now - self.began)

    def close(self, first_write: float | None) -> None:
        """Note what only the end can tell: the first byte that went out, and our share of the whole time."""
        if first_write is not None:
            self._record.first_byte_ms = milliseconds(first_write - self.began)
        self._record.overhead_ms = milliseconds(max(0.0, monotonic() - self.began - self.waited_s))
