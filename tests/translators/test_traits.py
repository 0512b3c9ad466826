"""What a model family accepts: the right family for each name, and the nearest effort that it knows."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.traits import EFFORTS, Traits, nearest_effort, traits_for

LOW_TO_HIGH = ("low", "medium", "high")


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        ("o1", LOW_TO_HIGH),
        ("o3", LOW_TO_HIGH),
        ("openai/o4-mini", LOW_TO_HIGH),
        ("o1-mini", ()),
        ("o1-preview", ()),
        ("gpt-5", ("minimal", *LOW_TO_HIGH)),
        ("GPT-5-mini", ("minimal", *LOW_TO_HIGH)),
        ("gpt-5-pro", ("high",)),
        ("gpt-5-codex", LOW_TO_HIGH),
        ("gpt-5.1-codex-mini", LOW_TO_HIGH),
        ("gpt-5.1-codex-max", (*LOW_TO_HIGH, "xhigh")),
        ("gpt-5.1", ("none", *LOW_TO_HIGH)),
        ("gpt-5.2", ("none", *LOW_TO_HIGH, "xhigh")),
        ("gpt-5.4-codex", ("none", *LOW_TO_HIGH, "xhigh")),
        ("gpt-5.6", EFFORTS),
        ("openai/gpt-6", EFFORTS),
    ],
)
def test_openai_reasoning_models(model, efforts):
    """They take max_completion_tokens, no sampling controls, and the levels of their generation."""
    traits = traits_for(model)
    assert ("max_completion_tokens", False, efforts) == (traits.max_tokens_field, traits.sampling, traits.efforts)


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        ("gpt-4.1", ()),
        ("gpt-3.5-turbo", ()),
        ("chatgpt-4o-latest", ()),
        ("openai/gpt-4o", ()),
        ("gpt-5-chat-latest", ()),
        ("gpt-5.2-chat-latest", ()),
        ("codex-mini", LOW_TO_HIGH),
    ],
)
def test_other_openai_models(model, efforts):
    """They take sampling controls too, and most know no reasoning effort."""
    traits = traits_for(model)
    assert ("max_completion_tokens", True, True) == (traits.max_tokens_field, traits.sampling, traits.cache_key)
    assert efforts == traits.efforts


def test_o1_mini_knows_no_system_role():
    """Instructions are a user's text to it."""
    assert ("user", False) == ((traits := traits_for("o1-mini")).system_role, traits.developer_role)
    assert "system" == traits_for("o1").system_role


def test_openai_s_open_models_run_on_other_servers():
    """They take the levels of their family and the names of generic servers."""
    assert Traits(efforts=LOW_TO_HIGH) == traits_for("openai/gpt-oss-120b")


@pytest.mark.parametrize(
    ("model", "thinking", "mid_system"),
    [
        ("claude-instant-1.2", "none", False),
        ("claude-3-haiku-20240307", "none", False),
        ("anthropic/claude-3-opus", "none", False),
        ("claude-3-5-haiku-latest", "none", False),
        ("anthropic/claude-3.5-sonnet", "none", False),
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
    ("model", "cap"),
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-haiku-latest", 8192),
        ("anthropic/claude-3.5-sonnet", 8192),
        ("claude-3-7-sonnet-20250219", None),
        ("claude-sonnet-4-20250514", None),
    ],
)
def test_old_claude_models_have_small_answers(model, cap):
    """A larger wish would be refused."""
    assert cap == traits_for(model).max_output_cap


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
