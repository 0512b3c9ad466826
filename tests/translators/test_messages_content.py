"""Content blocks of a Messages request."""

import json

import msgspec
import pytest

from translators.conversation import Document, Image, Opaque, Reasoning, Receipt, State, Text, ToolCall, ToolResult
from translators.fault import Refused
from translators.messages.content import Blocks, receipt_of, system_texts
from translators.messages.wire import InputBlock
from translators.notes import Notes

PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}


class Reading:
    """Blocks read with everything that the reader collects."""

    def __init__(self, *, strict=False):
        self.notes = Notes(strict=strict)
        self.asked = []
        self.blocks = Blocks(self.notes, self.raw)

    def raw(self, message, block):
        self.asked.append((message, block))
        return b"{}"

    def user(self, *blocks):
        return self.blocks.user(3, decoded(blocks))

    def assistant(self, *blocks):
        return self.blocks.assistant(3, decoded(blocks))

    @property
    def noted(self):
        return [(note.field, note.kind) for note in self.notes.kept]


def decoded(blocks):
    return msgspec.json.decode(json.dumps(blocks), type=list[InputBlock])


def refused(read, *blocks):
    with pytest.raises(Refused) as caught:
        read(*blocks)
    return caught.value.fault


def test_what_a_user_shows():
    """Text, images by content and by address, and documents keep their order."""
    reading = Reading()
    parts = reading.user(
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": PNG},
        {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}},
        {"type": "document", "source": PDF, "title": "D"},
        {"type": "document", "source": {"type": "url", "url": "https://a.example/d.pdf"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}, "title": "P"},
    )
    assert [
        Text("a"),
        Image(media_type="image/png", data="aGk="),
        Image(url="https://a.example/i.png"),
        Document("application/pdf", data="aGk=", title="D"),
        Document(url="https://a.example/d.pdf"),
        Document("text/plain", text="plain", title="P"),
    ] == parts
    assert [] == reading.noted


def test_a_document_of_blocks_is_its_text_then_its_images():
    """Texts are joined, images stand behind them, and the change is noted (1.10)."""
    reading = Reading()
    content = [{"type": "text", "text": "a"}, {"type": "image", "source": PNG}, {"type": "text", "text": "b"}]
    parts = reading.user({"type": "document", "source": {"type": "content", "content": content}, "title": "D"})
    assert [Document("text/plain", text="a\nb", title="D"), Image(media_type="image/png", data="aGk=")] == parts
    assert [("messages.3.content.0.source", "changed")] == reading.noted


@pytest.mark.parametrize(("content", "text"), [("plain", "plain"), (None, "")])
def test_a_document_may_hold_plain_text(content, text):
    """A content source may be a string."""
    parts = Reading().user({"type": "document", "source": {"type": "content", "content": content}})
    assert [Document("text/plain", text=text)] == parts


def test_what_only_anthropic_does_with_documents_is_told():
    """Citations and context of documents have no form elsewhere (1.10)."""
    reading = Reading()
    reading.user(
        {"type": "document", "source": PDF, "citations": {"enabled": True}, "context": "c"},
        {"type": "document", "source": PDF, "citations": {"enabled": False}, "context": None},
        {"type": "document", "source": PDF, "citations": [1]},
    )
    assert ["messages.3.content.0.citations", "messages.3.content.0.context"] == [
        path for path, _ in reading.blocks.extras
    ]


