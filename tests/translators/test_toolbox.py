"""Tool names and shapes: legal for the upstream, distinct, and the client's own again on the way back."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Choice, Conversation, Tool
from translators.events import BlockStart
from translators.fault import Refused
from translators.notes import Notes
from translators.toolbox import (
    EMPTY_SCHEMA,
    WRAPPED_SCHEMA,
    Toolbox,
    build,
    legal_name,
    narrowed,
    qualified,
    unwrapped,
    wrap,
)


def boxed(*tools, limit=64, notes=None, **native):
    notes = Notes() if notes is None else notes
    return build(Conversation("responses", "m", tools=tools), notes, limit=limit, **native)


def names(box):
    return [entry.wire for entry in box.entries]


def refused(*tools, **native):
    with pytest.raises(Refused) as caught:
        boxed(*tools, **native)
    return caught.value.fault


def test_plain_tools_pass():
    """A legal name goes through with its schema and no note; hosted tools are not in the box."""
    notes = Notes()
    box = boxed(Tool("function", "a", "does a", b'{"type":"object"}'), Tool("hosted", "web_search"), notes=notes)
    (entry,) = box.entries
    assert ("a", b'{"type":"object"}', "does a") == (entry.wire, entry.parameters, entry.description)
    assert 0 == notes.count


def test_missing_schema_is_an_empty_object():
    """Targets that need a schema get one without properties (1.4)."""
    assert EMPTY_SCHEMA == boxed(Tool("function", "a")).entries[0].parameters


@pytest.mark.parametrize(
    ("name", "limit", "legal"),
    [
        ("read_file", 64, "read_file"),
        ("a.b/c d", 64, "a_b_c_d"),
        ("", 64, "tool"),
        ("x" * 64, 64, "x" * 64),
        ("x" * 65, 64, "x" * 64),
        ("mcp__" + "s" * 60 + "__read", 64, "mcp__read"),
        ("mcp__" + "s" * 60 + "__" + "r" * 70, 64, "mcp__" + "s" * 59),
        ("mcp__" + "s" * 70, 64, "mcp__" + "s" * 59),
    ],
)
def test_legal_name(name, limit, legal):
    """Illegal characters become underscores; long names are cut, MCP names to their last segment (1.3)."""
    assert legal == legal_name(name, limit)


def test_shortened_names_stay_apart():
    """Names that shorten alike are numbered within the limit, and each finds its way back."""
    long = [f"mcp__{server * 30}__read" for server in "abc"]
    box = boxed(*(Tool("function", name) for name in long), limit=20)
    assert ["mcp__read", "mcp__read_1", "mcp__read_2"] == names(box)
    assert long == [box.restore(BlockStart(1, "tool", name=name)).name for name in names(box)]
    assert names(box) == [box.wire(name) for name in long]


@given(st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=30), st.integers(4, 10))
def test_any_names_are_legal_distinct_and_restored(declared, limit):
    """Whatever a client calls its tools, the upstream gets legal and different names and the client its own."""
    box = boxed(*(Tool("function", name) for name in declared), limit=limit)
    assert len(declared) == len(set(names(box)))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", name) and len(name) <= limit for name in names(box))
    assert declared == [box.restore(BlockStart(1, "tool", name=box.wire(name))).name for name in declared]


@pytest.mark.parametrize(("name", "flat"), [("read", "fs__read"), ("fs__read", "fs__read"), ("fs_read", "fs__fs_read")])
def test_qualified(name, flat):
    """A child is prefixed once."""
    assert flat == qualified("fs", name)


def test_namespaces_are_flattened_and_split_again():
    """Children of two namespaces keep apart and come back with their namespace (1.4)."""
    notes = Notes()
    tools = [
        Tool("function", "read", namespace="fs"),
        Tool("function", "read", namespace="db"),
        Tool("function", "read"),
    ]
    box = boxed(*tools, notes=notes)
    assert ["fs__read", "db__read", "read"] == names(box)
    assert 2 == notes.count
    back = [box.restore(BlockStart(1, "tool", name=name)) for name in names(box)]
    assert [("fs", "read"), ("db", "read"), (None, "read")] == [(start.namespace, start.name) for start in back]
    assert ["fs__read", "db__read", "read"] == [box.wire("read", space) for space in ("fs", "db", None)]


def test_children_that_flatten_alike_stay_apart():
    """Two paths to one flat name get two names."""
    box = boxed(Tool("function", "b__c", namespace="a"), Tool("function", "c", namespace="a__b"))
    assert ["a__b__c", "a__b__c_1"] == names(box)
    assert "c" == box.restore(BlockStart(1, "tool", name="a__b__c_1")).name


def test_native_namespaces_stay():
    """An upstream that knows namespaces gets plain child names, distinct on this wire."""
    box = boxed(Tool("function", "read", namespace="fs"), namespaces_native=True)
    assert ["read"] == names(box)
    assert "other" == box.wire("other", "fs")


def test_a_flat_name_must_not_be_taken():
    """A tool that is called like a flattened child would make calls ambiguous."""
    fault = refused(Tool("function", "fs__read"), Tool("function", "read", namespace="fs", at="tools.1"))
    assert ("tool_alias_collision", "tools.1", 400) == (fault.code, fault.param, fault.status)
    assert "tools" == refused(Tool("function", "fs__read"), Tool("function", "read", namespace="fs")).param


def test_the_same_tool_twice_is_one():
    """Equal declarations collapse wherever they stand (1.4)."""
    box = boxed(Tool("function", "a", at="tools.0"), Tool("function", "a", at="tools.1"))
    assert ["a"] == names(box)


def test_two_tools_of_one_name_are_refused():
    """Nobody could tell which of them the model calls."""
    fault = refused(Tool("function", "a", "one"), Tool("function", "a", "other", at="tools.1"))
    assert ("invalid_request", "tools.1") == (fault.kind, fault.param)
    assert "tools" == refused(Tool("function", "a", "one"), Tool("function", "a", "other")).param


@pytest.mark.edge("E39")
def test_custom_tools_are_wrapped_and_restored():
    """A custom tool is a function with one string on a wire that knows none, and custom again in the answer."""
    notes = Notes()
    box = boxed(Tool("custom", "patch", "Edits.", grammar=("lark", "start: x")), Tool("custom", "sh"), notes=notes)
    patch, sh = box.entries
    assert WRAPPED_SCHEMA == patch.parameters
    assert 'Edits.\n\nThe text under "input" must match this lark grammar:\nstart: x' == patch.description
    assert "" == sh.description
    assert ["changed", "changed"] == [note.kind for note in notes.kept]
    assert "wrapped" == box.restore(BlockStart(1, "tool", name="patch")).form
    assert "custom" == box.restore(BlockStart(1, "tool", name="patch", form="custom")).form


def test_native_custom_tools_stay():
    """An upstream that knows custom tools gets them as they are."""
    box = boxed(Tool("custom", "patch", "Edits.", grammar=("lark", "x")), custom_native=True)
    assert (False, "Edits.") == (box.entries[0].wrapped, box.entries[0].description)
    assert "custom" == box.restore(BlockStart(1, "tool", name="patch", form="custom")).form


@given(st.text())
def test_wrapping_is_undone(text):
    """Any raw input survives its wrapper, byte for byte."""
    assert text == unwrapped(wrap(text))
    assert {"input": text} == json.loads(wrap(text))


@pytest.mark.parametrize(
    "arguments",
    ["", "raw text", "{", '{"text":"a"}', '{"input":1}', "[]", "\ud800", '{"a":' + "[" * 9999 + "]" * 9999 + "}"],
)
def test_what_is_not_wrapped_is_the_input_itself(arguments):
    """A model that ignores the wrapper is taken at its word (1.4)."""
    assert arguments == unwrapped(arguments)


def test_undeclared_names():
    """A call that no declaration explains keeps its name on the way back and becomes legal on the way there."""
    box = Toolbox(limit=8)
    start = BlockStart(1, "tool", name="unknown")
    assert start is box.restore(start)
    assert box.find("unknown") is None
    assert ["old_tool", "ns__x"] == [box.wire("old.tool.name"), box.wire("x", "ns")]


def test_narrowed():
    """An allowed choice leaves the named tools; any other choice leaves all."""
    box = boxed(Tool("function", "a"), Tool("function", "b", namespace="n"), Tool("function", "b"))
    allowed = narrowed(box, Choice("allowed", (("n", "b"),)))
    assert ["n__b"] == [entry.wire for entry in allowed]
    assert box.entries == narrowed(box, None) == narrowed(box, Choice("required"))
