"""Input items of a Responses request: turns, batches of calls, and content parts."""

import base64
import json

import msgspec
import pytest

from translators.carrier import seal
from translators.conversation import (
    Document,
    Image,
    Opaque,
    Reasoning,
    Receipt,
    State,
    Text,
    ToolCall,
    ToolResult,
    place,
)
from translators.events import Carried
from translators.fault import Refused
from translators.notes import Notes
from translators.responses import wire
from translators.responses.items import Reader, receipt_of
from translators.responses.tools import Declared

PNG = "data:image/png;base64,iVBORw0KGgo="


def read(*items):
    reader = Reader(Declared())
    for index, item in enumerate(items):
        reader.add(msgspec.Raw(json.dumps(item).encode()), index)
    reader.finish()
    return reader


def turns(*items):
    return [(turn.role, tuple(unplaced(part) for part in turn.parts)) for turn in read(*items).turns]


def unplaced(part):
    return part if isinstance(part, Image | Document) else msgspec.structs.replace(part, at="")


def refused(*items):
    with pytest.raises(Refused) as caught:
        read(*items)
    return caught.value.fault


def call(name, call_id, arguments="{}", **more):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(call_id, text="ok", **more):
    return {"type": "function_call_output", "call_id": call_id, "output": text, **more}


def user(text="hi"):
    return {"role": "user", "content": text}


def said(text):
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def thought(text, **more):
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}], **more}


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "user", "content": "hi", "status": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}], "id": "msg_1"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "input_text", "text": ""}]},
    ],
)
def test_user_messages_are_turns(item):
    """A message may lack its type, and its content may be a string or parts; empty text is skipped."""
    assert [("user", (Text("hi"),))] == turns(item)


def test_each_message_is_its_own_turn():
    """Two user messages in a row stay two turns."""
    assert [("user", (Text("a"),)), ("user", (Text("b"),))] == turns(user("a"), user("b"))


def test_assistant_items_form_one_turn():
    """Reasoning, text and parallel calls that stand together are one answer of the model."""
    assert [
        ("user", (Text("hi"),)),
        (
            "assistant",
            (Reasoning("Hm."), Text("On it."), ToolCall("c1", "a", "{}"), ToolCall("c2", "b", '{"x": 1}')),
        ),
        ("user", (ToolResult("c1", (Text("ok"),)), ToolResult("c2", (Text("no"),)))),
    ] == turns(
        user(),
        thought("Hm."),
        said("On it."),
        call("a", "c1"),
        call("b", "c2", '{"x": 1}'),
        output("c1"),
        output("c2", "no"),
    )


def test_message_after_text_or_calls_begins_a_new_turn():
    """A second assistant message is a turn of its own, and takes the reasoning before it along."""
    assert [
        ("assistant", (Text("one"), Reasoning("a"), ToolCall("c1", "f", "{}"))),
        ("assistant", (Reasoning("b"), Text("two"))),
        ("assistant", (Text("three"),)),
    ] == turns(said("one"), thought("a"), call("f", "c1"), thought("b"), said("two"), said("three"))


def test_outputs_between_calls_split_the_turns():
    """A call after an output starts the next answer."""
    assert ["assistant", "user", "assistant", "user"] == [
        role for role, _ in turns(call("a", "c1"), output("c1"), call("b", "c2"), output("c2"))
    ]


def test_custom_calls_keep_their_raw_input():
    """A custom call's input is text, not JSON, and its namespace stays."""
    assert [
        ("assistant", (ToolCall("c1", "patch", "*** Begin", custom=True, namespace="functions"),)),
        ("user", (ToolResult("c1", (Text("done"),), custom=True),)),
    ] == turns(
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin", "namespace": "functions"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "done"}]},
    )


