"""What of an answer may be referred to later, gathered from its events."""

import pytest

from translators.conversation import Reasoning, Receipt, State, Text, ToolCall, Turn
from translators.events import BlockEnd, BlockStart, Carried, Citation, Delta, Finish, Mark, Start, Usage
from translators.harvest import Harvest, ids_of


class Kept:
    def __init__(self, seed="0" * 24):
        self.calls, self.ends = [], []
        on_call = lambda names, call: self.calls.append((names, call))
        on_end = lambda names, calls, turn: self.ends.append((names, calls, turn))
        self.harvest = Harvest(seed, "origin", on_call, on_end)

    def take(self, *events):
        for event in events:
            self.harvest(event)
        return self


def call(key=1, *, form="function", text='{"q":1}', call_id="call_1", **more):
    start = BlockStart(key, "tool", call_id=call_id, name="lookup", form=form, **more)
    return start, Delta(key, text), BlockEnd(key)


def test_call_is_told_as_soon_as_it_is_whole():
    """The call is known by our id, the upstream's and its own before the answer ends."""
    kept = Kept().take(Start("resp_1"), *call(item_id="fc_up", namespace="web"))
    assert [(("fc_call_1", "fc_up", "call_1"), ToolCall("call_1", "lookup", '{"q":1}', namespace="web"))] == kept.calls
    assert [] == kept.ends


@pytest.mark.parametrize(
    ("form", "text", "arguments"),
    [
        ("custom", "echo ok", "echo ok"),
        ("wrapped", '{"input":"echo ok"}', "echo ok"),
        ("wrapped", "", ""),
        ("function", "", "{}"),
    ],
)
def test_arguments_are_the_clients(form, text, arguments):
    """Custom input is raw, also where a function stood for the tool; no arguments are an empty object."""
    start, delta, end = call(form=form, text=text)
    kept = Kept().take(start, *([delta] if text else []), end)
    ((names, found),) = kept.calls
    assert (arguments, form != "function") == (found.arguments, found.custom)
    assert names[0].startswith("fc_" if form == "function" else "ctc_")


def test_success_tells_calls_and_turn():
    """At the end come the response's ids, its calls in order, and the assistant's turn with its state sealed."""
    kept = Kept().take(
        Start("chatcmpl-1"),
        BlockStart(1, "reasoning"),
        Delta(1, "Hm."),
        Mark(1, Carried("rs", "sealed", "rs_1")),
        BlockEnd(1),
        BlockStart(2, "text"),
        Delta(2, "Hello"),
        Mark(2, Citation("https://x.example")),
        BlockEnd(2),
        BlockStart(3, "receipt"),
        Mark(3, Receipt("mcp_1", "server", "tool", "{}")),
        BlockEnd(3),
        *call(4),
        BlockStart(5, "refusal"),
        Delta(5, "No."),
        BlockStart(6, "text"),
        Usage(),
        Finish("tool"),
    )
    ((names, calls, turn),) = kept.ends
    assert ("resp_1", "chatcmpl-1") == names
    assert ["call_1"] == [one.id for one in calls]
    reasoning, *rest = turn.parts
    assert isinstance(reasoning, Reasoning)
    assert isinstance(reasoning.state, State)
    assert reasoning.state.value.startswith("gw1.rs.origin.")
    assert [Text("Hello"), Receipt("mcp_1", "server", "tool", "{}"), calls[0], Text("No.", refusal=True)] == rest


def test_only_calls_are_gathered_where_no_more_is_asked():
    """Without `whole` text is not even held while it passes."""
    ends = []
    harvest = Harvest("0", "o", lambda names, one: None, lambda *told: ends.append(told), whole=False)
    for event in (BlockStart(1, "text"), Delta(1, "Hello"), BlockEnd(1), *call(2), Finish("tool")):
        harvest(event)
    ((_, calls, turn),) = ends
    assert (calls, 1) == (turn.parts, len(harvest._blocks))


def test_answer_without_an_id_gets_ours():
    """An upstream that names no response still has one for its client."""
    kept = Kept().take(Start(), BlockStart(1, "reasoning"), *call(2), Finish("end"))
    ((names, _, turn),) = kept.ends
    assert ("resp_" + "0" * 24,) == names
    assert (ToolCall,) == tuple(type(part) for part in turn.parts)


def test_call_left_open_is_closed_by_success():
    """Some upstreams end without closing the last call."""
    start, delta, _ = call()
    kept = Kept().take(start, delta, Finish("tool"))
    assert 1 == len(kept.calls) == len(kept.ends[0][1])


@pytest.mark.parametrize("stop", ["length", "context", "refusal"])
def test_cut_answer_is_no_success(stop):
    """What was cut is not remembered as an answer, though its whole calls stay known."""
    kept = Kept().take(*call(), Finish(stop))
    assert (1, 0) == (len(kept.calls), len(kept.ends))


def test_unfinished_and_foreign_calls_are_not_kept():
    """A call that was cut, has no id or name, or is xAI's own search, is nothing that a client could answer."""
    start, delta, _ = call()
    cut = (start, delta, BlockEnd(1, complete=False))
    hosted = call(2, form="custom", call_id="xs_call_9")
    nameless = (BlockStart(3, "tool", call_id="call_3", name=" "), BlockEnd(3))
    lost = (Delta(9, "x"), BlockEnd(9), Mark(9, Citation("u")))
    kept = Kept().take(*cut, *hosted, *nameless, *call(4, call_id=""), *lost)
    assert [] == kept.calls
    kept.take(BlockEnd(4), Finish("end"))
    assert [] == kept.calls
    assert Turn("assistant", (), "previous_response_id") == kept.ends[0][2]


def test_ids_are_told_once():
    """An upstream that uses our form of ids adds none."""
    assert ("fc_call_1", "call_1") == ids_of(ToolCall("call_1", "x", "{}"), "fc_call_1")
