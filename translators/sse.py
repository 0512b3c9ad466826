"""Server-sent events, both ways: bytes to frames under a size limit, frames to bytes.

Follows the HTML standard for lines, comments and multi-line data. The fast path takes frames that end in a
bare `\\n\\n`; carriage returns are normalised only when one is seen.
"""

import sys

import msgspec

from translators.fault import Refused, broken

__all__ = [
    "COMMENT",
    "DONE",
    "END",
    "MAX_FRAMES",
    "MAX_FRAME_BYTES",
    "Frame",
    "Regions",
    "Splitter",
    "data_frame",
    "event_frame",
    "frame_of",
    "too_many",
]

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Size of one event, data of all its lines together; a `completed` event repeats a whole answer."""

MAX_FRAMES = 200_000
"""Frames of one answer, comments and blank lines included (section 8, F6)."""

COMMENT = b": keepalive\n\n"
DONE = b"data: [DONE]\n\n"
END = b"\n\n"
"""The blank line that dispatches a frame, once line ends are LF."""
_BOM = b"\xef\xbb\xbf"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One dispatched event: its data, and its name where the stream gives one."""

    data: bytes
    event: bytes = b""


class Regions:
    """Cut a byte stream at blank lines into regions of whole frames, with LF for every line end and no BOM.

    `feed` raises Refused (cause `limit`) for a frame of more than `limit` bytes, wherever the stream is cut.
    """

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0
        self._carriage = False
        self._first = True

    def feed(self, chunk: bytes) -> bytes:
        """Return the frames that `chunk` completes, blank lines included; b"" when it completes none."""
        if self._first:
            chunk = self._without_bom(chunk)
        if self._carriage or b"\r" in chunk:
            chunk = self._unified(chunk)
        if not self._rest:
            cut = chunk.rfind(END)
            if cut < 0:
                self._hold(chunk)
                return b""
        elif END in chunk or (chunk[:1] == b"\n" and self._rest[-1][-1:] == b"\n"):
            chunk = b"".join((*self._rest, chunk))
            self._rest.clear()
            cut = chunk.rfind(END)
        else:
            self._hold(chunk)
            return b""
        self._size = 0
        if cut + 2 < len(chunk):
            self._hold(chunk[cut + 2 :])
            chunk = chunk[: cut + 2]
        if len(chunk) > self._limit and any(len(block.strip(b"\n")) > self._limit for block in chunk.split(END)):
            raise _too_large()
        return chunk

    def finish(self) -> bytes:
        """Return what is left of a stream that ends without its blank line."""
        rest = b"".join(self._rest)
        self._rest.clear()
        self._size = 0
        return rest

    def _without_bom(self, chunk: bytes) -> bytes:
        start = b"".join((*self._rest, chunk))
        if len(start) < len(_BOM) and _BOM.startswith(start):
            return chunk
        self._first = False
        self._rest.clear()
        self._size = 0
        return start.removeprefix(_BOM)

    def _unified(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        if self._carriage:
            chunk = chunk.removeprefix(b"\n")
        self._carriage = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._rest.append(piece)
        self._size += len(piece)
        # A line end at either side is not part of the frame.
        if self._size - self._rest[0].startswith(b"\n") - piece.endswith(b"\n") > self._limit:
            raise _too_large()


class Splitter:
    """Cut a byte stream into frames.

    `feed` raises Refused (cause `limit`) past `limit` bytes in one frame, and past `frames` in all, comments included.
    """

    def __init__(self, limit: int = MAX_FRAME_BYTES, frames: int = sys.maxsize) -> None:
        self._regions = Regions(limit)
        self._left = frames

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that `chunk` completes."""
        region = self._regions.feed(chunk)
        if not region:
            return []
        blocks = region[:-2]
        if END not in blocks:
            self._left -= 1
            if self._left < 0:
                raise too_many()
            frame = frame_of(blocks)
            return [] if frame is None else [frame]
        parts = blocks.split(END)
        self._left -= len(parts)
        if self._left < 0:
            raise too_many()
        return [frame for block in parts if (frame := frame_of(block)) is not None]

    def finish(self) -> Frame | None:
        """Return the last frame of a stream that ends without its blank line, if there is one."""
        return frame_of(self._regions.finish())


def frame_of(block: bytes) -> Frame | None:
    """Return the frame that the lines of a block spell, None when they have no data (comments and the like)."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return Frame(block[6:])
    event, data = b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            event = value.removeprefix(b" ")
    return Frame(b"\n".join(data), event) if data else None


def too_many() -> Refused:
    """Return the exception for a source of more frames than any answer has."""
    return Refused(broken("the upstream sent too many events", cause="limit"))


def _too_large() -> Refused:
    return Refused(broken("an upstream event is too large", cause="limit"))


def event_frame(event: str, data: bytes) -> bytes:
    """Return a named frame (Messages, Responses). `data` is one line of JSON, `event` a constant of ours (S15)."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)


def data_frame(data: bytes) -> bytes:
    """Return an unnamed frame (Chat)."""
    return b"data: %b\n\n" % data
