"""Chat messages as neutral turns (spec/translation.md 3.5, 3.6)."""

import base64

import msgspec
import pytest

from translators.carrier import seal
from translators.chat import history
from translators.chat.details import entry_of
from translators.chat.history import read_history
from translators.chat.wire import Message
from translators.conversation import Document, Image, Reasoning, State, Text, ToolCall, ToolResult
from translators.events import Carried
from translators.fault import Refused
from translators.notes import Notes

PNG = "data:image/png;base64,aGk="


def read(*messages, notes=None):
    return read_history(msgspec.json.decode(msgspec.json.encode(messages), type=list[Message]), notes or Notes())


def turns(*messages):
    return [(turn.role, *turn.parts) for turn in read(*messages)[1]]


def user(content):
    return {"role": "user", "content": content}


def refused(*messages):
    with pytest.raises(Refused) as caught:
        read(*messages)
    return caught.value.fault


def test_the_leading_run_is_the_instructions():
    """System and developer messages before any turn, each its own text; later ones are turns of their role."""
    system, found = read(
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        user("hi"),
        {"role": "system", "content": "d"},
        {"role": "developer", "content": "e"},
        {"role": "system", "content": None},
    )
    assert (Text("a"), Text("b"), Text("c")) == system
    assert [("user", "messages.2"), ("system", "messages.3"), ("developer", "messages.4")] == [
        (turn.role, turn.at) for turn in found
    ]


def test_instructions_after_a_result_are_turns():
    """A pending tool result is history too."""
    system, found = read({"role": "tool", "tool_call_id": "a", "content": "x"}, {"role": "system", "content": "d"})
    assert ((), ["user", "system"]) == (system, [turn.role for turn in found])


def test_user_parts_keep_their_order():
    """Texts, images and files as they stand."""
    text = "data:text/plain;base64," + base64.b64encode("é".encode()).decode()
    pdf = "data:application/pdf;base64,aGk="
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": "https://a.example/x.png"},
        {"type": "file", "file": {"file_data": pdf, "filename": "x.pdf"}},
        {"type": "file", "file": {"file_data": text}},
    ]
    assert [
        (
            "user",
            Text("a"),
            Image(media_type="image/png", data="aGk=", detail="low"),
            Image(url="https://a.example/x.png"),
            Document(data="aGk=", title="x.pdf"),
            Document(media_type="text/plain", text="é"),
        )
    ] == turns(user(parts))


def test_an_assistant_turn_has_reasoning_text_refusal_and_calls():
    """In the order in which the other protocols want them."""
    message = {
        "role": "assistant",
        "reasoning_content": "r",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "refusal", "refusal": "n"}],
        "refusal": "m",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"id": "b", "type": "custom", "custom": {"name": "p", "input": "raw"}},
            {"type": "function", "function": {"name": "g", "arguments": {"y": 1}}},
            {"id": "c", "type": "function", "function": {"name": "h"}},
        ],
    }
    assert [
        (
            "assistant",
            Reasoning("r"),
            Text("a"),
            Text("n", refusal=True),
            Text("m", refusal=True),
            ToolCall("a", "f", '{"x": 1}'),
            ToolCall("b", "p", "raw", custom=True),
            ToolCall("call_history_1", "g", '{"y":1}'),
            ToolCall("c", "h", "{}"),
        )
    ] == turns(message)


def test_an_empty_assistant_message_is_no_turn():
    """Null content and nothing else says nothing."""
    assert [] == turns({"role": "assistant", "content": None})


def test_earlier_audio_is_noted():
    """It cannot be sent on."""
    notes = Notes()
    read({"role": "assistant", "content": "x", "audio": {"id": "a"}}, notes=notes)
    assert ["messages.0.audio"] == [note.field for note in notes.kept]


def test_consecutive_results_are_one_turn():
    """Each keeps its call, its parts, and whether the call was a custom one."""
    calls = [{"id": "b", "type": "custom", "custom": {"name": "p"}}]
    found = turns(
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {
            "role": "tool",
            "tool_call_id": "b",
            "content": [{"type": "text", "text": "y"}, {"type": "image_url", "image_url": {"url": PNG}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": ""},
        user("z"),
    )
    assert (
        "user",
        ToolResult("a", (Text("x"),)),
        ToolResult("b", (Text("y"), Image(media_type="image/png", data="aGk=")), custom=True),
        ToolResult("c"),
    ) == found[1]
    assert ("user", Text("z")) == found[2]


def test_legacy_functions_are_matched_by_name():
    """A function message answers the open call of its name; without one it is an orphan."""
    found = turns(
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "2"},
        {"role": "function", "name": "g", "content": "3"},
    )
    calls = [part.id for _, *parts in found for part in parts if isinstance(part, ToolCall)]
    results = [part.call_id for _, *parts in found for part in parts if isinstance(part, ToolResult)]
    assert calls == results[:2]
    assert results[2] not in calls


def test_ambiguous_legacy_functions_are_refused():
    """Two open calls of one name cannot be told apart."""
    call = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    assert "messages.2.name" == refused(call, call, {"role": "function", "name": "f", "content": "1"}).param


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"reasoning_content": "r"}, [Reasoning("r")]),
        ({"reasoning_content": None, "reasoning": "r"}, [Reasoning("r")]),
        ({"reasoning": {"x": 1}}, []),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "t"}]}, [Reasoning("t")]),
        (
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]},
            [Reasoning("", State('[{"type":"reasoning.encrypted","data":"d"}]', native="chat"))],
        ),
    ],
)
def test_reasoning_is_read_once(message, expected):
    """Plain text, else text inside details; native state stays Chat's own."""
    found = turns({"role": "assistant", "content": "c", **message})
    assert expected == list(found[0][1:-1])


