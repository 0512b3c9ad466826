"""What the three model protocols put on the wire for a scripted turn: event streams and whole answers.

    frames = chat(Turn([Think("Hm."), Call("Bash", '{"command": "ls"}')]))      # a list of SSE frames
    whole = WHOLE["messages"](Turn([Say("Hello")]))                            # the same turn in one piece

Complete in the sense of the vendors' own types, and a function of the turn alone: no clock, no random ids.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

CREATED = 1_767_225_600
PIECE = 7  # characters of a delta: small enough to cut words, tokens and escapes


@dataclass(frozen=True, slots=True)
class Say:
    """Visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning, with the opaque state that has to come back unchanged (a signature, or encrypted content)."""

    text: str
    seal: str = "c2VhbA=="


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `arguments` is JSON, or free text when the tool is a custom one."""

    name: str
    arguments: str
    id: str = "call_1"
    namespace: str | None = None
    custom: bool = False


Block: TypeAlias = Say | Think | Call


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a model. `cut` says that it ran into its output limit; `tag` makes its ids differ from another's."""

    blocks: Sequence[Block]
    model: str = "scripted"
    tag: str = "1"
    cut: bool = False
    input_tokens: int = 11
    cached_tokens: int = 3
    output_tokens: int = 7
    reasoning_tokens: int = 2

    @property
    def calls(self) -> list[Call]:
        return [block for block in self.blocks if isinstance(block, Call)]

    @property
    def said(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Say))

    @property
    def thought(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Think))


def pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def frame(data: object, event: str | None = None) -> bytes:
    """One server-sent event; text goes as it stands, anything else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return ((f"event: {event}\n" if event else "") + f"data: {text}\n\n").encode()


def typed(event: dict[str, Any]) -> bytes:
    """One event of a protocol that names its events twice."""
    return frame(event, event["type"])


# Chat Completions


def chat(turn: Turn, *, reasoning_field: str = "reasoning_content", usage: bool = True) -> list[bytes]:
    """The stream of a chat completion, as asked for with `include_usage`."""
    base = {"id": f"chatcmpl-{turn.tag}", "object": "chat.completion.chunk", "created": CREATED, "model": turn.model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return frame(base | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    frames = [chunk({"role": "assistant", "content": ""})]
    for block in turn.blocks:
        if isinstance(block, Call):
            frames += [chunk({"tool_calls": [call]}) for call in chat_call(block, turn.calls.index(block))]
        else:
            key = "content" if isinstance(block, Say) else reasoning_field
            frames += [chunk({key: piece}) for piece in pieces(block.text)]
    frames.append(chunk({}, chat_finish(turn)))
    if usage:
        frames.append(frame(base | {"choices": [], "usage": chat_usage(turn)}))
    return [*frames, frame("[DONE]")]


def chat_call(call: Call, index: int) -> Iterator[dict[str, Any]]:
    kind, key = ("custom", "input") if call.custom else ("function", "arguments")
    yield {"index": index, "id": call.id, "type": kind, kind: {"name": call.name, key: ""}}
    for piece in pieces(call.arguments):
        yield {"index": index, kind: {key: piece}}


def chat_finish(turn: Turn) -> str:
    return "length" if turn.cut else "tool_calls" if turn.calls else "stop"


def chat_usage(turn: Turn) -> dict[str, Any]:
    return {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": turn.reasoning_tokens, "audio_tokens": 0},
    }


def chat_whole(turn: Turn, *, reasoning_field: str = "reasoning_content") -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.said or None, "refusal": None}
    if turn.thought:
        message[reasoning_field] = turn.thought
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
            if call.custom
            else {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": chat_finish(turn)}
    base = {"id": f"chatcmpl-{turn.tag}", "object": "chat.completion", "created": CREATED, "model": turn.model}
    return base | {"choices": [choice], "usage": chat_usage(turn)}


# Responses


def responses(turn: Turn) -> list[bytes]:
    """The stream of a response, from `response.created` to `response.completed` (or `.incomplete`)."""
    opening = responses_whole(turn) | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": opening},
        {"type": "response.in_progress", "response": opening},
    ]
    for index, block in enumerate(turn.blocks):
        events += item_events(block, index, turn.tag)
    whole = responses_whole(turn)
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return [typed(event | {"sequence_number": number}) for number, event in enumerate(events)]


def item_events(block: Block, index: int, tag: str) -> Iterator[dict[str, Any]]:
    item = response_item(block, index, tag)
    at: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    yield {"type": "response.output_item.added", "output_index": index, "item": item | opened(block)}
    match block:
        case Say(text):
            at["content_index"] = 0
            part = item["content"][0]
            yield {"type": "response.content_part.added", "part": part | {"text": ""}, **at}
            for piece in pieces(text):
                yield {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **at}
            yield {"type": "response.output_text.done", "text": text, "logprobs": [], **at}
            yield {"type": "response.content_part.done", "part": part, **at}
        case Think(text):
            at["summary_index"] = 0
            part = item["summary"][0]
            yield {"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}, **at}
            for piece in pieces(text):
                yield {"type": "response.reasoning_summary_text.delta", "delta": piece, **at}
            yield {"type": "response.reasoning_summary_text.done", "text": text, **at}
            yield {"type": "response.reasoning_summary_part.done", "part": part, **at}
        case Call(custom=True):
            for piece in pieces(block.arguments):
                yield {"type": "response.custom_tool_call_input.delta", "delta": piece, **at}
            yield {"type": "response.custom_tool_call_input.done", "input": block.arguments, **at}
        case Call():
            for piece in pieces(block.arguments):
                yield {"type": "response.function_call_arguments.delta", "delta": piece, **at}
            done = {"name": block.name, "arguments": block.arguments}
            yield {"type": "response.function_call_arguments.done", **done, **at}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def response_item(block: Block, index: int, tag: str) -> dict[str, Any]:
    match block:
        case Say(text):
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            fixed = {"type": "message", "role": "assistant", "status": "completed"}
            return {"id": f"msg_{tag}_{index}", **fixed, "content": [part]}
        case Think(text, seal):
            summary = [{"type": "summary_text", "text": text}]
            return {"id": f"rs_{tag}_{index}", "type": "reasoning", "summary": summary, "encrypted_content": seal}
        case Call():
            kind, key, prefix = (
                ("custom_tool_call", "input", "ctc") if block.custom else ("function_call", "arguments", "fc")
            )
            item = {"id": f"{prefix}_{tag}_{index}", "type": kind, "status": "completed", "call_id": block.id}
            item |= {"name": block.name, key: block.arguments}
            return item | ({"namespace": block.namespace} if block.namespace else {})


def opened(block: Block) -> dict[str, Any]:
    """The fields in which an item that begins differs from the finished one."""
    match block:
        case Say():
            return {"status": "in_progress", "content": []}
        case Think():
            return {"summary": []}
        case Call():
            return {"status": "in_progress", "input" if block.custom else "arguments": ""}


def responses_whole(turn: Turn) -> dict[str, Any]:
    return {
        "id": f"resp_{turn.tag}",
        "object": "response",
        "created_at": CREATED,
        "status": "incomplete" if turn.cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if turn.cut else None,
        "instructions": None,
        "metadata": {},
        "model": turn.model,
        "output": [response_item(block, index, turn.tag) for index, block in enumerate(turn.blocks)],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": turn.input_tokens,
            "input_tokens_details": {"cached_tokens": turn.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": turn.output_tokens,
            "output_tokens_details": {"reasoning_tokens": turn.reasoning_tokens},
            "total_tokens": turn.input_tokens + turn.output_tokens,
        },
    }


# Messages


def messages(turn: Turn) -> list[bytes]:
    """The stream of a message, from `message_start` to `message_stop`, with the usual ping."""
    whole = messages_whole(turn)
    start = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(turn.blocks):
        events += [event | {"index": index} for event in block_events(block)]
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": whole["usage"]})
    events.append({"type": "message_stop"})
    return [typed(event) for event in events]


def block_events(block: Block) -> Iterator[dict[str, Any]]:
    def delta(kind: str, key: str, text: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "delta": {"type": kind, key: text}}

    match block:
        case Say(text):
            yield {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
            yield from (delta("text_delta", "text", piece) for piece in pieces(text))
        case Think(text, seal):
            start = {"type": "thinking", "thinking": "", "signature": ""}
            yield {"type": "content_block_start", "content_block": start}
            yield from (delta("thinking_delta", "thinking", piece) for piece in pieces(text))
            yield delta("signature_delta", "signature", seal)
        case Call(name, arguments, call_id):
            call = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            yield {"type": "content_block_start", "content_block": call}
            yield from (delta("input_json_delta", "partial_json", piece) for piece in pieces(arguments))
    yield {"type": "content_block_stop"}


def content_block(block: Block) -> dict[str, Any]:
    match block:
        case Say(text):
            return {"type": "text", "text": text}
        case Think(text, seal):
            return {"type": "thinking", "thinking": text, "signature": seal}
        case Call(name, arguments, call_id):
            return {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}


def messages_whole(turn: Turn) -> dict[str, Any]:
    return {
        "id": f"msg_{turn.tag}",
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": [content_block(block) for block in turn.blocks],
        "stop_reason": "max_tokens" if turn.cut else "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": turn.input_tokens - turn.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": turn.cached_tokens,
            "output_tokens": turn.output_tokens,
            "service_tier": "standard",
        },
    }


STREAM: dict[str, Callable[[Turn], list[bytes]]] = {"chat": chat, "responses": responses, "messages": messages}
WHOLE: dict[str, Callable[[Turn], dict[str, Any]]] = {
    "chat": chat_whole,
    "responses": responses_whole,
    "messages": messages_whole,
}
