"""Reasoning that a client keeps back is noted while it passes and put where the model needs it."""

from translators.carrier import seal
from translators.conversation import Conversation, Reasoning, State, Text, ToolCall, ToolResult, Turn
from translators.events import BlockEnd, BlockStart, Carried, Delta, Failed, Finish, Start
from translators.fault import broken
from translators.shadow import Collector, finished_calls, restored, shadow_id

HUMAN = Turn("user", (Text("do it"),))
SAID = Turn("assistant", (Text("done"),))


def call(call_id: str) -> Turn:
    return Turn("assistant", (ToolCall(call_id, "Bash", "{}"),))


def result(call_id: str) -> Turn:
    return Turn("user", (ToolResult(call_id, (Text("done"),)),))


def conversation(*turns: Turn) -> Conversation:
    return Conversation("messages", "m", turns=turns)


def watch(*events, limit: int = 100) -> list[tuple[tuple[str, ...], str]]:
    """What a collector hands over for these events."""
    kept: list[tuple[tuple[str, ...], str]] = []
    collector = Collector(lambda calls, text: kept.append((calls, text)), limit)
    for event in events:
        collector(event)
    return kept


def answer(*ids: str, text: str = "hm") -> list:
    tools = [BlockStart(10 + n, "tool", call_id) for n, call_id in enumerate(ids)]
    return [Start("x"), BlockStart(1, "reasoning"), Delta(1, text), BlockEnd(1), *tools]


def test_collects_reasoning_and_calls():
    """The text of all reasoning, and the calls that came with it, are handed over once the answer ended well."""
    more = [BlockStart(2, "text"), Delta(2, "no"), BlockStart(3, "reasoning"), Delta(3, " again")]
    assert [] == watch(*answer("c1", "c2"), *more)
    assert [(("c1", "c2"), "hm again")] == watch(*answer("c1", "c2"), *more, Finish("tool"))


def test_collects_nothing_without_calls_or_reasoning():
    """An answer without calls ends the loop, one without reasoning has nothing to keep."""
    assert [] == watch(*answer(), Finish("end"))
    assert [] == watch(BlockStart(1, "tool", "c1"), Finish("tool"))
    assert [] == watch(BlockStart(1, "reasoning"), BlockStart(2, "tool", "c1"), Finish("tool"))


def test_collects_nothing_of_a_broken_answer():
    """A failed answer leaves nothing, since its client will not send its calls back."""
    assert [] == watch(*answer("c1"), Failed(broken("x")))


def test_does_not_cut_what_is_too_long():
    """Reasoning over the limit is not kept at all, and that is told."""
    assert [(("c1",), "é" * 50)] == watch(*answer("c1", text="é" * 50), Finish("tool"))
    assert [(("c1",), "")] == watch(*answer("c1", text="é" * 51), Delta(1, "x"), Finish("tool"))


def test_restores_into_the_present_loop():
    """Only turns after the latest human words get their reasoning back, before what they said."""
    asked = conversation(HUMAN, call("old"), result("old"), SAID, HUMAN, call("c1"), result("c1"))
    found = restored(asked, "o", {"c1": "why", "old": "never"}.get)
    assert (1, 0) == (found.found, found.missed)
    assert Reasoning("why") == found.conversation.turns[5].parts[0]
    assert asked.turns[:5] == found.conversation.turns[:5]
    assert asked.turns[6:] == found.conversation.turns[6:]


def test_restores_the_same_for_the_first_known_call():
    """Calls of one answer share its reasoning, which is put back once."""
    two = Turn("assistant", (Text("ok"), ToolCall("c1", "A", "{}"), ToolCall("c2", "B", "{}")))
    found = restored(conversation(HUMAN, two, result("c1")), "o", {"c2": "why"}.get)
    assert (Reasoning("why"), *two.parts) == found.conversation.turns[1].parts


def test_leaves_what_the_client_sent():
    """Reasoning that the client replays, in the turn or in an item of its own before it, is not doubled."""
    own = Turn("assistant", (Reasoning("mine"), ToolCall("c1", "A", "{}")))
    apart = (Turn("assistant", (Reasoning("mine"),)), call("c1"))
    for turns in ((own,), apart):
        asked = conversation(HUMAN, *turns, result("c1"))
        assert asked is restored(asked, "o", {"c1": "why"}.get).conversation


def test_state_counts_only_for_its_origin():
    """State of this upstream brings its own reasoning; another's will be left out, so the text is put back."""
    value = seal(Carried("rd", "[]"), "here")
    turn = Turn("assistant", (Reasoning(state=State(value)), ToolCall("c1", "A", "{}")))
    asked = conversation(HUMAN, turn, result("c1"))
    assert 0 == restored(asked, "here", {"c1": "why"}.get).found
    assert 1 == restored(asked, "there", {"c1": "why"}.get).found


def test_misses_are_counted_and_silent():
    """An unknown call changes nothing."""
    asked = conversation(HUMAN, call("c1"), result("c1"), call("c2"))
    found = restored(asked, "o", {}.get)
    assert (0, 2, asked) == (found.found, found.missed, found.conversation)


def test_finished_calls_are_those_before_the_present_turn():
    """What an earlier human turn called needs no reasoning any more."""
    turns = (HUMAN, call("old"), result("old"), SAID, HUMAN, call("c1"))
    assert ["old"] == list(finished_calls(turns))


def test_ids_are_kept_in_the_spelling_of_all_clients():
    """A Messages client sends a cleaned id back; it finds the entry of the raw one, and cleaning is stable."""
    raw = "functions.Bash:0"
    assert shadow_id(raw) == shadow_id(shadow_id(raw)) != raw
    ((calls, _),) = watch(*answer(raw), Finish("tool"))
    asked = conversation(HUMAN, call(shadow_id(raw)))
    assert 1 == restored(asked, "o", dict.fromkeys(calls, "why").get).found


def test_text_in_an_item_of_its_own_is_passed_over():
    """In a Responses history the answer's text may precede its call in another item; the reasoning joins the call."""
    asked = conversation(
        HUMAN, Turn("assistant", (Text("I look."),)), call("c1"), result("c1"), Turn("system", (Text("x"),))
    )
    found = restored(asked, "o", {"c1": "why"}.get)
    assert (Reasoning("why"), 1) == (found.conversation.turns[2].parts[0], found.found)
