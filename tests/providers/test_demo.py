"""The scripted upstream in this process, through its provider as the gateway uses it."""

import json

import pytest

from providers import demo
from providers.api import Call, Setup
from providers.demo import ANSWER, REASONING, SCRIPTS, Demo, plugin
from providers.transport import ERRORS, new_session
from translators.conversation import Conversation
from translators.dialect import Target
from translators.traits import Traits

TOOL = {
    "type": "function",
    "function": {
        "name": "Bash",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "limit": {"type": "integer"},
                "ratio": {"type": "number"},
                "deep": {"type": "boolean"},
                "paths": {"type": "array"},
                "env": {"type": "object"},
                "odd": {"type": ["string", "null"]},
                "strange": {"type": "unheard"},
            },
            "required": ["command", "limit", "ratio", "deep", "paths", "env", "odd", "strange", "undeclared"],
        },
    },
}


@pytest.fixture
async def provider(monkeypatch):
    monkeypatch.setattr(demo, "PAUSE_S", 0)
    made = plugin.build(Setup("demo", "", "chat", {}, new_session))
    assert isinstance(made, Demo)
    yield made
    await made.close()


async def ask(provider, model="demo", *, stream=True, messages=(), **more):
    turns = [{"role": "user", "content": "hi"}, *messages]
    body = json.dumps({"model": model, "messages": turns, "stream": stream, **more}).encode()
    return await provider.open(Call(body, stream, model, "chat"), "demo")


async def frames(reply):
    data = b"".join([chunk async for chunk in reply.chunks()])
    await reply.release()
    return [line[6:] for line in data.decode().splitlines() if line.startswith("data: ")]


async def document(reply):
    data = await reply.read(100_000)
    await reply.release()
    return json.loads(data)


async def deltas(reply):
    chunks = [json.loads(line) for line in await frames(reply) if line != "[DONE]"]
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


async def test_it_reasons_and_answers(provider):
    """Word by word, with usage and an end."""
    lines = await frames(await ask(provider))
    chunks = [json.loads(line) for line in lines[:-1]]
    told = [choice for chunk in chunks for choice in chunk["choices"]]
    assert REASONING + " " == "".join(choice["delta"].get("reasoning_content", "") for choice in told)
    assert ANSWER == "".join(choice["delta"].get("content", "") for choice in told)
    assert ("stop", "[DONE]") == (told[-1]["finish_reason"], lines[-1])
    usage = chunks[-1]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_it_answers_whole(provider):
    """Without a stream the same answer is one document."""
    told = await document(await ask(provider, stream=False))
    [choice] = told["choices"]
    assert (ANSWER, REASONING, "stop") == (
        choice["message"]["content"],
        choice["message"]["reasoning_content"],
        choice["finish_reason"],
    )


async def test_it_calls_the_first_tool(provider):
    """With arguments that fit the schema, streamed and whole."""
    [delta] = [one for one in await deltas(await ask(provider, "demo-tool", tools=[TOOL])) if "tool_calls" in one]
    [call] = delta["tool_calls"]
    assert ("Bash", 0) == (call["function"]["name"], call["index"])
    assert {
        "command": "echo hello from dragoman",
        "limit": 1,
        "ratio": 1,
        "deep": True,
        "paths": [],
        "env": {},
        "odd": "hello from dragoman",
        "strange": "hello from dragoman",
        "undeclared": "hello from dragoman",
    } == json.loads(call["function"]["arguments"])
    [choice] = (await document(await ask(provider, "demo-tool", stream=False, tools=[TOOL])))["choices"]
    assert ("tool_calls", None) == (choice["finish_reason"], choice["message"]["content"])


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [({}, {}), ({"properties": {"a": {}, "b": {}}}, {"a": "hello from dragoman"}), ({"properties": None}, {})],
)
async def test_a_loose_schema_gets_one_argument(provider, parameters, arguments):
    """The first property when none is required, nothing when there is none."""
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    [delta] = [one for one in await deltas(await ask(provider, "demo-tool", tools=[tool])) if "tool_calls" in one]
    assert arguments == json.loads(delta["tool_calls"][0]["function"]["arguments"])


async def test_it_reports_a_tools_result(provider):
    """The second turn is text."""
    result = {"role": "tool", "tool_call_id": "call_demo_1", "content": "42"}
    told = await deltas(await ask(provider, "demo-tool", tools=[TOOL], messages=[result]))
    assert "The tool returned: 42" == "".join(one.get("content", "") for one in told)


@pytest.mark.parametrize(("model", "status", "limited"), [("demo-429", 429, True), ("demo-500", 500, False)])
async def test_bad_days(provider, model, status, limited):
    """A limit rests the key, an error does not."""
    reply = await ask(provider, model)
    assert status == reply.status
    verdict = await provider.judge(
        reply.status, reply.headers, await reply.read(1000), Call(b"", True, model, "chat"), "demo"
    )
    assert (limited, 30.0 if limited else None) == (verdict.limited, verdict.wait_s)
    await reply.release()


async def test_a_cut_answer_has_no_end(provider):
    """Half of it, and then the connection is gone."""
    reply = await ask(provider, "demo-cut")
    got = b""
    with pytest.raises(ERRORS):
        async for chunk in reply.chunks():
            got += chunk
    reply.abort()
    assert b"Hello" in got
    assert b"[DONE]" not in got


async def test_a_silent_answer_begins(provider, monkeypatch):
    """It begins and then says nothing for as long as anybody waits."""
    monkeypatch.setattr(demo, "SILENCE_S", 0.05)
    reply = await ask(provider, "demo-silent")
    first = await anext(reply.chunks())
    assert b'"role":"assistant"' in first
    assert b"[DONE]" == (await frames(reply))[-1].encode()


async def test_it_listens_once(provider):
    """Two requests meet one server, and a closed provider has none."""
    await (await ask(provider, stream=False)).release()
    url = provider._script.url
    await (await ask(provider, stream=False)).release()
    assert url == provider._script.url
    await provider.close()
    assert provider._script._runner is None


async def test_closing_an_unused_one_does_nothing():
    """Neither session nor socket was made."""
    await plugin.build(Setup("demo", "", "chat", {}, new_session)).close()


def test_it_has_no_policy():
    """Generic traits, requests unchanged, one origin a model, a key that is only a name."""
    made = plugin.build(Setup("demo", "", "chat", {}, new_session))
    conversation = Conversation(dialect="chat", model="m", turns=[])
    assert conversation is made.amend(conversation, Target(model="m", traits=Traits()))
    assert Traits() == made.traits("demo")
    assert made.origin("a") != made.origin("b")
    assert ("demo",) == made.key_names
    assert not plugin.needs_keys
    assert "demo" in SCRIPTS
