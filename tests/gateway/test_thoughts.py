"""The shadow as one session sees it: asked and told only where that makes sense."""

import pytest

from gateway.config import Model, Route
from gateway.stores.shadow import Shadow
from gateway.thoughts import Thoughts
from tests.gateway.live import config, provider, running
from tests.streams import Call, Say, Think, chat
from tests.streams import Turn as Said
from tests.upstream import Upstream, sse
from translators.conversation import Conversation, Reasoning, Text, ToolCall, ToolResult, Turn
from translators.dialect import Target
from translators.events import BlockStart, Delta, Finish
from translators.traits import Traits

WANTED = Target("m", Traits(reasoning_replay=True))
HUMAN = Turn("user", (Text("go"),))
LOOP = Conversation(
    "chat",
    "m",
    turns=(HUMAN, Turn("assistant", (ToolCall("c1", "A", "{}"),)), Turn("user", (ToolResult("c1"),))),
)


def answer(thoughts: Thoughts) -> None:
    observe = thoughts.observer()
    assert observe is not None
    for event in (BlockStart(1, "reasoning"), Delta(1, "why"), BlockStart(2, "tool", "c1"), Finish("tool")):
        observe(event)


def test_an_answer_is_noted_and_put_back():
    """Reasoning of one request's answer stands in the session's next request, and the counts say so."""
    shadow = Shadow()
    thoughts = Thoughts(shadow, "t", "s")
    assert 0 == len(thoughts.amend(LOOP, WANTED).turns[1].parts) - 1
    answer(thoughts)
    amended = Thoughts(shadow, "t", "s").amend(LOOP, WANTED)
    assert Reasoning("why") == amended.turns[1].parts[0]
    assert (1, 1, 1) == (shadow.counts.stores, shadow.counts.restores, shadow.counts.misses)


def test_over_is_forgotten():
    """Calls before the latest human words lose their entries with the next request."""
    shadow = Shadow()
    thoughts = Thoughts(shadow, "t", "s")
    thoughts.amend(LOOP, WANTED)
    answer(thoughts)
    later = Conversation("chat", "m", turns=(*LOOP.turns, Turn("assistant", (Text("ok"),)), HUMAN))
    assert later is thoughts.amend(later, WANTED)
    assert 0 == len(shadow)


def test_nothing_without_session_or_wish():
    """Without a session, or where the model wants no reasoning back, nothing is looked up or watched."""
    for session, target in (("", WANTED), ("s", Target("m", Traits()))):
        thoughts = Thoughts(Shadow(), "t", session)
        assert LOOP is thoughts.amend(LOOP, target)
        assert None is thoughts.observer()


@pytest.mark.parametrize("model", ["glm-5", "deepseek-chat"])
async def test_a_native_chat_route_gets_its_reasoning_back(model):
    """A Chat client of a plain Chat upstream has the shadow too, where the model wants its reasoning (issue 4.4)."""
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    tools = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]
    loop = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ]
    answers = [sse(chat(Said([Think("because"), Call("ls", "{}", "c1")]))), sse(chat(Said([Say("ok")])))]
    async with Upstream(answers) as upstream:
        routes = {"m1": Model(routes=(Route("up", model),))}
        async with running(config(provider(upstream.url), models=routes)) as live:
            await live.send("chat", user="alice", tools=tools)
            await live.send("chat", user="alice", tools=tools, messages=loop)
    assert "because" == upstream.requests[1].json["messages"][1]["reasoning_content"]
