"""Gather from an answer's decoder events what a Responses client may refer to later (spec/grok.md 11.2, 11.3).

Tool calls in the client's own names, never reasoning, text or outputs; the whole assistant turn only where it is
asked for. Calls are handed over as soon as they are whole, so that a quick client's next request finds them.
"""

from collections.abc import Callable

from translators.carrier import seal
from translators.conversation import Part, Reasoning, Receipt, State, Text, ToolCall, Turn
from translators.events import BlockEnd, BlockStart, Carried, Delta, Event, Finish, Mark, Start
from translators.identifiers import response_id
from translators.toolbox import unwrapped

__all__ = ["Harvest", "ids_of"]

HOSTED = "xs_call"
"""xAI's own searches travel as custom calls with such ids; no client made or answers them (spec/grok.md 8)."""
COMPLETE = ("end", "tool", "stop_sequence", "pause")


class _Block:
    __slots__ = ("carried", "done", "pieces", "receipt", "start")

    def __init__(self, start: BlockStart) -> None:
        self.start = start
        self.pieces: list[str] = []
        self.carried: Carried | None = None
        self.receipt: Receipt | None = None
        self.done = False


def ids_of(call: ToolCall, upstream: str = "") -> tuple[str, ...]:
    """Return the ids by which a client may refer to a call: ours, the upstream's own, and the call id itself."""
    ours = f"{'ctc' if call.custom else 'fc'}_{call.id}"
    return tuple(dict.fromkeys(name for name in (ours, upstream, call.id) if name))


class Harvest:
    """Observe one answer. `on_call(ids, call)` comes per whole call, `on_end(response ids, calls, turn)` at a success.

    The ids of a response are ours, which `seed` makes where the upstream gives none, as the encoder does, and the
    upstream's own; `origin` tags reasoning state in the turn, which without `whole` has the calls alone.
    """

    def __init__(
        self,
        seed: str,
        origin: str,
        on_call: Callable[[tuple[str, ...], ToolCall], None],
        on_end: Callable[[tuple[str, ...], tuple[ToolCall, ...], Turn], None],
        *,
        whole: bool = True,
    ) -> None:
        self._seed = seed
        self._origin = origin
        self._on_call = on_call
        self._on_end = on_end
        self._whole = whole
        self._id = ""
        self._blocks: dict[int, _Block] = {}
        self._calls: dict[int, ToolCall] = {}

    def __call__(self, event: Event) -> None:
        """Take one decoder event, its names already the client's."""
        if type(event) is Delta:  # most events are
            block = self._blocks.get(event.key)
            if block is not None:
                block.pieces.append(event.text)
            return
        match event:
            case BlockStart(key=key, kind=kind):
                if self._whole or kind == "tool":
                    self._blocks[key] = _Block(event)
            case Mark(key=key, value=value) if key in self._blocks:
                self._mark(self._blocks[key], value)
            case BlockEnd(key=key, complete=complete) if key in self._blocks:
                self._close(key, complete=complete)
            case Start(id=name):
                self._id = name
            case Finish(stop=stop) if stop in COMPLETE:
                self._finish()
            case _:
                pass

    def _mark(self, block: _Block, value: object) -> None:
        if isinstance(value, Carried):
            block.carried = value
        elif isinstance(value, Receipt):
            block.receipt = value

    def _close(self, key: int, *, complete: bool) -> None:
        block = self._blocks[key]
        if block.done:
            return
        block.done = True
        call = _call(block) if complete else None
        if call is not None:
            self._calls[key] = call
            self._on_call(ids_of(call, block.start.item_id), call)

    def _finish(self) -> None:
        for key in self._blocks:
            self._close(key, complete=True)
        parts = [part for key, block in self._blocks.items() if (part := self._part(key, block)) is not None]
        names = tuple(dict.fromkeys(name for name in (response_id(self._id, "resp_", self._seed), self._id) if name))
        calls = tuple(self._calls[key] for key in self._blocks if key in self._calls)
        self._on_end(names, calls, Turn("assistant", tuple(parts), "previous_response_id"))

    def _part(self, key: int, block: _Block) -> Part | None:
        text = "".join(block.pieces)
        match block.start.kind:
            case "tool":
                return self._calls.get(key)
            case "reasoning":
                sealed = seal(block.carried, self._origin) if block.carried is not None else None
                state = State(sealed, id=block.carried.id if block.carried else "") if sealed is not None else None
                return Reasoning(text, state) if text or state else None
            case "receipt":
                return block.receipt
            case kind:
                return Text(text, refusal=kind == "refusal") if text else None


def _call(block: _Block) -> ToolCall | None:
    start = block.start
    name = start.name.strip()
    if start.kind != "tool" or not start.call_id.strip() or not name or start.call_id.startswith(HOSTED):
        return None
    text = "".join(block.pieces)
    if start.form == "function":
        return ToolCall(start.call_id, name, text if text.strip() else "{}", namespace=start.namespace)
    raw = unwrapped(text) if start.form == "wrapped" and text else text
    return ToolCall(start.call_id, name, raw, custom=True, namespace=start.namespace)
