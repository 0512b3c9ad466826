"""Turn sequenced events into a Responses stream (spec/translation.md 2.2, 5.3).

Items are strictly sequential, numbers have no gaps, done items equal the final output. The closing events of
the latest item wait until the next one begins or the answer ends, so that its status can be `incomplete`;
deltas never wait.
"""

from translators.dialect import Reply
from translators.events import BlockEnd, BlockStart, Delta, Event, Failed, Finish, Mark, Start, Usage
from translators.jsonio import encode
from translators.responses.lifecycle import Lifecycle
from translators.responses.output import Item, Message, Reasoning, Receipted, ToolItem
from translators.sse import COMMENT

__all__ = ["Encoder"]


class Encoder:
    """Encode one answer. `final` is the response object of its terminal event, once that came."""

    def __init__(self, reply: Reply) -> None:
        self.final = b""
        self._reply = reply
        self._lifecycle: Lifecycle | None = None
        self._sequence = 0
        self._item: Item | None = None
        self._open = False
        self._items: list[bytes] = []
        self._calls = 0
        self._usage = Usage()
        self._head = self._middle = self._tail = b""
        self._pieces: list[str] = []

    def push(self, event: Event) -> bytes:
        """Return the client's bytes for one event; nothing after a terminal (I29)."""
        if isinstance(event, Delta):
            if self._pieces and self._head and not event.logprobs:
                self._pieces.append(event.text)
                number = self._sequence
                self._sequence = number + 1
                return b"%b%d%b%b%b" % (self._head, number, self._middle, encode(event.text), self._tail)
            return self._delta(event)
        if self.final:
            return b""
        match event:
            case BlockStart():
                return self._begin() + self._start(event)
            case Mark():
                return self._mark(event)
            case BlockEnd():
                return self._end(event)
            case Start():
                return self._begin(event)
            case Usage():
                self._usage = event
                return b""
            case Finish():
                return self._begin() + self._finish(event)
            case _:
                return self._begin() + self._failed(event)

    def keepalive(self) -> bytes:
        """Return a comment: Grok Build's decoder dies of any event that it does not know."""
        return b"" if self.final else COMMENT

    # ------------------------------------------------------------------ blocks

    def _delta(self, event: Delta) -> bytes:
        """Take a delta off the hot path: the first of a block, one with log probabilities, or one that waits."""
        item = self._item
        if item is None or not self._open:
            return b""
        out = b"" if self._pieces else self._events(item.first_delta())
        self._pieces.append(event.text)
        if not self._head:
            return out
        tail = b',"logprobs":%b}\n\n' % item.logprobs(event.logprobs) if event.logprobs else self._tail
        out += b"%b%d%b%b%b" % (self._head, self._sequence, self._middle, encode(event.text), tail)
        self._sequence += 1
        return out

    def _start(self, start: BlockStart) -> bytes:
        """Open a block: in the message that is still held, or as an item of its own."""
        self._open = True
        self._pieces = []
        item = self._item
        if isinstance(item, Message) and start.kind in ("text", "refusal"):
            out = self._events(item.next_part(start.kind))
        else:
            out = self._release(complete=True)
            item = self._item = self._new(start)
            out += self._events(item.begun())
        self._template(item)
        return out

    def _new(self, start: BlockStart) -> Item:
        assert self._lifecycle is not None
        index, response = len(self._items), self._lifecycle.id
        match start.kind:
            case "text" | "refusal":
                return Message(response, index, start.kind)
            case "reasoning":
                return Reasoning(response, index, self._reply)
            case "tool":
                self._calls += 1
                return ToolItem(response, index, start, self._calls)
            case _:
                return Receipted(response, index)

    def _template(self, item: Item) -> None:
        """Prepare the delta event, of which only number and text change."""
        name = item.delta_event
        if name is None:
            self._head = b""
            return
        self._head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
        self._middle = b',%b,"delta":' % item.address
        self._tail = item.delta_tail

    def _mark(self, event: Mark) -> bytes:
        if self._item is None or not self._open:
            return b""
        return self._events(self._item.mark(event.value))

    def _end(self, event: BlockEnd) -> bytes:
        if self._item is None or not self._open:
            return b""
        self._open = False
        text = "".join(self._pieces)
        self._pieces = []
        return self._events(self._item.ended(text, complete=event.complete))

    def _release(self, *, complete: bool) -> bytes:
        """Send the closing events of the item that was held."""
        item, self._item = self._item, None
        if item is None or not item.exists:
            return b""
        closing = item.closed(complete=complete)
        self._items.append(item.done)
        return self._events(closing)

    # ------------------------------------------------------------------ the response

    def _begin(self, start: Start | None = None) -> bytes:
        if self._lifecycle is not None:
            return b""
        start = start or Start()
        if start.usage is not None:
            self._usage = start.usage
        self._lifecycle = Lifecycle(self._reply, start)
        told = b'"response":' + self._lifecycle.begun()
        return self._events([(b"response.created", told), (b"response.in_progress", told)])

    def _finish(self, finish: Finish) -> bytes:
        assert self._lifecycle is not None
        if finish.stop == "pause":
            self._reply.notes.once("stop", "the upstream paused its turn, which this protocol cannot tell from an end")
        out = self._release(complete=finish.stop not in ("length", "context", "refusal"))
        status, self.final = self._lifecycle.ended(finish.stop, self._items, self._usage)
        return out + self._events([(b"response." + status.encode(), b'"response":' + self.final)])

    def _failed(self, failed: Failed) -> bytes:
        """End badly. What was held stays back: nobody knows that it was whole."""
        assert self._lifecycle is not None
        self._open = False
        self._pieces = []
        self.final = self._lifecycle.failed(failed.fault, self._items, self._usage)
        return self._events([(b"response.failed", b'"response":' + self.final)])

    def _events(self, events: list[tuple[bytes, bytes]]) -> bytes:
        """Return frames of (type, members) with their numbers."""
        out: list[bytes] = []
        for name, members in events:
            out.append(
                b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (name, name, self._sequence, members)
            )
            self._sequence += 1
        return b"".join(out)
