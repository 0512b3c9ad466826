"""Decode message items: text and refusal parts with their citations (spec/translation.md 5.2)."""

from collections.abc import Sequence

import msgspec

from translators.events import BlockStart, Citation, Delta, Event, Mark
from translators.jsonio import ERRORS
from translators.responses import wire
from translators.responses.tracks import Shape, Strand, Track, Tracks

__all__ = ["Speech"]

_SHAPES: dict[str, Shape] = {"output_text": "text", "text": "text", "refusal": "refusal"}


class Speech:
    """Turn the events of message items into text and refusal blocks, one per content part."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._repairs = tracks.repairs

    def text_delta(self, moment: wire.Moment, _data: bytes) -> Sequence[Event]:
        """Take output_text.delta, which most events of most answers are."""
        track = self._tracks.by_index.get(moment.output_index)
        strand = track.parts.get(moment.content_index or 0) if track is not None else None
        text = moment.delta
        if strand is None or not text or moment.logprobs:
            return self._said(moment, "text")
        strand.pieces.append(text)
        return (Delta(strand.key, text),)

    def refusal_delta(self, moment: wire.Moment, _data: bytes) -> Sequence[Event]:
        """Take refusal.delta."""
        return self._said(moment, "refusal")

    def part_added(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take content_part.added; parts of reasoning items are told by their deltas."""
        piece = wire.decode_piece(data)
        part = wire.decode_part(wire.given(piece.part) or b"{}")
        shape = _SHAPES.get(part.type or "")
        track = self._message(piece.output_index, piece.item_id) if shape else None
        if shape is None or track is None or (piece.content_index or 0) in track.parts:
            return ()
        out: list[Event] = []
        self._open(track, piece.content_index or 0, shape, out).add(_words(part), out)
        return out

    def text_done(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take output_text.done and refusal.done."""
        piece = wire.decode_piece(data)
        shape: Shape = "text" if piece.refusal is None else "refusal"
        text = piece.text if piece.refusal is None else piece.refusal
        out: list[Event] = []
        if text:
            strand = self._part(piece.output_index, piece.item_id, piece.content_index, shape, out)
            if strand is not None and not strand.ended:
                strand.settle(text, out, self._repairs, wire.logprobs_of(piece.logprobs))
        return out

    def part_done(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take content_part.done: the end of the block."""
        piece = wire.decode_piece(data)
        strand = self._known(piece)
        out: list[Event] = []
        if strand is not None and not strand.ended:
            self._fill(strand, wire.decode_part(wire.given(piece.part) or b"{}"), out)
            strand.end(out)
        return out

    def annotation(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take output_text.annotation.added."""
        piece = wire.decode_piece(data)
        strand = self._known(piece)
        out: list[Event] = []
        if strand is not None and not strand.ended:
            strand.cited += 1
            self._cite(strand, piece.annotation, out)
        return out

    def complete(self, track: Track, item: wire.Item, out: list[Event], *, complete: bool) -> None:
        """Tell the parts that had no events of their own and close the open ones."""
        content = item.content
        parts = [wire.Part("output_text", content)] if isinstance(content, str) else content or []
        for index, part in enumerate(parts):
            strand = track.parts.get(index)
            if strand is None and _words(part):
                strand = self._open(track, index, _SHAPES.get(part.type or "", "text"), out)
            if strand is not None and not strand.ended:
                self._fill(strand, part, out)
        self.abandon(track, out, complete=complete)

    def abandon(self, track: Track, out: list[Event], *, complete: bool) -> None:
        """Close the open parts."""
        for strand in track.parts.values():
            strand.end(out, complete=complete)

    def _said(self, moment: wire.Moment, shape: Shape) -> Sequence[Event]:
        text = moment.delta
        if not text:
            return ()
        out: list[Event] = []
        strand = self._part(moment.output_index, moment.item_id, moment.content_index, shape, out)
        if strand is not None:
            # A strand that has ended lets this out too: the sequencer then calls the stream broken.
            strand.add(text, out, wire.logprobs_of(moment.logprobs))
        return out

    def _known(self, piece: wire.Piece) -> Strand | None:
        track = self._tracks.find(piece.output_index, piece.item_id)
        return track.parts.get(piece.content_index or 0) if track is not None else None

    def _part(
        self, index: int | None, item_id: str | None, at: int | None, shape: Shape, out: list[Event]
    ) -> Strand | None:
        """Return the part that an event adds to, begun here when its own announcement is missing."""
        track = self._message(index, item_id)
        if track is None:
            return None
        strand = track.parts.get(at or 0)
        if strand is None:
            self._repairs.made("response.content_part.added", "text arrives for a part that was never added")
            strand = self._open(track, at or 0, shape, out)
        return strand

    def _message(self, index: int | None, item_id: str | None) -> Track | None:
        """Return the message that an event belongs to; None when its item is one that is ignored."""
        track = self._tracks.find(index, item_id)
        if track is None:
            self._repairs.made("response.output_item.added", "text arrives for an item that was never added")
            return self._tracks.put(Track("message", wire.Item(id=item_id)), index)
        if track.kind != "message":
            self._repairs.once("text", "text inside an item that is no message is ignored")
            return None
        return track

    def _open(self, track: Track, index: int, shape: Shape, out: list[Event]) -> Strand:
        strand = track.parts[index] = self._tracks.strand(shape)
        self._tracks.refused = self._tracks.refused or shape == "refusal"
        strand.start(BlockStart(strand.key, shape, item_id=track.id), out)
        return strand

    def _fill(self, strand: Strand, part: wire.Part, out: list[Event]) -> None:
        strand.settle(_words(part), out, self._repairs, wire.logprobs_of(part.logprobs))
        for raw in (part.annotations or [])[strand.cited :]:
            strand.cited += 1
            self._cite(strand, raw, out)

    def _cite(self, strand: Strand, raw: msgspec.Raw, out: list[Event]) -> None:
        try:
            annotation = wire.decode_annotation(raw)
        except ERRORS:
            annotation = wire.Annotation()
        if annotation.type == "url_citation" and annotation.url:
            value = Citation(annotation.url, annotation.title or "", annotation.start_index, annotation.end_index)
            out.append(Mark(strand.key, value))
        else:
            self._repairs.once("annotations", "annotations other than url_citation are left out")


def _words(part: wire.Part) -> str:
    return (part.refusal if part.type == "refusal" else part.text) or ""