@pytest.mark.parametrize(
    ("arguments", "expected"), [("", "{}"), (None, "{}"), ({"a": 1}, '{"a":1}'), ("not json", "not json")]
)
def test_arguments_are_text(arguments, expected):
    """Missing arguments are an empty object; an object is spelled out; other text is kept for the writer to judge."""
    assert expected == turns(call("f", "c", arguments))[0][1][0].arguments


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", (Text("text"),)),
        ("", ()),
        (None, ()),
        ([], ()),
        (["a", "", {"type": "input_text", "text": "b"}], (Text("a"), Text("b"))),
        ({"rows": 1}, (Text('{"rows": 1}'),)),
        ([{"type": "input_image", "image_url": PNG}], (Image(media_type="image/png", data="iVBORw0KGgo="),)),
    ],
)
def test_outputs_are_parts(value, expected):
    """An output is a string, parts with images, or data whose JSON is the text."""
    assert expected == turns(output("c", value))[0][1][0].parts


def test_reasoning_text_is_the_summary_else_the_content():
    """Summary parts join with a blank line; the full text counts only without a summary, and null is nothing."""
    assert [
        ("assistant", (Reasoning("a\n\nb"), Reasoning("c"))),
    ] == turns(
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "content": [{"type": "reasoning_text", "text": "full"}],
        },
        {"type": "reasoning", "summary": None, "content": [{"type": "reasoning_text", "text": "c"}]},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": None},
    )


@pytest.mark.invariant("I17")
def test_encrypted_content_is_state():
    """A carrier is told from the vendor's own value by its tag."""
    carrier = seal(Carried("rt", "x"), "origin")
    own, ours = turns(thought("", encrypted_content="abc"), thought("", encrypted_content=carrier))[0][1]
    assert State("abc", "responses", "rs_1") == own.state
    assert State(carrier, None, "rs_1", redacted=True) == ours.state


def test_mcp_calls_are_receipts():
    """A call that the provider ran itself is history with its outcome."""
    item = {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "s",
        "name": "n",
        "arguments": "{}",
        "output": "out",
        "error": None,
    }
    assert [("assistant", (Receipt("mcp_1", "s", "n", "{}", "out"),))] == turns(item)


def test_receipts_take_odd_outcomes():
    """An output that is no text, and an error that is an object, are told as JSON."""
    item = wire.Item(output=msgspec.Raw(b'{"a":1}'), error={"code": 1}, arguments={"no": "text"})
    assert Receipt("", "", "", "{}", '{"a":1}', '{"code":1}') == receipt_of(item)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"type": "tool_search_output", "tools": {"not": "a list"}},
    ],
)
def test_hosted_items_keep_their_bytes(item):
    """Items of hosted tools pass as they are, whatever types their members have."""
    assert [("assistant", (Opaque("responses", item["type"], json.dumps(item).encode()),))] == turns(item)


@pytest.mark.parametrize("item", [{"type": "item_reference", "id": "fc_1"}, {"id": "fc_1"}])
def test_item_references_wait_for_replay(item):
    """A reference may lack its type; a later step resolves it."""
    assert "item_reference" == turns(item)[0][1][0].kind


def test_additional_tools_are_declared():
    """Codex declares its tools inside the input; they are no turn."""
    declared = Declared()
    reader = Reader(declared)
    reader.add(msgspec.Raw(b'{"type":"additional_tools","tools":[{"type":"function","name":"f"}]}'), 0)
    assert ["f"] == [tool.name for tool in declared.tools]
    assert [] == reader.turns


def test_assistant_content_may_be_a_string_and_may_refuse():
    """Grok Build sends assistant text as a string; refusals stay marked."""
    assert [
        ("assistant", (Text("a"),)),
        ("assistant", (Text("no", refusal=True),)),
    ] == turns(
        {"type": "message", "role": "assistant", "content": "a"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    )


@pytest.mark.parametrize("content", [None, "", []])
def test_empty_messages_are_skipped(content):
    """A message that says nothing is no turn."""
    assert [] == turns({"role": "user", "content": content}, {"role": "assistant", "content": content})


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
            Image("https://x/y.png", detail="low"),
        ),
        (
            {"type": "input_image", "image_url": {"url": PNG, "detail": "high"}},
            Image(media_type="image/png", data="iVBORw0KGgo=", detail="high"),
        ),
        ({"type": "input_file", "file_url": "https://x/y.pdf"}, Document(url="https://x/y.pdf")),
        (
            {"type": "input_file", "file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"},
            Document(data="JVBE", title="a.pdf"),
        ),
        ({"type": "input_file", "file_data": "JVBE"}, Document(data="JVBE")),
        (
            {"type": "input_file", "file_data": f"data:text/plain;base64,{base64.b64encode(b'note').decode()}"},
            Document("text/plain", text="note"),
        ),
    ],
)
def test_media_parts_are_read(part, expected):
    """Images and files come as links or inline; text files become text."""
    assert [("user", (expected,))] == turns({"role": "user", "content": [part]})


