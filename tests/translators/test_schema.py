"""Tool schemas as the Messages API takes them."""

import json

import pytest

from translators.notes import Notes
from translators.schema import object_schema
from translators.toolbox import EMPTY_SCHEMA


@pytest.mark.parametrize(
    "schema",
    [EMPTY_SCHEMA, b'{ "type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}, "$schema": "x" }'],
)
def test_an_object_schema_keeps_its_bytes(schema):
    """What the API takes is not touched, alternatives deeper down included."""
    notes = Notes()
    assert schema == object_schema(schema, "tools.0", notes)
    assert 0 == notes.count


@pytest.mark.parametrize(
    ("schema", "folded"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "string"}, {"type": "object", "properties": {}}),
        (
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"a": {"type": "string"}}, "required": ["a"], "type": "object"},
        ),
        (
            {
                "type": "object",
                "description": "d",
                "anyOf": [
                    {"properties": {"a": {"type": "string"}, "c": {}}, "required": ["a", "c"]},
                    {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b", "a"]},
                ],
            },
            {
                "type": "object",
                "description": "d",
                "properties": {"a": {"type": "string"}, "c": {}, "b": {}},
                "required": ["a"],
            },
        ),
        (
            {"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}, "required": ["b"]}]},
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]},
        ),
        ({"type": "object", "oneOf": []}, {"type": "object", "properties": {}}),
        (
            {"type": "object", "oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]},
            {"type": "object", "properties": {"a": {}, "b": {}}},
        ),
    ],
)
def test_alternatives_at_the_top_are_folded(schema, folded):
    """One object admits at least what the alternatives admit; only what all require is required (1.4)."""
    notes = Notes()
    assert folded == json.loads(object_schema(json.dumps(schema).encode(), "tools.0", notes))
    assert [("tools.0", "changed")] == [(note.field, note.kind) for note in notes.kept]


@pytest.mark.parametrize("schema", [b"[]", b"{", b'{"anyOf":{}}', b'{"properties":[]}'])
def test_a_schema_that_is_none_takes_any_object(schema):
    """A broken schema does not fail the request."""
    notes = Notes()
    assert EMPTY_SCHEMA == object_schema(schema, "tools.0", notes)
    assert 1 == notes.count


def test_an_object_without_properties_gets_an_empty_list_of_them():
    """OpenAI refuses it otherwise; nothing changes in meaning, so nothing is noted."""
    notes = Notes()
    assert b'{"type":"object","title":"t","properties":{}}' == object_schema(
        b'{"type": "object", "title": "t"}', "tools.0", notes
    )
    assert 0 == notes.count
