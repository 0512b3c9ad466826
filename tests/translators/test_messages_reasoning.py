"""How a Messages model is told to think (spec/translation.md 1.6)."""

import pytest

from translators.conversation import Controls, Conversation, Thinking
from translators.dialect import Target
from translators.fault import Refused
from translators.messages.reasoning import Plan, planned
from translators.notes import Notes
from translators.traits import Traits

LEVELS = ("low", "medium", "high", "xhigh", "max")
ADAPTIVE = Traits(efforts=LEVELS, thinking="adaptive")
MANUAL = Traits(efforts=LEVELS, thinking="manual")
NONE = Traits(efforts=(), thinking="none")
ALWAYS = Traits(efforts=LEVELS, can_disable_thinking=False)


def plan(thinking, traits=ADAPTIVE, *, dialect="responses", max_tokens=64_000, default=None, notes=None):
    conversation = Conversation(dialect, "m1", controls=Controls(thinking=thinking))
    target = Target("up-m", traits, default_effort=default)
    made = planned(conversation, target, max_tokens, notes or Notes())
    return made.thinking, made.effort


@pytest.mark.parametrize(
    ("effort", "thinking", "level"),
    [
        (None, {}, None),
        ("none", {"type": "disabled"}, None),
        ("minimal", {"type": "adaptive"}, "low"),
        ("low", {"type": "adaptive"}, "low"),
        ("max", {"type": "adaptive"}, "max"),
    ],
)
def test_effort_on_a_model_that_thinks_adaptively(effort, thinking, level):
    """Effort becomes adaptive thinking and output_config.effort."""
    assert (thinking, level) == plan(Thinking(effort=effort))


@pytest.mark.parametrize(
    ("effort", "max_tokens", "budget"),
    [
        ("minimal", 64_000, 1024),
        ("low", 64_000, 1024),
        ("medium", 64_000, 8192),
        ("high", 64_000, 24576),
        ("xhigh", 64_000, 32768),
        ("max", 256_000, 128_000),
        ("max", 64_000, 63_999),
        ("high", 1025, 1024),
    ],
)
def test_effort_on_a_model_that_takes_a_budget(effort, max_tokens, budget):
    """Effort becomes a budget by the table, below max_tokens."""
    thinking = {"type": "enabled", "budget_tokens": budget}
    assert (thinking, None) == plan(Thinking(effort=effort), MANUAL, max_tokens=max_tokens)


def test_no_room_means_no_thinking():
    """A budget takes 1024 tokens at least, and has to stay below max_tokens."""
    notes = Notes()
    assert ({}, None) == plan(Thinking(effort="high"), MANUAL, max_tokens=1024, notes=notes)
    assert 1 == notes.count


@pytest.mark.parametrize(
    ("thinking", "wire"),
    [
        (Thinking("enabled", 2048), {"type": "enabled", "budget_tokens": 2048}),
        (Thinking("enabled", 99_999), {"type": "enabled", "budget_tokens": 63_999}),
        (Thinking("enabled", 1), {"type": "enabled", "budget_tokens": 1024}),
        (Thinking("enabled", None, "low"), {"type": "enabled", "budget_tokens": 1024}),
        (Thinking("adaptive"), {"type": "enabled", "budget_tokens": 24576}),
        (Thinking("adaptive", None, "medium"), {"type": "enabled", "budget_tokens": 8192}),
        (Thinking("disabled"), {"type": "disabled"}),
        (Thinking("between_tools"), {"type": "disabled"}),
        (Thinking(), {}),
    ],
)
def test_messages_modes_on_a_model_that_takes_a_budget(thinking, wire):
    """A client's own budget is kept within the bounds, adaptive thinking gets one."""
    assert (wire, None) == plan(thinking, MANUAL, dialect="messages")


