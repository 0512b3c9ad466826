"""Input items in strict shapes: each row of the table in spec/grok.md 11.5."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.grok_input import items, token
from tests.grok import refused


def strict(*given, sealed=False, known=None):
    return items(list(given), sealed=sealed, known=known)[0]


def said(role, text):
    return {"type": "message", "role": role, "content": text}


CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
PNG = "data:image/png;base64,AAAA"
TEXT = base64.b64encode(b"inside").decode()


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        (said("user", "hi"), [said("user", "hi")]),
        ({"role": "developer", "content": "be kind"}, [said("system", "be kind")]),
        (said("system", "s") | {"phase": "x", "id": "m", "status": "completed"}, [said("system", "s")]),
        (
            said("assistant", [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]),
            [said("assistant", "ab")],
        ),
        (said("critic", [{"type": "input_text", "text": "x"}]), [said("user", "x")]),
        (said("user", ""), []),
        (said("user", None), []),
        (CALL | {"id": "fc", "status": "completed", "metadata": {}}, [CALL]),
        (CALL | {"namespace": "mcp", "arguments": {"q": 1}}, [CALL | {"name": "mcp__f", "arguments": '{"q":1}'}]),
        (CALL | {"arguments": None}, [CALL]),
        (CALL | {"arguments": " "}, [CALL]),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "go"},
            [CALL | {"arguments": '{"input":"go"}'}],
        ),
        ({"type": "reasoning", "summary": [], "content": None, "encrypted_content": None}, []),
        ({"type": "item_reference", "id": "x"}, []),
        ({"type": "web_search_call", "id": "x"}, []),
        ({"type": "compaction", "encrypted_content": "x"}, []),
        ({"type": "next_year_call"}, []),
        ({}, []),
        (
            {"type": "agent_message", "content": [{"type": "input_text", "text": "hi"}], "author": "a"},
            [said("system", "Agent message (a -> ?):\nhi")],
        ),
        ({"type": "agent_message", "content": "hi", "recipient": "b"}, [said("system", "Agent message (? -> b):\nhi")]),
        ({"type": "agent_message", "content": [{"type": "encrypted"}]}, []),
        (
            {"type": "local_shell_call", "action": {"command": ["ls"]}},
            [said("assistant", 'Ran a local shell command (unknown): {"command":["ls"]}')],
        ),
        (
            {"type": "local_shell_call_output", "output": "out"},
            [said("user", "Output of the local shell command: out")],
        ),
        (
            {"type": "mcp_tool_call_output", "call_id": "c", "output": {"a": 1}},
            [said("system", 'Output of tool call c: {"a":1}')],
        ),
    ],
)
def test_item(item, wanted):
    """Each kind of item has its strict form, or none."""
    assert wanted == strict(item)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("sunny", "sunny"),
        (None, ""),
        ([{"text": "line1"}, {"type": "input_text", "text": "line2"}, "line3"], "line1\nline2\nline3"),
        ([{"n": 1}], '{"n":1}'),
        ({"n": 1}, '{"n":1}'),
        (7, "7"),
        (
            [{"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{TEXT}"}],
            "[file a.txt]\ninside\n",
        ),
        ([{"type": "input_file", "file_data": "data:text/plain;base64,%%%"}], "[file document]\n\n"),
        (
            [{"type": "input_file", "file_url": "https://x.example/a.pdf"}],
            "[file https://x.example/a.pdf: this model takes no files of its type]",
        ),
        ([None], ""),
    ],
)
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_output_is_text(kind, output, text):
    """Whatever a tool returned, its output is one string."""
    assert [{"type": "function_call_output", "call_id": "c", "output": text}] == strict(
        {"type": kind, "call_id": "c", "name": "x", "output": output}
    )


def test_pictures_of_outputs_follow_the_run():
    """A string holds no picture, so they come in a message behind the last of the outputs."""
    picture = {"type": "input_image", "image_url": PNG, "detail": "low"}
    out = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "see"}, picture]}
    made = strict(out, {"type": "function_call_output", "call_id": "d", "output": "x"}, said("user", "hi"))
    assert ["function_call_output", "function_call_output", "message", "message"] == [item["type"] for item in made]
    assert "see" == made[0]["output"]
    assert picture == made[2]["content"][1]
    assert 2 == len(strict(out))


def test_message_with_pictures_keeps_its_parts():
    """Text beside pictures stays in parts of the user's types, in order, without empty ones."""
    picture = {"type": "input_image", "image_url": PNG}
    parts = [
        {"type": "output_text", "text": "a"},
        picture,
        {"type": "text", "text": ""},
        {"type": "input_image", "file_id": "f"},
    ]
    (made,) = strict(said("user", parts))
    assert [{"type": "input_text", "text": "a"}, picture] == made["content"]


def test_reasoning_keeps_what_can_be_read():
    """Nulls and status go; text stays; state passes where the policy lets it, never another vendor's."""
    plain = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}]}
    assert [plain] == strict(plain | {"content": None, "encrypted_content": None, "status": "completed"})
    told = strict({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]})
    assert [{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}] == told
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 40}
    assert [sealed] == strict(sealed, sealed=True)
    assert [] == strict(sealed)
    assert [] == strict(sealed | {"encrypted_content": "gAAAAx"}, sealed=True)
    assert [] == strict(sealed, sealed=True, known=frozenset())
    assert [sealed] == strict(sealed, sealed=True, known=frozenset([token("x" * 40)]))


def test_tools_among_the_items_are_lifted():
    """Tools that arrive in the input are offered; found ones are told of in words."""
    tools = [{"type": "function", "name": "f"}, 7]
    made, lifted = items(
        [{"type": "additional_tools", "tools": tools}, {"type": "tool_search_output", "tools": tools}],
        sealed=False,
        known=None,
    )
    assert [said("system", "These tools are available now: f")] == made
    assert 2 == len(lifted)
    assert ([], []) == items([{"type": "tool_search_output", "tools": None}], sealed=False, known=None)


def test_input_as_text():
    """An input that is a text is one user message; one that is neither is none."""
    assert ([said("user", "hi")], []) == items("hi", sealed=False, known=None)
    assert ([], []) == items(None, sealed=False, known=None)
    assert ([], []) == items([7], sealed=False, known=None)


JSON = st.recursive(
    st.none() | st.integers(0, 9) | st.text(max_size=5),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "image_url"]), x, max_size=3),
    max_leaves=6,
)
TYPES = "message function_call function_call_output custom_tool_call custom_tool_call_output reasoning agent_message additional_tools local_shell_call x"


@given(
    st.lists(
        st.builds(
            lambda kind, more: {"type": kind, "call_id": "c", "name": "f", **more},
            st.sampled_from(TYPES.split()),
            st.dictionaries(
                st.sampled_from(
                    [
                        "role",
                        "content",
                        "output",
                        "arguments",
                        "input",
                        "summary",
                        "encrypted_content",
                        "tools",
                        "id",
                        "status",
                    ]
                ),
                JSON,
                max_size=6,
            ),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_nothing_odd_leaves(given_items):
    """Whatever comes in, the strict decoder takes what goes out."""
    made = strict(*given_items)
    wrong = refused({"model": "m", "store": False, "stream": True, "input": made})
    assert wrong in ("", "no input")
