"""Whole Messages answers: an upstream's body to events, a folded answer to a client's body (spec/translation.md 4).

Promises: both go through the machinery of the streams, so that body and stream cannot disagree (I18).
"""

from typing import Any

import msgspec
from msgspec import Raw

from translators.carrier import seal
from translators.dialect import Reply, Source
from translators.events import Event, Failed
from translators.failure import error_fault
from translators.fault import Refused, broken
from translators.fold import Answer, Block
from translators.identifiers import response_id
from translators.jsonio import ERRORS, MAX_DEPTH, encode, is_object, nested_too_deep, unreadable
from translators.messages.decoder import Decoder
from translators.messages.encoder import NO_CITATIONS, call_id, stop_of, usage_object
from translators.messages.receipt import receipt_blocks
from translators.messages.wire import OutputBlock, OutputMessage
from translators.toolbox import wrap

__all__ = ["answer", "read_answer"]

_message = msgspec.json.Decoder(OutputMessage).decode
_block = msgspec.json.Decoder(OutputBlock).decode
_any = msgspec.json.Decoder().decode


def read_answer(body: bytes, source: Source) -> list[Event]:
    """Return the events of an upstream's whole answer, ending in Finish or Failed."""
    try:
        message = _message(body)
        if message.type == "error" or (message.content is None and bytes(message.error) not in (b"", b"null")):
            return [Failed(error_fault(_any(message.error) if bytes(message.error) else None), body)]
        if nested_too_deep(body):
            return [Failed(broken(f"the upstream's JSON nests deeper than {MAX_DEPTH} levels", cause="limit"))]
        if message.content is None:
            return [Failed(broken("the upstream's answer has no content"))]
        decoder = Decoder(source)
        events = [*decoder.begin(message)]
        for index, raw in enumerate(message.content):
            events.extend(decoder.open(index, _block(raw)))
            events.extend(decoder.close(index))
        events.extend(decoder.conclude(message.stop_reason, message.stop_sequence, Raw(b"")))
        # The body is whole, so a missing reason is no sign of a cut (1.8).
        events.extend(decoder.ended(message.stop_reason or ""))
    except Refused as refused:
        return [Failed(refused.fault)]
    except ERRORS as error:
        return [Failed(unreadable(error))]
    return events


def answer(folded: Answer, reply: Reply) -> bytes:
    """Return the body of a whole answer; raises Refused for arguments that are no object, unless they were cut off."""
    content: list[dict[str, Any]] = []
    cut = folded.stop in ("length", "context")
    calls = 0
    for block in folded.blocks:
        if block.start.kind == "tool":
            call = _call(block, reply, calls, cut=cut)
            calls += 1
            content.extend(call)
        else:
            content.extend(_blocks(block, reply))
    reason, sequence = stop_of(folded.stop, folded.stop_sequence)
    return encode(
        {
            "id": response_id(folded.start.id, "msg_", reply.seed),
            "type": "message",
            "role": "assistant",
            "model": reply.alias,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": sequence,
            "usage": usage_object(folded.usage if folded.usage.known else folded.start.usage or folded.usage),
        }
    )


def _blocks(block: Block, reply: Reply) -> list[dict[str, Any]]:
    if block.start.kind == "receipt":
        return list(receipt_blocks(block.receipt)) if block.receipt is not None else []
    if block.start.kind == "reasoning":
        signature = seal(block.carried, reply.origin, reply.notes) if block.carried is not None else None
        return [{"type": "thinking", "thinking": block.text, "signature": signature or ""}]
    if block.citations:
        reply.notes.once("citations", NO_CITATIONS)
    return [{"type": "text", "text": block.text}]


def _call(block: Block, reply: Reply, ordinal: int, *, cut: bool) -> list[dict[str, Any]]:
    arguments = wrap(block.text) if block.start.form == "custom" else block.text or "{}"
    if not is_object(arguments):
        if cut:
            return []
        raise Refused(broken("the arguments of a tool call are not a JSON object", code="invalid_tool_arguments"))
    return [
        {
            "type": "tool_use",
            "id": call_id(block.start, reply.seed, ordinal),
            "name": block.start.name,
            "input": Raw(arguments.encode()),
        }
    ]