def test_a_search_result_is_text():
    """Title, source and content, a line each (1.10)."""
    reading = Reading()
    block = {
        "type": "search_result",
        "title": "T",
        "source": "https://a.example",
        "content": [{"type": "text", "text": "c"}],
    }
    assert [Text("T\nhttps://a.example\nc")] == reading.user(block)
    assert [("messages.3.content.0", "changed")] == reading.noted


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ({}, ()),
        ({"content": None}, ()),
        ({"content": ""}, (Text(""),)),
        ({"content": "out"}, (Text("out"),)),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "image", "source": PNG}]},
            (Text("a"), Image(media_type="image/png", data="aGk=")),
        ),
        (
            {"content": [{"type": "tool_reference", "tool_name": "WebFetch"}]},
            (Text('{"type":"tool_reference","tool_name":"WebFetch"}'),),
        ),
    ],
)
def test_a_tool_result_has_what_the_tool_gave(content, parts):
    """A result is nothing, a string, or blocks; tool references become text."""
    assert [ToolResult("c", parts)] == Reading().user({"type": "tool_result", "tool_use_id": "c", **content})


def test_a_tool_result_may_be_an_error():
    """The error mark is kept."""
    result = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
    assert [ToolResult("c", (Text("no"),), is_error=True)] == Reading().user(result)


def test_a_block_that_no_result_can_show_is_left_out():
    """An unknown block in a result is noted, and refused in strict mode."""
    block = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "browser_state"}]}
    reading = Reading()
    assert [ToolResult("c", ())] == reading.user(block)
    assert [("messages.3.content.0.content.0", "omitted")] == reading.noted
    assert "unsupported_content" == refused(Reading(strict=True).user, block).code


def test_what_an_assistant_said():
    """Text, thinking with its signature, redacted thinking and calls keep their order."""
    parts = Reading().assistant(
        {"type": "thinking", "thinking": "R", "signature": "sig"},
        {"type": "thinking", "thinking": "R", "signature": "gw1.rs.o.x"},
        {"type": "thinking", "thinking": "R", "signature": ""},
        {"type": "thinking"},
        {"type": "redacted_thinking", "data": "D"},
        {"type": "text", "text": "T"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"b": 1.50, "a": "ü"}},
        {"type": "tool_use", "id": "d", "name": "f"},
        {"type": "tool_use", "id": "e", "name": "f", "input": None},
    )
    assert [
        Reasoning("R", State("sig", native="messages")),
        Reasoning("R", State("gw1.rs.o.x")),
        Reasoning("R"),
        Reasoning(),
        Reasoning("", State("D", native="messages", redacted=True)),
        Text("T"),
        ToolCall("c", "f", '{"b":1.5,"a":"ü"}'),
        ToolCall("d", "f", "{}"),
        ToolCall("e", "f", "{}"),
    ] == parts


def test_cited_web_pages_stay_with_their_text():
    """Citations of web pages travel with the text, others point at what only this protocol has."""
    page = {"type": "web_search_result_location", "url": "https://a.example", "title": None}
    (part,) = Reading().assistant({"type": "text", "text": "T", "citations": [page, {"type": "char_location"}]})
    assert Text("T", citations=(("https://a.example", ""),)) == part
    (part,) = Reading().assistant({"type": "text", "text": "T", "citations": ["web_search_result_location"]})
    assert Text("T") == part


@pytest.mark.parametrize(
    ("result", "output", "error"),
    [({"content": [{"type": "text", "text": "a"}]}, "a", None), ({"content": "no", "is_error": True}, None, "no")],
)
def test_an_mcp_call_and_its_result_are_a_receipt(result, output, error):
    """The receipt stands where the call stood."""
    parts = Reading().assistant(
        {"type": "mcp_tool_use", "id": "m", "name": "find", "server_name": "docs", "input": {"q": 1}},
        {"type": "text", "text": "T"},
        {"type": "mcp_tool_result", "tool_use_id": "m", **result},
    )
    assert [Receipt("m", "docs", "find", '{"q":1}', output, error), Text("T")] == parts


def test_an_outcome_is_put_into_its_receipt():
    """Output and error exclude each other."""
    call = Receipt("m", "s", "n", "{}")
    assert Receipt("m", "s", "n", "{}", "o") == receipt_of(call, "o", is_error=False)
    assert Receipt("m", "s", "n", "{}", None, "o") == receipt_of(call, "o", is_error=True)


