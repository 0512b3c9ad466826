"""Whole answers: an upstream's response object to events, folded events to the client's response object.

Both go through the stream machines, so that a body and a stream of the same answer cannot disagree (I18).
"""

from translators.dialect import Reply, Source
from translators.events import BlockEnd, Delta, Event, Finish, Mark
from translators.fold import Answer, Block
from translators.responses.decoder import Decoder
from translators.responses.encoder import Encoder

__all__ = ["answer", "read_answer"]


def read_answer(body: bytes, source: Source) -> list[Event]:
    """Return the events of a whole response object, ending in Finish or Failed."""
    return Decoder(source).whole(body)


def answer(folded: Answer, reply: Reply) -> bytes:
    """Return the response object that the stream of the same answer would end with."""
    encoder = Encoder(reply)
    encoder.push(folded.start)
    for block in folded.blocks:
        for event in _events(block):
            encoder.push(event)
    encoder.push(folded.usage)
    encoder.push(Finish(folded.stop, folded.stop_sequence))
    return encoder.final


def _events(block: Block) -> list[Event]:
    key = block.start.key
    events: list[Event] = [block.start]
    if block.text:
        events.append(Delta(key, block.text, tuple(block.logprobs)))
    events.extend(Mark(key, citation) for citation in block.citations)
    events.extend(Mark(key, value) for value in (block.carried, block.receipt) if value is not None)
    events.append(BlockEnd(key, block.complete))
    return events
