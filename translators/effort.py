"""Reasoning effort, token budgets and visibility between the vocabularies (spec/translation.md 1.6)."""

from translators.conversation import Thinking
from translators.dialect import Target
from translators.notes import Notes
from translators.traits import nearest_effort

__all__ = ["BUDGETS", "budget_for", "effort_of", "openai_effort", "sent_effort", "shown"]

MIN_BUDGET = 1024
BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 128_000}
"""Thinking budget in tokens for an effort, for Claude models without adaptive thinking."""


def effort_of(thinking: Thinking) -> str | None:
    """Return the client's wish as an OpenAI effort: explicit effort wins over a budget; None when it has none."""
    if thinking.mode == "disabled":
        return "none"
    if thinking.effort is not None:
        return thinking.effort
    if thinking.mode == "between_tools":
        return "none"
    if thinking.mode == "enabled" and thinking.budget is not None:
        return _effort_for(thinking.budget)
    return None


def _effort_for(budget: int) -> str:
    if budget <= 0:
        return "none"
    if budget <= 1024:
        return "low"
    if budget <= 8192:
        return "medium"
    return "high" if budget <= 24576 else "xhigh"


def _wanted(thinking: Thinking, target: Target) -> str | None:
    low = thinking.effort is None and thinking.budget is not None and thinking.budget < target.traits.low_budget_tokens
    if low and thinking.budget:
        return "low"
    return effort_of(thinking) or target.default_effort or target.traits.default_effort


def sent_effort(thinking: Thinking, target: Target) -> str | None:
    """Return what `openai_effort` does, without a note: for the record."""
    wanted = _wanted(thinking, target)
    if wanted is None:
        return None
    return dict(target.traits.effort_names).get(wanted) or nearest_effort(wanted, target.traits.efforts)


def openai_effort(thinking: Thinking, target: Target, notes: Notes, at: str) -> str | None:
    """Return the effort to send to a Chat or Responses upstream, at a level that its model lists, or None."""
    wanted = _wanted(thinking, target)
    level = sent_effort(thinking, target)
    if wanted is None:
        return None
    if level is None:
        notes.omitted(at, f"the model has no reasoning effort {wanted!r}")
    elif level != wanted or thinking.budget is not None:
        notes.changed(at, f"sent as reasoning effort {level!r}")
    return level


def budget_for(effort: str, max_tokens: int) -> int | None:
    """Return the thinking budget for an effort within [1024, max_tokens - 1], None when there is no room."""
    if max_tokens <= MIN_BUDGET:
        return None
    return min(max(BUDGETS.get(effort, MIN_BUDGET), MIN_BUDGET), max_tokens - 1)


def shown(thinking: Thinking, *, chat_client: bool, setting: str) -> bool:
    """Tell whether the client gets reasoning text: route setting `requested`, `always` or `never`.

    Explicitly disabled thinking is never shown; a Chat client has no way to ask and always gets it. A client
    that says nothing about reasoning gets what the model volunteers; one that asks for it without its text
    (display omitted, no summary) does not.
    """
    if setting == "never" or effort_of(thinking) == "none":
        return False
    return setting == "always" or chat_client or thinking.visible is not False
