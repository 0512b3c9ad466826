"""The Sequencer: any interleaving of blocks becomes a strict sequence, within budgets, with exactly one end."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Receipt
from translators.events import BlockEnd, BlockStart, Carried, Citation, Delta, Failed, Finish, Mark, Start, Usage
from translators.fault import broken
from translators.notes import Notes
from translators.sequencer import Budget, Sequencer

STATE = Carried("th", "s")


def run(*events, notes=None, budget=None, **options):
    sequencer = Sequencer(notes or Notes(), budget=budget or Budget(), **options)
    return [out for event in events for out in sequencer.push(event)]


def text(key, *pieces, kind="text", **more):
    return [BlockStart(key, kind, **more), *(Delta(key, piece) for piece in pieces), BlockEnd(key)]


def tool(key, *pieces, **more):
    return text(key, *pieces, kind="tool", call_id=f"c{key}", name="t", **more)


def fault_of(events):
    assert [Failed] == [type(event) for event in events[-1:]]
    return events[-1].fault


# Any interleaving


kinds = st.sampled_from(["text", "refusal", "reasoning", "tool", "receipt"])


@st.composite
def lanes(draw):
    """The events of one block: start, content of its kind, end (which the source may leave out)."""
    key, kind = draw(st.uuids()).int, draw(kinds)
    pieces = draw(st.lists(st.text(min_size=1, max_size=4), max_size=3))
    if kind == "tool":
        pieces = draw(st.sampled_from([[], ["{}"], ['{"a"', ":1}"]]))
    value = Receipt("r", "s", "n", "{}") if kind == "receipt" else STATE if kind == "reasoning" else Citation("u")
    marks = [Mark(key, value)] if kind != "tool" and draw(st.booleans()) else []
    body = (
        draw(st.permutations([*(Delta(key, piece) for piece in pieces), *marks]))
        if kind != "tool"
        else [Delta(key, piece) for piece in pieces]
    )
    return [BlockStart(key, kind, f"c{key}" if kind == "tool" else ""), *body, *[BlockEnd(key)] * draw(st.booleans())]


@st.composite
def interleaved(draw):
    """Blocks whose events alternate in any way; the order of their starts is the order of the answer."""
    left = draw(st.lists(lanes(), max_size=6))
    events = []
    while left:
        lane = left[draw(st.integers(0, len(left) - 1))]
        events.append(lane.pop(0))
        left = [lane for lane in left if lane]
    return events


def read(events):
    """Check the grammar of sequenced events and return (start, texts, marks) of each block."""
    blocks, current = [], None
    for event in events:
        match event:
            case BlockStart():
                assert current is None
                current = (event, [], [])
                blocks.append(current)
            case Delta(key=key, text=said):
                assert key == current[0].key
                current[1].append(said)
            case Mark(key=key, value=value):
                assert key == current[0].key
                current[2].append(value)
            case BlockEnd(key=key):
                assert key == current[0].key
                current = None
    assert current is None
    return blocks


@pytest.mark.invariant("I9")
@pytest.mark.invariant("I11")
@pytest.mark.invariant("I20")
@pytest.mark.invariant("I22")
@pytest.mark.invariant("I23")
@given(interleaved(), st.booleans(), st.booleans(), st.booleans())
def test_any_interleaving_is_linearised(events, shown, carried, bare):
    """One block at a time, in start order, each with exactly its own text and marks, then one Finish and no more."""
    out = run(*events, Finish("end"), Delta(0, "late"), Usage(), shown=shown, carried=carried, bare=bare)
    assert [Finish] == [type(event) for event in out if isinstance(event, Finish | Failed)]
    assert isinstance(out[-1], Finish)
    expected = []
    for start in (event for event in events if isinstance(event, BlockStart)):
        thought = start.kind == "reasoning"
        said = [e.text for e in events if isinstance(e, Delta) and e.key == start.key and (shown or not thought)]
        marks = [e.value for e in events if isinstance(e, Mark) and e.key == start.key and (carried or not thought)]
        if said or start.kind in ("tool", "receipt") or (marks and (bare or not thought)):
            expected.append((start, said, marks))
    assert expected == read(out)


@pytest.mark.invariant("I29")
@given(interleaved(), st.integers(0, 40))
def test_a_failure_ends_everything(events, at):
    """After Failed nothing leaves any more, whatever the source still sends."""
    failed = Failed(broken("m"))
    out = run(*events[:at], failed, *events[at:], failed, Finish("end"))
    assert failed == out[-1]
    assert 1 == sum(isinstance(event, Finish | Failed) for event in out)


@pytest.mark.edge("E5")
def test_the_open_block_is_live_and_others_wait():
    """Deltas of the open block pass at once; those of another leave when it opens, in one go."""
    sequencer = Sequencer(Notes())
    one, two = tool(1, '{"a":', "1}"), tool(2, "{", "}")
    assert one[:1] == sequencer.push(one[0])
    assert [] == sequencer.push(two[0])
    assert one[1:2] == sequencer.push(one[1])
    assert [] == sequencer.push(two[1])
    assert one[2:3] == sequencer.push(one[2])
    assert [one[3], *two[:2]] == sequencer.push(one[3])
    assert two[2:3] == sequencer.push(two[2])
    assert not sequencer.done


def test_facts_pass_at_once():
    """Start and counts are not held back by open blocks."""
    assert [Start("i"), BlockStart(1, "text"), Delta(1, "a"), Usage(1)] == run(
        Start("i"), BlockStart(1, "text"), Delta(1, "a"), Usage(1)
    )


@pytest.mark.edge("E9")
def test_blocks_without_content_never_open():
    """An empty text or reasoning block leaves no trace, an empty call and a receipt do."""
    receipt = [BlockStart(4, "receipt"), BlockEnd(4)]
    assert [*tool(2), *receipt, Finish("tool")] == run(
        *text(1), *tool(2), *text(3, kind="reasoning"), *receipt, Finish("end")
    )


def test_a_block_with_only_a_mark_opens_at_its_end():
    """State or a citation without text is still told (5.1)."""
    sequencer = Sequencer(Notes())
    start, mark, end = BlockStart(1, "reasoning"), Mark(1, STATE), BlockEnd(1)
    assert [[], [], [start, mark, end]] == [sequencer.push(event) for event in (start, mark, end)]


# Reasoning that is not shown


@pytest.mark.edge("E14")
def test_hidden_reasoning_keeps_its_state():
    """Text that the client did not ask for stays back, its state still travels."""
    events = [BlockStart(1, "reasoning"), Delta(1, "R"), Mark(1, STATE), Delta(1, "R"), BlockEnd(1)]
    assert [events[0], events[2], events[4]] == run(*events, shown=False)
    assert [] == run(*events, shown=False, carried=False)
    assert [] == run(*events, shown=False, bare=False)


def test_state_is_left_out_where_it_cannot_be_used():
    """Without `carried` the text stays and the state goes, also in a block that is open already."""
    events = [BlockStart(1, "reasoning"), Mark(1, STATE), Delta(1, "R"), Mark(1, STATE), BlockEnd(1)]
    assert [events[0], events[2], events[4]] == run(*events, carried=False)


def test_citations_are_no_state():
    """A mark of a text block passes whatever holds for reasoning."""
    events = [BlockStart(1, "text"), Delta(1, "T"), Mark(1, Citation("u")), BlockEnd(1)]
    assert events == run(*events, shown=False, carried=False, bare=False)


def test_hidden_reasoning_fills_no_queue():
    """Long reasoning that nobody sees is not held, so it cannot break an answer."""
    events = [BlockStart(1, "reasoning"), *[Delta(1, "R" * 10)] * 50, BlockEnd(1), *text(2, "T"), Finish("end")]
    assert [*text(2, "T"), Finish("end")] == run(*events, shown=False, budget=Budget(queued_bytes=10, queued_events=2))


def test_dropped_state_leaves_the_queue():
    """A reasoning block that is dropped for having only state gives its place back."""
    bare = [event for key in range(9) for event in (BlockStart(key, "reasoning"), Mark(key, STATE), BlockEnd(key))]
    assert [] == run(*bare, bare=False, budget=Budget(queued_events=1))


# Violations of the grammar


@pytest.mark.invariant("I3")
@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([BlockStart(1, "text"), BlockStart(1, "text")], "opened a block twice"),
        ([BlockStart(1, "tool"), BlockStart(1, "tool")], "opened a block twice"),
        ([Delta(1, "a")], "not open"),
        ([Mark(1, STATE)], "not open"),
        ([BlockEnd(1)], "not open"),
        ([BlockStart(9, "tool"), *text(1, "a"), Delta(1, "b")], "not open"),
        ([BlockStart(9, "tool"), *text(1, "a"), BlockEnd(1)], "not open"),
        ([*text(1, "a"), Delta(1, "b")], "not open"),
        ([*tool(1), *tool(2)[:1], BlockStart(3, "tool", "c1")], "used a call id twice"),
    ],
)
def test_violations_poison(events, says):
    """A decoder that breaks the grammar ends in one Failed, and in nothing after it."""
    out = run(*events, *text(5, "more"), Finish("end"))
    fault = fault_of(out)
    assert says in fault.message
    assert "protocol" == fault.cause
    assert 1 == sum(isinstance(event, Failed) for event in out)


def test_calls_without_ids_are_not_the_same_call():
    """An id that is missing is made up by the encoder and says nothing about identity."""
    out = run(BlockStart(1, "tool"), BlockEnd(1), BlockStart(2, "tool"), BlockEnd(2), Finish("tool"))
    assert Finish("tool") == out[-1]


# Budgets, each at its limit and one beyond


def beyond(out, says):
    fault = fault_of(out)
    assert says in fault.message
    assert ("limit", 502) == (fault.cause, fault.status)


def test_event_budget():
    """The number of events is bounded (section 8)."""
    events = [*text(1, "a"), Finish("end")]
    assert events == run(*events, budget=Budget(events=4))
    beyond(run(*events, budget=Budget(events=3)), "too many events")


@pytest.mark.parametrize("budget", [Budget(blocks=2), Budget(tools=2)])
def test_block_budgets(budget):
    """The numbers of blocks and of calls are bounded."""
    assert Finish("tool") == run(*tool(1), *tool(2), Finish("end"), budget=budget)[-1]
    beyond(run(*tool(1), *tool(2), *tool(3), budget=budget), "too many blocks")


def test_texts_are_no_tools():
    """The budget of calls counts calls only."""
    assert Finish("end") == run(*text(1, "a"), *text(2, "b"), Finish("end"), budget=Budget(tools=0))[-1]


@pytest.mark.parametrize("form", ["function", "custom", "wrapped"])
@pytest.mark.parametrize("queued", [False, True])
def test_argument_budget(form, queued):
    """The arguments of a call are bounded in bytes, of any form, live or from the queue; each call starts anew."""
    first = BlockStart(0, "text"), Delta(0, "x")
    before, after = (first, [BlockEnd(0)]) if queued else ((), [])
    fits = [*tool(1, '{"ä"', ":1}", form=form), *tool(2, '{"ä"', ":1}", form=form)]
    out = run(*before, *fits, *after, Finish("end"), budget=Budget(argument_bytes=8))
    assert Finish("tool") == out[-1]
    out = run(*before, *tool(1, '{"ä"', ":1} ", form=form), *after, Finish("end"), budget=Budget(argument_bytes=8))
    beyond(out, "arguments of a tool call are too large")


def test_the_queue_at_the_finish_is_bounded_too():
    """A call that only the end of the stream drains meets the same bound."""
    out = run(BlockStart(0, "text"), Delta(0, "x"), *tool(1, "{} "), Finish("end"), budget=Budget(argument_bytes=2))
    beyond(out, "arguments of a tool call are too large")


@pytest.mark.parametrize(
    ("within", "over"),
    [(Budget(queued_bytes=4), Budget(queued_bytes=3)), (Budget(queued_events=3), Budget(queued_events=2))],
)
def test_queue_budgets(within, over):
    """What waits for another block is bounded in bytes and in events; what has left makes room."""
    blocks = [[BlockStart(0, "text"), Delta(0, "x"), *text(1, "ä", "b", "c"), BlockEnd(0)]]
    blocks.append([msgspec.structs.replace(event, key=event.key + 2) for event in blocks[0]])
    events = [event for block in blocks for event in block]
    assert Finish("end") == run(*events, Finish("end"), budget=within)[-1]
    beyond(run(*events, Finish("end"), budget=over), "out of order")


@pytest.mark.parametrize("kind", ["text", "reasoning", "refusal"])
def test_text_that_waits_for_nothing_is_not_queued(kind):
    """The delta that opens its block is out of no order, however long it is; one behind another block is."""
    events = text(1, "x" * 100, "y" * 100, kind=kind)
    assert events == run(*events, budget=Budget(queued_bytes=10))
    behind = [BlockStart(0, "tool", "c", "t"), BlockStart(1, kind), Delta(1, "x" * 11)]
    beyond(run(*behind, budget=Budget(queued_bytes=10)), "out of order")


def test_marks_fill_the_queue():
    """Marks that wait count as events."""
    events = [BlockStart(1, "text"), *[Mark(1, Citation("u"))] * 3]
    assert [] == run(*events, budget=Budget(queued_events=3))
    beyond(run(*events, budget=Budget(queued_events=2)), "out of order")


# Arguments and the reason to stop


@pytest.mark.edge("E12")
@pytest.mark.parametrize("stop", ["end", "tool", "stop_sequence", "pause"])
@pytest.mark.parametrize("pieces", [["{"], ["[]"], ['{"a":1}', "}"], ["no json"]])
def test_bad_arguments_never_end_well(stop, pieces):
    """A call whose arguments are no JSON object fails the answer, also when good calls follow."""
    fault = fault_of(run(*tool(1, *pieces), *tool(2, "{}"), Finish(stop)))
    assert ("invalid_tool_arguments", "api") == (fault.code, fault.kind)


@pytest.mark.edge("E11")
@pytest.mark.edge("E34")
@pytest.mark.parametrize("stop", ["length", "context", "refusal"])
def test_cut_arguments_stay_as_they_are(stop):
    """A limit or a filter explains half a call; the stop says that it must not be run."""
    events = tool(1, '{"a":')
    assert [*events, Finish(stop)] == run(*events, Finish(stop))


@pytest.mark.edge("E10")
@pytest.mark.parametrize(("form", "pieces"), [("function", []), ("custom", ["any text"]), ("wrapped", ["no json"])])
def test_arguments_that_need_no_json(form, pieces):
    """No arguments at all are an empty object, and the input of a custom tool is any text."""
    events = tool(1, *pieces, form=form)
    assert [*events, Finish("tool")] == run(*events, Finish("tool"))


ANY, REFUSAL, TOOL = text(1, "T"), text(2, "no", kind="refusal"), tool(3)


@pytest.mark.invariant("I24")
@pytest.mark.parametrize(
    ("blocks", "stop", "told"),
    [
        pytest.param([ANY], "end", "end", id="end"),
        pytest.param([ANY, TOOL], "end", "tool", marks=pytest.mark.edge("E35"), id="E35"),
        pytest.param([ANY], "tool", "end", marks=pytest.mark.edge("E36"), id="E36"),
        pytest.param([], "end", "end", marks=pytest.mark.edge("E1"), id="E1"),
        pytest.param([REFUSAL], "end", "refusal", marks=pytest.mark.edge("E16"), id="E16"),
        pytest.param([REFUSAL], "tool", "refusal", id="refusal, tool"),
        pytest.param([REFUSAL, TOOL], "end", "tool", marks=pytest.mark.edge("E17"), id="E17"),
        pytest.param([text(2, kind="refusal")], "end", "end", id="empty refusal"),
        pytest.param([TOOL], "length", "length", marks=pytest.mark.edge("E34"), id="E34"),
        pytest.param([TOOL], "refusal", "refusal", id="filtered"),
        pytest.param([ANY], "context", "context", id="context"),
        pytest.param([ANY], "pause", "pause", id="pause"),
        pytest.param([ANY], "refusal", "refusal", marks=pytest.mark.edge("E18"), id="E18"),
    ],
)
def test_the_stop_agrees_with_what_was_delivered(blocks, stop, told):
    """The table of 1.8: calls and refusals decide over end and tool, every other reason stays."""
    notes = Notes()
    out = run(*(event for block in blocks for event in block), Finish(stop), notes=notes)
    assert Finish(told) == out[-1]
    assert (1 if blocks == [REFUSAL, TOOL] else 0) == notes.count


def test_the_stop_sequence_is_kept():
    """Which sequence stopped the answer survives."""
    assert Finish("stop_sequence", "END") == run(Finish("stop_sequence", "END"))[-1]


@pytest.mark.edge("E22")
def test_finish_closes_what_is_open_and_comes_once():
    """Blocks that the source left open are closed in order, and a second end says nothing."""
    out = run(BlockStart(1, "text"), Delta(1, "a"), BlockStart(2, "text"), Delta(2, "b"), Finish("end"), Finish("end"))
    assert [*text(1, "a"), *text(2, "b"), Finish("end")] == out
