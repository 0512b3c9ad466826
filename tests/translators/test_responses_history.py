"""Turns as input items of a Responses upstream."""

import base64

import msgspec
import pytest

from translators.carrier import seal
from translators.conversation import (
    Conversation,
    Document,
    Image,
    Opaque,
    Reasoning,
    Receipt,
    State,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from translators.dialect import Target
from translators.events import Carried
from translators.fault import Refused
from translators.notes import Notes
from translators.responses.history import input_items
from translators.toolbox import Toolbox, build
from translators.traits import Traits

TARGET = Target("up", Traits(), origin="here")


def user(*parts):
    return Turn("user", parts, "messages.0")


def assistant(*parts):
    return Turn("assistant", parts, "messages.1")


def items(*turns, dialect="messages", tools=(), target=TARGET, notes=None, **box):
    conversation = Conversation(dialect, "m", turns=turns, tools=tools)
    toolbox = build(conversation, Notes(), limit=64, custom_native=True, **box) if tools else Toolbox()
    return msgspec.json.decode(msgspec.json.encode(input_items(conversation, toolbox, target, notes or Notes())))


def texts(kind, *values):
    return [{"type": kind, "text": value} for value in values]


def test_messages_keep_their_roles():
    """User text is input, assistant text is output, and instructions in the middle are a developer's."""
    assert [
        {"type": "message", "role": "user", "content": texts("input_text", "hi", "there")},
        {"type": "message", "role": "assistant", "content": texts("output_text", "Yes?")},
        {"type": "message", "role": "developer", "content": texts("input_text", "Be brief.")},
    ] == items(user(Text("hi"), Text("there")), assistant(Text("Yes?"), Text("")), Turn("system", (Text("Be brief."),)))


def test_request_without_turns_gets_one():
    """The API refuses an empty input."""
    assert [{"type": "message", "role": "user", "content": texts("input_text", " ")}] == items()


def test_calls_split_assistant_text():
    """The order of text and calls stays, and a call stands beside the messages, without an id of its own."""
    assert [
        {"type": "message", "role": "assistant", "content": texts("output_text", "a")},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x":1}'},
        {"type": "message", "role": "assistant", "content": texts("output_text", "b")},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {"type": "message", "role": "user", "content": texts("input_text", "go on")},
    ] == items(
        assistant(Text("a"), ToolCall("c1", "f", '{"x":1}'), Text("b"), ToolCall("c2", "g", "")),
        user(ToolResult("c1", (Text("one"),)), ToolResult("c2"), Text("go on")),
    )


def test_long_call_ids_are_shortened_alike():
    """A call and its result get the same id of at most 64 characters."""
    long = "toolu_" + "x" * 80
    call, result = items(assistant(ToolCall(long, "f", "{}")), user(ToolResult(long, (Text("ok"),))))
    assert call["call_id"] == result["call_id"]
    assert 64 == len(call["call_id"])


def test_custom_calls_and_outputs_by_the_kind_of_the_call():
    """A custom tool's call has raw input, and its output has the kind of the call whatever the client called it."""
    tools = (Tool("custom", "patch"),)
    assert [
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ] == items(
        assistant(ToolCall("c", "patch", "*** Begin", custom=True)),
        user(ToolResult("c", (Text("done"),))),
        tools=tools,
        dialect="chat",
    )


def test_wrapped_custom_calls_are_functions():
    """Where a function stands for the custom tool, its history says so too."""
    conversation = Conversation("responses", "m", tools=(Tool("custom", "patch"),))
    toolbox = build(conversation, Notes(), limit=64)
    turns = (assistant(ToolCall("c", "patch", "x", custom=True)), user(ToolResult("c", (Text("ok"),), custom=True)))
    conversation = msgspec.structs.replace(conversation, turns=turns)
    call, result = input_items(conversation, toolbox, TARGET, Notes())
    assert {"type": "function_call", "call_id": "c", "name": "patch", "arguments": '{"input":"x"}'} == call
    assert "function_call_output" == result["type"]


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        (True, {"type": "function_call", "call_id": "c", "namespace": "ns", "name": "f", "arguments": "{}"}),
        (False, {"type": "function_call", "call_id": "c", "name": "ns__f", "arguments": "{}"}),
    ],
)
def test_namespaces_are_kept_or_flattened(native, expected):
    """An upstream that knows namespaces gets two fields, another one name."""
    tools = (Tool("function", "f", namespace="ns"),)
    turn = assistant(ToolCall("c", "f", "{}", namespace="ns"))
    assert [expected] == items(turn, tools=tools, namespaces_native=native, dialect="responses")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), "ERROR: "),
        ((Text("bad"),), "ERROR: bad"),
        ((Text("a"), Text("b")), texts("input_text", "ERROR: a", "b")),
        (
            (Image(media_type="image/png", data="AA=="),),
            [
                {"type": "input_text", "text": "ERROR: "},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
            ],
        ),
    ],
)
def test_errors_are_marked(parts, expected):
    """The protocol has no error flag, so the text says it."""
    assert expected == items(user(ToolResult("c", parts, is_error=True)))[0]["output"]


def test_outputs_hold_images_and_files():
    """A tool's images and files are native parts of its output."""
    assert [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,AA=="},
    ] == items(user(ToolResult("c", (Text("see"), Image("https://x/y.png", detail="low"), Document(data="AA==")))))[0][
        "output"
    ]


