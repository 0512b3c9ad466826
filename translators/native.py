"""The stream between two sides that speak the same dialect: bytes forwarded, facts observed.

Regions of whole frames pass as they are. Only frames in which the dialect's watcher finds something of
interest are looked at: the model's name becomes the alias, usage and the terminal are noted, and a source
that ends without a terminal becomes an error, never a success (I2, S37).
"""

from collections.abc import Callable

import msgspec

from translators.dialect import Dialect, Reply, Seen
from translators.fault import Fault, broken
from translators.jsonio import encode
from translators.sse import COMMENT, MAX_FRAME_BYTES, Splitter
from translators.tally import Tally

__all__ = ["NativeStream"]

END = b"\n\n"
MAX_STREAM_BYTES = 64 * 1024 * 1024


class NativeStream:
    """Forward one native stream; the same surface as `translators.pair.TranslatedStream`."""

    def __init__(
        self, dialect: Dialect, reply: Reply, clean: Callable[[str], str] = str, *, limit: int = MAX_FRAME_BYTES
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
        self._limit = limit
        self._left = MAX_STREAM_BYTES
        self._rest = b""
        self._carriage = False
        self._terminal = False
        self._swap: tuple[bytes, bytes] | None = None
        self._looked = False

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
        if b"\r" in chunk or self._carriage:
            chunk = self._unified(chunk)
        ready = self._rest + chunk if self._rest else chunk
        cut = ready.rfind(END)
        if cut < 0:
            self._rest = ready
            if len(ready) > self._limit:
                return self.fail(broken("an upstream event is too large", cause="limit"))
            return b""
        self._rest = ready[cut + 2 :]
        return self._region(ready if not self._rest else ready[: cut + 2])

    def finish(self) -> bytes:
        """Return the end of the stream: nothing after a terminal, the error form when none was seen."""
        out = self._region(self._rest + END) if self._rest.strip() and not self.done else b""
        self._rest = b""
        if self.done:
            return out
        if self._terminal:
            self.done = True
            return out
        return out + self.fail(broken("the upstream ended the answer without finishing it", cause="eof"))

    def fail(self, fault: Fault) -> bytes:
        """End the stream with a fault: the error form when it has begun, nothing before (an HTTP error follows)."""
        if self.done:
            return b""
        self.done = True
        self.tally.fault = fault
        return self._dialect.native_failure(fault, self.begun) if self.begun else b""

    def failure(self, fault: Fault) -> bytes:
        """Return the error form for a stream whose headers are out though nothing of the answer is."""
        return self._dialect.native_failure(fault, False)

    def keepalive(self) -> bytes:
        """Return a comment, which no client takes for an event."""
        return b"" if self.done or self._rest else COMMENT

    def _unified(self, chunk: bytes) -> bytes:
        if self._carriage:
            chunk = chunk.removeprefix(b"\n")
        self._carriage = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _region(self, region: bytes) -> bytes:
        """Forward whole frames: as they are when nothing in them is of interest."""
        self.tally.events += region.count(END)
        if self._watcher.meaningful.search(region):
            self.tally.meanings += 1
        if not self._looked or self._watcher.interesting.search(region):
            return self._frames(region)
        return self._renamed(region)

    def _frames(self, region: bytes) -> bytes:
        out: list[bytes] = []
        for block in region.split(END):
            if not block:
                continue
            piece = self._frame(block + END)
            if piece:
                out.append(piece)
            if self.done:
                break
        return b"".join(out)

    def _frame(self, block: bytes) -> bytes:
        frames = Splitter(self._limit).feed(block)
        if not frames:
            return block if self._looked else b""  # a comment before the first event does not begin the answer
        self._looked = True
        seen = self._watcher.look(frames[0])
        self._note(seen)
        if seen.failed is not None:
            self.raw = seen.failed.raw
            return self._failed(seen)
        if seen.terminal:
            self._terminal = True
        return self._renamed(block if seen.replace is None else seen.replace)

    def _failed(self, seen: Seen) -> bytes:
        assert seen.failed is not None
        fault = msgspec.structs.replace(seen.failed.fault, message=self._clean(seen.failed.fault.message))
        return self.fail(fault)

    def _note(self, seen: Seen) -> None:
        if seen.usage is not None:
            self.tally.usage = seen.usage
        if seen.stop is not None:
            self.tally.stop = seen.stop
        if seen.model is not None and self._swap is None:
            self.tally.upstream_model = seen.model
            self._swap = (b'"model":' + encode(seen.model), b'"model":' + self._alias)

    def _renamed(self, region: bytes) -> bytes:
        self.begun = True
        if self._swap is None:
            return region
        old, new = self._swap
        region = region.replace(old, new)
        spaced = old.replace(b":", b": ", 1)
        return region.replace(spaced, new) if spaced in region else region

