"""Writing tools and choices for a Chat upstream (spec/translation.md 1.4, 1.5)."""

import msgspec
import pytest

from translators.chat.tools import rendered_tools
from translators.conversation import Choice, Controls, Conversation, Tool
from translators.dialect import Target
from translators.fault import Refused
from translators.notes import Notes
from translators.toolbox import build
from translators.traits import Traits

F = Tool("function", "f", "d", b'{"type":"object","properties":{}}', strict=True)
G = Tool("function", "g", deferred=True)
P = Tool("custom", "p", "pd", grammar=("lark", "start"))
HOSTED = Tool("hosted", "web_search", at="tools.9")


def rendered(*tools, choice=None, parallel=None, notes=None, strict=False, **traits):
    conversation = Conversation("responses", "m", tools=tools, controls=Controls(choice=choice, parallel=parallel))
    target = Target("up", Traits(**traits), strict=strict)
    notes = notes or Notes(strict=strict)
    box = build(conversation, Notes(), limit=64, custom_native=target.traits.custom_tools)
    return msgspec.json.decode(msgspec.json.encode(rendered_tools(conversation, box, target, notes)))


def refused(*tools, **more):
    with pytest.raises(Refused) as caught:
        rendered(*tools, **more)
    return caught.value.fault


def test_no_tools_is_nothing():
    """Neither list, choice nor parallelism."""
    assert {} == rendered(choice=Choice("auto"), parallel=True)


def test_functions_are_complete():
    """Parameters and strict are always written."""
    notes = Notes()
    assert [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "d",
                "parameters": {"type": "object", "properties": {}},
                "strict": True,
            },
        },
        {
            "type": "function",
            "function": {"name": "g", "parameters": {"type": "object", "properties": {}}, "strict": False},
        },
    ] == rendered(F, G, notes=notes)["tools"]
    assert ["tools"] == [note.field for note in notes.kept]


def test_an_empty_schema_is_an_object():
    """`{}` takes anything; servers want an object."""
    found = rendered(Tool("function", "f", parameters=b" {} "))["tools"][0]
    assert {"type": "object", "properties": {}} == found["function"]["parameters"]


def test_custom_tools_are_wrapped_or_native():
    """By the model's own capability; the grammar is nested or told in words."""
    wrapped = rendered(P)["tools"][0]["function"]
    assert ["input"] == wrapped["parameters"]["required"]
    assert "lark" in wrapped["description"]
    native = {
        "name": "p",
        "description": "pd",
        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start"}},
    }
    assert [{"type": "custom", "custom": native}] == rendered(P, custom_tools=True)["tools"]
    assert [{"type": "custom", "custom": {"name": "q"}}] == rendered(Tool("custom", "q"), custom_tools=True)["tools"]


def test_hosted_tools_are_dropped_with_a_note():
    """When nothing is left, everything about tools goes; strict refuses."""
    notes = Notes()
    assert {} == rendered(HOSTED, choice=Choice("required"), parallel=False, notes=notes)
    assert ["tools.9"] == [note.field for note in notes.kept]
    assert "unsupported_tool" == refused(HOSTED, strict=True).code


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        (Choice("auto"), "auto"),
        (Choice("none"), "none"),
        (Choice("required"), "required"),
        (Choice("tool", ((None, "f"),)), {"type": "function", "function": {"name": "f"}}),
        (Choice("tool", ((None, "p"),)), {"type": "function", "function": {"name": "p"}}),
        (
            Choice("allowed", ((None, "f"), (None, "gone")), required=True),
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
        (
            Choice("allowed", ((None, "f"),)),
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
def test_choices_are_written(choice, wire):
    """Words, one tool, or a subset."""
    assert wire == rendered(F, P, choice=choice)["tool_choice"]


def test_a_native_custom_tool_is_chosen_as_such():
    """By its own kind."""
    found = rendered(P, choice=Choice("tool", ((None, "p"),)), custom_tools=True)
    assert {"type": "custom", "custom": {"name": "p"}} == found["tool_choice"]


@pytest.mark.invariant("I31")
@pytest.mark.parametrize(
    "choice", [Choice("tool", ((None, "web_search"),)), Choice("allowed", ((None, "web_search"),)), Choice("tool")]
)
def test_forcing_a_dropped_tool_is_refused(choice):
    """It would silently become a free answer."""
    fault = refused(F, HOSTED, choice=choice)
    assert ("unsupported_tool", "tool_choice") == (fault.code, fault.param)


def test_a_model_that_cannot_be_forced_chooses_freely():
    """Forced choices become auto with a note; a subset becomes the only tools."""
    notes = Notes()
    assert "auto" == rendered(F, choice=Choice("required"), notes=notes, forced_tool_choice=False)["tool_choice"]
    found = rendered(F, G, choice=Choice("allowed", ((None, "g"),)), forced_tool_choice=False)
    assert ("auto", ["g"]) == (found["tool_choice"], [tool["function"]["name"] for tool in found["tools"]])
    assert 1 == notes.count


def test_parallelism_is_written_where_it_is_known():
    """Else it is left out with a note."""
    notes = Notes()
    assert rendered(F, parallel=False)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in rendered(F, parallel=False, notes=notes, parallel_control=False)
    assert ["parallel_tool_calls"] == [note.field for note in notes.kept]
