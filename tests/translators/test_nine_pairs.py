"""The canonical scenario of spec/translation.md 5.5 in all nine pairs: golden event orders, streaming and whole."""

import json

import pytest

from tests.translators.readings import ALIAS, answered, forwarded, meaning, read, translated
from tests.translators.scripts import CANONICAL, PAIRS, expected, stop_of
from tests.translators.wires import MODEL, stream, whole

NATIVE = tuple((name, name) for name in ("chat", "responses", "messages"))

MESSAGES = [
    "message_start",
    "start 0 thinking", "thinking_delta 0 R", "signature_delta 0", "stop 0",
    "start 1 text", "text_delta 1 T", "stop 1",
    "start 2 tool_use call_a a", 'input_json_delta 2 {"x":1}', "stop 2",
    "start 3 tool_use call_b b", "input_json_delta 3 {}", "stop 3",
    "message_delta tool_use", "message_stop",
]  # fmt: skip
RESPONSES = [
    "created", "in_progress",
    "output_item.added 0", "reasoning_summary_part.added 0", "reasoning_summary_text.delta 0 R",
    "reasoning_summary_text.done 0", "reasoning_summary_part.done 0", "output_item.done 0",
    "output_item.added 1", "content_part.added 1", "output_text.delta 1 T",
    "output_text.done 1", "content_part.done 1", "output_item.done 1",
    "output_item.added 2", 'function_call_arguments.delta 2 {"x":1}', "function_call_arguments.done 2", "output_item.done 2",
    "output_item.added 3", "function_call_arguments.delta 3 {}", "function_call_arguments.done 3", "output_item.done 3",
    "completed",
]  # fmt: skip
CHAT = [
    "role", "reasoning_content R", "reasoning_details", "content T",
    "call 0 call_a a", 'arguments 0 {"x":1}', "call 1 call_b b", "arguments 1 {}",
    "finish tool_calls", "usage", "[DONE]",
]  # fmt: skip
GOLDEN = {"messages": MESSAGES, "responses": RESPONSES, "chat": CHAT}


def order(client: str, raw: bytes) -> list[str]:
    """The events of a stream, each as a few words."""
    lines = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    return [{"messages": messages_word, "responses": responses_word, "chat": chat_word}[client](line) for line in lines]


def messages_word(line: str) -> str:
    event = json.loads(line)
    kind, index = event["type"].removeprefix("content_block_"), event.get("index")
    match kind:
        case "start":
            block = event["content_block"]
            return " ".join(
                str(word) for word in (kind, index, block["type"], block.get("id", ""), block.get("name", ""))
            ).strip()
        case "delta":
            delta = event["delta"]
            said = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            return f"{delta['type']} {index} {said}".strip()
        case "stop":
            return f"stop {index}"
        case "message_delta":
            return f"{kind} {event['delta']['stop_reason']}"
    return kind


def responses_word(line: str) -> str:
    event = json.loads(line)
    words = [event["type"].removeprefix("response."), event.get("output_index"), event.get("delta")]
    return " ".join(str(word) for word in words if word is not None)


def chat_word(line: str) -> str:
    if line == "[DONE]":
        return line
    chunk = json.loads(line)
    if not chunk["choices"]:
        return "usage"
    delta, finish = chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]
    if finish:
        return f"finish {finish}"
    if "tool_calls" in delta:
        (call,) = delta["tool_calls"]
        if "id" in call:
            return f"call {call['index']} {call['id']} {call['function']['name']}"
        return f"arguments {call['index']} {call['function']['arguments']}"
    (key,) = delta
    return "role" if key == "role" else key if key == "reasoning_details" else f"{key} {delta[key]}"


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_stream_has_the_golden_order(client, upstream):
    """The events come one by one in the order of 5.5, whatever the upstream speaks."""
    got = translated(client, upstream, stream(upstream, CANONICAL, size=99))
    assert GOLDEN[client] == order(client, got.raw)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_stream_means_what_the_script_says(client, upstream):
    """Blocks, state, stop reason, counts and the client's own model name arrive."""
    got = translated(client, upstream, stream(upstream, CANONICAL))
    assert meaning(expected(CANONICAL, client, upstream)) == meaning(got.blocks)
    assert (stop_of(CANONICAL, upstream), ALIAS) == (got.stop, got.model)
    assert {"prompt": 11, "cached": 3, "written": 0, "output": 7, "reasoning": 2} == got.usage


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_whole_answer_means_what_the_script_says(client, upstream):
    """A client that asked for no stream gets the same in one body."""
    got = answered(client, upstream, whole(upstream, CANONICAL), stream=False)
    assert meaning(expected(CANONICAL, client, upstream)) == meaning(got.blocks)
    assert ("success", "tool", ALIAS) == (got.terminal, got.stop, got.model)
    assert {"prompt": 11, "cached": 3, "written": 0, "output": 7, "reasoning": 2} == got.usage


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@pytest.mark.edge("E27")
def test_whole_answer_to_a_client_that_asked_for_a_stream(client, upstream):
    """A JSON body where a stream was asked for becomes the stream, in the golden order."""
    got = answered(client, upstream, whole(upstream, CANONICAL))
    assert GOLDEN[client] == order(client, got.raw)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_stream_to_a_client_that_asked_for_none(client, upstream):
    """A stream where a body was asked for is folded into the body."""
    got = translated(client, upstream, stream(upstream, CANONICAL), stream=False)
    assert meaning(expected(CANONICAL, client, upstream)) == meaning(got.blocks)
    assert ("success", "tool") == (got.terminal, got.stop)


@pytest.mark.parametrize(("client", "upstream"), NATIVE)
def test_native_stream_keeps_its_bytes(client, upstream):
    """Between equal dialects the bytes pass as they are, save for the model's name."""
    frames = stream(upstream, CANONICAL)
    raw, machine = forwarded(client, frames)
    assert b"".join(frames).replace(f'"model":"{MODEL}"'.encode(), f'"model":"{ALIAS}"'.encode()) == raw
    assert (None, "tool") == (machine.fault, machine.tally.stop)
    assert (8, 3, 7) == (machine.tally.usage.uncached, machine.tally.usage.cache_read, machine.tally.usage.output)


@pytest.mark.parametrize(("client", "upstream"), NATIVE)
def test_native_answer_keeps_its_members(client, upstream):
    """A whole native answer is what the upstream sent, under the client's model name."""
    sent = json.loads(whole(upstream, CANONICAL))
    got = answered(client, upstream, whole(upstream, CANONICAL), stream=False, native=True)
    assert sent | {"model": ALIAS} == json.loads(got.raw)


def test_reading_notices_a_missing_terminal():
    """The oracle behind these tests tells a cut stream from a whole one."""
    with pytest.raises(AssertionError):
        read("chat", translated("chat", "chat", stream("chat", CANONICAL)).raw[: -len("data: [DONE]\n\n")])
