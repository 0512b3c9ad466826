"""Which fragment belongs to which call: the servers' habits that spec/translation.md 5.2 repairs."""

import pytest

from translators.chat.calls import Calls, Contradiction
from translators.chat.wire import CallDelta, CustomDelta, FunctionDelta
from translators.events import BlockEnd, BlockStart, Delta
from translators.notes import Notes


def piece(index=None, id=None, name=None, arguments=None):  # noqa: A002 - the wire's word
    return CallDelta(index, id, FunctionDelta(name, arguments))


class Stream:
    """Feed fragments and collect (id, name, arguments) of the calls."""

    def __init__(self):
        self.notes = Notes()
        self.keys = 0
        self.calls = Calls(self.notes, self.next_key)
        self.calls.identify("chatcmpl-up 1", b"")
        self.events = []

    def next_key(self):
        self.keys += 1
        return self.keys

    def feed(self, *pieces, whole=False):
        self.events += self.calls.push(list(pieces), whole=whole)
        return self

    def result(self):
        self.events += self.calls.close(complete=True)
        starts = [event for event in self.events if isinstance(event, BlockStart)]
        text = {start.key: "" for start in starts}
        for event in self.events:
            if isinstance(event, Delta):
                text[event.key] += event.text
        assert sorted(text) == sorted(event.key for event in self.events if isinstance(event, BlockEnd))
        return [(start.call_id, start.name, text[start.key]) for start in starts]


def test_missing_indexes_follow_the_ids():
    """An id begins a call, no id continues the last one, a known id continues its own."""
    stream = Stream().feed(piece(id="a", name="f", arguments='{"x":')).feed(piece(arguments="1}"))
    stream.feed(piece(id="b", name="g", arguments='{"y"')).feed(piece(id="b", arguments=":2}"))
    assert [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')] == stream.result()


def test_index_zero_reused_with_a_new_id_is_a_new_call():
    """Some servers label every call with index 0."""
    stream = (
        Stream().feed(piece(0, "a", "f", '{"x":1}')).feed(piece(0, "b", "f", '{"x":')).feed(piece(0, None, None, "2}"))
    )
    assert [("a", "f", '{"x":1}'), ("b", "f", '{"x":2}')] == stream.result()


def test_index_zero_reused_without_ids_is_a_new_call_after_complete_arguments():
    """Without ids, a name with arguments after a complete object begins anew."""
    stream = Stream().feed(piece(0, "", "f", '{"x":1}')).feed(piece(0, "", "g", '{"y":2}'))
    assert [("call_up_1_0", "f", '{"x":1}'), ("call_up_1_1", "g", '{"y":2}')] == stream.result()


def test_a_new_id_without_a_name_continues():
    """Servers that make up an id for each fragment still speak of one call."""
    assert [("a", "f", "{}")] == Stream().feed(piece(0, "a", "f", "{")).feed(piece(0, "z", None, "}")).result()


def test_a_list_without_ids_and_indexes_is_several_calls():
    """Position tells calls of one delta apart."""
    stream = Stream().feed(piece(name="f", arguments="{}"), piece(name="g", arguments="{}"))
    assert [("call_up_1_0", "f", "{}"), ("call_up_1_1", "g", "{}")] == stream.result()


def test_whole_calls_are_each_their_own():
    """A message's list has no fragments."""
    stream = Stream().feed(piece(0, None, "f", {"a": [1]}), piece(0, None, "f", "{}"), whole=True)
    assert [("call_up_1_0", "f", '{"a":[1]}'), ("call_up_1_1", "f", "{}")] == stream.result()


def test_an_id_may_come_after_the_name():
    """A fragment with a name only waits for its id."""
    assert [("a", "f", "{}")] == Stream().feed(piece(0, None, "f")).feed(piece(0, "a", None, "{}")).result()


def test_a_waiting_call_gets_an_id_when_the_next_begins():
    """Calls open in order, so the first one cannot wait any longer."""
    stream = Stream().feed(piece(0, None, "f")).feed(piece(1, "b", "g", "{}"))
    assert [("call_up_1_0", "f", ""), ("b", "g", "{}")] == stream.result()


@pytest.mark.invariant("I11")
def test_a_call_without_a_name_keeps_its_place():
    """A later call waits for the earlier one, so the order is the source's."""
    stream = Stream().feed(piece(0, "a", None, "{}"), piece(1, "b", "g", "{}"))
    assert [] == [event for event in stream.events if isinstance(event, BlockStart)]
    assert [("a", "f", "{}"), ("b", "g", "{}")] == stream.feed(piece(0, None, "f")).result()


def test_name_pieces_are_joined_until_the_call_opens():
    """Afterwards they are left out with a note."""
    stream = (
        Stream()
        .feed(piece(0, None, "get_"))
        .feed(piece(0, None, "time"))
        .feed(piece(0, "a", None, "{}"))
        .feed(piece(0, None, "zone"))
    )
    assert [("a", "get_time", "{}")] == stream.result()
    assert 1 == stream.notes.count


def test_an_empty_call_is_left_out():
    """A slot of nothing is no call; closing twice says nothing more."""
    stream = Stream().feed(piece(0))
    assert [] == stream.result()
    assert [] == stream.result()
    assert 1 == stream.notes.count


def test_a_call_without_function_is_left_out():
    """Neither function nor custom."""
    assert [] == Stream().feed(CallDelta(0)).result()


def test_only_the_last_call_is_incomplete():
    """A truncated answer was cut inside its last call."""
    stream = Stream().feed(piece(0, "a", "f", "{"), piece(1, "b", "g", "{"))
    assert [BlockEnd(1, complete=True), BlockEnd(2, complete=False)] == stream.calls.close(complete=False)


@pytest.mark.edge("E8")
def test_a_call_without_a_name_gets_one_at_the_end():
    """Its id or arguments prove that there is a call."""
    stream = Stream().feed(piece(0, "a", None, "{}"))
    assert [("a", "tool_0", "{}")] == stream.result()
    assert 1 == stream.notes.count


def test_an_ended_call_takes_no_more_arguments():
    """White space and what it has already are harmless, anything else contradicts."""
    stream = Stream().feed(piece(0, "a", "f", '{"x":1}'), piece(1, "b", "g", "{"))
    assert [] == stream.calls.push([piece(0, None, None, " "), piece(0, None, None, '{"x":1}')], whole=False)
    with pytest.raises(Contradiction):
        stream.feed(piece(0, None, None, '{"x":2}'))


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(0, "a", "f", "{}"), piece(0, None, None, '{"x":'), piece(0, None, None, "1}")],
        [piece(0, "a", "f", '{"x":'), piece(0, None, None, "1}"), piece(0, None, None, '{"x":1}')],
        [piece(0, "a", "f", '{"x":1}'), piece(0, "a", "f", '{"x":1}')],
    ],
)
def test_a_placeholder_and_a_repetition_are_no_arguments(pieces):
    """Relays put `{}` before the fragments, and servers tell complete arguments again at the end."""
    assert [("a", "f", '{"x":1}')] == Stream().feed(*pieces).result()