def test_our_carriers_come_back():
    """Each kind of state is told apart, redacted ones too."""
    for kind in ("rs", "th", "rt", "rd"):
        entry = entry_of(Carried(kind, "x"), "o", 0)
        found = turns({"role": "assistant", "content": "c", "reasoning_content": "r", "reasoning_details": [entry]})
        assert Reasoning("r", State(seal(Carried(kind, "x"), "o"), redacted=kind == "rt")) == found[0][1]


@pytest.mark.invariant("I32")
def test_each_state_gets_its_own_text_back():
    """Our encoder joins the texts and repeats the later ones in their entries."""
    entries = [entry_of(Carried("th", str(n)), "o", n, text) for n, text in enumerate(["", "B", "C"])]
    found = turns({"role": "assistant", "content": "c", "reasoning_content": "ABC", "reasoning_details": entries})
    assert ["A", "B", "C"] == [part.text for part in found[0][1:-1]]
    assert [entry["signature"] for entry in entries] == [part.state.value for part in found[0][1:-1]]


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ({"role": "robot"}, "messages.0.role", None),
        (user(None), "messages.0.content", None),
        (user([{"type": "text"}]), "messages.0.content.0.text", None),
        (user([{"type": "input_audio"}]), "messages.0.content.0.type", "unsupported_content"),
        (user([{"type": "image_url"}]), "messages.0.content.0.type", "unsupported_content"),
        (
            user([{"type": "image_url", "image_url": {"url": "ftp://x"}}]),
            "messages.0.content.0.image_url.url",
            "unsupported_content",
        ),
        (user([{"type": "file"}]), "messages.0.content.0.type", "unsupported_content"),
        (user([{"type": "file", "file": {"file_id": "f"}}]), "messages.0.content.0.file", "unresolved_resource"),
        (
            user([{"type": "file", "file": {"file_data": "data:a/b;base64,aGk="}}]),
            "messages.0.content.0.file",
            "unsupported_content",
        ),
        (
            user([{"type": "file", "file": {"file_data": "data:text/plain;base64,/w=="}}]),
            "messages.0.content.0.file",
            "unsupported_content",
        ),
        (
            user([{"type": "file", "file": {"file_data": "data:application/pdf;base64,*"}}]),
            "messages.0.content.0.file",
            None,
        ),
        ({"role": "system", "content": [{"type": "image_url"}]}, "messages.0.content.0.type", "unsupported_content"),
        ({"role": "assistant", "content": [{"type": "image_url"}]}, "messages.0.content.0.type", "unsupported_content"),
        ({"role": "assistant", "content": [{"type": "refusal"}]}, "messages.0.content.0.refusal", None),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "messages.0.tool_calls.0.function", None),
        ({"role": "tool", "content": "x"}, "messages.0.tool_call_id", None),
        (
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "video"}]},
            "messages.0.content.0.type",
            "unsupported_content",
        ),
    ],
)
def test_refusals_name_the_field(message, param, code):
    """Roles, types and missing members."""
    fault = refused(message)
    assert (400, param) == (fault.status, fault.param)
    assert param in fault.message
    assert code in (None, fault.code)


def test_messages_and_blocks_are_bounded(monkeypatch):
    """At the limit it passes, one more is refused (8)."""
    monkeypatch.setattr(history, "MAX_MESSAGES", 2)
    monkeypatch.setattr(history, "MAX_BLOCKS", 3)
    assert 2 == len(read(user("a"), user([{"type": "text", "text": "b"}] * 2))[1])
    assert "messages" == refused(user("a"), user("b"), user("c")).param
    assert "content blocks" in refused(user([{"type": "text", "text": "b"}] * 4)).message
    assert "content blocks" in refused({"role": "system", "content": [{"type": "text", "text": "b"}] * 4}).message
    result = {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "b"}] * 3}
    assert "content blocks" in refused(result).message
