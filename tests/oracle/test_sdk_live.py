"""The vendors' SDKs as clients of a running gateway: every surface, streaming and not, over each upstream dialect.

aiohttp-sse-client reads the same streams as one more independent reader of server-sent events.
"""

import json
from contextlib import asynccontextmanager

import aiohttp
import anthropic
import openai
import pytest
from aiohttp_sse_client import client as sse_client

from tests.gateway.live import CLIENT_KEY, PATHS, config, provider, request, running
from tests.streams import STREAM, WHOLE, Call, Say, Think, Turn
from tests.upstream import End, Upstream, reply_json, sse

pytestmark = pytest.mark.slow
DIALECTS = ("chat", "responses", "messages")
over_each = pytest.mark.parametrize("upstream", DIALECTS)
TURN = Turn([Think("Let me see."), Say("It is sünny in Gent."), Call("get_weather", '{"city":"Gent"}')])
SAID, ARGUMENTS = "It is sünny in Gent.", {"city": "Gent"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
RESPONSES_TOOLS = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
MESSAGES_TOOLS = [{"name": "get_weather", "input_schema": SCHEMA}]
HI = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def gateway(upstream, reply):
    """A gateway over one scripted reply, told again as often as it is asked for."""
    async with Upstream(lambda _: reply) as server, running(config(provider(server.url, upstream))) as live:
        yield live


def streamed(upstream, turn=TURN):
    return sse(STREAM[upstream](turn))


def whole(upstream, turn=TURN):
    return reply_json(WHOLE[upstream](turn))


def openai_client(live):
    return openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key=CLIENT_KEY, max_retries=0)


def anthropic_client(live):
    return anthropic.AsyncAnthropic(base_url=live.url, api_key=CLIENT_KEY, max_retries=0)


# Chat


@over_each
async def test_chat_create(upstream):
    """`chat.completions.create` returns the whole answer."""
    async with gateway(upstream, whole(upstream)) as live, openai_client(live) as client:
        completion = await client.chat.completions.create(model="m1", messages=HI, tools=CHAT_TOOLS)
    (call,) = completion.choices[0].message.tool_calls
    assert (SAID, "tool_calls", "m1") == (
        completion.choices[0].message.content,
        completion.choices[0].finish_reason,
        completion.model,
    )
    assert ("get_weather", ARGUMENTS) == (call.function.name, json.loads(call.function.arguments))
    assert (11, 7) == (completion.usage.prompt_tokens, completion.usage.completion_tokens)


@over_each
async def test_chat_create_stream(upstream):
    """`create(stream=True)` yields chunks whose pieces make the answer."""
    async with gateway(upstream, streamed(upstream)) as live, openai_client(live) as client:
        chunks = await client.chat.completions.create(model="m1", messages=HI, tools=CHAT_TOOLS, stream=True)
        deltas = [choice.delta async for chunk in chunks for choice in chunk.choices]
    assert SAID == "".join(delta.content or "" for delta in deltas)
    fragments = [call.function.arguments for delta in deltas for call in delta.tool_calls or ()]
    assert ARGUMENTS == json.loads("".join(fragments))


@over_each
async def test_chat_stream_helper(upstream):
    """`chat.completions.stream` accumulates the same, with counts."""
    async with gateway(upstream, streamed(upstream)) as live, openai_client(live) as client:
        options = {"include_usage": True}
        async with client.chat.completions.stream(
            model="m1", messages=HI, tools=CHAT_TOOLS, stream_options=options
        ) as stream:
            completion = await stream.get_final_completion()
    message = completion.choices[0].message
    assert (SAID, "tool_calls") == (message.content, completion.choices[0].finish_reason)
    assert ARGUMENTS == json.loads(message.tool_calls[0].function.arguments)
    assert 18 == completion.usage.total_tokens


# Responses


