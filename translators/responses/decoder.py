"""Turn a Responses stream into neutral events (spec/translation.md 5.2, Decoder(Responses)).

Never raises for upstream data. Text is told once: `done` events and the final response only fill in what
their deltas left out (I9, E31, E32). Repairs are listed in `notes`, and in strict mode end the stream.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from translators.dialect import Source
from translators.events import BlockEnd, BlockStart, Event, Failed, Finish, Mark, Start, Stop, Usage
from translators.failure import error_fault
from translators.fault import Fault, Refused, broken
from translators.jsonio import ERRORS, encode, unreadable
from translators.notes import Notes
from translators.responses import wire
from translators.responses.calls import Calls
from translators.responses.counts import usage_of
from translators.responses.items import receipt_of
from translators.responses.repairs import Repairs
from translators.responses.speech import Speech
from translators.responses.thoughts import Thoughts
from translators.responses.tracks import Track, Tracks, kind_of
from translators.sse import Frame

__all__ = ["Decoder"]

Handler = Callable[[wire.Moment, bytes], Sequence[Event]]


class Decoder:
    """Decode one stream, or with `whole` one complete response object."""

    def __init__(self, source: Source) -> None:
        self._repairs = Repairs(strict=source.strict, notes=source.notes)
        self.notes: Notes = self._repairs.notes
        self._done = False
        self._started = False
        self._usage: Usage | None = None
        self._sequence = -1
        self._tracks = Tracks(self._repairs)
        self._calls = Calls(self._tracks)
        self._speech = Speech(self._tracks)
        self._thoughts = Thoughts(self._tracks)
        self._content = self._content_handlers()
        self._lifecycle = self._lifecycle_handlers()

    def push(self, frame: Frame) -> Sequence[Event]:
        """Return the events of one frame; malformed JSON or a violated protocol gives one Failed (E29, I3)."""
        if self._done:
            return ()
        try:
            moment = wire.decode_moment(frame.data)
            number = moment.sequence_number
            if number is not None:
                if number <= self._sequence:
                    self._unordered()
                self._sequence = number
            handler = self._content.get(moment.type)
            if handler is not None and self._started:
                return handler(moment, frame.data)
            return self._other(moment, frame)
        except Refused as refused:
            return self._fail(refused.fault)
        except ERRORS as error:
            return self._odd(frame.data, error)

    def finish(self) -> Sequence[Event]:
        """Return Failed unless a terminal event was seen: a stream that just stops is no success (I2, E23)."""
        if self._done:
            return ()
        return self._fail(broken("the upstream ended the answer without finishing it", cause="eof"))

    def whole(self, body: bytes) -> list[Event]:
        """Return the events of a response object that came as one body; ends in Finish or Failed."""
        self._repairs.quiet = True
        try:
            response = wire.decode_response(body)
            if response.error is None and response.status is None and not response.output:
                message = "the upstream's reply is no response object: it has neither status nor output"
                return list(self._fail(broken(message)))
            status = response.status or ("failed" if response.error is not None else "completed")
            return list(self._terminal(response, status))
        except ERRORS as error:
            return list(self._fail(unreadable(error)))

    def _content_handlers(self) -> dict[str, Handler]:
        speech, thoughts, calls = self._speech, self._thoughts, self._calls
        return {
            "response.output_text.delta": speech.text_delta,
            "response.refusal.delta": speech.refusal_delta,
            "response.reasoning_summary_text.delta": thoughts.summary_delta,
            "response.reasoning_text.delta": thoughts.text_delta,
            "response.reasoning.delta": thoughts.text_delta,
            "response.function_call_arguments.delta": calls.arguments_delta,
            "response.custom_tool_call_input.delta": calls.input_delta,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.content_part.added": speech.part_added,
            "response.content_part.done": speech.part_done,
            "response.output_text.done": speech.text_done,
            "response.refusal.done": speech.text_done,
            "response.output_text.annotation.added": speech.annotation,
            "response.reasoning_summary_text.done": thoughts.summary_done,
            "response.reasoning_text.done": thoughts.text_done,
            "response.function_call_arguments.done": calls.done,
            "response.custom_tool_call_input.done": calls.done,
        }

    def _lifecycle_handlers(self) -> dict[str, Handler]:
        return {
            "response.created": self._going_on,
            "response.queued": self._going_on,
            "response.in_progress": self._going_on,
            "response.completed": lambda _, data: self._ended(data, None),
            "response.cancelled": lambda _, data: self._ended(data, "cancelled"),
            "response.incomplete": lambda _, data: self._ended(data, "incomplete"),
            "response.failed": lambda _, data: self._ended(data, "failed"),
            "error": self._error,
            # What they announce comes with the deltas.
            "response.reasoning_summary_part.added": _nothing,
            "response.reasoning_summary_part.done": _nothing,
        }

    # ------------------------------------------------------------------ frames off the hot path

    def _other(self, moment: wire.Moment, frame: Frame) -> Sequence[Event]:
        kind = moment.type or frame.event.decode("utf-8", "replace")
        handler = self._content.get(kind)
        if handler is not None:
            begun = self._implied() if not self._started else ()
            return [*begun, *handler(moment, frame.data)]
        handler = self._lifecycle.get(kind)
        if handler is not None:
            return handler(moment, frame.data)
        if not kind and wire.decode_failure(frame.data).error is not None:
            return self._error(moment, frame.data)
        return self._unknown(kind)

    def _odd(self, data: bytes, error: Exception) -> Sequence[Event]:
        """Judge a frame that does not decode: another protocol's end marker, an unknown event, or a broken stream."""
        if data.strip() in (b"[DONE]", b""):
            return ()
        if isinstance(error, msgspec.ValidationError):
            try:
                kind = wire.decode_kind(data).type
            except ERRORS:
                kind = None
            if kind and kind not in self._content and kind not in self._lifecycle:
                return self._unknown(kind)
        return self._fail(unreadable(error))

    def _unknown(self, kind: str) -> Sequence[Event]:
        self._repairs.once(f"event {kind[:80]}", "events of this type are ignored")
        return ()

    def _fail(self, fault: Fault, raw: bytes = b"") -> Sequence[Event]:
        self._done = True
        return (Failed(fault, raw),)

    def _unordered(self) -> None:
        if self._repairs.first("sequence_number"):
            self._repairs.made("sequence_number", "sequence numbers do not increase")

    # ------------------------------------------------------------------ the response as a whole

    def _implied(self) -> Sequence[Event]:
        """Begin an answer whose first event is no lifecycle event (E30)."""
        self._repairs.made("response.created", "the stream begins without response.created")
        return self._begin(wire.Response())

    def _begin(self, response: wire.Response) -> Sequence[Event]:
        usage = usage_of(response.usage)
        if usage is not None:
            if self._usage is not None and (usage.output or 0) < (self._usage.output or 0):
                self._repairs.made("usage", "token counts decrease")
            self._usage = usage
        known = self._tracks.response_id
        if self._started:
            if response.id and known and response.id != known:
                self._repairs.made("response.id", "the response's id changes")
            return ()
        self._started = True
        self._tracks.response_id = response.id or ""
        return (Start(response.id or "", response.model or "", int(response.created_at or 0), usage),)

    def _going_on(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        return self._begin(_response(data))

    def _ended(self, data: bytes, status: str | None) -> Sequence[Event]:
        response = _response(data)
        if not self._started and status not in ("failed", "cancelled"):
            self._repairs.made("response.created", "the stream begins without response.created")
        return self._terminal(response, status or response.status or "completed")

    def _error(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        """Take an error whose members are nested under `error`, or stand beside `type`."""
        error = wire.decode_failure(data).error
        return self._broken(error if isinstance(error, dict) else msgspec.json.decode(data))

    def _broken(self, error: Any) -> Sequence[Event]:
        return self._fail(error_fault(error), encode({"error": error}))

    def _terminal(self, response: wire.Response, status: str) -> Sequence[Event]:
        if status == "failed":
            return self._broken(response.error)
        if status not in ("completed", "incomplete"):
            return self._fail(broken(f"the upstream ended the answer with status {status[:40]!r}"))
        out: list[Event] = [*self._begin(response)]
        self._remaining(response.output or [], out)
        cut = status == "incomplete"
        for track in self._tracks.all:
            if not track.done:
                self._abandon(track, out, complete=not cut)
        if self._usage is not None:
            out.append(self._usage)
        else:
            self.notes.omitted("usage", "the upstream reported no token counts")
        out.append(Finish(self._stop(response, cut=cut)))
        self._done = True
        return out

    def _stop(self, response: wire.Response, *, cut: bool) -> Stop:
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if cut and reason in ("max_output_tokens", "max_tokens"):
            return "length"
        if cut and reason == "content_filter":
            return "refusal"
        if cut:
            self.notes.changed("stop", "the answer is incomplete for a reason that has no equal")
        if self._tracks.calls:
            return "tool"
        return "refusal" if self._tracks.refused else "end"

    def _remaining(self, raws: list[msgspec.Raw], out: list[Event]) -> None:
        """Tell what only the final response has (E31); what the stream told already is not told again."""
        taken: set[int] = set()
        for index, raw in enumerate(raws):
            item = _item(raw)
            track = self._tracks.match(item, index, taken)
            if track is None:
                if kind_of(item) != "other":
                    self._repairs.made("response.output", "an item is only in the final response")
                track = self._register(None, item, out)
            taken.add(id(track))
            if not track.done:
                self._complete(track, item, out)

    # ------------------------------------------------------------------ items

    def _item_added(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        piece = wire.decode_piece(data)
        known = self._tracks.by_index.get(piece.output_index)
        if known is not None and not known.done and known.kind != "other":
            self._repairs.made("output_index", "an output_index is used twice")
        out: list[Event] = []
        self._register(piece.output_index, _item(piece.item), out)
        return out

    def _item_done(self, _moment: wire.Moment, data: bytes) -> Sequence[Event]:
        piece = wire.decode_piece(data)
        item = _item(piece.item)
        out: list[Event] = []
        track = self._tracks.find(piece.output_index, item.id or piece.item_id, item.call_id)
        if track is not None and track.done and item.id and item.id != track.id:
            track = None
        if track is None:
            self._repairs.made("response.output_item.added", "an item is done that was never added")
            track = self._register(piece.output_index, item, out)
        if not track.done:
            self._complete(track, item, out)
        return out

    def _register(self, index: int | None, item: wire.Item, out: list[Event]) -> Track:
        track = self._tracks.put(Track(kind_of(item), item), index)
        if track.kind == "other":
            self._repairs.once(f"item {(item.type or '?')[:80]}", "items of this type are left out")
        elif track.kind in ("function", "custom"):
            self._calls.begin(track, item, out)
        return track

    def _complete(self, track: Track, item: wire.Item, out: list[Event]) -> None:
        """Fill in what an item's own events left out and close its blocks."""
        kind = kind_of(item)
        if track.kind not in (kind, "other"):
            raise Refused(broken("an item of the upstream's answer changes its type"))
        self._tracks.learn(track, item.id or "")
        track.done = True
        complete = item.status != "incomplete"
        match track.kind:
            case "message":
                self._speech.complete(track, item, out, complete=complete)
            case "function" | "custom":
                self._calls.complete(track, item, out, complete=complete)
            case "reasoning":
                self._thoughts.complete(track, item, out)
            case "receipt":
                key = self._tracks.strand("receipt").key
                out.extend((BlockStart(key, "receipt"), Mark(key, receipt_of(item)), BlockEnd(key)))

    def _abandon(self, track: Track, out: list[Event], *, complete: bool) -> None:
        """Close what an item left open when the answer ended without its done event."""
        track.done = True
        if track.kind in ("function", "custom"):
            self._calls.abandon(track, out, complete=complete)
        elif track.strand is not None:
            track.strand.end(out, complete=complete)
        else:
            self._speech.abandon(track, out, complete=complete)


def _response(data: bytes) -> wire.Response:
    raw = wire.given(wire.decode_lifecycle(data).response)
    return wire.decode_response(raw) if raw else wire.Response()


def _item(raw: msgspec.Raw) -> wire.Item:
    """Return an output item; of a hosted kind whose members have other types only its name."""
    document = wire.given(raw) or b"{}"
    try:
        return wire.decode_item(document)
    except msgspec.ValidationError:
        kind = wire.decode_kind(document)
        item = wire.Item(type=kind.type, id=kind.id)
        if kind_of(item) != "other":
            raise
        return item


def _nothing(_moment: wire.Moment, _data: bytes) -> Sequence[Event]:
    return ()
