"""Kinds of fault that users of such gateways report, one line a kind: what a provider sends, what a client asks.

The streams that clients get are read by the grammars' oracles, so a line is odd bytes and the meaning that survives.
"""

from typing import Any

import pytest

from tests.gateway.live import config, provider, running
from tests.streams import STREAM, Say, Turn, frame
from tests.translators.readings import meaning, read
from tests.upstream import Head, Upstream, reply_json

SSE = Head(headers=[("content-type", "text/event-stream")])
DONE = b"data: [DONE]\n\n"
SHOWN = {"responses": {"reasoning": {"summary": "auto"}}, "messages": {}}
TEXT = [("text", "ok", None, None)]
CALL = [("tool", {"q": "x"}, "call_a", "look")]
WHOLE = '{"q":"x"}'


def chunk(delta=None, reason=None, **more):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": reason}
    return frame({"id": "up-1", "created": 1, "model": "up-m", "choices": [choice]} | more)


def call(arguments, *, index=0, id="call_a", name="look", reason=None):  # noqa: A002 - the wire's word
    return chunk(
        {"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}, reason
    )


def counted(**usage):
    return {"prompt_tokens": 3, "completion_tokens": 2, **usage}


SAID, STOP, TOOLS = chunk({"content": "ok"}), chunk(reason="stop"), chunk(reason="tool_calls")
THOUGHT = [("reasoning", "hm", None, None), *TEXT]

ANSWERS: dict[str, tuple[list[bytes], str, list[Any]]] = {
    "id in every fragment": ([call('{"q"'), call(':"x"}', name=None), TOOLS, DONE], "tool", CALL),
    "empty id and name later": ([call('{"q"'), call(':"x"}', id="", name=""), TOOLS, DONE], "tool", CALL),
    "index from one": ([call(WHOLE, index=1), TOOLS, DONE], "tool", CALL),
    "arguments null, then whole": ([call(None), call(WHOLE, id=None, name=None), TOOLS, DONE], "tool", CALL),
    "arguments as an object": ([call({"q": "x"}), TOOLS, DONE], "tool", CALL),
    "a placeholder for arguments": ([call("{}"), call('{"q"', name=None), call(':"x"}', name=None), TOOLS], "tool", CALL),
    "arguments told again": ([call('{"q"'), call(':"x"}', name=None), call(WHOLE), TOOLS], "tool", CALL),
    "call in the last chunk": ([call(WHOLE, reason="tool_calls"), DONE], "tool", CALL),
    "stub of a legacy call": ([call(WHOLE), chunk({"function_call": {"name": "", "arguments": ""}}), TOOLS], "tool", CALL),
    "empty reason in every chunk": ([chunk({"content": "ok"}, ""), call(WHOLE, reason=""), TOOLS], "tool", TEXT + CALL),
    "cut, in another vendor's word": ([SAID, chunk(reason="MAX_TOKENS"), DONE], "length", TEXT),
    "blocked, in another vendor's word": ([SAID, chunk(reason="sensitive"), DONE], "refusal", TEXT),
    "an unknown reason": ([SAID, chunk(reason="eos"), DONE], "end", TEXT),
    "no end marker": ([SAID, STOP], "end", TEXT),
    "no blank line at the end": ([SAID, STOP.rstrip()], "end", TEXT),
    "byte order mark": ([b"\xef\xbb\xbf", SAID, STOP, DONE], "end", TEXT),
    "bare carriage returns": ([b"".join([SAID, STOP, DONE]).replace(b"\n", b"\r")], "end", TEXT),
    "comments, ids and retries": ([b": busy\n\nretry: 5\nid: 1\n\n", SAID, b"id: 2\n" + STOP, DONE], "end", TEXT),
    "more behind the end": ([SAID, STOP, DONE, SAID, DONE], "end", TEXT),
    "filter results first": ([frame({"id": "", "model": "", "choices": []}), SAID, STOP, DONE], "end", TEXT),
    "null choices and deltas": ([chunk(choices=None), chunk(choices=[{"delta": None}]), SAID, STOP, DONE], "end", TEXT),
    "a message for a delta": ([chunk(choices=[{"message": {"content": "ok"}, "finish_reason": "stop"}])], "end", TEXT),
    "content as a list": ([chunk({"content": [{"type": "text", "text": "ok"}]}), STOP, DONE], "end", TEXT),
    "reasoning under two names": ([chunk({"reasoning": "hm", "reasoning_content": "hm"}), SAID, STOP], "end", THOUGHT),
    "reasoning as content": (
        [chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}), SAID, STOP],
        "end",
        THOUGHT,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("client", ["messages", "responses"])
async def test_what_providers_send(client):
    """Odd streams of Chat providers keep their meaning and become streams of the client's grammar."""
    replies = [[SSE, *frames] for frames, _, _ in ANSWERS.values()]
    async with Upstream(replies) as upstream, running(config(provider(upstream.url))) as live:
        for kind, (_, stop, blocks) in ANSWERS.items():
            got = read(client, (await live.send(client, **SHOWN[client])).body)
            found = [block[:4] for block in meaning(got.blocks)]
            plain = [(name, text, *(ids if name == "tool" else (None, None))) for name, text, *ids in found]
            assert ("success", stop, blocks) == (got.terminal, got.stop, plain), kind


@pytest.mark.parametrize("client", ["messages", "responses"])
@pytest.mark.parametrize("reason", ["network_error", "abort", "insufficient_system_resource"])
async def test_an_answer_that_was_given_up(client, reason):
    """What a provider ends with a word of its own, since it could not finish, is no success."""
    replies = [[SSE, SAID, chunk(reason=reason), DONE]]
    async with Upstream(replies) as upstream, running(config(provider(upstream.url))) as live:
        assert "error" == read(client, (await live.send(client)).body).terminal


@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    "end",
    [
        [chunk(reason="stop", usage=counted())],
        [STOP, chunk(choices=[], usage=counted())],
        [STOP, chunk(choices=None, usage=counted())],
        [STOP, chunk(choices=[], usage={"input_tokens": 3, "output_tokens": 2})],
        [chunk(choices=[{"delta": {}, "finish_reason": "stop", "usage": counted()}])],
    ],
)
async def test_where_counts_stand(client, end):
    """Each provider's place and names for the counts end in the same record."""
    async with Upstream([[SSE, SAID, *end, DONE]]) as upstream, running(config(provider(upstream.url))) as live:
        await live.send(client)
        (record,) = await live.records()
    assert (3, 2, "complete") == (record["input_tokens"], record["output_tokens"], record["outcome"])