def test_null_is_no_arguments():
    """Servers write it for a tool without parameters; inside arguments it is a value."""
    assert [("a", "f", "{}")] == Stream().feed(piece(0, "a", "f", "null")).result()
    inside = (piece(0, "a", "f", '{"x":'), piece(0, None, None, "null"), piece(0, None, None, "}"))
    assert [("a", "f", '{"x":null}')] == Stream().feed(*inside).result()


def test_a_placeholder_that_nothing_follows_is_the_arguments():
    """A call of a tool without parameters, ended by the next one or by the answer's end."""
    stream = Stream().feed(piece(0, "a", "f", "{}"), piece(1, "b", "g", "{}"))
    assert [("a", "f", "{}"), ("b", "g", "{}")] == stream.result()


def test_an_incomplete_call_stays_open():
    """Another call's beginning ends only complete ones."""
    stream = Stream().feed(piece(0, "a", "f", '{"x":')).feed(piece(1, "b", "g", "{}")).feed(piece(0, None, None, "1}"))
    assert [("a", "f", '{"x":1}'), ("b", "g", "{}")] == stream.result()


def test_two_calls_cannot_share_an_id():
    """A duplicate id would lose a result (1.3)."""
    with pytest.raises(Contradiction):
        Stream().feed(piece(0, "a", "f", "{}"), piece(1, "a", "g", "{}"))


def test_a_custom_call_is_raw_input():
    """Its form says so, and any text is complete."""
    stream = Stream().feed(CallDelta(0, "a", None, CustomDelta("patch", "*** Begin")), whole=True)
    assert [BlockStart(1, "tool", "a", "patch", form="custom"), Delta(1, "*** Begin")] == stream.events
    assert [BlockEnd(1)] == stream.calls.leave()


def test_a_custom_call_of_nothing_is_left_out():
    """Null members are empty."""
    assert [] == Stream().feed(CallDelta(0, None, None, CustomDelta())).result()


def test_legacy_and_new_calls_do_not_mix():
    """function_call beside tool_calls is ambiguous (G)."""
    stream = Stream()
    assert [] == stream.calls.legacy(FunctionDelta("", ""))
    stream.events += stream.calls.legacy(FunctionDelta("f", "{}"))
    assert [BlockStart(1, "tool", "call_up_1_0", "f")] == stream.events
    with pytest.raises(Contradiction):
        stream.feed(piece(0, "a", "g", "{}"))


@pytest.mark.parametrize(
    "fragment",
    [
        piece(None, None, None, "x"),
        piece(0, "a", None, "x"),
        piece(0, None, "f", "x"),
        piece(0, None, None, ""),
        piece(0, None, None, {"x": 1}),
        piece(1, None, None, "x"),
        CallDelta(0),
        CallDelta(0, None, FunctionDelta(None, "x"), CustomDelta()),
    ],
)
def test_only_plain_fragments_take_the_short_way(fragment):
    """Anything but more arguments of an open call is looked at closely."""
    stream = Stream().feed(piece(0, "a", "f", "{"))
    assert stream.calls.flow(fragment) is None
    assert Delta(1, "}") == stream.calls.flow(piece(0, None, None, "}"))
    assert [("a", "f", "{")] == stream.result()
    assert stream.calls.flow(piece(0, None, None, "}")) is None


@pytest.mark.invariant("I30")
def test_made_ids_are_a_function_of_the_input():
    """The answer's id, or else its first event, is what they are made of."""

    def made(upstream_id, first):
        stream = Stream()
        stream.calls.identify(upstream_id, first)
        return stream.feed(piece(0, None, "f", "{}")).result()[0][0]

    assert "call_abc_0" == made("chatcmpl-abc", b"x")
    assert made("", b"x") == made("", b"x") != made("", b"y")
    assert 64 >= len(made("x" * 500, b""))
