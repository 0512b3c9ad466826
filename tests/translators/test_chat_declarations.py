"""Reading tools and tool choices of a Chat request (spec/translation.md 1.4, 1.5)."""

import json

import msgspec
import pytest

from translators.chat import declarations
from translators.chat.declarations import read_choice, read_tools
from translators.chat.wire import Body
from translators.conversation import Choice, Tool
from translators.fault import Refused


def body_of(**more):
    document = json.dumps({"model": "m", "messages": [], **more}).encode()
    return msgspec.json.decode(document, type=Body), document


def tools(*declared, functions=None):
    return read_tools(*body_of(tools=list(declared), functions=functions))


def choice(tool_choice=None, **more):
    return read_choice(body_of(tool_choice=tool_choice, **more)[0])


def function(name="f", **more):
    return {"type": "function", "function": {"name": name, **more}}


def refused(act, *args, **more):
    with pytest.raises(Refused) as caught:
        act(*args, **more)
    return caught.value.fault


def test_functions_keep_their_schema_bytes():
    """Key order and spacing of the schema survive."""
    schema = {"type": "object", "b": 1, "a": 2}
    expected = Tool("function", "f", "d", json.dumps(schema).encode(), strict=True, at="tools.0.function")
    assert (expected,) == tools(function(description="d", parameters=schema, strict=True))
    assert (Tool("function", "f", at="tools.0.function"),) == tools(function(parameters=None))


def test_custom_tools_keep_their_grammar():
    """The grammar is nested here; text and no format are the same."""
    format_ = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}
    grammar, text, none = tools(
        *({"type": "custom", "custom": {"name": "p", "format": one}} for one in (format_, {"type": "text"}, None))
    )
    assert (("lark", "x"), None, None) == (grammar.grammar, text.grammar, none.grammar)
    assert ("custom", "p", "tools.0.custom") == (grammar.kind, grammar.name, grammar.at)


def test_other_types_are_hosted():
    """Their declaration is kept whole."""
    found = tools(function(), {"type": "web_search", "x": {"y": 1}})
    assert Tool("hosted", "web_search", hosted=b'{"type": "web_search", "x": {"y": 1}}', at="tools.1") == found[1]


def test_legacy_functions_are_tools():
    """They stand after the tools."""
    assert ["f", "g"] == [tool.name for tool in tools(function(), functions=[{"name": "g"}])]


@pytest.mark.parametrize(
    ("declared", "param"),
    [
        ({"type": "function"}, "tools.0.function"),
        ({"type": "custom"}, "tools.0.custom"),
        (function(""), "tools.0.function.name"),
        (function(parameters=[]), "tools.0.function.parameters"),
        ({"type": "custom", "custom": {"name": ""}}, "tools.0.custom.name"),
        ({"type": "custom", "custom": {"name": "p", "format": {"type": "grammar"}}}, "tools.0.custom.format.grammar"),
    ],
)
def test_incomplete_tools_are_refused(declared, param):
    """The param names the missing member."""
    assert param == refused(tools, declared).param


def test_tools_are_bounded(monkeypatch):
    """At the limit it passes, one more is refused (8)."""
    monkeypatch.setattr(declarations, "MAX_TOOLS", 2)
    assert 2 == len(tools(function("a"), function("b")))
    assert "tools" == refused(tools, function("a"), function("b"), functions=[{"name": "c"}]).param


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (None, None),
        ("auto", Choice("auto")),
        ("none", Choice("none")),
        ("required", Choice("required")),
        ("any", Choice("required")),
        (function(), Choice("tool", ((None, "f"),))),
        ({"type": "custom", "custom": {"name": "p"}}, Choice("tool", ((None, "p"),))),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [function(), {"type": "custom", "custom": {"name": "p"}}],
                },
            },
            Choice("allowed", ((None, "f"), (None, "p")), required=True),
        ),
    ],
)
def test_choices_are_read(wire, expected):
    """Words, one tool, or a subset."""
    assert expected == choice(wire)


@pytest.mark.parametrize(
    ("call", "expected"),
    [("auto", Choice("auto")), ("none", Choice("none")), ({"name": "f"}, Choice("tool", ((None, "f"),)))],
)
def test_a_legacy_function_call_is_a_choice(call, expected):
    """Only when there is no tool_choice."""
    assert expected == choice(function_call=call)
    assert Choice("required") == choice("required", function_call=call)


@pytest.mark.parametrize(
    ("wire", "param", "code"),
    [
        ("sometimes", "tool_choice", None),
        ({"type": "web_search"}, "tool_choice", "unsupported_tool"),
        ({"type": "function"}, "tool_choice", "unsupported_tool"),
        ({"type": "allowed_tools"}, "tool_choice", "unsupported_tool"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "web_search"}]}},
            "tool_choice.allowed_tools.tools.0",
            "unsupported_tool",
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "odd", "tools": []}},
            "tool_choice.allowed_tools.mode",
            None,
        ),
    ],
)
def test_choices_of_nothing_are_refused(wire, param, code):
    """A forced tool that does not exist must not become a free answer."""
    fault = refused(choice, wire)
    assert (param, code) == (fault.param, fault.code)
