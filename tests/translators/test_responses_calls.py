"""Calls: identity by call id, arguments once."""

import json

import pytest

from translators.events import BlockEnd, BlockStart, Delta
from translators.fault import Refused
from translators.responses import wire
from translators.responses.calls import Calls
from translators.responses.repairs import Repairs
from translators.responses.tracks import Track, Tracks, kind_of

START = BlockStart(1, "tool", "call_a", "f", item_id="fc_a")
WHOLE = {"type": "function_call", "id": "fc_a", "call_id": "call_a", "name": "f"}


class Stand:
    def __init__(self, **item):
        self.repairs = Repairs(strict=False)
        self.tracks = Tracks(self.repairs)
        self.tracks.response_id = "resp_7"
        self.calls = Calls(self.tracks)
        self.track = None
        self.first = []
        if item:
            told = self.item(item)
            self.track = self.tracks.put(Track(kind_of(told), told), 0)
            self.calls.begin(self.track, told, self.first)

    @staticmethod
    def item(members):
        return wire.decode_item(json.dumps(members).encode())

    def __call__(self, name, **members):
        data = json.dumps({"output_index": 0, **members}).encode()
        return list(getattr(self.calls, name)(wire.decode_moment(data), data))

    def complete(self, *, complete=True, **item):
        out = []
        self.calls.complete(self.track or self.tracks.all[0], self.item(item), out, complete=complete)
        return out

    def abandon(self):
        out = []
        self.calls.abandon(self.track or self.tracks.all[0], out, complete=True)
        return out

    def noted(self):
        return [note.field for note in self.repairs.notes.kept]


def test_call_is_told_as_it_comes():
    """A call opens at its announcement and closes at its end."""
    stand = Stand(**WHOLE, arguments="")
    assert [START] == stand.first
    assert [Delta(1, '{"a"')] == stand("arguments_delta", delta='{"a"')
    assert [Delta(1, ":1}")] == stand("arguments_delta", delta=":1}")
    assert [] == stand("arguments_delta", delta="")
    assert [] == stand("done", arguments='{"a":1}')
    assert [BlockEnd(1)] == stand.complete(**WHOLE, arguments='{"a":1}')
    assert [] == stand("done", arguments='{"a":1}')
    assert [] == stand.noted()


def test_custom_call_is_raw_text():
    """A custom call's block says that its text is raw."""
    custom = {"type": "custom_tool_call", "id": "ctc", "call_id": "c", "name": "p", "namespace": "n"}
    stand = Stand(**custom, input="")
    assert [BlockStart(1, "tool", "c", "p", "n", "custom", "ctc")] == stand.first
    assert [Delta(1, "*** ")] == stand("input_delta", delta="*** ")
    assert [Delta(1, "End")] == stand("done", input="*** End")
    assert [BlockEnd(1)] == stand.complete(**custom, input="*** End")


def test_arguments_only_in_done_events():
    """A server without deltas is understood."""
    assert [Delta(1, '{"a":1}')] == Stand(**WHOLE, arguments="")("done", arguments='{"a":1}')
    assert [Delta(1, '{"a":1}'), BlockEnd(1)] == Stand(**WHOLE, arguments="").complete(**WHOLE, arguments='{"a":1}')
    assert [Delta(1, '{"a":1}'), BlockEnd(1)] == Stand(**WHOLE).complete(**WHOLE, arguments={"a": 1})


def test_arguments_in_the_announcement():
    """A beginning counts; a whole object may be a placeholder and waits for the end."""
    assert [START, Delta(1, '{"a"')] == Stand(**WHOLE, arguments='{"a"').first
    stand = Stand(**WHOLE, arguments="{}")
    assert [START] == stand.first
    assert [Delta(1, '{"a":1}')] == stand("arguments_delta", delta='{"a":1}')
    assert [BlockEnd(1)] == stand.complete(**WHOLE, arguments='{"a":1}')
    assert [Delta(1, '{"a":1}'), BlockEnd(1)] == Stand(**WHOLE, arguments='{"a":1}').complete(**WHOLE)
    assert [Delta(1, '{"a":1}'), BlockEnd(1)] == Stand(**WHOLE, arguments='{"a":1}').abandon()


