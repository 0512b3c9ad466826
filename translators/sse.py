"""Server-sent events, both ways: bytes to frames under a size limit, frames to bytes.

Follows the HTML standard for lines, comments and multi-line data. The fast path takes frames that end in a
bare `\\n\\n`; carriage returns are normalised only when one is seen.
"""

from typing import NamedTuple

from translators.fault import Refused, broken

__all__ = ["COMMENT", "DONE", "MAX_FRAME_BYTES", "Frame", "Splitter", "data_frame", "event_frame"]

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Size of one event, data of all its lines together; a `completed` event repeats a whole answer."""

COMMENT = b": keepalive\n\n"
DONE = b"data: [DONE]\n\n"
_BOM = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    """One dispatched event: its data, and its name where the stream gives one."""

    data: bytes
    event: bytes = b""


class Splitter:
    """Cut a byte stream into frames. `feed` raises Refused (cause `limit`) past `limit` bytes in one frame."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._held = 0
        self._carriage = False
        self._first = True

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that `chunk` completes."""
        if self._first and chunk:
            chunk = self._without_bom(chunk)
        if self._carriage or b"\r" in chunk:
            chunk = self._normalised(chunk)
        if b"\n" not in chunk:
            self._hold(chunk)
            return []
        if self._rest:
            # A blank line may straddle the cut, so the last held byte has to be seen together with the chunk.
            self._rest.append(chunk)
            chunk = b"".join(self._rest)
            self._rest.clear()
            self._held = 0
        *whole, rest = chunk.split(b"\n\n")
        if rest:
            self._hold(rest)
        return [frame for block in whole if (frame := self._frame(block)) is not None]

    def finish(self) -> Frame | None:
        """Return the last frame of a stream that ends without its blank line, if there is one."""
        rest = b"".join(self._rest)
        self._rest.clear()
        self._held = 0
        return self._frame(rest) if rest else None

    def _without_bom(self, chunk: bytes) -> bytes:
        start = b"".join((*self._rest, chunk))
        if len(start) < len(_BOM) and _BOM.startswith(start):
            return chunk
        self._first = False
        self._rest.clear()
        self._held = 0
        return start.removeprefix(_BOM)

    def _normalised(self, chunk: bytes) -> bytes:
        if self._carriage and chunk:
            chunk = chunk.removeprefix(b"\n")
        self._carriage = chunk.endswith(b"\r") if chunk else self._carriage
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._limit:
            raise Refused(broken("an upstream event is too large", cause="limit"))
        if piece:
            self._rest.append(piece)

    def _frame(self, block: bytes) -> Frame | None:
        if len(block) > self._limit:
            raise Refused(broken("an upstream event is too large", cause="limit"))
        if b"\n" not in block and block.startswith(b"data: "):
            return Frame(block[6:])
        event, data = b"", []
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif field == b"event":
                event = value.removeprefix(b" ")
        return Frame(b"\n".join(data), event) if data else None


def event_frame(event: str, data: bytes) -> bytes:
    """Return a named frame (Messages, Responses). `data` is one line of JSON, `event` a constant of ours (S15)."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)


def data_frame(data: bytes) -> bytes:
    """Return an unnamed frame (Chat)."""
    return b"data: %b\n\n" % data
