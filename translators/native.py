"""The stream between two sides that speak the same dialect: bytes forwarded, facts observed.

Regions of whole frames pass as they are. Only frames in which the dialect's watcher finds something of
interest are looked at: the model's name becomes the alias, usage and the terminal are noted, and a source
that ends without a terminal becomes an error, never a success (I2, S37).
"""

import re
from collections.abc import Callable, Iterable

import msgspec

from translators.dialect import Dialect, Reply, Seen, Source
from translators.events import Event, Failed
from translators.fault import Fault, Refused, broken
from translators.jsonio import ERRORS, encode
from translators.notes import Notes
from translators.sse import COMMENT, END, MAX_FRAME_BYTES, MAX_FRAMES, Regions, frame_of, too_many
from translators.tally import Tally

__all__ = ["NativeStream", "NativeWhole"]

MAX_STREAM_BYTES = 64 * 1024 * 1024
HELD_BYTES = 256 * 1024
"""Of frames before the first content (spec/translation.md 8)."""

_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_SOURCE = Source()
_text = msgspec.json.Decoder(str).decode
_any = msgspec.json.Decoder().decode


def _spells(document: bytes, text: str) -> bool:
    try:
        return _text(document) == text
    except ERRORS:
        return False


def _whole(data: bytes) -> bool:
    """Tell whether a frame's data is complete: one JSON document, or Chat's end marker."""
    try:
        _any(data)
    except ERRORS:
        return data.strip() == b"[DONE]"
    return True


def _shaped(data: bytes) -> bool:
    """Tell whether a frame's data may be an event by its ends: an object, Chat's end marker or nothing (E29)."""
    data = data.strip()
    return (data[:1] == b"{" and data[-1:] == b"}") or data in (b"", b"[DONE]")


def _counted(region: bytes) -> tuple[int, bool]:
    """Return how many frames a region has, and whether each of them is shaped as an event.

    Where every line end is accounted for by frames of one spelling, as in nearly all regions, nothing is split.
    """
    lines = region.count(b"\n")
    if region.endswith(b"}\n\n"):
        if region.startswith(b"data: {"):
            count, rest = divmod(lines, 2)
            if not rest and (count == 1 or region.count(b"}\n\ndata: {") == count - 1):
                return count, True
        elif region.startswith(b"event: "):
            count, rest = divmod(lines, 3)
            begun = not rest and region.count(b"\ndata: {") == count
            if begun and (count == 1 or region.count(b"}\n\nevent: ") == count - 1):
                return count, True
    found = (frame_of(block) for block in region[:-2].split(END))
    return region.count(END), all(frame is None or _shaped(frame.data) for frame in found)


