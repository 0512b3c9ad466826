"""Calls and results side by side for every target, whatever order a history has them in."""

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.adjacency import NO_RESULT, adjacent
from translators.conversation import Text, ToolCall, ToolResult, Turn
from translators.fault import Refused
from translators.notes import Notes


def call(id_):
    return ToolCall(id_, "t", "{}")


def result(id_, text="r"):
    return ToolResult(id_, (Text(text),))


def assistant(*parts):
    return Turn("assistant", parts, "at.a")


def user(*parts):
    return Turn("user", parts, "at.u")


def mended(*turns, strict=False):
    notes = Notes(strict=strict)
    found = adjacent(turns, notes)
    bare = [msgspec.structs.replace(turn, parts=tuple(unplaced(part) for part in turn.parts)) for turn in found]
    return tuple(bare), [note.message for note in notes.kept]


def unplaced(part):
    return msgspec.structs.replace(part, at="")


def legal(turns):
    """Say whether every call is answered once in the next turn, before anything else, and every result has its call."""
    awaited = set()
    for index, turn in enumerate(turns):
        leading = [part.call_id for part in turn.parts if isinstance(part, ToolResult)]
        assert all(isinstance(part, ToolResult) for part in turn.parts[: len(leading)])
        assert sorted(awaited) == sorted(leading)
        awaited = {part.id for part in turn.parts if isinstance(part, ToolCall)}
        assert not awaited or "assistant" == turn.role
        assert not leading or "user" == turn.role
        if index == len(turns) - 1:
            return True
    return not awaited


@pytest.mark.parametrize(
    "turns",
    [
        (),
        (user(Text("q")),),
        (user(Text("q")), assistant(Text("a"))),
        (assistant(call("a"), call("b")), user(result("b"), result("a"), Text("and")), assistant(Text("done"))),
        (user(Text("q")), assistant(Text("t"), call("a"))),
        (assistant(call("a")), user(result("a")), assistant(call("b")), user(result("b"))),
    ],
)
def test_a_legal_history_is_not_touched(turns):
    """What is adjacent already comes back as the same object, without a note."""
    notes = Notes()
    assert turns is adjacent(turns, notes)
    assert 0 == notes.count


@pytest.mark.invariant("I33")
def test_every_order_of_calls_and_results_becomes_legal():
    """All 720 orders of three calls and their results end in a legal history with each result once."""
    items = [assistant(call(id_)) for id_ in "abc"] + [user(result(id_)) for id_ in "abc"]
    for order in permutations(items):
        turns, _ = mended(*order)
        assert legal(turns)
        told = [part for turn in turns for part in turn.parts if isinstance(part, ToolResult)]
        assert {"a": "r", "b": "r", "c": "r"} == {part.call_id: part.parts[0].text for part in told}
        assert [t.parts[0].id for t in order if t.role == "assistant"] == [
            part.id for turn in turns for part in turn.parts if isinstance(part, ToolCall)
        ]


parts = st.lists(
    st.one_of(
        st.sampled_from("abcd").map(result),
        st.sampled_from("xy").map(Text),
    ),
    max_size=3,
)


@pytest.mark.invariant("I33")
@given(st.lists(parts, min_size=1, max_size=6), st.permutations("abcd"), st.data())
def test_any_history_becomes_legal(others, ids, data):
    """Calls anywhere, results missing, doubled, early or orphaned: the outcome is legal and no user text is lost."""
    turns = [user(*some) if some else user(Text("z")) for some in others]
    for id_ in ids[: data.draw(st.integers(0, 4))]:
        turns.insert(data.draw(st.integers(0, len(turns))), assistant(Text("t"), call(id_)))
    made, _ = mended(*turns)
    assert legal(made)
    told = [part.text for turn in turns for part in turn.parts if isinstance(part, Text)]
    kept = [part.text for turn in made for part in turn.parts if isinstance(part, Text)]
    assert told == [text for text in kept if text in {"t", "x", "y", "z"}]
    assert made == adjacent(made, Notes())


def test_what_stands_between_moves_behind():
    """Turns between a call and its result follow the result, in their order."""
    turns, notes = mended(assistant(call("a")), user(Text("wait")), user(result("a"), Text("more")))
    assert (assistant(call("a")), Turn("user", (result("a"),), "at.a"), user(Text("wait")), user(Text("more"))) == turns
    assert [] == notes


def test_a_result_before_its_call_moves_and_is_noted():
    """The only order that a model can have seen is call, then result."""
    turns, notes = mended(user(result("a")), assistant(call("a")), user(Text("q")))
    assert (assistant(call("a")), Turn("user", (result("a"),), "at.a"), user(Text("q"))) == turns
    assert ["the result of call 'a' stands before its call and moves behind it"] == notes


def test_a_last_call_with_an_early_result_is_answered():
    """A result that is there counts for a call at the end as well."""
    turns, _ = mended(user(result("a")), assistant(call("a"), call("b")))
    assert ["a", "b"] == [part.call_id for part in turns[1].parts]


