"""A neutral history, written as Messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.adjacency import adjacent
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
from translators.jsonio import encode
from translators.messages.turns import History
from translators.notes import Notes
from translators.toolbox import Toolbox, build
from translators.traits import Traits

MID = Traits(mid_system=True)


def history(*turns, dialect="responses", traits=None, strict=False, tools=(), notes=None):
    conversation = Conversation(dialect, "m1", turns=tuple(turns), tools=tools)
    notes = notes or Notes(strict=strict)
    box = build(conversation, Notes(), limit=128) if tools else Toolbox()
    written = History(conversation, box, Target("up-m", traits or Traits(), origin="here"), notes)
    messages = json.loads(encode(written.messages()))
    return messages, written, notes


def write(*turns, **how):
    return history(*turns, **how)[0]


def user(*parts):
    return Turn("user", parts, "input.0")


def assistant(*parts):
    return Turn("assistant", parts, "input.1")


def text(said):
    return {"type": "text", "text": said}


def test_turns_alternate():
    """Neighbours of one role become one message, empty text nothing (1.12)."""
    assert [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), text("d")]},
        {"role": "user", "content": "e"},
    ] == write(
        user(Text("a")),
        user(Text(""), Text("b")),
        assistant(Text("c")),
        assistant(),
        assistant(Text("d")),
        user(Text("e")),
    )


@pytest.mark.parametrize(
    ("turns", "first"), [((), []), ((assistant(Text("a")),), [{"role": "assistant", "content": [text("a")]}])]
)
def test_the_first_message_is_the_users(turns, first):
    """A history without one, or that begins with the assistant, gets a blank one (1.11, 1.12)."""
    assert [{"role": "user", "content": " "}, *first] == write(*turns)


def test_results_lead_and_calls_end_their_messages():
    """Results stand first in a user message, calls last in an assistant message (1.12)."""
    messages = write(
        user(Text("go")),
        assistant(ToolCall("c", "f", "{}"), Text("calling")),
        user(ToolResult("c", (Text("7C"),))),
        user(Text("and")),
        assistant(Text("x")),
        user(Text("t"), ToolResult("d", ())),
    )
    assert ["text", "tool_use"] == [block["type"] for block in messages[1]["content"]]
    assert [{"type": "tool_result", "tool_use_id": "c", "content": "7C"}, text("and")] == messages[2]["content"]
    assert [{"type": "tool_result", "tool_use_id": "d"}, text("t")] == messages[4]["content"]


PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Image(media_type="image/png", data="aGk="), PNG),
        (
            Image(url="https://a.example/i", detail="low"),
            {"type": "image", "source": {"type": "url", "url": "https://a.example/i"}},
        ),
        (
            Document("application/pdf", data="aGk=", title="D"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
                "title": "D",
            },
        ),
        (
            Document(url="https://a.example/d"),
            {"type": "document", "source": {"type": "url", "url": "https://a.example/d"}},
        ),
        (
            Document("text/plain", text="plain"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
        ),
    ],
)
def test_files_have_their_native_form(part, block):
    """Images and documents by content, address or text, in user turns and in results (1.10)."""
    assert [block] == write(user(part))[0]["content"]
    result = ToolResult("c", (Text("see"), part, Text("")), is_error=True)
    assert [{"type": "tool_result", "tool_use_id": "c", "content": [text("see"), block], "is_error": True}] == (
        write(user(result))[0]["content"]
    )


@pytest.mark.parametrize(
    "turn",
    [
        user(Image(media_type="image/tiff", data="aGk=")),
        user(Document("text/rtf", data="aGk=")),
        user(Reasoning("R")),
        assistant(Image(url="https://a.example/i")),
        assistant(Document(url="https://a.example/d")),
        assistant(ToolResult("c")),
        Turn("system", (Text("a"), Image(url="https://a.example/i")), "input.0"),
    ],
)
def test_content_in_the_wrong_place_is_refused(turn):
    """What the protocol cannot carry is refused, with the path of its turn."""
    with pytest.raises(Refused) as caught:
        write(turn)
    assert (turn.at, "unsupported_content", 400) == (
        caught.value.fault.param,
        caught.value.fault.code,
        caught.value.fault.status,
    )


def test_a_model_without_eyes_is_told_of_an_image():
    """The image is dropped with a note, and refused in strict mode."""
    blind = Traits(image_input=False)
    messages, _, notes = history(user(Image(url="https://a.example/i")), traits=blind)
    assert ("[image]", 1) == (messages[0]["content"], notes.count)
    with pytest.raises(Refused):
        write(user(Image(url="https://a.example/i")), traits=blind, strict=True)


@pytest.mark.parametrize(
    ("call", "wire"),
    [
        (ToolCall("c", "f", '{"b": 1.50}'), {"b": 1.5}),
        (ToolCall("c", "f", ""), {}),
        (ToolCall("c", "f", " "), {}),
        (ToolCall("c", "f", "raw", custom=True), {"input": "raw"}),
        (ToolCall("c", "f", '{"broken'), {"input": '{"broken'}),
        (ToolCall("c", "f", "[1]"), {"input": "[1]"}),
    ],
)
def test_a_call_has_an_object(call, wire):
    """Arguments are an object; free text and broken JSON stand under "input" (1.13)."""
    assert {"type": "tool_use", "id": "c", "name": "f", "input": wire} == write(assistant(call))[1]["content"][0]


def test_broken_arguments_are_noted_or_refused():
    """Lenient mode notes them, strict mode refuses (1.13)."""
    _, _, notes = history(assistant(ToolCall("c", "f", "[1]")))
    assert ("input.1", "changed") == (notes.kept[-1].field, notes.kept[-1].kind)
    with pytest.raises(Refused) as caught:
        write(user(Text("a")), assistant(ToolCall("c", "f", "[1]")), strict=True)
    assert "invalid_tool_arguments" == caught.value.fault.code


def test_call_ids_agree_between_call_and_result():
    """An illegal id is cleaned in the same way on both sides (1.3)."""
    messages = write(assistant(ToolCall("a.b", "f", "{}")), user(ToolResult("a.b")))
    made = messages[1]["content"][0]["id"]
    assert made == messages[2]["content"][0]["tool_use_id"]
    assert made.startswith("a_b_")


def test_a_call_has_the_wire_name_of_its_tool():
    """History and declarations agree on the name (1.4)."""
    tools = (Tool("function", "run", namespace="shell"),)
    messages = write(assistant(ToolCall("c", "run", "{}", namespace="shell")), tools=tools)
    assert "shell__run" == messages[1]["content"][0]["name"]


def test_receipts_are_native_blocks():
    """Provider-run calls keep their shape."""
    messages = write(assistant(Receipt("m", "s", "n", "{}", "o")))
    assert ["mcp_tool_use", "mcp_tool_result"] == [block["type"] for block in messages[1]["content"]]


def test_a_refusal_is_text():
    """Messages has no refusal part; the change is noted."""
    messages, _, notes = history(user(Text("a")), assistant(Text("No.", refusal=True)))
    assert ([text("No.")], 1) == (messages[1]["content"], notes.count)


def test_cited_pages_are_noted():
    """Citations of web pages have no form without the search that found them."""
    _, _, notes = history(user(Text("a")), assistant(Text("T", citations=(("https://a.example", "A"),))))
    assert ["omitted"] == [note.kind for note in notes.kept]


SIGNED = State(seal(Carried("th", "sig"), "here"))
REDACTED = State(seal(Carried("rt", "D"), "here"))


@pytest.mark.parametrize(
    ("reasoning", "blocks"),
    [
        (Reasoning("R", SIGNED), [{"type": "thinking", "thinking": "R", "signature": "sig"}]),
        (Reasoning("", SIGNED), [{"type": "thinking", "thinking": "", "signature": "sig"}]),
        (Reasoning("", REDACTED), [{"type": "redacted_thinking", "data": "D"}]),
        (Reasoning("R", State(seal(Carried("th", "sig"), "there"))), []),
        (Reasoning("R", State(seal(Carried("rs", "enc", "rs_1"), "here"))), []),
        (Reasoning("R", State("gw1.th.here.!")), []),
        (Reasoning("R", State("sig", native="messages")), []),
        (Reasoning("R", State("enc", native="responses")), []),
        (Reasoning("R"), []),
    ],
)
@pytest.mark.invariant("I17")
def test_reasoning_goes_back_to_its_origin_only(reasoning, blocks):
    """Kind and origin have to match; anything else is dropped with a note, never signed anew."""
    messages, _, notes = history(user(Text("a")), assistant(reasoning, Text("T")))
    assert [*blocks, text("T")] == messages[1]["content"]
    assert (not blocks) == (1 == notes.count)


def test_native_signatures_stay_in_their_protocol():
    """A Messages client's own signatures go to a Messages upstream as they came."""
    parts = (
        Reasoning("R", State("sig", native="messages")),
        Reasoning("", State("D", native="messages", redacted=True)),
        Reasoning("R", State("")),
    )
    messages = write(user(Text("a")), assistant(*parts), dialect="messages")
    assert [
        {"type": "thinking", "thinking": "R", "signature": "sig"},
        {"type": "redacted_thinking", "data": "D"},
    ] == messages[1]["content"]


