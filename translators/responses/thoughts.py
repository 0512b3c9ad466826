"""Decode reasoning items: summaries or full text, and the opaque state that their end carries."""

from collections.abc import Sequence

from translators.events import BlockStart, Carried, Event, Mark
from translators.responses import wire
from translators.responses.tracks import Strand, Track, Tracks

__all__ = ["Thoughts"]

BREAK = "\n\n"
"""Between parts of one item (E15)."""


class Thoughts:
    """Turn the events of reasoning items into one reasoning block each."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks

    def summary_delta(self, moment: wire.Moment, _data: bytes) -> Sequence[Event]:
        """Take reasoning_summary_text.delta."""
        return self._thought(moment, "summary", moment.summary_index, moment.delta)

    def text_delta(self, moment: wire.Moment, _data: bytes) -> Sequence[Event]:
        """Take reasoning_text.delta and its old spelling."""
        return self._thought(moment, "content", moment.content_index, moment.delta)

    def summary_done(self, moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take reasoning_summary_text.done."""
        return self._part_done(moment, data, "summary", moment.summary_index)

    def text_done(self, moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take reasoning_text.done."""
        return self._part_done(moment, data, "content", moment.content_index)

    def complete(self, track: Track, item: wire.Item, out: list[Event]) -> None:
        """Tell text that had no deltas, attach the opaque state, close the block (E14).

        The state comes from here alone: in `output_item.added` it is a snapshot from before the content.
        """
        content = item.content if isinstance(item.content, list) else []
        texts = [part.text for part in item.summary or () if part.text] or [part.text for part in content if part.text]
        strand = track.strand
        if strand is None and (texts or item.encrypted_content):
            strand = self._open(track, out)
        if strand is None:
            return
        if not strand.pieces:
            strand.add(BREAK.join(texts), out)
        if item.encrypted_content:
            out.append(Mark(strand.key, Carried("rs", item.encrypted_content, item.id or track.id)))
        strand.end(out)

    def _thought(self, moment: wire.Moment, source: str, part: int | None, text: str | None) -> Sequence[Event]:
        if not text:
            return ()
        track = self._tracks.find(moment.output_index, moment.item_id)
        if track is None:
            self._tracks.repairs.made("response.output_item.added", "reasoning of an item that was never added")
            track = self._tracks.put(Track("reasoning", wire.Item(id=moment.item_id)), moment.output_index)
        # Summary and full text tell the same thoughts: only the kind that came first is used.
        if track.kind != "reasoning" or (track.source and track.source != source):
            return ()
        track.source = source
        out: list[Event] = []
        strand = track.strand or self._open(track, out)
        if part is not None and part != strand.part:
            if strand.pieces:
                text = BREAK + text
            strand.part = part
        strand.add(text, out)
        return out

    def _part_done(self, moment: wire.Moment, data: bytes, source: str, part: int | None) -> Sequence[Event]:
        """Tell a part that had no deltas."""
        track = self._tracks.find(moment.output_index, moment.item_id)
        strand = track.strand if track is not None else None
        if strand is not None and (strand.ended or (strand.pieces and strand.part == (part or 0))):
            return ()
        return self._thought(moment, source, part, wire.decode_piece(data).text)

    def _open(self, track: Track, out: list[Event]) -> Strand:
        strand = track.strand = self._tracks.strand("reasoning")
        strand.start(BlockStart(strand.key, "reasoning", item_id=track.id), out)
        return strand