def test_blocks_of_this_protocol_alone_stay_bytes():
    """Server tools and unknown blocks are kept as they came, read only when there are any."""
    reading = Reading()
    assert [Opaque("messages", "container_upload", b"{}")] == reading.user({"type": "container_upload"})
    assert [Text("a"), Opaque("messages", "server_tool_use", b"{}"), Opaque("messages", "mcp_tool_result", b"{}")] == (
        reading.assistant(
            {"type": "text", "text": "a"},
            {"type": "server_tool_use"},
            {"type": "mcp_tool_result", "tool_use_id": "nobody"},
        )
    )
    assert [(3, 0), (3, 1), (3, 2)] == reading.asked


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking", "tool_use"])
@pytest.mark.invariant("I31")
def test_a_user_cannot_speak_for_the_model(kind):
    """Thinking and calls in a user turn are refused: a security boundary (3.1)."""
    fault = refused(Reading().user, {"type": "text", "text": "a"}, {"type": kind})
    assert ("messages.3.content.1.type", 400) == (fault.param, fault.status)


@pytest.mark.parametrize("kind", ["image", "document", "tool_result", "search_result"])
def test_an_assistant_shows_no_files(kind):
    """Files and results belong to user turns."""
    assert "messages.3.content.0.type" == refused(Reading().assistant, {"type": kind}).param


@pytest.mark.parametrize(
    ("block", "path", "code"),
    [
        ({}, "type", None),
        ({"type": "text"}, "text", None),
        ({"type": "image"}, "source", None),
        ({"type": "image", "source": "x"}, "source", None),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}, "source.data", None),
        ({"type": "image", "source": {**PNG, "media_type": "image/tiff"}}, "source", "unsupported_content"),
        ({"type": "image", "source": {**PNG, "data": "?"}}, "source", "unsupported_content"),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "source", "unresolved_resource"),
        ({"type": "image", "source": {"type": "moon"}}, "source.type", "unsupported_content"),
        ({"type": "image", "source": {"type": "url"}}, "source.url", None),
        ({"type": "document"}, "source", None),
        ({"type": "document", "source": {**PDF, "media_type": "text/rtf"}}, "source.media_type", "unsupported_content"),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}}, "source", "unresolved_resource"),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}}, "source.data", None),
        ({"type": "tool_result"}, "tool_use_id", None),
        ({"type": "tool_result", "tool_use_id": "c", "content": {"type": "text"}}, "content", None),
    ],
)
def test_a_bad_block_of_a_user_is_named(block, path, code):
    """Every refusal says where the fault is."""
    fault = refused(Reading().user, block)
    assert (f"messages.3.content.0.{path}", code) == (fault.param, fault.code)
    assert fault.message.startswith(fault.param)


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({"type": "redacted_thinking"}, "data"),
        ({"type": "tool_use", "name": "f"}, "id"),
        ({"type": "tool_use", "id": "c"}, "name"),
        ({"type": "tool_use", "id": "c", "name": "f", "input": "x"}, "input"),
        ({"type": "mcp_tool_use", "name": "f"}, "id"),
        ({"type": "mcp_tool_use", "id": "m"}, "name"),
    ],
)
def test_a_bad_block_of_an_assistant_is_named(block, path):
    """Calls need an id, a name and an object."""
    assert f"messages.3.content.0.{path}" == refused(Reading().assistant, block).param


def test_system_content_is_text():
    """A string, nothing, or text blocks; any other block is refused."""
    assert (Text("s"),) == system_texts("s", "system")
    assert () == system_texts("", "system")
    assert (Text("a"), Text("b")) == system_texts(
        decoded([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "s"
    )
    fault = refused(system_texts, decoded([{"type": "text", "text": "a"}, {"type": "image"}]), "system")
    assert ("system.1.type", "unsupported_content") == (fault.param, fault.code)
