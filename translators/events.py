"""Neutral stream events: what every decoder produces and every encoder consumes.

Eight events and no vendor fields. A block is one run of text, refusal, reasoning, one tool call, or one
receipt of a tool that the provider ran itself. Keys are the decoder's own; order of BlockStart is the order
of the answer (I11).
"""

from typing import Literal

import msgspec

from translators.conversation import Receipt
from translators.fault import Fault

__all__ = [
    "BlockEnd",
    "BlockStart",
    "Carried",
    "Citation",
    "Delta",
    "Event",
    "Failed",
    "Finish",
    "Kind",
    "Logprob",
    "Mark",
    "Start",
    "Stop",
    "Usage",
]

Kind = Literal["text", "refusal", "reasoning", "tool", "receipt"]
Stop = Literal["end", "tool", "length", "context", "stop_sequence", "refusal", "pause"]


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counts of one answer; None is unknown, which is not zero (spec/translation.md 1.7).

    `output` includes `reasoning`; `uncached`, `cache_read` and `cache_write` add up to the prompt.
    """

    uncached: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None

    @property
    def prompt(self) -> int:
        """Return the whole prompt in tokens, unknown members as zero."""
        return (self.uncached or 0) + (self.cache_read or 0) + (self.cache_write or 0)

    @property
    def known(self) -> bool:
        """Tell whether the upstream reported anything."""
        return self.uncached is not None or self.output is not None


class Start(msgspec.Struct, frozen=True, gc=False):
    """Open the answer with the upstream's own id, model and creation time (Unix seconds), each if known."""

    id: str = ""
    model: str = ""
    created: int = 0
    usage: Usage | None = None


class BlockStart(msgspec.Struct, frozen=True, gc=False):
    """Open a block. Tool blocks have the call's id and the name that the upstream used.

    `form` says what the deltas of a tool block spell: `function` JSON arguments, `custom` raw input text,
    `wrapped` JSON arguments of a function that stands for a custom tool (its text is under "input").
    """

    key: int
    kind: Kind
    call_id: str = ""
    name: str = ""
    namespace: str | None = None
    form: Literal["function", "custom", "wrapped"] = "function"
    item_id: str = ""


class Logprob(msgspec.Struct, frozen=True):
    """One token's log probability with its alternatives, as Chat and Responses both spell it."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list["Logprob"] = []


class Delta(msgspec.Struct, frozen=True, gc=False):
    """Add text to a block; never empty."""

    key: int
    text: str
    logprobs: tuple[Logprob, ...] = ()


class Citation(msgspec.Struct, frozen=True, gc=False):
    """Cite a web page for part of a text block; offsets in characters of that block, None spans all of it."""

    url: str
    title: str = ""
    start: int | None = None
    end: int | None = None


class Carried(msgspec.Struct, frozen=True, gc=False):
    """Opaque reasoning state as the upstream gave it; `translators.carrier` tags it with its origin.

    kind: `rs` Responses reasoning (id, data), `th` Claude signature (data), `rt` Claude redacted thinking
    (data), `rd` Chat reasoning_details (data: the JSON list).
    """

    kind: Literal["rs", "th", "rt", "rd"]
    data: str
    id: str = ""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """Attach opaque state, a citation or a receipt to a block."""

    key: int
    value: Carried | Citation | Receipt


class BlockEnd(msgspec.Struct, frozen=True, gc=False):
    """Close a block; `complete` is false when the source ended inside it."""

    key: int
    complete: bool = True


class Finish(msgspec.Struct, frozen=True, gc=False):
    """End the answer well: why it stopped. Exactly one Finish or Failed, and nothing after it (I20)."""

    stop: Stop
    stop_sequence: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """End the answer badly. `raw` is the upstream's error document for the provider to judge; never shown."""

    fault: Fault
    raw: bytes = b""


Event = Start | BlockStart | Delta | Mark | BlockEnd | Usage | Finish | Failed
