"""Linearise a decoder's events: one open block at a time, lazily opened, within budgets, poisoned after a failure.

Promises: blocks leave in the order in which they began (I11), no event after a terminal (I29), exactly one
terminal (I20), every opened block closed before success (I22), nothing emitted after a failed push (I3).
"""

from collections import deque

import msgspec

from translators.events import BlockEnd, BlockStart, Delta, Event, Failed, Finish, Kind, Mark, Stop
from translators.fault import Fault, broken
from translators.jsonio import is_object, size_of
from translators.notes import Notes

__all__ = ["Budget", "Sequencer"]

_CUT = ("length", "context", "refusal")
"""Stops at which the last block may be half of one."""


class Budget(msgspec.Struct, frozen=True):
    """Bounds of one answer (spec/translation.md 8); going over one poisons the stream."""

    events: int = 200_000
    queued_bytes: int = 8 * 1024 * 1024
    queued_events: int = 20_000
    blocks: int = 1024
    tools: int = 256
    argument_bytes: int = 16 * 1024 * 1024


class _Pending:
    """A block that has begun at the source but is not open downstream: its start and its queued events."""

    __slots__ = ("closed", "events", "start")

    def __init__(self, start: BlockStart) -> None:
        self.start = start
        self.events: deque[Delta | Mark] = deque()
        self.closed: BlockEnd | None = None