def test_the_last_of_two_results_counts():
    """A second result replaces the first and is noted."""
    turns, notes = mended(assistant(call("a")), user(result("a", "old")), user(result("a", "new")))
    assert (assistant(call("a")), Turn("user", (result("a", "new"),), "at.a")) == turns
    assert ["a second result for call 'a' replaces the first"] == notes


def test_a_missing_result_is_made_up_as_an_error():
    """A call that was never answered gets a result that says so."""
    turns, notes = mended(assistant(call("a"), call("b")), user(result("b")))
    missing = ToolResult("a", (Text(NO_RESULT),), is_error=True)
    assert (assistant(call("a"), call("b")), Turn("user", (missing, result("b")), "at.a")) == turns
    assert ["call 'a' has no result; one that says so is added"] == notes


def test_an_orphan_becomes_text():
    """A result of an unknown call is told as user text, with its content."""
    turns, notes = mended(user(Text("q")), user(result("x", "found")))
    assert (user(Text("q")), user(Text("[result of tool call x]"), Text("found"))) == turns
    assert ["the result of unknown call 'x' becomes text"] == notes


def test_an_orphan_twice_is_told_once():
    """The last of two results counts for orphans as well."""
    turns, notes = mended(user(result("x", "old")), user(result("x", "new")))
    assert (user(Text("[result of tool call x]"), Text("new")),) == turns
    assert 2 == len(notes)


@pytest.mark.parametrize(
    ("turns", "code"),
    [
        ((user(result("x")),), "orphan_tool_result"),
        ((assistant(call("a")), user(Text("q"))), "orphan_tool_call"),
    ],
)
def test_strict_mode_refuses_repairs(turns, code):
    """In strict mode nothing is made up and nothing is told as text."""
    with pytest.raises(Refused) as refused:
        mended(*turns, strict=True)
    assert (code, "invalid_request") == (refused.value.fault.code, refused.value.fault.kind)


@pytest.mark.parametrize(
    ("turns", "strict"),
    [
        ((assistant(call("a")), user(result("a")), assistant(call("a"))), True),
        ((assistant(call("a")), assistant(call("a")), user(result("a"))), False),
        ((assistant(call("a"), call("a")), user(result("a"))), False),
    ],
)
def test_a_call_id_used_twice_is_refused(turns, strict):
    """Two open calls of one id cannot be told apart (1.3); strict mode takes no id twice."""
    with pytest.raises(Refused, match="invalid_request") as refused:
        mended(*turns, strict=strict)
    assert "at.a" == refused.value.fault.param


def test_a_call_id_that_comes_back_gets_another_one():
    """Servers that count the calls of each answer anew would end every conversation at its second tool round."""
    rounds = [turn for word in "xyz" for turn in (assistant(Text(word), call("a")), user(result("a", word)))]
    turns, notes = mended(*rounds, assistant(call("a_2")), user(result("a_2", "own")))
    calls = [part.id for turn in turns for part in turn.parts if isinstance(part, ToolCall)]
    told = {part.call_id: part.parts[0].text for turn in turns for part in turn.parts if isinstance(part, ToolResult)}
    assert ["a", "a_3", "a_4", "a_2"] == calls
    assert {"a": "x", "a_3": "y", "a_4": "z", "a_2": "own"} == told
    assert 2 == len(notes)


def test_open_calls_keep_their_ids_when_another_comes_back():
    """Only the id that was answered before is made anew; the first of a turn keeps its own."""
    turns, _ = mended(assistant(call("a")), user(result("a")), assistant(call("b"), call("a")))
    assert ["b", "a_2"] == [part.id for part in turns[-1].parts]


def test_text_before_the_results_moves_behind_them():
    """Within a turn the results come first (1.12)."""
    turns, notes = mended(assistant(call("a")), user(Text("look"), result("a")))
    assert (assistant(call("a")), Turn("user", (result("a"),), "at.a"), user(Text("look"))) == turns
    assert [] == notes


def test_a_result_that_moves_keeps_its_path():
    """What is said of it later names the item that the client sent, and so does what is said of its turn's others."""
    turns = (
        assistant(call("a"), call("b")),
        Turn("user", (result("b"),), "at.b"),
        Turn("user", (result("a"),), "at.c"),
    )
    assert ["at.c", "at.b"] == [part.at for part in adjacent(turns, Notes())[1].parts]


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ((call("a"), msgspec.structs.replace(call("b"), at="at.own")), "orphan_tool_call"),
        ((call("a"), msgspec.structs.replace(call("a"), at="at.own")), None),
    ],
)
def test_refusals_name_the_part(parts, code):
    """Of several items in one turn the wrong one is named."""
    with pytest.raises(Refused) as caught:
        adjacent((assistant(*parts), user(result("a"))), Notes(strict=True))
    assert (code, "at.own") == (caught.value.fault.code, caught.value.fault.param)
