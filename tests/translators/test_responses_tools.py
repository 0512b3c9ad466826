"""Tools and tool choices of a Responses request."""

import json

import msgspec
import pytest

from translators.conversation import Choice, Tool
from translators.fault import Refused
from translators.responses import wire
from translators.responses.tools import Declared, choice_of, echoed, legacy_choice, legacy_tools


def raws(*tools):
    return [msgspec.Raw(json.dumps(tool, separators=(",", ":")).encode()) for tool in tools]


def declared(*tools):
    box = Declared()
    box.add(raws(*tools), "tools")
    return box.tools


def choice(value):
    return choice_of(msgspec.Raw(json.dumps(value).encode()))


def test_functions_keep_their_schema():
    """A function keeps its schema's bytes, its strictness and its deferral."""
    assert [
        Tool(
            "function",
            "f",
            "d",
            parameters=b'{"z":1,"a":2}',
            strict=False,
            deferred=True,
            at="tools.0",
        )
    ] == declared(
        {
            "type": "function",
            "name": "f",
            "description": "d",
            "parameters": {"z": 1, "a": 2},
            "strict": False,
            "defer_loading": True,
        }
    )


@pytest.mark.parametrize("tool", [{"parameters": None}, {"strict": None}, {"description": None}, {}])
def test_null_members_are_absent(tool):
    """Null stands for what a function leaves out."""
    assert [Tool("function", "f", at="tools.0")] == declared({"type": "function", "name": "f", **tool})


@pytest.mark.parametrize(
    ("form", "grammar"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "grammar", "syntax": "lark", "definition": "start: X"}, ("lark", "start: X")),
        ({"type": "grammar", "grammar": {"syntax": "regex", "definition": "x"}}, ("regex", "x")),
    ],
)
def test_custom_tools_have_a_grammar(form, grammar):
    """A custom tool's grammar is flat here; Chat's nesting is understood too."""
    assert [Tool("custom", "patch", grammar=grammar, at="tools.0")] == declared(
        {"type": "custom", "name": "patch", "format": form}
    )


def test_namespaces_are_opened():
    """The children of a namespace are tools that remember where they belong."""
    assert [
        Tool("function", "create", namespace="tracker", at="tools.0.tools.0", namespace_description="Issues"),
        Tool("custom", "raw", namespace="tracker", at="tools.0.tools.1", namespace_description="Issues"),
    ] == declared(
        {
            "type": "namespace",
            "name": "tracker",
            "description": "Issues",
            "tools": [{"type": "function", "name": "create"}, {"type": "custom", "name": "raw"}],
        }
    )


def test_namespace_may_be_empty():
    """A namespace without children declares nothing."""
    assert [] == declared({"type": "namespace", "name": "n"})


def test_first_definition_of_a_name_wins():
    """A name that is declared again, as additional tools do, keeps its first definition; hosted twins collapse."""
    search = {"type": "web_search", "external_web_access": True}
    tools = declared(
        {"type": "function", "name": "f", "description": "first"},
        search,
        {"type": "function", "name": "f", "description": "second"},
        search,
        {"type": "web_search", "external_web_access": False},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
    )
    assert [("f", None), ("web_search", None), ("web_search", None), ("f", "n")] == [
        (tool.name, tool.namespace) for tool in tools
    ]
    assert "first" == tools[0].description
    assert b'{"type":"web_search","external_web_access":true}' == tools[1].hosted


def test_hosted_tools_need_no_fixed_shape():
    """A hosted tool's own `tools` may be anything."""
    assert ["tool_search"] == [tool.name for tool in declared({"type": "tool_search", "tools": {"a": 1}})]


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"name": "f"}, "tools.0"),
        ({"type": "function"}, "tools.0.name"),
        ({"type": "function", "name": "f", "parameters": []}, "tools.0.parameters"),
        ({"type": "custom", "name": "f", "format": {"type": "grammar"}}, "tools.0.format"),
        ({"type": "custom", "name": "f", "format": {"type": "xml"}}, "tools.0.format"),
        ({"type": "namespace", "tools": []}, "tools.0.name"),
        ({"type": "namespace", "name": "n", "tools": 1}, "tools.0.tools"),
        ({"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}, "tools.0.tools.0.type"),
        ({"type": "namespace", "name": "n", "tools": [{"type": "function"}]}, "tools.0.tools.0.name"),
    ],
)
def test_wrong_tools_are_refused_with_their_path(tool, param):
    """A tool that cannot be read is a 400 that names the member."""
    with pytest.raises(Refused) as caught:
        declared(tool)
    assert (400, param) == (caught.value.fault.status, caught.value.fault.param)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("auto", Choice("auto")),
        ("none", Choice("none")),
        ("required", Choice("required")),
        ({"type": "auto"}, Choice("auto")),
        ({"type": "function", "name": "f"}, Choice("tool", ((None, "f"),))),
        ({"type": "custom", "name": "f", "namespace": "n"}, Choice("tool", (("n", "f"),))),
        ({"type": "web_search"}, Choice("tool", ((None, "web_search"),))),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            Choice("allowed", ((None, "f"),), required=True),
        ),
        (
            {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]},
            Choice("allowed", ((None, "f"), (None, "web_search"))),
        ),
    ],
)
def test_choices_are_read(value, expected):
    """A choice is a word, one tool, or a set of allowed tools."""
    assert expected == choice(value)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("any", "tool_choice"),
        ({"name": "f"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "allowed_tools", "mode": "x", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools", "tools": [{"type": "function"}]}, "tool_choice.tools.name"),
        (5, "tool_choice"),
    ],
)
def test_wrong_choices_are_refused(value, param):
    """A choice that cannot be read is a 400 that names the member."""
    with pytest.raises(Refused) as caught:
        choice(value)
    assert param == caught.value.fault.param


def test_absent_choice_is_none():
    """Without a choice there is none."""
    assert choice_of(wire.ABSENT) is None


def test_legacy_functions():
    """Old functions are tools, and their call is a choice."""
    assert [Tool("function", "f", "d", parameters=b"{}", at="functions.0")] == legacy_tools(
        [wire.LegacyFunction("f", "d", msgspec.Raw(b"{}"))]
    )
    assert Choice("tool", ((None, "f"),)) == legacy_choice(wire.LegacyFunction("f"))
    assert Choice("none") == legacy_choice("none")
    assert legacy_choice(None) is None


def test_echo_is_the_list_as_it_came():
    """Lifecycle objects repeat the tools as the client spelled them."""
    assert b'[{"type":"x"},{"type":"y"}]' == bytes(echoed(raws({"type": "x"}, {"type": "y"})))
    assert b"[]" == bytes(echoed(None))