def test_a_message_of_nothing_is_left_out():
    """An assistant turn whose every part is dropped vanishes, and its neighbours merge."""
    assert [{"role": "user", "content": [text("a"), text("b")]}] == write(
        user(Text("a")), assistant(Reasoning("R")), user(Text("b"))
    )


SERVER = Opaque("messages", "server_tool_use", b'{"type":"server_tool_use","id":"s"}')
RESULT = Opaque("messages", "web_search_tool_result", b'{"type":"web_search_tool_result"}')


def test_blocks_of_this_protocol_go_back_to_it():
    """Opaque blocks of a Messages client keep their bytes, those of others are dropped or refused."""
    upload = Opaque("messages", "container_upload", b'{"type":"container_upload"}')
    messages = write(user(Text("a"), upload), assistant(SERVER, RESULT), dialect="messages")
    assert [text("a"), {"type": "container_upload"}] == messages[0]["content"]
    assert ["server_tool_use", "web_search_tool_result"] == [block["type"] for block in messages[1]["content"]]
    search = Opaque("responses", "web_search_call", b"{}")
    messages, _, notes = history(user(Text("a"), search), assistant(search, Text("b")))
    assert ([text("b")], 2) == (messages[1]["content"], notes.count)
    with pytest.raises(Refused):
        write(user(Text("a")), assistant(search), strict=True)


