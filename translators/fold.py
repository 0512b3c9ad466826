"""Fold a sequenced event stream into one whole answer, so that body and stream cannot disagree (I18)."""

import msgspec

from translators.conversation import Receipt
from translators.events import (
    BlockEnd,
    BlockStart,
    Carried,
    Citation,
    Delta,
    Event,
    Failed,
    Finish,
    Logprob,
    Mark,
    Start,
    Stop,
    Usage,
)

__all__ = ["Answer", "Block", "Fold"]


class Block(msgspec.Struct):
    """One block with all its text; `complete` is false when the answer was cut inside it."""

    start: BlockStart
    text: str = ""
    logprobs: list[Logprob] = []
    carried: Carried | None = None
    citations: list[Citation] = []
    receipt: Receipt | None = None
    complete: bool = True


class Answer(msgspec.Struct):
    """A whole answer: blocks in order, final usage and why it stopped."""

    start: Start = Start()
    blocks: list[Block] = []
    usage: Usage = Usage()
    stop: Stop = "end"
    stop_sequence: str | None = None


class Fold:
    """Collect sequenced events. `answer` is complete once Finish came; `failed` is set instead after Failed."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.done = False
        self.failed: Failed | None = None
        self._pieces: list[str] = []

    def push(self, event: Event) -> None:
        """Take one event of a sequenced stream (at most one open block)."""
        match event:
            case Delta(text=text, logprobs=logprobs):
                self._pieces.append(text)
                if logprobs:
                    self.answer.blocks[-1].logprobs.extend(logprobs)
            case Start():
                self.answer.start = event
            case BlockStart():
                self.answer.blocks.append(Block(event))
            case Mark(value=Carried() as carried):
                self.answer.blocks[-1].carried = carried
            case Mark(value=Citation() as citation):
                self.answer.blocks[-1].citations.append(citation)
            case Mark(value=Receipt() as receipt):
                self.answer.blocks[-1].receipt = receipt
            case BlockEnd(complete=complete):
                block = self.answer.blocks[-1]
                block.text, block.complete = "".join(self._pieces), complete
                self._pieces.clear()
            case Usage():
                self.answer.usage = event
            case Finish(stop=stop, stop_sequence=sequence):
                self.answer.stop, self.answer.stop_sequence = stop, sequence
                self.done = True
            case Failed():
                self.failed = event
