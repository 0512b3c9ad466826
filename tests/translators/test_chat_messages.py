"""Neutral turns as Chat messages (spec/translation.md 1.10 to 1.12, 3.1, 3.3)."""

import msgspec
import pytest

from translators.carrier import seal
from translators.chat.messages import rendered_messages
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
from translators.toolbox import Toolbox, build
from translators.traits import Traits

PNG = Image(media_type="image/png", data="aGk=")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def rendered(*turns, system=(), dialect="messages", notes=None, toolbox=None, strict=False, **traits):
    conversation = Conversation(dialect, "m", tuple(Text(text) for text in system), tuple(turns))
    target = Target("up", Traits(**traits), origin="o", strict=strict)
    found = rendered_messages(conversation, toolbox or Toolbox(), target, notes or Notes(strict=strict))
    return msgspec.json.decode(msgspec.json.encode(found))


def user(*parts):
    return Turn("user", parts, "messages.1")


def assistant(*parts):
    return Turn("assistant", parts, "messages.2")


def refused(*turns, **more):
    with pytest.raises(Refused) as caught:
        rendered(*turns, **more)
    return caught.value.fault


HI = user(Text("hi"))


def test_system_blocks_are_one_first_message():
    """Joined by a blank line, without the billing line, in the model's role."""
    blocks = ["x-anthropic-billing-header: 1", "a", "", "b"]
    assert {"role": "system", "content": "a\n\nb"} == rendered(HI, system=blocks)[0]
    assert {"role": "developer", "content": "a"} == rendered(HI, system=["a"], system_role="developer")[0]


def test_instructions_in_the_middle_stay_in_place():
    """Developer is kept where the model knows it; empty ones are left out."""
    turns = [
        HI,
        Turn("developer", (Text("a"), Text("b")), "x"),
        Turn("system", (Text("c"),), "y"),
        Turn("system", (Text(""),), "z"),
    ]
    assert ["user", "system", "system"] == [message["role"] for message in rendered(*turns)]
    assert {"role": "developer", "content": "a\n\nb"} == rendered(*turns, developer_role=True)[1]


def test_instructions_are_text_only():
    """Anything else is refused."""
    assert "unsupported_content" == refused(HI, Turn("system", (PNG,), "messages.3")).code


def test_a_request_of_instructions_only_gets_a_user_message():
    """One space, as empty text is refused by servers; a Chat client's own request stays as it is."""
    assert [{"role": "system", "content": "a"}, {"role": "user", "content": " "}] == rendered(system=["a"])
    assert [{"role": "system", "content": "a"}] == rendered(system=["a"], dialect="chat")


def test_a_single_text_is_a_plain_string():
    """Several parts stay parts, in order; empty texts beside others go."""
    assert [{"role": "user", "content": "hi"}] == rendered(HI)
    assert [{"role": "user", "content": ""}] == rendered(user(Text("")))
    assert [{"role": "user", "content": "a"}] == rendered(user(Text(""), Text("a")))
    two = [{"type": "text", "text": "a"}, PNG_PART, {"type": "text", "text": "b"}]
    assert [{"role": "user", "content": two}] == rendered(user(Text("a"), PNG, Text("b")))


def test_images_keep_link_and_detail():
    """Links pass, detail only when given."""
    found = rendered(user(Image(url="https://a.example/x", detail="low")))[0]["content"]
    assert [{"type": "image_url", "image_url": {"url": "https://a.example/x", "detail": "low"}}] == found


def test_a_model_without_eyes_is_told_so():
    """An image is never dropped silently: text says it, strict refuses."""
    notes = Notes()
    found = rendered(user(Text("a"), PNG), user(ToolResult("c", (PNG,))), notes=notes, image_input=False)
    assert "[image left out: the model takes no images]" == found[0]["content"][1]["text"]
    assert "[image left out: the model takes no images]" == found[1]["content"]
    assert 2 == notes.count
    assert "unsupported_content" == refused(user(PNG), strict=True, image_input=False).code


def test_documents_become_files_or_text():
    """PDF content is a file, plain text is text with its title."""
    pdf = Document(data="aGk=", title="x.pdf")
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "x.pdf"}}
    assert [file] == rendered(user(pdf))[0]["content"]
    assert "document.pdf" == rendered(user(Document(data="aGk=")))[0]["content"][0]["file"]["filename"]
    assert "t\n\nbody" == rendered(user(Document(media_type="text/plain", text="body", title="t")))[0]["content"]
    assert "body" == rendered(user(Document(media_type="text/plain", text="body")))[0]["content"]