def system(said, role="system"):
    return Turn(role, (Text(said),), "input.2")


def test_instructions_before_the_history_are_system_text():
    """What stands before the first message is put with the system blocks."""
    messages, written, _ = history(system("s"), system("", "developer"), user(Text("a")))
    assert ([Text("s")], "user") == (written.system, messages[0]["role"])


def test_instructions_stay_where_they_are():
    """Behind the user and before the assistant the API takes role system; the turns are not moved (1.11)."""
    turns = (user(Text("a")), system("s"), system("t", "developer"), assistant(Text("b")), user(Text("c")), system("u"))
    assert [
        {"role": "user", "content": "a"},
        {"role": "system", "content": [text("s"), text("t")]},
        {"role": "assistant", "content": [text("b")]},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "u"},
    ] == write(*turns, traits=MID)


def test_instructions_may_follow_a_server_tool():
    """An assistant turn that ends in a server tool's result may be followed by role system."""
    turns = (user(Text("a")), assistant(SERVER, RESULT), system("s"), assistant(Text("b")))
    assert "system" == write(*turns, dialect="messages", traits=MID)[2]["role"]
    turns = (user(Text("a")), assistant(Text("x")), system("s"), assistant(Text("b")))
    assert "user" == write(*turns, dialect="messages", traits=MID)[2]["role"]


@pytest.mark.parametrize("traits", [Traits(), MID])
def test_instructions_are_a_reminder_elsewhere(traits):
    """Where role system is not taken, the text goes to the user's, in place and noted."""
    turns = (user(Text("a")), assistant(Text("b")), system("s"), user(Text("c")))
    messages, _, notes = history(*turns, traits=traits)
    reminder = text("<system-reminder>\ns\n</system-reminder>")
    assert {"role": "user", "content": [reminder, text("c")]} == messages[2]
    assert ("input.2", "changed") == (notes.kept[0].field, notes.kept[0].kind)


def test_instructions_that_a_user_turn_follows_are_a_reminder():
    """Role system has to precede the assistant, also where a dropped turn lay between."""
    turns = (user(Text("a")), system("s"), assistant(Reasoning("R")), user(Text("c")))
    reminder = text("<system-reminder>\ns\n</system-reminder>")
    assert [{"role": "user", "content": [text("a"), reminder, text("c")]}] == write(*turns, traits=MID)


PARTS = st.sampled_from(["call", "text", "result", "orphan", "system", "said"])


@pytest.mark.invariant("I33")
@given(st.lists(PARTS, max_size=12))
def test_any_history_has_the_shape_that_the_api_wants(kinds):
    """Roles alternate, results answer the calls of the message before, nothing is empty."""
    turns, calls, answered = [], 0, 0
    for kind in kinds:
        if kind == "call":
            turns.append(assistant(ToolCall(f"c{calls}", "f", "{}")))
            calls += 1
        elif kind == "result" and answered < calls:
            turns.append(user(ToolResult(f"c{answered}", (Text("r"),))))
            answered += 1
        elif kind == "orphan":
            turns.append(user(ToolResult(f"o{len(turns)}", (Text("r"),))))
        elif kind == "system":
            turns.append(system("s"))
        elif kind == "said":
            turns.append(assistant(Text("b")))
        else:
            turns.append(user(Text("a")))
    messages = write(*adjacent(tuple(turns), Notes()), traits=MID)
    assert "user" == messages[0]["role"]
    awaited = set()
    for before, message in zip([None, *messages], messages, strict=False):
        content = [text(message["content"])] if isinstance(message["content"], str) else message["content"]
        assert content
        assert before is None or before["role"] != message["role"]
        assert before is None or before["role"] != "system" or message["role"] == "assistant"
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert set(results) == awaited
        assert results == [block.get("tool_use_id") for block in content[: len(results)]]
        awaited = {block["id"] for block in content if block["type"] == "tool_use"}
