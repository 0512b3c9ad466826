"""Decode function and custom tool calls; their identity is the call id, never the item id (I11)."""

from collections.abc import Sequence
from typing import Any

from translators.events import BlockStart, Delta, Event
from translators.fault import Refused, broken
from translators.identifiers import made_call_id
from translators.jsonio import is_object, text_of
from translators.responses import wire
from translators.responses.tracks import Kind, Strand, Track, Tracks

__all__ = ["Calls"]


class Calls:
    """Turn the events of call items into tool blocks, each opened once its call id and name are known."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._repairs = tracks.repairs

    def arguments_delta(self, moment: wire.Moment, _data: bytes) -> Sequence[Event]:
        """Take function_call_arguments.delta."""
        return self._told(moment, "function")

    def input_delta(self, moment: wire.Moment, _data: bytes) -> Sequence[Event]:
        """Take custom_tool_call_input.delta."""
        return self._told(moment, "custom")

    def done(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take function_call_arguments.done and custom_tool_call_input.done."""
        piece = wire.decode_piece(data)
        track = self._tracks.find(piece.output_index, piece.item_id, piece.call_id)
        out: list[Event] = []
        if track is not None and track.strand is not None and track.strand.shape == "tool" and not track.strand.ended:
            self._tracks.learn(track, piece.item_id or "")
            final = piece.arguments if track.kind == "function" else piece.input
            track.strand.settle(_spelled(final), out, self._repairs)
        return out

    def begin(self, track: Track, item: wire.Item, out: list[Event]) -> None:
        """Take the announcement of a call.

        A whole object there may be a placeholder (`{}`) that deltas then spell out, so it waits for the end.
        """
        strand = self._strand(track)
        self._open(track, out)
        text = _spelled(item.arguments if track.kind == "function" else item.input)
        if track.kind == "function" and is_object(text):
            track.initial = text
        else:
            strand.add(text, out)

    def complete(self, track: Track, item: wire.Item, out: list[Event], *, complete: bool) -> None:
        """Fill in what a call's own events left out and close its block; raises Refused for a new identity (I7)."""
        if _differ(item.call_id, track.call_id) or _differ(item.name, track.name):
            raise Refused(broken("a tool call of the upstream changes its identity"))
        strand = self._strand(track)
        track.call_id = track.call_id or item.call_id or ""
        track.name = track.name or item.name or ""
        track.namespace = track.namespace or item.namespace or None
        self._identify(track, out)
        final = _spelled(item.arguments if track.kind == "function" else item.input)
        strand.settle(final or ("" if strand.pieces else track.initial), out, self._repairs)
        strand.end(out, complete=complete)

    def abandon(self, track: Track, out: list[Event], *, complete: bool) -> None:
        """Close a call whose end never came; one that never said anything is discarded."""
        strand = self._strand(track)
        if strand.started or strand.pieces or track.call_id or track.name:
            self._identify(track, out)
            if not strand.pieces:
                strand.add(track.initial, out)
            strand.end(out, complete=complete)

    def _told(self, moment: wire.Moment, kind: Kind) -> Sequence[Event]:
        text = moment.delta
        if not text:
            return ()
        track = self._tracks.by_index.get(moment.output_index) or self._find(moment, kind)
        strand = track.strand
        if strand is None:
            return ()
        strand.pieces.append(text)
        return (Delta(strand.key, text),) if strand.started else ()

    def _find(self, moment: wire.Moment, kind: Kind) -> Track:
        track = self._tracks.find(None, moment.item_id)
        if track is None:
            self._repairs.made("response.output_item.added", "arguments arrive for a call that was never added")
            track = self._tracks.put(Track(kind, wire.Item(id=moment.item_id)), moment.output_index)
            self._strand(track)
        return track

    def _strand(self, track: Track) -> Strand:
        if track.strand is None:
            track.strand = self._tracks.strand("tool")
            self._tracks.calls += 1
        return track.strand

    def _identify(self, track: Track, out: list[Event]) -> None:
        """Open a call's block, with made-up identity where the upstream never gave one (1.3)."""
        if not track.call_id:
            self._repairs.made("call_id", "a tool call has no id")
            track.call_id = made_call_id("call_", self._tracks.response_id.removeprefix("resp_"), self._tracks.calls)
        if not track.name:
            self._repairs.made("name", "a tool call has no name")
            track.name = f"tool_{self._tracks.calls}"
        self._open(track, out)

    def _open(self, track: Track, out: list[Event]) -> None:
        strand = self._strand(track)
        if not strand.started and track.call_id and track.name:
            start = BlockStart(
                strand.key,
                "tool",
                track.call_id,
                track.name,
                track.namespace,
                "custom" if track.kind == "custom" else "function",
                track.id,
            )
            strand.start(start, out)


def _differ(now: str | None, before: str) -> bool:
    return bool(now and before and now != before)


def _spelled(value: Any) -> str:
    """Return arguments as text; some servers send the object itself."""
    if value is None or isinstance(value, str):
        return value or ""
    return text_of(value)