@pytest.mark.parametrize(
    ("thinking", "wire", "effort"),
    [
        (Thinking(), {}, None),
        (Thinking(effort="high"), {}, "high"),
        (Thinking("adaptive"), {"type": "adaptive"}, None),
        (Thinking("adaptive", None, "low"), {"type": "adaptive"}, "low"),
        (Thinking("enabled", 8192), {"type": "adaptive"}, "medium"),
        (Thinking("disabled"), {"type": "disabled"}, None),
        (Thinking("disabled", None, "high"), {"type": "disabled"}, "high"),
        (Thinking("between_tools"), {"type": "between_tools"}, None),
        (Thinking("between_tools", None, "low"), {"type": "between_tools"}, "low"),
        (Thinking("adaptive", visible=True), {"type": "adaptive"}, None),
        (Thinking("adaptive", visible=True, summary="auto"), {"type": "adaptive", "display": "summarized"}, None),
        (Thinking("adaptive", visible=False), {"type": "adaptive", "display": "omitted"}, None),
    ],
)
def test_messages_modes_on_a_model_that_thinks_adaptively(thinking, wire, effort):
    """A Messages client's own words are kept where the model knows them."""
    assert (wire, effort) == plan(thinking, dialect="messages")


def test_a_summary_is_asked_for_where_the_client_wants_one():
    """Responses' summary becomes display; without one nothing is said."""
    thinking = {"type": "adaptive", "display": "summarized"}
    assert (thinking, "low") == plan(Thinking(effort="low", summary="detailed"))
    assert ({"type": "disabled"}, None) == plan(Thinking(effort="none", summary="auto"))


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("traits", [ADAPTIVE, MANUAL])
def test_a_default_effort_fills_what_the_client_left_out(dialect, traits):
    """The route's effort counts where the client has none."""
    thinking, effort = plan(Thinking(), traits, dialect=dialect, default="medium")
    assert "medium" == effort or 8192 == thinking["budget_tokens"]
    assert ({"type": "disabled"}, None) == plan(Thinking("disabled"), traits, dialect=dialect, default="medium")


@pytest.mark.parametrize("traits", [ALWAYS, Traits(thinking="manual", can_disable_thinking=False)])
def test_thinking_that_cannot_be_switched_off_is_left_alone(traits):
    """The wish is noted and nothing sent."""
    notes = Notes()
    assert ({}, None) == plan(Thinking(effort="none"), traits, notes=notes)
    assert 1 == notes.count


@pytest.mark.parametrize("thinking", [Thinking(effort="low"), Thinking("adaptive"), Thinking("enabled", 2048)])
def test_a_model_that_does_not_think_is_not_asked_to(thinking):
    """The wish is dropped, and refused in strict mode."""
    notes = Notes()
    assert ({}, None) == plan(thinking, NONE, notes=notes)
    assert 1 == notes.count
    with pytest.raises(Refused):
        plan(thinking, NONE, notes=Notes(strict=True))


@pytest.mark.parametrize("thinking", [Thinking(), Thinking("disabled"), Thinking(effort="none")])
def test_a_model_that_does_not_think_needs_no_word_for_it(thinking):
    """No thinking is what such a model does anyway."""
    notes = Notes()
    assert ({}, None) == plan(thinking, NONE, notes=notes)
    assert 0 == notes.count


def test_an_effort_that_nobody_knows_is_noted():
    """A level outside of the vocabulary is left out; the thinking stays."""
    notes = Notes()
    assert ({"type": "adaptive"}, None) == plan(Thinking(effort="extreme"), notes=notes)
    assert ["omitted"] == [note.kind for note in notes.kept]


@pytest.mark.parametrize(
    ("thinking", "active"),
    [(None, False), ({"type": "disabled"}, False), ({"type": "adaptive"}, True), ({"type": "enabled"}, True)],
)
def test_a_plan_knows_whether_it_thinks(thinking, active):
    """What excludes sampling and forced calls is thinking that is on."""
    assert active == Plan(thinking).active
