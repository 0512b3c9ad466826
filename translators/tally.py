"""What one answer amounted to, for timers, the record and the stores: counts and final facts, no content."""

import msgspec

from translators.events import BlockStart, Delta, Event, Finish, Start, Stop, Usage
from translators.fault import Fault
from translators.jsonio import size_of

__all__ = ["Tally"]


class Tally(msgspec.Struct):
    """Counts of an answer so far. Bytes are UTF-8 lengths of what the upstream produced, shown or not."""

    events: int = 0
    text_bytes: int = 0
    reasoning_bytes: int = 0
    tool_bytes: int = 0
    tool_calls: int = 0
    meanings: int = 0
    """Events so far that carried text, reasoning or tool content: what the meaning timers wait for."""
    usage: Usage = Usage()
    stop: Stop | None = None
    upstream_model: str = ""
    upstream_id: str = ""
    fault: Fault | None = None
    kinds: dict[int, str] = {}

    def count(self, event: Event) -> None:
        """Take one decoder event into account."""
        self.events += 1
        if type(event) is Delta:
            text = event.text
            size = len(text) if text.isascii() else size_of(text)
            kind = self.kinds.get(event.key)
            self.meanings += 1
            if kind == "tool":
                self.tool_bytes += size
            elif kind == "reasoning":
                self.reasoning_bytes += size
            else:
                self.text_bytes += size
            return
        match event:
            case BlockStart(key=key, kind=kind):
                self.kinds[key] = kind
                if kind == "tool":
                    self.tool_calls += 1
                    self.meanings += 1
            case Usage():
                self.usage = event
            case Start(id=upstream_id, model=model, usage=usage):
                self.upstream_id, self.upstream_model = upstream_id, model
                if usage is not None:
                    self.usage = usage
            case Finish(stop=stop):
                self.stop = stop
            case _:
                pass
