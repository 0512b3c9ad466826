"""The shadow as one session sees it: asked and told only where that makes sense."""

from gateway.stores.shadow import Shadow
from gateway.thoughts import Thoughts
from translators.conversation import Conversation, Reasoning, Text, ToolCall, ToolResult, Turn
from translators.dialect import Target
from translators.events import BlockStart, Delta, Finish
from translators.traits import Traits

WANTED = Target("m", Traits(reasoning_replay=True))
HUMAN = Turn("user", (Text("go"),))
LOOP = Conversation(
    "chat",
    "m",
    turns=(HUMAN, Turn("assistant", (ToolCall("c1", "A", "{}"),)), Turn("user", (ToolResult("c1"),))),
)


def answer(thoughts: Thoughts) -> None:
    observe = thoughts.observer()
    assert observe is not None
    for event in (BlockStart(1, "reasoning"), Delta(1, "why"), BlockStart(2, "tool", "c1"), Finish("tool")):
        observe(event)


def test_an_answer_is_noted_and_put_back():
    """Reasoning of one request's answer stands in the session's next request, and the counts say so."""
    shadow = Shadow()
    thoughts = Thoughts(shadow, "t", "s")
    assert 0 == len(thoughts.amend(LOOP, WANTED).turns[1].parts) - 1
    answer(thoughts)
    amended = Thoughts(shadow, "t", "s").amend(LOOP, WANTED)
    assert Reasoning("why") == amended.turns[1].parts[0]
    assert (1, 1, 1) == (shadow.counts.stores, shadow.counts.restores, shadow.counts.misses)


def test_over_is_forgotten():
    """Calls before the latest human words lose their entries with the next request."""
    shadow = Shadow()
    thoughts = Thoughts(shadow, "t", "s")
    thoughts.amend(LOOP, WANTED)
    answer(thoughts)
    later = Conversation("chat", "m", turns=(*LOOP.turns, Turn("assistant", (Text("ok"),)), HUMAN))
    assert later is thoughts.amend(later, WANTED)
    assert 0 == len(shadow)


def test_nothing_without_session_or_wish():
    """Without a session, or where the model wants no reasoning back, nothing is looked up or watched."""
    for session, target in (("", WANTED), ("s", Target("m", Traits()))):
        thoughts = Thoughts(Shadow(), "t", session)
        assert LOOP is thoughts.amend(LOOP, target)
        assert None is thoughts.observer()