@pytest.mark.parametrize(
    "part",
    [
        Document(url="https://a.example/x.pdf"),
        Document(media_type="text/csv", data="aGk="),
        ToolResult("c", (Document(media_type="text/csv", data="aGk="),)),
        Reasoning("x"),
        ToolCall("a", "f", "{}"),
    ],
)
def test_what_a_user_message_cannot_hold_is_refused(part):
    """Content is never dropped silently, and an assistant's parts cannot be smuggled in."""
    fault = refused(user(part))
    assert ("unsupported_content", "messages.1") == (fault.code, fault.param)


def test_foreign_parts_are_noted():
    """A hosted tool's history has no Chat form: dropped with a note, strict refuses."""
    opaque = Opaque("messages", "server_tool_use", b"{}")
    receipt = Receipt("i", "server", "search", "{}")
    notes = Notes()
    assert ["a", "b"] == [
        m["content"] for m in rendered(user(Text("a"), opaque), assistant(Text("b"), opaque, receipt), notes=notes)[:2]
    ]
    assert 4 == notes.count
    assert "unsupported_content" == refused(user(opaque), strict=True).code
    assert [] == rendered(user(opaque), HI)[1:]


def test_results_come_first_and_images_after_them():
    """Tool messages are text; their images follow in one user message with the rest of the turn."""
    turn = user(
        Text("next"), ToolResult("a", (Text("x"), PNG)), ToolResult("b", (Text("y"), Text("z"))), ToolResult("c")
    )
    assert [
        {"role": "tool", "tool_call_id": "a", "content": "x\n[image]"},
        {"role": "tool", "tool_call_id": "b", "content": "y\nz"},
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "user", "content": [PNG_PART, {"type": "text", "text": "next"}]},
    ] == rendered(turn)


def test_results_without_more_need_no_user_message():
    """Nothing is added behind them."""
    assert ["tool"] == [message["role"] for message in rendered(user(ToolResult("a", (Text("x"),))))]


def test_a_failed_result_says_so():
    """Chat has no is_error; a document becomes text."""
    result = ToolResult("a", (Document(media_type="text/plain", text="body", title="t"),), is_error=True)
    assert "ERROR: t\n\nbody" == rendered(user(result))[0]["content"]


def test_assistant_text_is_one_string():
    """Text concatenated, refusal in its own field, null where there is no text."""
    message = assistant(Text("a"), Text("b"), Text("n", refusal=True), Text("", refusal=True))
    assert {"role": "assistant", "content": "ab", "refusal": "n"} == rendered(message, HI)[0]
    assert {"role": "assistant", "content": None, "refusal": "n"} == rendered(assistant(Text("n", refusal=True)), HI)[0]


def test_calls_are_functions():
    """Long ids are shortened the same way for call and result, empty arguments are {}."""
    long = "x" * 80
    found = rendered(
        assistant(Text(""), ToolCall("a", "f", ""), ToolCall(long, "g", '{"x":1}')), user(ToolResult(long))
    )
    calls = found[0]["tool_calls"]
    assert found[0]["content"] is None
    assert {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}} == calls[0]
    assert 64 == len(calls[1]["id"])
    assert calls[1]["id"] == found[1]["tool_call_id"]


@pytest.mark.edge("E39")
def test_custom_calls_are_wrapped_unless_the_model_knows_them():
    """A declared tool decides by its wrapping, an undeclared one by the model."""
    conversation = Conversation("responses", "m", tools=(Tool("custom", "p"),))
    message = assistant(ToolCall("a", "p", "raw", custom=True), ToolCall("b", "q", "raw", custom=True))
    wrapped = rendered(message, HI, toolbox=build(conversation, Notes(), limit=64))[0]["tool_calls"]
    assert ['{"input":"raw"}'] * 2 == [call["function"]["arguments"] for call in wrapped]
    box = build(conversation, Notes(), limit=64, custom_native=True)
    native = rendered(message, HI, toolbox=box, custom_tools=True)[0]["tool_calls"]
    assert [{"name": "p", "input": "raw"}, {"name": "q", "input": "raw"}] == [call["custom"] for call in native]


def test_names_are_those_on_the_wire():
    """Namespaced and long names are the toolbox's matter."""
    box = build(Conversation("responses", "m", tools=(Tool("function", "f", namespace="ns"),)), Notes(), limit=64)
    call = rendered(assistant(ToolCall("a", "f", "{}", namespace="ns")), HI, toolbox=box)[0]["tool_calls"][0]
    assert "ns__f" == call["function"]["name"]


def test_separate_items_of_one_answer_are_one_message():
    """Reasoning, text and calls that Responses keeps apart; two texts stay two messages."""
    found = rendered(
        assistant(Reasoning("r")),
        assistant(Text("a")),
        assistant(ToolCall("c", "f", "{}")),
        user(ToolResult("c")),
        dialect="responses",
        reasoning_replay=True,
    )
    assert ["assistant", "tool"] == [message["role"] for message in found]
    assert ("a", "r", 1) == (found[0]["content"], found[0]["reasoning_content"], len(found[0]["tool_calls"]))
    assert 3 == len(rendered(assistant(Text("a")), assistant(Text("b")), HI))
    assert 3 == len(rendered(assistant(Text("a")), assistant(ToolCall("c", "f", "{}")), HI, dialect="chat"))
    assert 3 == len(rendered(assistant(ToolCall("c", "f", "{}")), assistant(Text("a")), HI))


