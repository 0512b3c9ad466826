"""The vendors' own SDKs read our scripted streams, so that tests do not stand on bytes that nobody sends."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.streams import STREAM, WHOLE, Call, Say, Think, Turn
from tests.upstream import Upstream, reply_json, sse

pytestmark = pytest.mark.slow  # the vendors' SDKs take seconds to import
TEXT = 'caf\u00e9 \u2713 \U0001f980 and a "quoted" {brace}'
BLOCKS = [
    Think("First I look.", seal="c2VhbA=="),
    Say(TEXT),
    Call("read", '{"path": "a b.txt"}', "call_a"),
    Call("read", '{"path": "c.txt"}', "call_b"),
]
CALLS = [("call_a", "read", {"path": "a b.txt"}), ("call_b", "read", {"path": "c.txt"})]


def reply(dialect: str, stream: bool) -> list[Any]:
    turn = Turn(BLOCKS)
    return sse(STREAM[dialect](turn)) if stream else reply_json(WHOLE[dialect](turn))


async def ask_chat(url: str, stream: bool) -> tuple[str, list[Any]]:
    async with AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        if stream:
            async with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as events:
                got = await events.get_final_completion()
        else:
            got = await client.chat.completions.create(**asked)
    assert 18 == got.usage.total_tokens
    message = got.choices[0].message
    return message.content, [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls]


async def ask_responses(url: str, stream: bool) -> tuple[str, list[Any]]:
    async with AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
        if stream:
            async with client.responses.stream(model="m", input="hi") as events:
                got = await events.get_final_response()
        else:
            got = await client.responses.create(model="m", input="hi")
    assert 18 == got.usage.total_tokens
    calls = [item for item in got.output if item.type == "function_call"]
    return got.output_text, [(c.call_id, c.name, json.loads(c.arguments)) for c in calls]


async def ask_messages(url: str, stream: bool) -> tuple[str, list[Any]]:
    async with AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        asked = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
        if stream:
            async with client.messages.stream(**asked) as events:
                got = await events.get_final_message()
        else:
            got = await client.messages.create(**asked)
    assert (8, 3, 7) == (got.usage.input_tokens, got.usage.cache_read_input_tokens, got.usage.output_tokens)
    assert "c2VhbA==" == got.content[0].signature
    calls = [(block.id, block.name, block.input) for block in got.content if block.type == "tool_use"]
    return "".join(block.text for block in got.content if block.type == "text"), calls


ASK: dict[str, Callable[..., Any]] = {"chat": ask_chat, "responses": ask_responses, "messages": ask_messages}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("dialect", ASK)
async def test_vendor_sdk_reads_the_turn(dialect, stream):
    """Text, calls and usage come out of the vendor's SDK as they went in."""
    async with Upstream([reply(dialect, stream)]) as upstream:
        assert (TEXT, CALLS) == await ASK[dialect](upstream.url, stream)


CUSTOM = Call("patch", "*** free text", "call_c", namespace="functions", custom=True)  # the chunk type has no such call


@pytest.mark.parametrize(
    ("dialect", "event", "whole", "blocks"),
    [
        ("chat", ChatCompletionChunk, ChatCompletion, BLOCKS),
        ("responses", ResponseStreamEvent, Response, [*BLOCKS, CUSTOM]),
    ],
    ids=["chat", "responses"],
)
def test_frames_have_every_required_field(dialect, event, whole, blocks):
    """Each event and each whole answer fits the vendor's type for it."""
    turn = Turn(blocks, cut=True)
    frames = [frame.partition(b"data: ")[2] for frame in STREAM[dialect](turn)]
    for data in frames:
        if data != b"[DONE]\n\n":
            TypeAdapter(event).validate_json(data)
    TypeAdapter(whole).validate_python(WHOLE[dialect](turn))


def test_cut_turn_says_so():
    """A turn that ran into its limit ends with the protocol's word for it."""
    turn = Turn([Say("half")], cut=True)
    assert b'"finish_reason": "length"' in b"".join(STREAM["chat"](turn))
    assert b"event: response.incomplete" in STREAM["responses"](turn)[-1]
    assert b'"stop_reason": "max_tokens"' in STREAM["messages"](turn)[-2]