def test_files_in_messages():
    """Files go by link, inline, or as inline text."""
    note = base64.b64encode(b"note").decode()
    assert [
        {"type": "input_file", "file_url": "https://x/y.pdf"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
        {"type": "input_file", "filename": "document.txt", "file_data": f"data:text/plain;base64,{note}"},
    ] == items(
        user(Document(url="https://x/y.pdf"), Document(data="AA==", title="a.pdf"), Document("text/plain", text="note"))
    )[0]["content"]


def test_model_without_images_gets_a_word_for_them():
    """A model that takes no images is told that there was one; the drop is noted."""
    notes = Notes()
    target = Target("up", Traits(image_input=False))
    got = items(user(Image("https://x/y.png")), target=target, notes=notes)
    assert texts("input_text", "[image]") == got[0]["content"]
    assert ["messages.0"] == [note.field for note in notes.kept]


def test_refusals_and_citations_in_assistant_text():
    """A refusal keeps its own part, and citations span the text that they were given for."""
    (message,) = items(assistant(Text("no", refusal=True), Text("see", citations=(("https://x", "X"),))))
    assert [
        {"type": "refusal", "refusal": "no"},
        {
            "type": "output_text",
            "text": "see",
            "annotations": [
                {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 3}
            ],
        },
    ] == message["content"]


@pytest.mark.invariant("I17")
@pytest.mark.parametrize(
    ("state", "dialect", "kept"),
    [
        (State(seal(Carried("rs", "enc", "rs_1"), "here")), "messages", {"id": "rs_1", "encrypted_content": "enc"}),
        (State(seal(Carried("rs", "enc"), "here")), "messages", {"encrypted_content": "enc"}),
        (State(seal(Carried("rs", "enc", "rs_1"), "elsewhere")), "messages", None),
        (State(seal(Carried("th", "sig"), "here")), "messages", None),
        (State("gw1.rs.here.!!!"), "messages", None),
        (State("raw", "responses", "rs_2"), "responses", {"id": "rs_2", "encrypted_content": "raw"}),
        (State("raw", "responses", "rs_2"), "chat", None),
        (State("sig", "messages"), "messages", None),
        (None, "messages", None),
    ],
)
def test_reasoning_goes_only_to_its_origin(state, dialect, kept):
    """Opaque state of this very origin is restored before its item; everything else is left out with a note."""
    notes = Notes()
    got = items(assistant(Reasoning("Hm.", state), Text("a")), user(Text("b")), dialect=dialect, notes=notes)[:-1]
    message = {"type": "message", "role": "assistant", "content": texts("output_text", "a")}
    if kept is None:
        assert [message] == got
        assert 1 == notes.count
    else:
        assert [{"type": "reasoning", **kept, "summary": texts("summary_text", "Hm.")}, message] == got
        assert 0 == notes.count


def test_reasoning_without_text_has_an_empty_summary():
    """State alone is enough to be replayed."""
    state = State(seal(Carried("rs", "enc", "rs_1"), "here"))
    got = items(assistant(Reasoning("", state), ToolCall("c", "f", "{}")))
    assert ["reasoning", "function_call"] == [item["type"] for item in got]
    assert [] == got[0]["summary"]


def test_reasoning_without_an_item_after_it_is_left_out():
    """The API refuses a reasoning item that nothing follows."""
    notes = Notes()
    state = State("raw", "responses", "rs_1")
    assert ["message"] == [
        item["type"]
        for item in items(user(Text("hi")), assistant(Reasoning("", state)), dialect="responses", notes=notes)
    ]
    assert ["messages.1"] == [note.field for note in notes.kept]


def test_reasoning_of_a_dropped_item_is_dropped_too():
    """When the item that the reasoning led to has no equal here, the reasoning goes with it."""
    state = State(seal(Carried("rs", "enc", "rs_1"), "here"))
    notes = Notes()
    parts = (Reasoning("", state), Opaque("messages", "server_tool_use", b"{}"), Text("a"))
    assert ["message"] * 2 == [item["type"] for item in items(assistant(*parts), user(Text("b")), notes=notes)]
    assert 1 == notes.count


def test_foreign_items_are_refused_in_strict_mode():
    """History of another protocol's hosted tools is content, which strict mode never drops."""
    with pytest.raises(Refused) as caught:
        items(assistant(Opaque("messages", "server_tool_use", b"{}")), notes=Notes(strict=True))
    assert "unsupported_content" == caught.value.fault.code


def test_own_hosted_items_and_receipts_stay():
    """Hosted items of a Responses client go back as they came, and a provider's own call as an mcp_call."""
    raw = b'{"type":"web_search_call","id":"ws_1","status":"completed"}'
    assert [
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "s",
            "name": "n",
            "arguments": "{}",
            "output": "out",
            "error": None,
        },
    ] == items(
        assistant(Opaque("responses", "web_search_call", raw), Receipt("mcp_1", "s", "n", "", "out")),
        dialect="responses",
    )


@pytest.mark.parametrize(
    ("last", "dialect", "count"),
    [
        (assistant(Text("a")), "messages", 1),
        (assistant(Text("a")), "responses", 0),
        (assistant(ToolCall("c", "f", "{}")), "messages", 0),
        (user(Text("a")), "messages", 0),
    ],
)
def test_the_beginning_of_an_answer_is_noted(last, dialect, count):
    """A last assistant message is history to this API, not what the model goes on from."""
    notes = Notes()
    items(user(Text("hi")), last, dialect=dialect, notes=notes)
    assert count == len([note for note in notes.kept if "beginning" in note.message])