class NativeStream:
    """Forward one native stream; the same surface as `translators.pair.TranslatedStream`."""

    def __init__(
        self,
        dialect: Dialect,
        reply: Reply,
        clean: Callable[[str], str] = str,
        source: Source = _SOURCE,
        *,
        limit: int = MAX_FRAME_BYTES,
        frames: int = MAX_FRAMES,
    ) -> None:
        self.tally = Tally()
        self.begun = False
        self.done = False
        self.raw = b""
        self.output = b""
        self._dialect = dialect
        self._clean = clean
        self._alias = encode(reply.alias)
        self._watcher = dialect.watch(reply)
        self._regions = Regions(limit)
        self._left = MAX_STREAM_BYTES
        self._most = frames
        self._strict = source.strict
        self._notes = source.notes or Notes()
        self._held = b""
        self._terminal = False
        self._swaps: dict[bytes, bytes] = {}
        """The model's name as the upstream spells it, to what the client gets instead."""
        self._looked = False
        self._opening = True
        """Until the model's name or content was seen every frame is looked at: the name may come late."""

    @property
    def fault(self) -> Fault | None:
        """Return what ended the stream badly, None while it runs or when it ended well."""
        return self.tally.fault

    def feed(self, chunk: bytes) -> bytes:
        """Return what the client gets for one chunk of the upstream."""
        if self.done:
            return b""
        self._left -= len(chunk)
        if self._left < 0:
            return self.fail(broken("the upstream's answer is too large", cause="limit"))
        try:
            region = self._regions.feed(chunk)
        except Refused as refused:
            return self.fail(refused.fault)
        return self._released(self._region(region)) if region else b""

    def finish(self) -> bytes:
        """Return the end of the stream: nothing after a terminal, the error form when none was seen."""
        if self.done:
            return b""
        out = self._released(self._last(self._regions.finish()))
        if self.fault is not None:
            return out
        if self._terminal:
            return out + self._closed()
        return out + self.fail(broken("the upstream ended the answer without finishing it", cause="eof"))

    def _closed(self) -> bytes:
        """Add the last frame that the source left out behind its terminal; strict mode refuses to (5.2)."""
        closing = self._watcher.closing
        if closing is None or self.done:
            self.done = True
            return b""
        if self._strict:
            return self.fail(broken(f"the upstream broke its protocol: {closing.message}", cause="eof"))
        self.done = True
        self._notes.changed(closing.field, closing.message)
        return closing.frame

    def fail(self, fault: Fault) -> bytes:
        """End the stream with a fault: the error form when it has begun, nothing before (an HTTP error follows)."""
        if self.done:
            return b""
        self.done = True
        self.tally.fault = fault
        return self._watcher.failure(fault) if self.begun else b""

    def failure(self, fault: Fault) -> bytes:
        """Return the error form for a stream whose headers are out though nothing of the answer is."""
        return self._dialect.native_failure(fault)

    def keepalive(self) -> bytes:
        """Return a comment, which no client takes for an event; frames are sent whole, so it may stand anywhere."""
        return b"" if self.done else COMMENT

    def _released(self, out: bytes) -> bytes:
        """Hold the handshake until something means something, so that an error behind it can still be an HTTP
        error or go to another key (S35, F4); a handshake that never ends is let go at HELD_BYTES.
        """
        if not self._held and self.begun:
            return out
        self._held += out
        if not self.begun:
            if self.fault is not None:
                return b""
            self.begun = bool(self.tally.meanings) or self._terminal or len(self._held) > HELD_BYTES
        if not self.begun:
            return b""
        out, self._held = self._held, b""
        return out

    def _region(self, region: bytes) -> bytes:
        """Forward whole frames: as they are when nothing in them is of interest."""
        count, sound = _counted(region)
        self.tally.events += count
        if self.tally.events > self._most:
            return self.fail(too_many().fault)
        if self._meaning(region):
            self.tally.meanings += 1
        if self._opening or not self._watcher.quiet(region) or not sound:
            return self._frames(region)
        return self._renamed(region)

    def _meaning(self, region: bytes) -> bool:
        """Tell whether a region has content; finding its usual spelling first is far cheaper than the pattern."""
        usual, meaningful = self._watcher.usual, self._watcher.meaningful
        at = region.find(usual) if usual else -1
        return bool((at >= 0 and meaningful.match(region, at)) or meaningful.search(region))

    def _last(self, rest: bytes) -> bytes:
        """Forward a last frame that lacks its blank line, unless the stream was cut inside it."""
        frame = frame_of(rest)
        if frame is None or not _whole(frame.data):
            return b""
        self._opening = True
        return self._region(rest.removesuffix(b"\n") + END)

    def _frames(self, region: bytes) -> bytes:
        out: list[bytes] = []
        for block in region[:-2].split(END):
            out.append(self._frame(block))
            if self.done:
                break
        return b"".join(out)

    def _frame(self, block: bytes) -> bytes:
        frame = frame_of(block)
        if frame is None:
            return block + END if self._looked else b""  # a comment before the first event does not begin the answer
        self._looked = True
        if not _shaped(frame.data):
            return self.fail(broken("the upstream sent malformed JSON"))
        seen = self._watcher.look(frame)
        self._note(seen, block)
        if seen.failed is not None:
            self.raw = seen.failed.raw
            return self._failed(seen)
        if seen.terminal:
            self._terminal = True
        if not self.begun and self._watcher.meaningful.search(block):
            self.begun = True  # an error later in this very region comes behind content
        self.done = seen.last
        return self._renamed(block + END if seen.replace is None else seen.replace)

    def _failed(self, seen: Seen) -> bytes:
        assert seen.failed is not None
        fault = msgspec.structs.replace(seen.failed.fault, message=self._clean(seen.failed.fault.message))
        return self.fail(fault)

    def _note(self, seen: Seen, block: bytes) -> None:
        if seen.usage is not None:
            self.tally.usage = seen.usage
        if seen.stop is not None:
            self.tally.stop = seen.stop
        if self._opening and seen.model is not None:
            self.tally.upstream_model = seen.model
            for found in _MODEL.finditer(block):
                if _spells(found[1], seen.model):
                    self._swaps[found[0]] = found[0].removesuffix(found[1]) + self._alias
        if seen.model or self._watcher.meaningful.search(block):
            self._opening = False

    def _renamed(self, region: bytes) -> bytes:
        for old, new in self._swaps.items():
            region = region.replace(old, new)
        return region


class NativeWhole:
    """A whole answer of the client's own dialect: its facts from the events, its bytes as they are."""

    begun = False
    done = True

    def __init__(
        self,
        dialect: Dialect,
        reply: Reply,
        clean: Callable[[str], str],
        body: bytes,
        events: Iterable[Event],
        observe: Callable[[Event], None] | None = None,
    ) -> None:
        self.tally = Tally()
        self.raw = b""
        self.output = b""
        self._dialect = dialect
        for event in events:
            self.tally.count(event)
            if observe is not None:
                observe(event)
            if type(event) is Failed:
                self.tally.fault = msgspec.structs.replace(event.fault, message=clean(event.fault.message))
                self.raw = event.raw
        if self.tally.fault is None:
            try:
                self.output = dialect.native_answer(body, reply)
            except Refused as refused:
                self.tally.fault = refused.fault

    @property
    def fault(self) -> Fault | None:
        """Return what is wrong with the answer, None when it is whole."""
        return self.tally.fault

    def failure(self, fault: Fault) -> bytes:
        """Return the error form for a stream whose headers are out though nothing of the answer is."""
        return self._dialect.native_failure(fault)
