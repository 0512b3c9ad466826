"""Reasoning that a client never saw comes back to the model in the next request of its tool loop."""

import json
from typing import Any

import pytest

from tests.gateway.cline import answer, ask, served
from tests.streams import Call, Say, Think

THOUGHT = "I should list the files first."
OUTPUT = "a.txt"


def declared(dialect: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    if dialect == "messages":
        return {"name": "Bash", "input_schema": schema}
    function = {"name": "Bash", "parameters": schema}
    return {"type": "function", **function} if dialect == "responses" else {"type": "function", "function": function}


def loop(dialect: str, *, session: str = "s1", ids: tuple[str, ...] = ("c1",), **more) -> dict[str, Any]:
    """A request that brings the results of calls, as a client sends it that keeps no reasoning."""
    body = ask(dialect, session=session, tools=[declared(dialect)], **more)
    arguments = '{"command": "ls"}'
    if dialect == "responses":
        body["input"] = [{"role": "user", "content": "hi"}]
        for name in ids:
            body["input"] += [
                {"type": "function_call", "call_id": name, "name": "Bash", "arguments": arguments},
                {"type": "function_call_output", "call_id": name, "output": OUTPUT},
            ]
    elif dialect == "chat":
        for name in ids:
            call = {"id": name, "type": "function", "function": {"name": "Bash", "arguments": arguments}}
            body["messages"] += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": name, "content": OUTPUT},
            ]
    else:
        for name in ids:
            use = {"type": "tool_use", "id": name, "name": "Bash", "input": json.loads(arguments)}
            result = {"type": "tool_result", "tool_use_id": name, "content": OUTPUT}
            reminder = {"type": "text", "text": "<system-reminder>be good</system-reminder>"}
            body["messages"] += [
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result, reminder]},
            ]
    return body


def reasoning(body: dict[str, Any]) -> list[str | None]:
    """The reasoning of each assistant message that a request sends."""
    return [message.get("reasoning_content") for message in body["messages"] if message["role"] == "assistant"]


every_client = pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])


def asked(dialect: str, **more) -> dict[str, Any]:
    return ask(dialect, session="s1", tools=[declared(dialect)], **more)


def calling(name: str = "c1"):
    return answer(Think(THOUGHT), Call("Bash", '{"command": "ls"}', name))


@every_client
@pytest.mark.parametrize("stream", [True, False])
async def test_reasoning_comes_back_in_the_loop(dialect, stream):
    """What the client does not send is put back before its own call, streamed or not, shown or not."""
    async with served([calling(), calling("c2"), answer(Say("done"))], reasoning="never") as (upstream, stage):
        _, text = await stage.ask(dialect, asked(dialect, stream=stream))
        assert THOUGHT not in text
        await stage.ask(dialect, loop(dialect, stream=stream))
        await stage.ask(dialect, loop(dialect, ids=("c1", "c2"), stream=stream))
        counts = stage.runtime.shadow.counts
    assert [[], [THOUGHT], [THOUGHT, THOUGHT]] == [reasoning(request.json) for request in upstream.requests]
    assert (2, 3, 0) == (counts.stores, counts.restores, counts.misses)


@every_client
async def test_a_new_human_turn_ends_it(dialect):
    """After an answer and new words the old reasoning is not restored, and its memory is given back."""
    body = loop(dialect)
    words = [{"role": "assistant", "content": "done"}, {"role": "user", "content": "and now?"}]
    body["input" if dialect == "responses" else "messages"] += words
    async with served([calling(), answer(Say("ok"))]) as (upstream, stage):
        await stage.ask(dialect, asked(dialect))
        await stage.ask(dialect, body)
        assert 0 == len(stage.runtime.shadow)
    assert THOUGHT not in json.dumps(upstream.requests[1].json)


@pytest.mark.promise("S30")
@every_client
async def test_sessions_and_clients_are_apart(dialect):
    """Another session, another client with the same session id, and no session at all get nothing."""
    async with served([calling(), *[answer(Say("ok"))] * 3]) as (upstream, stage):
        await stage.ask(dialect, asked(dialect))
        await stage.ask(dialect, loop(dialect, session="s2"))
        await stage.ask(dialect, loop(dialect), client="b")
        await stage.ask(dialect, loop(dialect, session=""))
    assert 3 * [[None]] == [reasoning(request.json) for request in upstream.requests[1:]]


async def test_two_anonymous_clients_share_nothing():
    """Without a session id nothing is remembered, rather than guessed (S31)."""
    async with served([calling(), answer(Say("ok"))]) as (upstream, stage):
        await stage.ask("chat", ask("chat", tools=[declared("chat")]))
        await stage.ask("chat", loop("chat", session=""))
        assert 0 == len(stage.runtime.shadow)
    assert [None] == reasoning(upstream.requests[1].json)


async def test_a_route_can_do_without():
    """Where the traits say that the model does not want its reasoning back, nothing is kept."""
    traits = {"reasoning_replay": False}
    async with served([calling(), answer(Say("ok"))], traits=traits) as (upstream, stage):
        await stage.ask("messages", asked("messages"))
        await stage.ask("messages", loop("messages"))
        assert 0 == len(stage.runtime.shadow)
    assert [None] == reasoning(upstream.requests[1].json)


async def test_a_broken_answer_leaves_nothing():
    """Of an answer that ended badly nothing is remembered."""
    cut = list(calling())[:-8]
    async with served([cut]) as (_, stage):
        await stage.ask("messages", asked("messages"))
        assert 0 == len(stage.runtime.shadow)
