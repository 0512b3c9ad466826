"""Scripts as an upstream's bytes: whole answers and streams of each protocol, plain or with the quirks of real servers.

Written from the protocols with the standard library; nothing here shares code with our encoders or decoders. A quirk
changes the bytes and never the meaning, so a client has to get the same answer with and without it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

from tests.translators.scripts import Block, Call, Ran, Refuse, Say, Script, Think, calls_of

CREATED = 1_767_225_600
MODEL = "up-m"
Json = dict[str, Any]

QUIRKS: dict[str, tuple[str, ...]] = {
    "chat": (
        "empty deltas", "repeated identity", "late name", "no [DONE]", "leading chunk", "counts everywhere", "interleaved",
        "reasoning", "reasoning_details", "second choice", "plain stop", "content lists", "crlf", "comments", "whole message",
    ),
    "responses": (
        "no created", "final only", "late item ids", "unknown events", "hosted item", "no parts", "done only", "full text",
        "no numbers", "interleaved", "crlf", "comments", "[DONE]", "no event names", "several summaries",
    ),
    "messages": (
        "pings", "unknown blocks", "no message_stop", "whole input", "open blocks", "two signatures", "empty deltas",
        "interleaved", "crlf", "comments", "[DONE]", "no event names", "unknown deltas",
    ),
}  # fmt: skip


def sse(data: Json | str, event: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return ((f"event: {event}\n" if event else "") + f"data: {text}\n\n").encode()


def dressed(frames: list[bytes], quirks: Sequence[str]) -> list[bytes]:
    """Frames with the line ends and comments that the SSE standard allows anywhere."""
    if "comments" in quirks:
        frames = [b": hello\n\n", *(b":\n" + frame for frame in frames), b": bye\n\n"]
    if "crlf" in quirks:
        frames = [frame.replace(b"\n", b"\r\n") for frame in frames]
    return frames


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def woven(lanes: list[list[Json]], quirks: Sequence[str]) -> list[Json]:
    """Lanes one after another, or round robin."""
    if "interleaved" not in quirks:
        return [event for lane in lanes for event in lane]
    return [event for turn in zip_longest(*lanes) for event in turn if event is not None]


# Chat Completions


def chat_usage(script: Script, part: float = 1) -> Json:
    counts = script.counts
    prompt, output = int(counts.prompt * part), int(counts.output * part)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {
            "cached_tokens": int(counts.cached * part),
            "cache_write_tokens": int(counts.written * part),
        },
        "completion_tokens_details": {"reasoning_tokens": int(counts.reasoning * part)},
    }


def chat_finish(script: Script, quirks: Sequence[str] = ()) -> str:
    if "plain stop" in quirks and script.stop in ("end", "tool"):
        return "stop"
    return {"end": "stop", "tool": "tool_calls", "length": "length", "refusal": "content_filter"}[script.stop]


def details(block: Think, index: int) -> list[Json]:
    told = [{"type": "reasoning.text", "text": block.text, "format": "unknown", "index": 2 * index}]
    state = {
        "type": "reasoning.encrypted",
        "data": block.state,
        "format": "unknown",
        "index": 2 * index + 1,
        "id": f"rs_{index}",
    }
    return told + [state] * bool(block.state)


def chat_deltas(script: Script, quirks: Sequence[str], size: int) -> Iterator[Json]:
    ordinal = thought = 0
    for called, group in groupby(script.blocks, lambda block: isinstance(block, Call)):
        blocks = list(group)
        if called:
            yield from woven([call_deltas(call, ordinal + n, quirks, size) for n, call in enumerate(blocks)], quirks)
            ordinal += len(blocks)
            continue
        for block in blocks:
            yield from spoken_deltas(block, thought, quirks, size)
            thought += isinstance(block, Think)


def spoken_deltas(block: Block, thought: int, quirks: Sequence[str], size: int) -> Iterator[Json]:
    match block:
        case Say(text):
            for piece in cut(text, size):
                yield {"content": [{"type": "text", "text": piece}] if "content lists" in quirks else piece}
        case Refuse(text):
            yield from ({"refusal": piece} for piece in cut(text, size))
        case Think(text) if "reasoning_details" in quirks:
            told, *state = details(block, thought)
            for piece in cut(text, size):
                yield {"reasoning_details": [told | {"text": piece}]}
            if state:
                yield {"reasoning_details": state}
        case Think(text):
            name = "reasoning" if "reasoning" in quirks else "reasoning_content"
            yield from ({name: piece} for piece in cut(text, size))
            if block.state:
                yield {"reasoning_details": details(block, thought)[1:]}


def call_deltas(call: Call, index: int, quirks: Sequence[str], size: int) -> list[Json]:
    first = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    repeated = {"id": call.id, "type": "function"} if "repeated identity" in quirks else {}
    named = {"name": call.name} if "repeated identity" in quirks else {}
    rest = [
        {"index": index, **repeated, "function": {**named, "arguments": piece}} for piece in cut(call.arguments, size)
    ]
    if "late name" in quirks:
        named_late = {"index": index, "function": {"name": call.name}}
        del first["function"]["name"]
        middle = len(rest) // 2
        return [{"tool_calls": [piece]} for piece in [first, *rest[:middle], named_late, *rest[middle:]]]
    return [{"tool_calls": [piece]} for piece in [first, *rest]]


def chat(script: Script, quirks: Sequence[str] = (), size: int = 3) -> list[bytes]:
    """The stream of a chat completion, as asked for with `include_usage`."""
    base: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL}

    def chunk(delta: Json | None, finish: str | None = None, **more: Any) -> bytes:
        return sse(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})

    if "whole message" in quirks:
        # A server that ignores `stream` for the content and tells all of it in one event.
        whole = chat_whole(script, quirks)
        return dressed([sse(whole | {"object": "chat.completion.chunk"}), sse("[DONE]")], quirks)
    deltas: list[Json | None] = [{"role": "assistant", "content": ""}, *chat_deltas(script, quirks, size)]
    if "empty deltas" in quirks:
        noise: list[Json | None] = [
            {},
            None,
            {"content": ""},
            {"content": None, "reasoning_content": "", "tool_calls": []},
        ]
        deltas = [empty for delta in deltas for empty in (delta, *noise)]
    frames = [chunk(delta) for delta in deltas]
    if script.counted != "never" and "counts everywhere" in quirks:
        parts = (number / len(deltas) for number in range(len(deltas)))
        frames = [chunk(delta, usage=chat_usage(script, part)) for delta, part in zip(deltas, parts, strict=True)]
    elif script.counted == "early":
        frames.insert(0, sse(base | {"choices": [], "usage": chat_usage(script, 0.5)}))
    if "leading chunk" in quirks:
        frames.insert(
            0, sse({"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": []})
        )
    if "second choice" in quirks:
        frames.append(sse(base | {"choices": [{"index": 1, "delta": {"content": "another"}, "finish_reason": None}]}))
    frames.append(chunk({}, chat_finish(script, quirks)))
    if script.counted != "never":
        frames.append(sse(base | {"choices": [], "usage": chat_usage(script)}))
    if "no [DONE]" not in quirks:
        frames.append(sse("[DONE]"))
    return dressed(frames, quirks)


def chat_whole(script: Script, quirks: Sequence[str] = ()) -> Json:
    def joined(kind: type) -> str:
        return "".join(block.text for block in script.blocks if isinstance(block, kind))

    message: Json = {"role": "assistant", "content": joined(Say) or None, "refusal": joined(Refuse) or None}
    thoughts = [block for block in script.blocks if isinstance(block, Think)]
    if thoughts:
        message["reasoning_content"] = joined(Think)
        states = [entry for index, block in enumerate(thoughts) for entry in details(block, index)[1:]]
        message |= {"reasoning_details": states} if states else {}
    if calls := calls_of(script):
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": chat_finish(script, quirks)}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": MODEL, "choices": [choice]}
    return body | ({} if script.counted == "never" else {"usage": chat_usage(script)})


# Responses


def responses_usage(script: Script, part: float = 1) -> Json:
    counts = script.counts
    return {
        "input_tokens": int(counts.prompt * part),
        "input_tokens_details": {
            "cached_tokens": int(counts.cached * part),
            "cache_write_tokens": int(counts.written * part),
        },
        "output_tokens": int(counts.output * part),
        "output_tokens_details": {"reasoning_tokens": int(counts.reasoning * part)},
        "total_tokens": int(counts.prompt * part) + int(counts.output * part),
    }


def items_of(script: Script, quirks: Sequence[str] = ()) -> list[Json]:
    """The output items: neighbouring text and refusals are the parts of one message."""
    items: list[Json] = []
    if "hosted item" in quirks:
        items.append(
            {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
        )
    for spoken, group in groupby(script.blocks, lambda block: isinstance(block, Say | Refuse)):
        blocks = list(group)
        if spoken:
            content = [part_of(block) for block in blocks]
            items.append({"type": "message", "role": "assistant", "status": "completed", "content": content})
        else:
            items.extend(item_of(block, quirks) for block in blocks)
        if "hosted item" in quirks:
            items.append(
                {
                    "type": "code_interpreter_call",
                    "status": "completed",
                    "code": "1",
                    "container_id": "c",
                    "outputs": [],
                }
            )
    prefixes = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
    return [{"id": f"{prefixes.get(item['type'], 'x')}_{at}"} | item for at, item in enumerate(items)]


def part_of(block: Block) -> Json:
    if isinstance(block, Refuse):
        return {"type": "refusal", "refusal": block.text}
    assert isinstance(block, Say)
    cited = [
        {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": len(block.text)}
        for url, title in block.cites
    ]
    return {"type": "output_text", "text": block.text, "annotations": cited, "logprobs": []}


def item_of(block: Block, quirks: Sequence[str]) -> Json:
    match block:
        case Think(text, state):
            encrypted = {"encrypted_content": state} if state else {}
            if "full text" in quirks:
                return {
                    "type": "reasoning",
                    "summary": [],
                    "content": [{"type": "reasoning_text", "text": text}],
                    **encrypted,
                }
            return {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}] if text else [],
                **encrypted,
            }
        case Call(call_id, name, arguments):
            return {
                "type": "function_call",
                "status": "completed",
                "call_id": call_id,
                "name": name,
                "arguments": arguments or "{}",
            }
        case Ran(call_id, server, name, arguments, output):
            told = {"server_label": server, "name": name, "arguments": arguments, "output": output, "error": None}
            return {"id": call_id, "type": "mcp_call", "status": "completed", **told}
    raise AssertionError(block)


def responses_whole(script: Script, quirks: Sequence[str] = ()) -> Json:
    reason = {"length": "max_output_tokens", "refusal": "content_filter"}.get(script.stop)
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": MODEL,
        "output": items_of(script, quirks),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if script.counted == "never" else responses_usage(script),
    }


def responses(script: Script, quirks: Sequence[str] = (), size: int = 3) -> list[bytes]:
    """The stream of a response."""
    whole = responses_whole(script, quirks)
    opening = whole | {"status": "in_progress", "output": [], "incomplete_details": None, "usage": None}
    if script.counted == "early":
        opening["usage"] = responses_usage(script, 0.5)
    events: list[Json] = []
    if "no created" not in quirks:
        events += [
            {"type": "response.created", "response": opening},
            {"type": "response.in_progress", "response": opening},
        ]
    if "unknown events" in quirks:
        events += [{"type": "response.keepalive"}, {"type": "codex.rate_limits", "item": 7, "delta": {"no": "text"}}]
    if "final only" not in quirks:
        numbered = enumerate(whole["output"])
        for called, items in groupby(numbered, lambda pair: pair[1]["type"] == "function_call"):
            # Only calls are ever told side by side; an item's place in the answer is where its first block begins.
            events += woven([item_events(item, at, quirks, size) for at, item in items], quirks if called else ())
    events.append({"type": f"response.{whole['status']}", "response": whole})
    if "no numbers" not in quirks:
        events = [event | {"sequence_number": number} for number, event in enumerate(events)]
    frames = [sse(event, "" if "no event names" in quirks else event["type"]) for event in events]
    return dressed(frames + [sse("[DONE]")] * ("[DONE]" in quirks), quirks)


def item_events(item: Json, at: int, quirks: Sequence[str], size: int) -> list[Json]:
    blank = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}
    added = item | blank.get(item["type"], {})
    added |= {"status": "in_progress"} if "status" in item else {}
    added.pop("encrypted_content", None)
    if added["type"] == "reasoning":
        added.pop("content", None)
    if "late item ids" in quirks:
        del added["id"]
    place: Json = {"output_index": at} if "late item ids" in quirks else {"item_id": item["id"], "output_index": at}
    body = [event | place for event in body_events(item, quirks, size)]
    if "done only" in quirks:
        body = []
    first: Json = {"type": "response.output_item.added", "output_index": at, "item": added}
    return [first, *body, {"type": "response.output_item.done", "output_index": at, "item": item}]


def body_events(item: Json, quirks: Sequence[str], size: int) -> Iterator[Json]:
    match item["type"]:
        case "message":
            for index, part in enumerate(item["content"]):
                yield from (event | {"content_index": index} for event in part_events(part, quirks, size))
        case "reasoning":
            yield from reasoning_events(item, quirks, size)
        case "function_call":
            for piece in cut(item["arguments"], size):
                yield {"type": "response.function_call_arguments.delta", "delta": piece}
            yield {
                "type": "response.function_call_arguments.done",
                "arguments": item["arguments"],
                "name": item["name"],
            }


def part_events(part: Json, quirks: Sequence[str], size: int) -> Iterator[Json]:
    name, key = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
    more: Json = {} if name == "refusal" else {"logprobs": []}
    if "no parts" not in quirks:
        yield {
            "type": "response.content_part.added",
            "part": part | {key: "", **({} if name == "refusal" else {"annotations": []})},
        }
    for piece in cut(part[key], size):
        yield {"type": f"response.{name}.delta", "delta": piece, **more}
    for number, note in enumerate(part.get("annotations", ())):
        yield {"type": "response.output_text.annotation.added", "annotation": note, "annotation_index": number}
    yield {"type": f"response.{name}.done", key: part[key], **more}
    if "no parts" not in quirks:
        yield {"type": "response.content_part.done", "part": part}


def reasoning_events(item: Json, quirks: Sequence[str], size: int) -> Iterator[Json]:
    if "full text" in quirks:
        for index, part in enumerate(item["content"]):
            for piece in cut(part["text"], size):
                yield {"type": "response.reasoning_text.delta", "content_index": index, "delta": piece}
            yield {"type": "response.reasoning_text.done", "content_index": index, "text": part["text"]}
        return
    for index, part in enumerate(item["summary"]):
        yield {"type": "response.reasoning_summary_part.added", "summary_index": index, "part": part | {"text": ""}}
        for piece in cut(part["text"], size):
            yield {"type": "response.reasoning_summary_text.delta", "summary_index": index, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", "summary_index": index, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", "summary_index": index, "part": part}


# Messages


def messages_usage(script: Script, part: float = 1) -> Json:
    counts = script.counts
    cached, written = int(counts.cached * part), int(counts.written * part)
    return {
        "input_tokens": int(counts.prompt * part) - cached - written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": int(counts.output * part),
        "output_tokens_details": {"thinking_tokens": int(counts.reasoning * part)},
    }


def content_of(script: Script, quirks: Sequence[str] = ()) -> list[Json]:
    blocks: list[Json] = []
    for block in script.blocks:
        if "unknown blocks" in quirks:
            blocks.append(
                {
                    "type": "server_tool_use",
                    "id": f"srvtoolu_{len(blocks)}",
                    "name": "web_search",
                    "input": {"query": "q"},
                }
            )
            blocks.append({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0", "content": []})
        match block:
            case Say(text, cites):
                cited = [
                    {
                        "type": "web_search_result_location",
                        "url": url,
                        "title": title,
                        "encrypted_index": "e",
                        "cited_text": "c",
                    }
                    for url, title in cites
                ]
                blocks.append({"type": "text", "text": text} | ({"citations": cited} if cited else {}))
            case Refuse(text):
                blocks.append({"type": "text", "text": text})
            case Think("", state):
                blocks.append({"type": "redacted_thinking", "data": state})
            case Think(text, state):
                blocks.append({"type": "thinking", "thinking": text, "signature": state})
            case Call(call_id, name, arguments):
                blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments or "{}")})
            case Ran(call_id, server, name, arguments, output):
                call = {
                    "type": "mcp_tool_use",
                    "id": call_id,
                    "name": name,
                    "server_name": server,
                    "input": json.loads(arguments),
                }
                told = [{"type": "text", "text": output}]
                blocks += [
                    call,
                    {"type": "mcp_tool_result", "tool_use_id": call_id, "is_error": False, "content": told},
                ]
    return blocks


def messages_whole(script: Script, quirks: Sequence[str] = ()) -> Json:
    stop = {"end": "end_turn", "tool": "tool_use", "length": "max_tokens", "refusal": "refusal"}[script.stop]
    usage = {"input_tokens": 0, "output_tokens": 0} if script.counted == "never" else messages_usage(script)
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_sequence": None}
    return base | {"content": content_of(script, quirks), "stop_reason": stop, "usage": usage}


def messages(script: Script, quirks: Sequence[str] = (), size: int = 3) -> list[bytes]:
    """The stream of a message."""
    whole = messages_whole(script, quirks)
    early = messages_usage(script, 0.5) if script.counted == "early" else {"input_tokens": 0, "output_tokens": 0}
    events: list[Json] = [
        {"type": "message_start", "message": whole | {"content": [], "stop_reason": None, "usage": early}},
    ]
    spelled = [call.arguments for call in calls_of(script)]
    lanes = []
    for index, block in enumerate(whole["content"]):
        given = spelled.pop(0) if block["type"] == "tool_use" else None
        lanes.append([event | {"index": index} for event in block_events(block, given, quirks, size)])
    events += woven(lanes, quirks)
    if "pings" in quirks:
        events = [also for event in events for also in (event, {"type": "ping"})]
    if "empty deltas" in quirks:
        events = list(emptied(events))
    if "open blocks" in quirks and events[-1]["type"] == "content_block_stop":
        events.pop()
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": whole["usage"]})
    if "no message_stop" not in quirks:
        events.append({"type": "message_stop"})
    frames = [sse(event, "" if "no event names" in quirks else event["type"]) for event in events]
    return dressed(frames + [sse("[DONE]")] * ("[DONE]" in quirks), quirks)


def emptied(events: list[Json]) -> Iterator[Json]:
    """Every delta of content, with one before it that says nothing."""
    for event in events:
        delta = event.get("delta", {})
        for key in ("text", "thinking", "partial_json"):
            if event["type"] == "content_block_delta" and key in delta:
                yield event | {"delta": delta | {key: ""}}
        yield event


def block_events(block: Json, spelled: str | None, quirks: Sequence[str], size: int) -> list[Json]:
    def deltas(kind: str, key: str, text: str) -> list[Json]:
        return [{"type": "content_block_delta", "delta": {"type": kind, key: piece}} for piece in cut(text, size)]

    start, body = block, []
    match block["type"]:
        case "text":
            start = {"type": "text", "text": ""}
            body = deltas("text_delta", "text", block["text"])
            body += [
                {"type": "content_block_delta", "delta": {"type": "citations_delta", "citation": one}}
                for one in block.get("citations", ())
            ]
        case "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            body = deltas("thinking_delta", "thinking", block["thinking"])
            signs = (
                ["half", block["signature"]]
                if "two signatures" in quirks and block["signature"]
                else [block["signature"]]
            )
            body += [
                {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": sign}}
                for sign in signs
                if sign
            ]
        case "tool_use" if "whole input" not in quirks:
            start = block | {"input": {}}
            body = deltas(
                "input_json_delta", "partial_json", json.dumps(block["input"]) if spelled is None else spelled
            )
        case "mcp_tool_use":
            start = block | {"input": {}}
            body = deltas("input_json_delta", "partial_json", json.dumps(block["input"]))
    if "unknown deltas" in quirks:
        body = [{"type": "content_block_delta", "delta": {"type": "mood_delta", "mood": "fine"}}, *body]
    return [{"type": "content_block_start", "content_block": start}, *body, {"type": "content_block_stop"}]


STREAM: dict[str, Callable[..., list[bytes]]] = {"chat": chat, "responses": responses, "messages": messages}
WHOLE: dict[str, Callable[..., Json]] = {"chat": chat_whole, "responses": responses_whole, "messages": messages_whole}


def stream(upstream: str, script: Script, *quirks: str, size: int = 3) -> list[bytes]:
    """The frames of a script's stream."""
    return STREAM[upstream](script, quirks, size)


def whole(upstream: str, script: Script, *quirks: str) -> bytes:
    """A script's whole answer."""
    return json.dumps(WHOLE[upstream](script, quirks), ensure_ascii=False).encode()
