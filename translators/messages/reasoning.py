"""How a Messages model is told to think: the tables of spec/translation.md 1.6, towards Messages."""

from typing import Any

from translators.conversation import Conversation, Thinking
from translators.dialect import Target
from translators.effort import MIN_BUDGET, budget_for, effort_of
from translators.notes import Notes
from translators.traits import nearest_effort

__all__ = ["Plan", "planned"]

UNSAID = "high"
"""Effort of adaptive thinking that names none, as Anthropic documents its default."""


class Plan:
    """The `thinking` object (empty: leave it out) and the `output_config.effort` to send."""

    def __init__(self, thinking: dict[str, Any] | None = None, effort: str | None = None) -> None:
        self.thinking = thinking or {}
        self.effort = effort

    @property
    def active(self) -> bool:
        """Tell whether the model is asked to think, which excludes sampling controls and forced calls."""
        return self.thinking.get("type") in ("enabled", "adaptive")


def planned(conversation: Conversation, target: Target, max_tokens: int, notes: Notes) -> Plan:
    """Return what the client's wish becomes on this model."""
    asked = conversation.controls.thinking
    at = "reasoning_effort"
    match target.traits.thinking:
        case "none":
            return _none(asked, at, notes)
        case "manual":
            plan = _manual(asked, target, max_tokens, at, notes)
        case _:
            plan = _adaptive(asked, target, at, notes, native=conversation.dialect == "messages")
    if plan.active:
        display = _display(conversation.dialect, asked)
        if display is not None:
            plan.thinking["display"] = display
    return plan


def _display(dialect: str, asked: Thinking) -> str | None:
    if asked.summary is not None:
        return "summarized"
    return "omitted" if dialect == "messages" and asked.visible is False else None


def _none(asked: Thinking, at: str, notes: Notes) -> Plan:
    if effort_of(asked) not in (None, "none") or asked.mode in ("enabled", "adaptive"):
        notes.dropped(at, "the model does not think")
    return Plan()


def _disabled(target: Target, at: str, notes: Notes) -> Plan:
    if target.traits.can_disable_thinking:
        return Plan({"type": "disabled"})
    notes.omitted(at, "the model's thinking cannot be switched off")
    return Plan()


def _adaptive(asked: Thinking, target: Target, at: str, notes: Notes, *, native: bool) -> Plan:
    wanted = asked.effort if native else effort_of(asked)
    if native and wanted is None and asked.mode == "enabled":
        wanted = effort_of(asked)
    if wanted is None and asked.mode not in ("disabled", "between_tools"):
        wanted = target.default_effort
    if asked.mode == "disabled" or wanted == "none":
        plan = _disabled(target, at, notes)
        plan.effort = _level(asked.effort, target, at, notes) if native and asked.effort != "none" else None
        return plan
    effort = _level(wanted, target, at, notes)
    if asked.mode == "between_tools":
        return Plan({"type": "between_tools"}, effort)
    if native and asked.mode is None:
        # Messages clients may ask for an effort and leave it to the model whether it thinks.
        return Plan(None, effort)
    if asked.mode is None and wanted is None:
        return Plan()
    if asked.mode == "enabled":
        notes.changed(at, "the model thinks adaptively, without a token budget")
    return Plan({"type": "adaptive"}, effort)


def _level(wanted: str | None, target: Target, at: str, notes: Notes) -> str | None:
    if wanted is None:
        return None
    level = nearest_effort(wanted, target.traits.efforts)
    if level is None:
        notes.omitted(at, f"the model has no reasoning effort {wanted[:32]!r}")
    elif level != wanted:
        notes.changed(at, f"sent as effort {level!r}")
    return level


def _manual(asked: Thinking, target: Target, max_tokens: int, at: str, notes: Notes) -> Plan:
    wanted = effort_of(asked)
    if wanted is None and asked.mode is None:
        wanted = target.default_effort
    if wanted == "none":
        return _disabled(target, at, notes)
    if wanted is None and asked.mode is None:
        return Plan()
    if asked.mode == "enabled" and asked.effort is None and asked.budget is not None and max_tokens > MIN_BUDGET:
        budget: int | None = min(max(asked.budget, MIN_BUDGET), max_tokens - 1)
    else:
        budget = budget_for(wanted or UNSAID, max_tokens)
    if budget is None:
        notes.omitted(at, f"max_tokens leaves no room for thinking, which takes {MIN_BUDGET} tokens at least")
        return Plan()
    if budget != asked.budget:
        notes.changed(at, f"sent as a thinking budget of {budget} tokens")
    return Plan({"type": "enabled", "budget_tokens": budget})
