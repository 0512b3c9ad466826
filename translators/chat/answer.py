"""Whole Chat answers, read as events and written from a folded answer (spec/translation.md 4)."""

from typing import Any

import msgspec

from translators.chat.decoder import ChatDecoder
from translators.chat.details import entry_of
from translators.chat.encoder import NO_PAUSE, NO_RECEIPTS, REASONS, logprobs_object
from translators.chat.usage import usage_object
from translators.chat.wire import Chunk
from translators.dialect import Reply, Source
from translators.events import Event, Failed
from translators.fold import Answer, Block
from translators.identifiers import response_id
from translators.jsonio import ERRORS, encode, unreadable
from translators.toolbox import wrap

__all__ = ["answer", "read_answer"]

_decode = msgspec.json.Decoder(Chunk).decode


def read_answer(body: bytes, source: Source) -> list[Event]:
    """Return the events of a whole answer; the last one is Finish or Failed, whatever the body is."""
    try:
        return list(ChatDecoder(source).whole(_decode(body), body))
    except ERRORS as error:
        return [Failed(unreadable(error))]


def answer(folded: Answer, reply: Reply) -> bytes:
    """Return the client's body of a whole answer; what a stream would have brought, in one object (I18)."""
    if folded.stop == "pause":
        reply.notes.once("stop", NO_PAUSE)
    choice = {
        "index": 0,
        "message": _message(folded, reply),
        "logprobs": _logprobs(folded),
        "finish_reason": REASONS[folded.stop],
    }
    body = {
        "id": response_id(folded.start.id, "chatcmpl-", reply.seed),
        "object": "chat.completion",
        "created": folded.start.created or reply.created,
        "model": reply.alias,
        "choices": [choice],
        "usage": usage_object(folded.usage),
    }
    return encode(body)


def _message(folded: Answer, reply: Reply) -> dict[str, Any]:
    blocks = folded.blocks
    if any(block.start.kind == "receipt" for block in blocks):
        reply.notes.once("receipts", NO_RECEIPTS)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _joined(blocks, "text"),
        "refusal": _joined(blocks, "refusal"),
    }
    thoughts = [block for block in blocks if block.start.kind == "reasoning"]
    if text := _joined(thoughts, "reasoning"):
        message["reasoning_content"] = text
    entries = [
        entry
        for index, block in enumerate(thoughts)
        if block.carried
        and (entry := entry_of(block.carried, reply.origin, index, block.text if index else "", reply.notes))
    ]
    if entries:
        message["reasoning_details"] = entries
    if annotations := _annotations(blocks):
        message["annotations"] = annotations
    calls = [_call(block) for block in blocks if block.start.kind == "tool"]
    if calls:
        message["tool_calls"] = calls
    return message


def _joined(blocks: list[Block], kind: str) -> str | None:
    return "".join(block.text for block in blocks if block.start.kind == kind) or None


def _call(block: Block) -> dict[str, Any]:
    start = block.start
    # Streams know functions only, so that a custom call is one here too (I18).
    arguments = wrap(block.text) if start.form == "custom" else block.text or ("{}" if block.complete else "")
    return {"id": start.call_id, "type": "function", "function": {"name": start.name, "arguments": arguments}}


def _annotations(blocks: list[Block]) -> list[dict[str, Any]]:
    """Return the citations with offsets in the whole content, which is all text blocks in a row (4.3)."""
    out: list[dict[str, Any]] = []
    before = 0
    for block in blocks:
        if block.start.kind != "text":
            continue
        for cited in block.citations:
            start = before + (cited.start or 0)
            end = before + (len(block.text) if cited.end is None else cited.end)
            citation = {"url": cited.url, "title": cited.title, "start_index": start, "end_index": end}
            out.append({"type": "url_citation", "url_citation": citation})
        before += len(block.text)
    return out


def _logprobs(folded: Answer) -> dict[str, Any] | None:
    entries = [entry for block in folded.blocks if block.start.kind == "text" for entry in block.logprobs]
    return logprobs_object(entries) if entries else None
