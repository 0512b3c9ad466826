"""Effort, budgets and visibility: the tables of spec/translation.md 1.6."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Thinking
from translators.dialect import Target
from translators.effort import BUDGETS, budget_for, effort_of, openai_effort, shown
from translators.notes import Notes
from translators.traits import EFFORTS, Traits

ALL = Traits(efforts=EFFORTS)


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        (Thinking(), None),
        (Thinking(effort="low"), "low"),
        (Thinking(mode="disabled"), "none"),
        (Thinking(mode="disabled", effort="high"), "none"),
        (Thinking(mode="enabled", budget=0), "none"),
        (Thinking(mode="enabled", budget=1), "low"),
        (Thinking(mode="enabled", budget=1024), "low"),
        (Thinking(mode="enabled", budget=1025), "medium"),
        (Thinking(mode="enabled", budget=8192), "medium"),
        (Thinking(mode="enabled", budget=8193), "high"),
        (Thinking(mode="enabled", budget=24576), "high"),
        (Thinking(mode="enabled", budget=24577), "xhigh"),
        (Thinking(mode="enabled"), None),
        (Thinking(mode="enabled", budget=9000, effort="low"), "low"),
        (Thinking(mode="adaptive", effort="max"), "max"),
        (Thinking(mode="adaptive"), None),
        (Thinking(mode="between_tools", effort="low"), "low"),
        (Thinking(mode="between_tools"), "none"),
    ],
)
def test_effort_of(thinking, effort):
    """Each row of the table from Messages to OpenAI."""
    assert effort == effort_of(thinking)


def target(traits=ALL, default=None):
    return Target("m", traits, default_effort=default)


@pytest.mark.parametrize(
    ("thinking", "upstream", "level", "kinds"),
    [
        (Thinking(), target(), None, []),
        (Thinking(), target(default="low"), "low", []),
        (Thinking(), target(Traits(efforts=EFFORTS, default_effort="high")), "high", []),
        (Thinking(effort="high"), target(default="low"), "high", []),
        (Thinking(effort="xhigh"), target(Traits(efforts=("low", "high"))), "high", ["changed"]),
        (Thinking(effort="none"), target(Traits(efforts=("low",))), None, ["omitted"]),
        (Thinking(effort="high"), target(Traits(efforts=())), None, ["omitted"]),
        (Thinking(mode="enabled", budget=4000), target(), "medium", ["changed"]),
        (Thinking(mode="enabled", budget=4000, effort="high"), target(), "high", ["changed"]),
        (Thinking(mode="enabled", budget=4000), target(msgspec.structs.replace(ALL, low_budget_tokens=8192)), "low", ["changed"]),
        (Thinking(mode="enabled", budget=9000), target(msgspec.structs.replace(ALL, low_budget_tokens=8192)), "high", ["changed"]),
        (Thinking(effort="medium"), target(Traits(efforts=("low", "high"), effort_names=(("medium", "high"),))), "high", ["changed"]),
    ],
)  # fmt: skip
def test_openai_effort(thinking, upstream, level, kinds):
    """The client's wish, else the route's, else the model's, at a level that the model lists; each loss is noted."""
    notes = Notes()
    assert level == openai_effort(thinking, upstream, notes, "reasoning_effort")
    assert kinds == [note.kind for note in notes.kept]


@given(st.sampled_from([*BUDGETS, "turbo"]), st.integers(0, 300_000))
def test_budget_fits_below_the_output_limit(effort, max_tokens):
    """A budget lies within [1024, max_tokens - 1]; without room for one there is none."""
    budget = budget_for(effort, max_tokens)
    if max_tokens <= 1024:
        assert budget is None
    else:
        assert 1024 <= budget <= max_tokens - 1
        assert min(BUDGETS.get(effort, 1024), max_tokens - 1) == budget


@pytest.mark.parametrize(
    ("thinking", "chat", "setting", "verdict"),
    [
        (Thinking(), False, "requested", True),
        (Thinking(visible=True), False, "requested", True),
        (Thinking(visible=False), False, "requested", False),
        (Thinking(visible=False), True, "requested", True),
        (Thinking(effort="none"), True, "requested", False),
        (Thinking(visible=False), False, "always", True),
        (Thinking(mode="disabled"), False, "always", False),
        (Thinking(visible=True), True, "never", False),
    ],
)
def test_shown(thinking, chat, setting, verdict):
    """Reasoning shows as route and client want it, never when it was switched off."""
    assert verdict == shown(thinking, chat_client=chat, setting=setting)