class Sequencer:
    """Take decoder events, give back encoder events. `shown` false keeps reasoning text (not its state) back.

    `carried` false drops opaque state; `bare` false drops reasoning blocks that have state but no text.
    """

    def __init__(
        self, notes: Notes, *, shown: bool = True, carried: bool = True, bare: bool = True, budget: Budget = Budget()
    ) -> None:
        self._notes = notes
        self._shown = shown
        self._carried = carried
        self._bare = bare
        self._budget = budget
        self._left = budget.events
        self._pending: dict[int, _Pending] = {}
        self._open: int | None = None
        self._kind: Kind = "text"
        self._checked = False
        self._arguments: list[str] = []
        self._argument_bytes = 0
        self._call_ids: set[str] = set()
        self._blocks = 0
        self._tools = 0
        self._queued = 0
        self._queued_bytes = 0
        self._refused = False
        self._bad_call = ""
        self._hopeless = False
        self.done = False

    def push(self, event: Event) -> list[Event]:
        """Return the events that may go downstream now; a violated bound or grammar ends in one Failed."""
        if self.done:
            return []
        self._left -= 1
        if self._left < 0:
            return self._fail(broken("the upstream sent too many events", cause="limit"))
        if type(event) is Delta:
            if event.key != self._open:
                return self._queue(event)
            return [event] if self._kind != "tool" else self._argument(event)
        return self._other(event)

    def _other(self, event: Event) -> list[Event]:
        match event:
            case BlockStart():
                return self._begin(event)
            case Mark():
                return self._mark(event)
            case BlockEnd():
                return self._end(event)
            case Finish():
                return self._finish(event)
            case Failed():
                self._poison()
                return [event]
            case _:
                return [event]

    def _argument(self, event: Delta) -> list[Event]:
        self._argument_bytes += size_of(event.text)
        if self._argument_bytes > self._budget.argument_bytes:
            return self._fail(broken("the arguments of a tool call are too large", cause="limit"))
        if self._checked:
            self._arguments.append(event.text)
        return [event]

    def _begin(self, start: BlockStart) -> list[Event]:
        self._blocks += 1
        self._tools += start.kind == "tool"
        if self._blocks > self._budget.blocks or self._tools > self._budget.tools:
            return self._fail(broken("the answer has too many blocks", cause="limit"))
        if start.key in self._pending or start.key == self._open:
            return self._fail(broken("the upstream opened a block twice"))
        if start.call_id in self._call_ids:
            return self._fail(broken("the upstream used a call id twice"))
        if start.call_id:
            self._call_ids.add(start.call_id)
        self._pending[start.key] = _Pending(start)
        return self._advance()

    def _queue(self, event: Delta | Mark) -> list[Event]:
        pending = self._pending.get(event.key)
        if pending is None or pending.closed:
            return self._fail(broken("the upstream added to a block that is not open"))
        if not self._wanted(pending.start.kind, event):
            return []
        pending.events.append(event)
        self._queued += 1
        if type(event) is Delta:
            self._queued_bytes += size_of(event.text)
        if type(event) is Delta and self._open is None and event.key == next(iter(self._pending)):
            return self._advance()  # it waits for nothing: this very text opens the block
        if self._queued > self._budget.queued_events or self._queued_bytes > self._budget.queued_bytes:
            return self._fail(broken("too much of the answer is out of order", cause="limit"))
        return self._advance()

    def _mark(self, event: Mark) -> list[Event]:
        if event.key != self._open:
            return self._queue(event)
        return [event] if self._wanted(self._kind, event) else []

    def _wanted(self, kind: Kind, event: Delta | Mark) -> bool:
        return kind != "reasoning" or (self._shown if type(event) is Delta else self._carried)

    def _end(self, event: BlockEnd) -> list[Event]:
        if event.key == self._open:
            return [self._closed(event), *self._advance()]
        pending = self._pending.get(event.key)
        if pending is None or pending.closed:
            return self._fail(broken("the upstream closed a block that is not open"))
        pending.closed = event
        return self._advance()

    def _advance(self) -> list[Event]:
        """Open, drain and close blocks in start order as far as that is possible."""
        out: list[Event] = []
        while self._open is None and self._pending:
            key, pending = next(iter(self._pending.items()))
            ready = self._ready(pending)
            if not ready and pending.closed is None:
                break
            del self._pending[key]
            if ready:
                out.extend(self._opened(pending))
            else:
                self._queued -= len(pending.events)
        return out

    def _ready(self, pending: _Pending) -> bool:
        """Tell whether a block opens downstream: tools and receipts at once, others with content or with state."""
        kind = pending.start.kind
        if kind in ("tool", "receipt") or any(type(event) is Delta for event in pending.events):
            return True
        return pending.closed is not None and bool(pending.events) and (self._bare or kind != "reasoning")

    def _opened(self, pending: _Pending) -> list[Event]:
        """Open a block, drain its queue, and close it if its end has come."""
        start = pending.start
        if self._hopeless:
            # Only the last call can be one that was cut: before this block begins, its item must not be done (E12).
            return self._fail(broken(self._bad_call, code="invalid_tool_arguments"))
        self._open, self._kind = start.key, start.kind
        # Only JSON arguments are checked: raw input of a custom tool is any text.
        self._checked = start.kind == "tool" and start.form == "function"
        self._refused = self._refused or start.kind == "refusal"
        out: list[Event] = [start]
        for event in pending.events:
            self._queued -= 1
            if type(event) is not Delta:
                out.append(event)
                continue
            self._queued_bytes -= size_of(event.text)
            out.extend([event] if start.kind != "tool" else self._argument(event))
            if self.done:
                return out
        if pending.closed is not None:
            out.append(self._closed(pending.closed))
        return out

    def _closed(self, end: BlockEnd) -> BlockEnd:
        if self._checked and not self._bad_call and not is_object("".join(self._arguments) or "{}"):
            self._bad_call = "the arguments of a tool call are not a JSON object"
            self._hopeless = end.complete
        self._open, self._checked = None, False
        self._arguments.clear()
        self._argument_bytes = 0
        return end

    def _finish(self, finish: Finish) -> list[Event]:
        out: list[Event] = []
        for pending in self._pending.values():
            pending.closed = pending.closed or BlockEnd(pending.start.key)
        if self._open is not None:
            out.append(self._closed(BlockEnd(self._open, finish.stop not in _CUT)))
        out.extend(self._advance())
        if self.done:
            return out
        stop = self._stop(finish.stop)
        # A call that a limit or a filter cut short is told as it is; no client runs it (E11).
        if self._bad_call and stop not in _CUT:
            return [*out, *self._fail(broken(self._bad_call, code="invalid_tool_arguments"))]
        self.done = True
        return [*out, msgspec.structs.replace(finish, stop=stop)]

    def _stop(self, stop: Stop) -> Stop:
        """Return the stop reason that agrees with what was delivered (I24, spec/translation.md 1.8)."""
        if stop not in ("end", "tool"):
            return stop
        if self._tools:
            if self._refused:
                self._notes.omitted("stop", "the answer has a refusal and tool calls; it stops for the tools")
            return "tool"
        return "refusal" if self._refused else "end"

    def _fail(self, fault: Fault) -> list[Event]:
        self._poison()
        return [Failed(fault)]

    def _poison(self) -> None:
        self.done = True
        self._pending.clear()
        self._arguments.clear()