def responses_sees(response):
    (call,) = (item for item in response.output if item.type == "function_call")
    return response.output_text, call.name, json.loads(call.arguments), response.status, response.model


@over_each
async def test_responses_create(upstream):
    """`responses.create` returns the whole answer."""
    async with gateway(upstream, whole(upstream)) as live, openai_client(live) as client:
        response = await client.responses.create(model="m1", input="hi", tools=RESPONSES_TOOLS)
    assert (SAID, "get_weather", ARGUMENTS, "completed", "m1") == responses_sees(response)
    assert (11, 3, 7) == (
        response.usage.input_tokens,
        response.usage.input_tokens_details.cached_tokens,
        response.usage.output_tokens,
    )


@over_each
async def test_responses_create_stream(upstream):
    """`create(stream=True)` yields typed events, first created, last completed."""
    async with gateway(upstream, streamed(upstream)) as live, openai_client(live) as client:
        events = [
            event
            async for event in await client.responses.create(model="m1", input="hi", tools=RESPONSES_TOOLS, stream=True)
        ]
    assert ("response.created", "response.completed") == (events[0].type, events[-1].type)
    assert SAID == "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert (SAID, "get_weather", ARGUMENTS, "completed", "m1") == responses_sees(events[-1].response)


@over_each
async def test_responses_stream_helper(upstream):
    """`responses.stream` accumulates the same."""
    async with gateway(upstream, streamed(upstream)) as live, openai_client(live) as client:
        async with client.responses.stream(model="m1", input="hi", tools=RESPONSES_TOOLS) as stream:
            response = await stream.get_final_response()
    assert (SAID, "get_weather", ARGUMENTS, "completed", "m1") == responses_sees(response)


# Messages


def messages_sees(message):
    (call,) = (block for block in message.content if block.type == "tool_use")
    text = "".join(block.text for block in message.content if block.type == "text")
    return text, call.name, call.input, message.stop_reason, message.model


@over_each
async def test_messages_create(upstream):
    """`messages.create` returns the whole answer."""
    async with gateway(upstream, whole(upstream)) as live, anthropic_client(live) as client:
        message = await client.messages.create(model="m1", max_tokens=256, messages=HI, tools=MESSAGES_TOOLS)
    assert (SAID, "get_weather", ARGUMENTS, "tool_use", "m1") == messages_sees(message)
    assert (8, 3, 7) == (message.usage.input_tokens, message.usage.cache_read_input_tokens, message.usage.output_tokens)


@over_each
async def test_messages_create_stream(upstream):
    """`create(stream=True)` yields events from message_start to message_stop."""
    async with gateway(upstream, streamed(upstream)) as live, anthropic_client(live) as client:
        stream = await client.messages.create(
            model="m1", max_tokens=256, messages=HI, tools=MESSAGES_TOOLS, stream=True
        )
        events = [event async for event in stream]
    assert ("message_start", "message_stop") == (events[0].type, events[-1].type)
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert SAID == "".join(delta.text for delta in deltas if delta.type == "text_delta")


@over_each
async def test_messages_stream_helper(upstream):
    """`messages.stream` accumulates the same, thinking included."""
    thinking = {"type": "enabled", "budget_tokens": 1024}
    async with gateway(upstream, streamed(upstream)) as live, anthropic_client(live) as client:
        async with client.messages.stream(
            model="m1", max_tokens=2048, messages=HI, tools=MESSAGES_TOOLS, thinking=thinking
        ) as stream:
            message = await stream.get_final_message()
    assert (SAID, "get_weather", ARGUMENTS, "tool_use", "m1") == messages_sees(message)
    assert ["Let me see."] == [block.thinking for block in message.content if block.type == "thinking"]


# Errors, as the SDKs raise them


