"""Histories there and back again (I32): Messages to Responses or Chat and back is the identity on what both can say."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translators.readings import requested
from tests.translators.scripts import IDS, OBJECTS, TEXT
from translators.pair import Prepared

PNG = "iVBORw0KGgo="
some = settings(max_examples=40)
through = pytest.mark.parametrize("middle", ["responses", "chat"])


def there_and_back(body: dict, client: str, middle: str, **options: str) -> dict:
    """The body that comes out when a request crosses to another dialect and back."""
    there = requested(client, middle, json.dumps(body).encode(), model=body["model"])
    assert isinstance(there, Prepared), there
    back = requested(middle, client, there.body, model=body["model"], **options)
    assert isinstance(back, Prepared), back
    return json.loads(back.body)


def blocks(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def normal(messages: list[dict], middle: str) -> list[tuple[str, list[dict]]]:
    """Messages in one spelling: blocks always, neighbours of a role together; Chat knows no parts of an assistant's text."""
    out: list[tuple[str, list[dict]]] = []
    for message in messages:
        told = [dict(block) for block in blocks(message["content"])]
        for block in told:
            if block["type"] == "tool_result":
                block["content"] = "\n".join(piece["text"] for piece in blocks(block.get("content") or ""))
        if out and out[-1][0] == message["role"]:
            out[-1][1].extend(told)
        else:
            out.append((message["role"], told))
    if middle == "chat":
        return [(role, joined(told) if role == "assistant" else told) for role, told in out]
    return out


def joined(told: list[dict]) -> list[dict]:
    text = "".join(block["text"] for block in told if block["type"] == "text")
    return [{"type": "text", "text": text}] * bool(text) + [block for block in told if block["type"] != "text"]


# Text that Chat and Responses keep apart from the blank user text which Messages needs now and then.
WORDS = TEXT.filter(lambda text: text.strip())


@st.composite
def histories(draw: st.DrawFn) -> list[dict]:
    """A Messages history of text, images, calls and results, as agents send them."""
    messages: list[dict] = []
    made = 0
    for _ in range(draw(st.integers(1, 4))):
        asked = [{"type": "text", "text": draw(WORDS)}]
        if draw(st.booleans()):
            asked.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})
        messages.append({"role": "user", "content": asked})
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                made += 1
                calls.append(
                    {
                        "type": "tool_use",
                        "id": f"{draw(IDS)}{made}",
                        "name": draw(st.sampled_from(("look", "find"))),
                        "input": draw(OBJECTS),
                    }
                )
            spoken = [{"type": "text", "text": draw(WORDS)}] if draw(st.booleans()) else []
            messages.append({"role": "assistant", "content": spoken + calls})
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": draw(WORDS)} for call in calls]
            messages.append({"role": "user", "content": results})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": draw(WORDS)}]})
    messages.append({"role": "user", "content": draw(WORDS)})
    return messages


@through
@pytest.mark.invariant("I32")
@some
@given(messages=histories())
def test_messages_history_comes_back(middle, messages):
    """Text, images, calls with their inputs and results are the same, in the same order."""
    back = there_and_back({"model": "claude-sonnet-5", "max_tokens": 100, "messages": messages}, "messages", middle)
    assert normal(messages, middle) == normal(back["messages"], middle)


@pytest.mark.parametrize("middle", ["messages", "chat"])
@pytest.mark.invariant("I32")
def test_responses_history_comes_back(middle):
    """A Responses history of the usual items comes back item by item."""
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q":1}'},
        {"type": "function_call", "call_id": "c2", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks."}]},
    ]
    back = there_and_back({"model": "gpt-4.1", "input": items}, "responses", middle)
    assert items == back["input"]