@pytest.mark.edge("E6")
def test_identity_may_come_late():
    """A call without a name waits, and what came meanwhile follows at once."""
    stand = Stand(type="function_call", id="fc_a", arguments="")
    assert [] == stand.first
    assert [] == stand("arguments_delta", delta='{"a"')
    assert [] == stand("arguments_delta", delta=":1}")
    assert [START, Delta(1, '{"a":1}'), BlockEnd(1)] == stand.complete(**WHOLE, arguments='{"a":1}')


@pytest.mark.edge("E33")
def test_item_id_may_come_late():
    """A call that was announced without an id is found by its index, and learns its id."""
    stand = Stand(type="function_call", call_id="call_a", name="f", arguments="")
    stand("done", item_id="fc_a", arguments="{}")
    assert stand.track is stand.tracks.find(None, "fc_a")
    assert "fc_a" == stand.track.id


def test_done_finds_its_call_by_call_id():
    """Where index and item id are missing, the call id says which call it is."""
    stand = Stand(**WHOLE, arguments="")
    data = b'{"call_id":"call_a","arguments":"{}"}'
    assert [Delta(1, "{}")] == list(stand.calls.done(wire.Moment(), data))


@pytest.mark.edge("E8")
def test_identity_is_made_up_when_it_never_comes():
    """A call with arguments but no identity gets one, with a note each; an empty one is discarded."""
    stand = Stand(type="function_call", arguments="")
    stand("arguments_delta", delta="{}")
    assert [BlockStart(1, "tool", "call_7_1", "tool_1"), Delta(1, "{}"), BlockEnd(1)] == stand.abandon()
    assert ["call_id", "name"] == stand.noted()
    assert [] == Stand(type="function_call").abandon()


def test_call_without_announcement():
    """Arguments of an unknown call begin it; its identity comes with its end."""
    stand = Stand()
    assert [] == stand("arguments_delta", delta="{}")
    assert ["response.output_item.added"] == stand.noted()
    assert [
        BlockStart(1, "tool", "call_a", "f"),
        Delta(1, "{}"),
        BlockEnd(1, complete=False),
    ] == stand.complete(complete=False, **WHOLE, arguments="{}")


def test_delta_finds_its_call_by_item_id():
    """A delta without an index belongs to the item that it names."""
    stand = Stand(**WHOLE, arguments="")
    data = b'{"item_id":"fc_a","delta":"{}"}'
    assert [Delta(1, "{}")] == list(stand.calls.arguments_delta(wire.decode_moment(data), data))


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("change", [{"call_id": "call_b"}, {"name": "g"}])
def test_changed_identity_breaks_the_stream(change):
    """A call may not become another one."""
    with pytest.raises(Refused) as caught:
        Stand(**WHOLE).complete(**{**WHOLE, **change})
    assert "api" == caught.value.fault.kind


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(("final", "noted"), [('{"b": 2, "a": 1}', []), ('{"a":2}', ["done"])])
def test_spelling_of_final_arguments(final, noted):
    """Final arguments may be spelled in another way as long as they mean the same."""
    stand = Stand(**WHOLE)
    stand("arguments_delta", delta='{"a":1,"b":2}')
    assert [BlockEnd(1)] == stand.complete(**WHOLE, arguments=final)
    assert noted == stand.noted()


def test_events_of_other_items_are_ignored():
    """Arguments inside an item that is no call belong to nobody."""
    stand = Stand()
    stand.tracks.put(Track("other", wire.Item(id="x")), 0)
    assert [] == stand("arguments_delta", delta="{}")
    assert [] == stand("done", arguments="{}")