@over_each
async def test_rate_limits_are_the_sdks_own_error(upstream):
    """A 429 of the upstream is the RateLimitError of both SDKs, with its message."""
    limited = reply_json({"error": {"message": "Slow down, please.", "type": "rate_limit_error"}}, 429)
    async with gateway(upstream, limited) as live, openai_client(live) as client, anthropic_client(live) as other:
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(model="m1", messages=HI)
        assert 429 == refused.value.status_code
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="m1", input="hi", stream=True)
        with pytest.raises(anthropic.RateLimitError) as refused:
            await other.messages.create(model="m1", max_tokens=9, messages=HI)
        assert "rate_limit_error" == refused.value.body["error"]["type"]


@pytest.mark.parametrize("upstream", ["responses", "messages"])
async def test_a_refused_request_names_its_field(upstream):
    """A 400 before any upstream call is BadRequestError with the field's path."""
    async with gateway(upstream, whole(upstream)) as live, openai_client(live) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model="m1", messages=HI, n=2)
    assert ("n", "unsupported_parameter") == (refused.value.param, refused.value.code)


@pytest.mark.parametrize("upstream", ["chat", "responses"])
async def test_a_refused_message_is_the_vendors_error(upstream):
    """So with the other SDK: a user who calls tools is refused in Anthropic's own words."""
    call = {"type": "tool_use", "id": "x", "name": "y", "input": {}}
    async with gateway(upstream, whole(upstream)) as live, anthropic_client(live) as client:
        with pytest.raises(anthropic.BadRequestError) as refused:
            await client.messages.create(model="m1", max_tokens=9, messages=[{"role": "user", "content": [call]}])
    assert "invalid_request_error" == refused.value.body["error"]["type"]
    assert "messages.0.content.0" in refused.value.body["error"]["message"]


@over_each
async def test_a_cut_stream_raises(upstream):
    """An upstream that breaks off never looks finished to an SDK."""
    cut = [*streamed(upstream)[:6], End.RESET]
    async with gateway(upstream, cut) as live, openai_client(live) as client, anthropic_client(live) as other:
        with pytest.raises(openai.APIError):
            _ = [chunk async for chunk in await client.chat.completions.create(model="m1", messages=HI, stream=True)]
        with pytest.raises(anthropic.APIError):
            _ = [
                event async for event in await other.messages.create(model="m1", max_tokens=9, messages=HI, stream=True)
            ]
        events = [event async for event in await client.responses.create(model="m1", input="hi", stream=True)]
    assert ("response.failed", "failed") == (events[-1].type, events[-1].response.status)


async def test_models_and_token_counts():
    """The model lists of both SDKs name the alias, and tokens are counted."""
    async with gateway("chat", whole("chat")) as live, openai_client(live) as client, anthropic_client(live) as other:
        assert ["m1"] == [model.id async for model in client.models.list()]
        assert ["m1"] == [model.id async for model in other.models.list()]
        counted = await other.messages.count_tokens(model="m1", messages=HI)
    assert counted.input_tokens > 1


# One more reader of event streams


@pytest.mark.parametrize("client", DIALECTS)
@over_each
async def test_an_independent_reader_of_event_streams(client, upstream):
    """aiohttp-sse-client parses every stream: named events as their types, one JSON document each."""
    async with gateway(upstream, streamed(upstream)) as live, aiohttp.ClientSession() as session:
        names, told = [], []
        headers = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"}
        source = sse_client.EventSource(
            live.url + PATHS[client],
            session=session,
            option={"method": "POST"},
            headers=headers,
            data=json.dumps(request(client)),
            max_connect_retry=0,
        )
        async with source:
            # It would send the request again at the end of the stream, so it is left at the terminal.
            async for event in source:
                names.append(event.message)
                if event.data == "[DONE]":
                    break
                told.append(json.loads(event.data))
                if event.message in ("message_stop", "response.completed"):
                    break
    if client == "chat":
        assert {""} == set(names)
        assert SAID == "".join(choice["delta"].get("content") or "" for chunk in told for choice in chunk["choices"])
    else:
        assert [event["type"] for event in told] == names