@pytest.mark.parametrize("middle", ["messages", "responses"])
@pytest.mark.invariant("I32")
def test_chat_history_comes_back(middle):
    """A Chat history comes back message by message."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q":1}'}},
            {"id": "c2", "type": "function", "function": {"name": "find", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks."},
    ]  # fmt: skip
    back = there_and_back({"model": "up-m", "messages": messages}, "chat", middle)
    assert messages == back["messages"]


@through
@pytest.mark.invariant("I32")
def test_tools_and_controls_come_back(middle):
    """Tools, the choice among them and the controls that all three know keep their values."""
    body = {
        "model": "claude-sonnet-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [
            {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"b": {"type": "string"}, "a": {}}}},
            {"name": "find", "input_schema": {"type": "object", "properties": {}}, "strict": True},
        ],
        "tool_choice": {"type": "tool", "name": "find", "disable_parallel_tool_use": True},
        "metadata": {"user_id": "u"},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "z": 1, "a": 2}}},
        "temperature": 0.5,
        "stream": True,
    }  # fmt: skip
    assert body == there_and_back(body, "messages", middle)


@through
def test_tool_schemas_keep_their_bytes(middle):
    """Key order, numbers and escapes of a schema are the client's own, there and back."""
    schema = '{"type":"object","properties":{"zeta":{"type":"number","maximum":1e2},"alpha":{"const":"\\u00e9"}},"required":["zeta"]}'
    body = '{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":SCHEMA}]}'.replace(
        "SCHEMA", schema
    )
    there = requested("messages", middle, body.encode())
    assert isinstance(there, Prepared)
    assert schema.encode() in there.body
    back = requested(middle, "messages", there.body)
    assert isinstance(back, Prepared)
    assert schema.encode() in back.body


@pytest.mark.invariant("I32")
def test_receipts_come_back():
    """A history with a call that a provider ran crosses to Responses and back in its native shape; nobody runs it."""
    call = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "find", "server_name": "docs", "input": {"q": "x"}}
    result = {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": False,
        "content": [{"type": "text", "text": "found"}],
    }
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call, result, {"type": "text", "text": "Found."}]},
        {"role": "user", "content": "good"},
    ]
    body = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": messages}
    there = requested("messages", "responses", json.dumps(body).encode())
    assert isinstance(there, Prepared)
    item = json.loads(there.body)["input"][1]
    assert ("mcp_call", "docs", "find", '{"q":"x"}', "found") == tuple(
        item[name] for name in ("type", "server_label", "name", "arguments", "output")
    )
    assert messages == there_and_back(body, "messages", "responses")["messages"]
    assert not any("function_call" in one["type"] for one in json.loads(there.body)["input"])


def test_cited_text_comes_back():
    """A web citation of a Claude answer crosses as a url_citation that spans its block."""
    cited = [
        {
            "type": "web_search_result_location",
            "url": "https://example.test",
            "title": "T",
            "encrypted_index": "e",
            "cited_text": "c",
        }
    ]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Sünny.", "citations": cited}]},
        {"role": "user", "content": "good"},
    ]
    there = requested(
        "messages",
        "responses",
        json.dumps({"model": "claude-sonnet-5", "max_tokens": 9, "messages": messages}).encode(),
    )
    assert isinstance(there, Prepared)
    (part,) = json.loads(there.body)["input"][1]["content"]
    assert [
        {"type": "url_citation", "url": "https://example.test", "title": "T", "start_index": 0, "end_index": 6}
    ] == part["annotations"]


CHANGES = {
    "failed result": ({"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}, "ERROR: no"),
    "no result": ({"type": "tool_result", "tool_use_id": "c1"}, ""),
}


@through
@pytest.mark.parametrize(("result", "text"), CHANGES.values(), ids=CHANGES)
def test_listed_changes_of_results(middle, result, text):
    """What MAP~ says of results: the text tells what the other protocol has no member for."""
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    back = there_and_back({"model": "claude-sonnet-5", "max_tokens": 9, "messages": messages}, "messages", middle)
    (told,) = normal(back["messages"], middle)[-1][1]
    assert (text, False) == (told["content"], told.get("is_error", False))


@pytest.mark.invariant("I32")
@pytest.mark.parametrize("model", ["gpt-4.1", "up-m"])
def test_custom_calls_come_back(model):
    """A freeform call and its output cross to Chat or Messages as a function's and return as what they were."""
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Patch."}]},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin\n+é"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
    ]
    body = {
        "model": model,
        "input": items,
        "tools": [{"type": "custom", "name": "apply_patch", "description": "Edits."}],
    }
    for middle in ("chat", "messages"):
        there = requested("responses", middle, json.dumps(body).encode())
        assert isinstance(there, Prepared)
        assert "*** Begin\\\\n+é" in there.body.decode() or "*** Begin\\n+é" in there.body.decode()
