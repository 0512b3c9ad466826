"""What a decoder remembers of a stream's items: which block is which, and what was already told.

Association is by output_index first, then item id, then call id, since servers are known to leave any of
them out of single events (E33).
"""

from typing import Literal

from translators.events import BlockEnd, BlockStart, Delta, Event, Logprob
from translators.jsonio import canonical
from translators.responses import wire
from translators.responses.repairs import Repairs

__all__ = ["Kind", "Strand", "Track", "Tracks", "kind_of"]

Kind = Literal["message", "function", "custom", "reasoning", "receipt", "other"]
Shape = Literal["text", "refusal", "reasoning", "tool", "receipt"]

_KINDS: dict[str, Kind] = {
    "message": "message",
    "function_call": "function",
    "custom_tool_call": "custom",
    "reasoning": "reasoning",
    "mcp_call": "receipt",
}


def kind_of(item: wire.Item) -> Kind:
    """Return how an output item is treated; xAI's own searches look like custom calls and are hosted (grok.md 8)."""
    kind = _KINDS.get(item.type or "", "other")
    if kind == "custom" and (item.call_id or "").startswith("xs_call") and (item.name or "").startswith("x_"):
        return "other"
    return kind


class Strand:
    """The text of one block as far as it came."""

    __slots__ = ("cited", "ended", "key", "part", "pieces", "shape", "started")

    def __init__(self, key: int, shape: Shape) -> None:
        self.key = key
        self.shape: Shape = shape
        self.pieces: list[str] = []
        self.part = 0
        self.cited = 0
        self.started = False
        self.ended = False

    def start(self, start: BlockStart, out: list[Event]) -> None:
        """Open the block, with what came before its identity was known (E6)."""
        self.started = True
        out.append(start)
        early = "".join(self.pieces)
        if early:
            out.append(Delta(self.key, early))

    def add(self, text: str, out: list[Event], logprobs: tuple[Logprob, ...] = ()) -> None:
        """Add text; it goes out once the block has started."""
        if text:
            self.pieces.append(text)
            if self.started:
                out.append(Delta(self.key, text, logprobs))

    def settle(self, full: str, out: list[Event], repairs: Repairs, logprobs: tuple[Logprob, ...] = ()) -> None:
        """Add what a final text has beyond its deltas; a contradiction adds nothing (E32).

        Arguments may be spelled in another way as long as they mean the same (I10).
        """
        told = "".join(self.pieces)
        if not full or full == told:
            return
        if full.startswith(told):
            self.add(full[len(told) :], out, () if told else logprobs)
        elif self.shape != "tool" or canonical(full) != canonical(told):
            repairs.made("done", "a final text differs from its deltas")

    def end(self, out: list[Event], *, complete: bool = True) -> None:
        """Close the block once."""
        if self.started and not self.ended:
            self.ended = True
            out.append(BlockEnd(self.key, complete))


class Track:
    """One output item of the stream; messages have a strand per content part, other items one strand."""

    __slots__ = ("call_id", "done", "id", "initial", "kind", "name", "namespace", "parts", "source", "strand")

    def __init__(self, kind: Kind, item: wire.Item) -> None:
        self.kind: Kind = kind
        self.id = item.id or ""
        self.call_id = item.call_id or ""
        self.name = item.name or ""
        self.namespace = item.namespace or None
        self.parts: dict[int, Strand] = {}
        self.strand: Strand | None = None
        self.source = ""
        self.initial = ""
        self.done = False


class Tracks:
    """All items of one stream, in the order of their announcement."""

    def __init__(self, repairs: Repairs) -> None:
        self.repairs = repairs
        self.all: list[Track] = []
        self.by_index: dict[int | None, Track] = {}
        self.response_id = ""
        self.calls = 0
        self.refused = False
        self._by_id: dict[str, Track] = {}
        self._keys = 0

    def strand(self, shape: Shape) -> Strand:
        """Return a new strand with a key of its own."""
        self._keys += 1
        return Strand(self._keys, shape)

    def put(self, track: Track, index: int | None) -> Track:
        """Register a new item; its index is the next one, save that some servers repeat or leave out theirs."""
        if index is not None and index > len(self.all):
            self.repairs.gap("the output indexes have a gap")
        self.all.append(track)
        if index is not None:
            self.by_index[index] = track
        self.learn(track, track.id)
        return track

    def learn(self, track: Track, item_id: str) -> None:
        """Remember an id that an item is called by."""
        if item_id:
            track.id = track.id or item_id
            self._by_id.setdefault(item_id, track)

    def find(self, index: int | None, item_id: str | None = None, call_id: str | None = None) -> Track | None:
        """Return the item that an event speaks of, None when it was never announced."""
        track = self.by_index.get(index) if index is not None else None
        if track is None and item_id:
            track = self._by_id.get(item_id)
        if track is None and call_id:
            track = next((one for one in self.all if one.call_id == call_id), None)
        return track

    def match(self, item: wire.Item, index: int, taken: set[int]) -> Track | None:
        """Return the streamed item that an entry of the final output repeats, None when it is new.

        Proxies are known to change item ids between events, so an unknown id may still be a known item: then
        the first item of its kind that no other entry took.
        """
        kind = kind_of(item)
        same = [track for track in self.all if track.kind == kind and id(track) not in taken]
        for track in same:
            if (item.id and track.id == item.id) or (item.call_id and track.call_id == item.call_id):
                return track
        if item.call_id:
            same = [track for track in same if not track.call_id]
        at = self.by_index.get(index)
        return at if at is not None and at in same else next(iter(same), None)