def test_reasoning_goes_back_where_it_is_wanted():
    """As reasoning_content by the trait, to any model for a Chat client, else not, with a note."""
    message = assistant(Reasoning("a"), Reasoning("b"), Text("t"))
    assert "a\n\nb" == rendered(message, HI, reasoning_replay=True)[0]["reasoning_content"]
    assert "a\n\nb" == rendered(message, HI, dialect="chat")[0]["reasoning_content"]
    notes = Notes()
    assert {"role": "assistant", "content": "t"} == rendered(message, HI, notes=notes)[0]
    assert ["messages.2"] == [note.field for note in notes.kept]


def test_a_turn_of_reasoning_only_has_empty_content():
    """Servers want content or calls; nothing at all is no message."""
    found = rendered(assistant(Reasoning("a")), HI, reasoning_replay=True)
    assert {"role": "assistant", "content": "", "reasoning_content": "a"} == found[0]
    assert 1 == len(rendered(assistant(Reasoning("a")), HI))


@pytest.mark.invariant("I17")
def test_state_returns_only_to_its_origin():
    """Carriers of this origin are opened, all others are dropped."""
    own = State(seal(Carried("rd", '[{"type":"reasoning.encrypted","data":"d"}]'), "o"))
    for state in (
        State(seal(Carried("rd", "[]"), "other")),
        State(seal(Carried("th", "s"), "o")),
        State("native", native="messages"),
        None,
    ):
        assert "reasoning_details" not in rendered(assistant(Reasoning("x", state), Text("t")), HI)[0]
    found = rendered(assistant(Reasoning("x", own), Text("t")), HI)[0]
    assert [{"type": "reasoning.encrypted", "data": "d"}] == found["reasoning_details"]
    assert "reasoning_content" not in found
    assert (
        "reasoning_details"
        not in rendered(assistant(Reasoning("x", State(seal(Carried("rd", "no"), "o"))), Text("t")), HI)[0]
    )


def test_native_details_stay_with_a_chat_client():
    """A Chat client's own entries pass when both sides speak Chat."""
    message = assistant(Reasoning("x", State('[{"data":"d"}]', native="chat")), Text("t"))
    assert [{"data": "d"}] == rendered(message, HI, dialect="chat")[0]["reasoning_details"]
    assert "reasoning_details" not in rendered(message, HI, dialect="responses")[0]


def test_an_assistant_message_holds_no_images():
    """There is no such form."""
    assert "unsupported_content" == refused(assistant(PNG)).code


def test_a_trailing_assistant_turn_is_noted():
    """It is sent as it is; not every server continues it."""
    notes = Notes()
    assert "assistant" == rendered(HI, assistant(Text("So")), notes=notes)[-1]["role"]
    assert ["changed"] == [note.kind for note in notes.kept]


def test_a_results_file_follows_in_a_user_message():
    """A PDF stands beside the images, and the tool message says that it does (1.12)."""
    pdf = Document(data="aGk=", title="a.pdf")
    notes = Notes()
    part = {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}}
    assert [
        {"role": "tool", "tool_call_id": "a", "content": "x\n[file]\n[image]"},
        {"role": "user", "content": [part, PNG_PART]},
    ] == rendered(user(ToolResult("a", (Text("x"), pdf, PNG))), notes=notes)
    assert "a tool's file follows in a user message" == notes.kept[0].message
    assert "unsupported_content" == refused(user(ToolResult("a", (Document(url="https://a.example/x.pdf"),)))).code


def beginning(*turns):
    notes = Notes()
    rendered(*turns, notes=notes)
    return [note.field for note in notes.kept if "beginning" in note.message]


def test_the_beginning_of_an_answer_is_noted_where_it_is_sent():
    """Not where the last turn was dropped, or ends in calls."""
    assert ["messages.2"] == beginning(HI, assistant(Text("a")))
    assert [] == beginning(HI, assistant(Opaque("messages", "server_tool_use", b"{}")))
    assert [] == beginning(HI, assistant(ToolCall("c", "f", "{}")))


def test_citations_are_noted():
    """Chat has no place for the pages that an earlier answer cited."""
    notes = Notes()
    cited = Text("a", citations=(("https://a.example", "A"),), at="messages.2.content.0")
    assert "a" == rendered(assistant(cited), HI, notes=notes)[0]["content"]
    assert ["messages.2.content.0"] == [note.field for note in notes.kept]