@pytest.mark.parametrize(
    ("item", "param", "code"),
    [
        ({"role": "critic", "content": "x"}, "input.0.role", None),
        ({"type": "message", "content": "x"}, "input.0.role", None),
        ({}, "input.0.type", None),
        (1, "input.0", None),
        ({"role": "user", "content": 5}, "input.0.content", None),
        ({"role": "user", "content": [{"text": "x"}]}, "input.0.content.0.type", None),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input.0.content.0.text", None),
        (
            {"role": "user", "content": [{"type": "input_audio"}]},
            "input.0.content.0.type",
            "unsupported_content",
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            "input.0.content.0.file_id",
            "unresolved_resource",
        ),
        ({"role": "user", "content": [{"type": "input_file"}]}, "input.0.content.0.file_data", None),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "data:application/zip;base64,AA=="}]},
            "input.0.content.0.file_data",
            "unsupported_content",
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "data:text/plain;base64,/w=="}]},
            "input.0.content.0.file_data",
            "unsupported_content",
        ),
        (
            {"role": "system", "content": [{"type": "input_image", "image_url": PNG}]},
            "input.0.content",
            "unsupported_content",
        ),
        (
            {"role": "assistant", "content": [{"type": "input_image", "image_url": PNG}]},
            "input.0.content",
            None,
        ),
        ({"type": "function_call", "name": "f"}, "input.0.call_id", None),
        ({"type": "function_call", "call_id": "c"}, "input.0.name", None),
        ({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": 1}, "input.0.input", None),
        ({"type": "function_call_output", "output": "x"}, "input.0.call_id", None),
        ({"type": "function_call", "call_id": 5, "name": "f"}, "input.0.call_id", None),
        ({"type": "reasoning", "summary": "x"}, "input.0.summary", None),
    ],
)
def test_wrong_items_are_refused_with_their_path(item, param, code):
    """An item of a shape that nobody may send is a 400 that names the member."""
    fault = refused(item)
    assert (400, param, code) == (fault.status, fault.param, fault.code)
    assert fault.message.startswith(param)


def test_every_part_knows_its_item():
    """A turn of several items keeps the path of each; one that a message closes hands its reasoning on."""
    found = read(
        *(thought("a"), call("f", "c1"), call("g", "c2"), output("c1"), output("c2"), thought("b"), said("one")),
        *(call("f", "c3"), thought("c"), thought("d"), said("two")),
    )
    assert [
        ["input.0", "input.1", "input.2"],
        ["input.3", "input.4"],
        ["input.5", "input.6", "input.7"],
        ["input.8", "input.9", "input.10"],
    ] == [[place(part, turn.at) for part in turn.parts] for turn in found.turns]


def test_what_is_not_sent_on_of_earlier_answers_is_noted_once():
    """Citations, log probabilities and phases have no place elsewhere; every answer may have them."""
    part = {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation"}], "logprobs": [{}]}
    plain = part | {"annotations": [], "logprobs": []}
    reader = Reader(Declared(), notes := Notes())
    for index, (phase, content) in enumerate([(None, [plain]), ("final_answer", [part]), ("final_answer", [part])]):
        item = {"type": "message", "role": "assistant", "content": content, "phase": phase}
        reader.add(msgspec.Raw(json.dumps(item).encode()), index)
    assert ["input.1.phase", "input.1.annotations", "input.1.logprobs"] == [note.field for note in notes.kept]