def rounds(first, second):
    """A history of two tool rounds of a Messages client."""
    turns: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for call_id, result in ((first, "A"), (second, "B")):
        used = {"type": "tool_use", "id": call_id, "name": "look", "input": {}}
        turns.append({"role": "assistant", "content": [used]})
        told = {"type": "tool_result", "tool_use_id": call_id, "content": result}
        turns.append({"role": "user", "content": [told]})
    return turns


@pytest.mark.parametrize(
    ("up", "calls", "results"), [("chat", "id", "tool_call_id"), ("responses", "call_id", "call_id")]
)
async def test_ids_that_come_back(up, calls, results):
    """A server that names the calls of each answer anew does not end the conversation at its second round."""
    async with Upstream([[SSE, *STREAM[up](Turn([Say("ok")]))]]) as upstream:
        async with running(config(provider(upstream.url, up))) as live:
            assert 200 == (await live.send("messages", messages=rounds("call_0", "call_0"))).status
        sent = upstream.requests[0].json
    items = sent["messages"] if up == "chat" else sent["input"]
    asked = [call for item in items for call in item.get("tool_calls") or ([item] if "arguments" in item else [])]
    answered = [item for item in items if item.get("role") == "tool" or item.get("type") == "function_call_output"]
    assert ["call_0", "call_0_2"] == [one[calls] for one in asked] == [one[results] for one in answered]


SCHEMAS = [
    ({}, {"type": "object", "properties": {}}),
    ({"type": "object"}, {"type": "object", "properties": {}}),
    (
        {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
        {"type": "object", "properties": {"a": {}, "b": {}}},
    ),
]


@pytest.mark.parametrize("up", ["chat", "responses", "messages"])
async def test_schemas_that_vendors_refuse(up):
    """Whatever a client declares, the provider gets an object with properties."""
    client = "chat" if up == "messages" else "messages"
    tools = [{"name": f"t{n}", "input_schema": schema} for n, (schema, _) in enumerate(SCHEMAS)]
    if client == "chat":
        tools = [
            {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
            for tool in tools
        ]
    async with Upstream([[SSE, *STREAM[up](Turn([Say("ok")]))]]) as upstream:
        async with running(config(provider(upstream.url, up))) as live:
            await live.send(client, tools=tools)
        sent = upstream.requests[0].json["tools"]
    place = {"chat": "parameters", "responses": "parameters", "messages": "input_schema"}[up]
    assert [schema for _, schema in SCHEMAS] == [tool.get("function", tool)[place] for tool in sent]


async def test_a_reference_to_what_nobody_holds():
    """A turn that the client only names is told to be missing; going on would forget it."""
    items = [{"role": "user", "content": "hi"}, {"type": "item_reference", "id": "msg_1"}]
    async with Upstream() as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.send("responses", input=[*items, items[0]])
        assert (400, "missing_state") == (reply.status, reply.json["error"]["code"])
        assert [] == upstream.requests


@pytest.mark.parametrize(
    "body",
    [
        {"error": "told"},
        {"detail": "told"},
        {"message": "told"},
        {"errors": [{"message": "told"}]},
        [{"error": {"code": 400, "message": "told", "status": "INVALID_ARGUMENT"}}],
    ],
)
async def test_error_bodies_of_all_shapes(body):
    """The provider's words reach the client in the client's envelope."""
    async with Upstream([reply_json(body, 400)]) as upstream, running(config(provider(upstream.url))) as live:
        reply = await live.send("messages")
    assert (400, "error", "told") == (reply.status, reply.json["type"], reply.json["error"]["message"])


async def test_a_wait_counts_down():
    """Each client that comes while a key rests is told what is left, not a moment more."""
    limited = reply_json({"error": {"message": "slow down"}}, 429, headers=[("retry-after", "30")])
    async with Upstream([limited]) as upstream, running(config(provider(upstream.url))) as live:
        replies = [await live.send("chat", stream=False) for _ in range(2)]
        assert 1 == len(upstream.requests)
    assert [(429, "30"), (429, "30")] == [(reply.status, reply.headers["retry-after"]) for reply in replies]
