"""What a model family accepts: the right family for each name, and the nearest effort that it knows."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.traits import EFFORTS, Traits, nearest_effort, traits_for


@pytest.mark.parametrize("model", ["o1", "o4-mini", "gpt-5", "gpt-5.4-codex", "openai/gpt-6", "GPT-5"])
def test_openai_reasoning_models(model):
    """They take max_completion_tokens and no sampling controls."""
    traits = traits_for(model)
    assert ("max_completion_tokens", False, EFFORTS) == (traits.max_tokens_field, traits.sampling, traits.efforts)


@pytest.mark.parametrize("model", ["gpt-4.1", "chatgpt-4o-latest", "codex-mini", "openai/gpt-4o"])
def test_other_openai_models(model):
    """They take sampling controls too."""
    traits = traits_for(model)
    assert ("max_completion_tokens", True, True) == (traits.max_tokens_field, traits.sampling, traits.cache_key)


@pytest.mark.parametrize(
    ("model", "thinking", "mid_system"),
    [
        ("claude-3-5-haiku-latest", "manual", False),
        ("claude-3-7-sonnet-20250219", "manual", False),
        ("claude-sonnet-4-20250514", "manual", False),
        ("claude-haiku-4-5-20251001", "manual", False),
        ("anthropic/claude-opus-4.5", "manual", False),
        ("claude-opus-4-6", "adaptive", True),
        ("anthropic/claude-opus-4.6", "adaptive", True),
        ("claude-sonnet-4-7", "adaptive", True),
        ("claude-opus-5", "adaptive", True),
    ],
)
def test_claude_models_think_as_their_generation_does(model, thinking, mid_system):
    """Up to 4.5 a Claude model takes a token budget, later ones an effort and a system role inside the history."""
    traits = traits_for(model)
    assert (thinking, mid_system, 128) == (traits.thinking, traits.mid_system, traits.tool_name_limit)


@pytest.mark.parametrize(
    ("model", "replay"),
    [
        ("deepseek-chat", True), ("deepseek-ai/DeepSeek-V4", True), ("z-ai/glm-5", True), ("glm-5.1", True),
        ("kimi-k2", True), ("moonshotai/kimi-k3", True), ("qwen/qwen4", True), ("minimax/minimax-m3", True),
        ("llama-4", False), ("my-glmx", False), ("", False),
    ],
)  # fmt: skip
def test_families_that_want_their_reasoning_back(model, replay):
    """Families whose tool loops need the earlier reasoning get it; unknown models are a generic server."""
    assert replay == traits_for(model).reasoning_replay


def test_grok_knows_no_namespaces():
    """Its Responses endpoint refuses namespace tools."""
    assert not traits_for("x-ai/grok-5").namespaces


def test_traits_refuse_unknown_fields():
    """A typing error in a route's override is an error, not a trait that never works."""
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"reasoning_reply": True}, Traits)


@pytest.mark.parametrize(
    ("effort", "levels", "level"),
    [
        ("minimal", ("low", "high"), "low"),
        ("medium", ("low", "high"), "low"),
        ("xhigh", ("low", "medium", "high"), "high"),
        ("max", ("none", "low"), "low"),
        ("none", ("none", "low"), "none"),
        ("none", ("low", "high"), None),
        ("high", (), None),
        ("high", ("none",), None),
        ("turbo", ("turbo",), "turbo"),
        ("turbo", ("low",), None),
    ],
)
def test_nearest_effort(effort, levels, level):
    """The nearest level that reasons, the lower of two; none only where the model can be told so (1.6)."""
    assert level == nearest_effort(effort, levels)


@given(st.sampled_from(EFFORTS), st.lists(st.sampled_from(EFFORTS), unique=True))
def test_a_level_is_always_one_of_the_model(effort, levels):
    """No wish makes up a level, and a listed wish is never changed."""
    level = nearest_effort(effort, tuple(levels))
    assert level is None or level in levels
    assert effort not in levels or effort == level
