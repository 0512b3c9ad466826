"""The vendors' own stream accumulators read what every pair writes, for the scripts of the property tests.

They are fed without sockets: openai's ChatCompletionStreamState and ResponseStreamState, anthropic's accumulate_event.
`test_sdk_live.py` has the whole clients before a running gateway.
"""

import json

import pytest
from anthropic.lib.streaming._beta_messages import accumulate_event
from hypothesis import given, settings
from hypothesis import strategies as st
from openai._types import NOT_GIVEN
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.translators.readings import Got, parsed, translated
from tests.translators.scripts import CANONICAL, PAIRS, scripts
from tests.translators.wires import stream

RESPONSE_EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
pytestmark = [pytest.mark.slow, pytest.mark.parametrize(("client", "upstream"), PAIRS)]
some = settings(max_examples=8)


def frames(raw: bytes) -> list[tuple[str, dict]]:
    """The events of a stream: their names and data, comments and [DONE] left out."""
    told = []
    for block in raw.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":") and line)
        if lines.get("data", "[DONE]") != "[DONE]":
            told.append((lines.get("event", ""), json.loads(lines["data"])))
    return told


def messages_sees(raw: bytes) -> list[tuple]:
    snapshot, buffers = None, {}
    for name, data in frames(raw):
        if name != "ping":
            snapshot = accumulate_event(event=data, current_snapshot=snapshot, json_bufs=buffers, request_headers={})
    assert snapshot.stop_reason
    seen = []
    for block in snapshot.to_dict()["content"]:
        match block["type"]:
            case "text":
                seen.append(("text", block["text"]))
            case "thinking":
                seen.append(("reasoning", block["thinking"]))
            case "tool_use":
                seen.append(("tool", block["id"], block["name"], block["input"]))
            case "mcp_tool_use":
                seen.append(("receipt", block["name"]))
    return seen


def chat_sees(raw: bytes) -> list[tuple]:
    state = ChatCompletionStreamState()
    for _, data in frames(raw):
        state.handle_chunk(ChatCompletionChunk.model_validate(data))
    completion = state.current_completion_snapshot
    message = completion.choices[0].message
    assert completion.choices[0].finish_reason
    assert completion.usage is not None
    spoken = (
        ("reasoning", getattr(message, "reasoning_content", None)),
        ("text", message.content),
        ("refusal", message.refusal),
    )
    seen = [(kind, text) for kind, text in spoken if text]
    return seen + [
        ("tool", call.id, call.function.name, parsed(call.function.arguments)) for call in message.tool_calls or ()
    ]


def responses_sees(raw: bytes) -> list[tuple]:
    state = ResponseStreamState(text_format=NOT_GIVEN, input_tools=NOT_GIVEN)
    final = None
    for _, data in frames(raw):
        for event in state.handle_event(RESPONSE_EVENT.validate_python(data)):
            if event.type in ("response.completed", "response.incomplete"):
                final = event.response
    assert final is not None
    assert final.usage is not None
    seen: list[tuple] = []
    for item in final.output:
        match item.type:
            case "message":
                seen += [
                    ("refusal", part.refusal) if part.type == "refusal" else ("text", part.text)
                    for part in item.content
                ]
            case "reasoning":
                seen.append(("reasoning", "".join(part.text for part in item.summary)))
            case "function_call":
                seen.append(("tool", item.call_id, item.name, parsed(item.arguments)))
            case "mcp_call":
                seen.append(("receipt", item.name))
    return seen


SEES = {"messages": messages_sees, "chat": chat_sees, "responses": responses_sees}


def own(got: Got) -> list[tuple]:
    """What our own oracle read, in the same words."""
    told: list[tuple] = []
    for block in got.blocks:
        match block.kind:
            case "tool":
                told.append(("tool", block.id, block.name, parsed(block.text)))
            case "receipt":
                told.append(("receipt", block.name))
            case _ if block.text or got.raw[:1] != b"d":  # a Chat client cannot see a block without text
                told.append((block.kind, block.text))
    return told


@pytest.mark.invariant("I18")
def test_the_sdk_accumulates_the_canonical_scenario(client, upstream):
    """The vendor's reader ends up with R, T, a and b."""
    got = translated(client, upstream, stream(upstream, CANONICAL))
    assert [("reasoning", "R"), ("text", "T"), ("tool", "call_a", "a", {"x": 1}), ("tool", "call_b", "b", {})] == SEES[
        client
    ](got.raw)


@pytest.mark.invariant("I19")
@some
@given(data=st.data())
def test_the_sdk_accepts_every_stream(client, upstream, data):
    """No generated stream makes the vendor's reader raise, and it sees what ours sees."""
    script = data.draw(scripts(upstream))
    got = translated(client, upstream, stream(upstream, script))
    seen = SEES[client](got.raw)
    if script.stop == "length" and client == "messages":
        # The SDK reads the arguments of a cut call as far as they go.
        assert [one[:3] for one in own(got)] == [one[:3] for one in seen]
    else:
        assert own(got) == seen


@pytest.mark.invariant("I20")
def test_the_sdk_reports_a_cut_stream(client, upstream):
    """A stream that ends in our error form never accumulates to a finished answer."""
    cut = stream(upstream, CANONICAL)[:6]
    got = translated(client, upstream, cut)
    assert "error" == got.terminal
    ends = {"messages": "message_stop", "responses": "response.completed", "chat": '"finish_reason":"'}
    assert ends[client].encode() not in got.raw
