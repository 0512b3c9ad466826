"""What a model family accepts, as data: a quirk is one field here and one case in the tests.

`traits_for` picks by the upstream's model name; a route's config may override single fields.
"""

import re
from typing import Literal

import msgspec

__all__ = ["Traits", "nearest_effort", "traits_for"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class Traits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Capabilities and limits of an upstream model; the defaults suit a generic compatible server."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer", "user"] = "system"
    """Chat role of instructions; user for a model that knows no other."""
    developer_role: bool = False
    """Chat accepts role developer in history; else it becomes system."""
    sampling: bool = True
    """Accepts temperature and top_p."""
    top_k: bool = False
    custom_tools: bool = False
    """Chat accepts tools of type custom."""
    namespaces: bool = True
    """Responses accepts namespace tools."""
    free_text_tools: bool = True
    """Responses accepts tools of type custom."""
    opaque_state: bool = True
    """Its opaque reasoning state may go to clients and come back; false where another key would have to read it."""
    server_state: bool = True
    """Responses keeps answers, so that a client may name them; false: calls are put back here (replay)."""
    forced_tool_choice: bool = True
    """Accepts a tool choice other than auto and none."""
    parallel_control: bool = True
    """Accepts parallel_tool_calls."""
    reasoning_replay: bool = False
    """Wants reasoning_content of earlier assistant turns back (Chat)."""
    history_reasoning: bool = True
    """Of all turns; false: only of the present tool loop, what was thought before costs tokens in vain."""
    efforts: tuple[str, ...] = ("none", "low", "medium", "high")
    """Levels of reasoning effort it knows; empty: the field is never sent."""
    effort_names: tuple[tuple[str, str], ...] = ()
    """(wished, sent) where the nearest level would be the wrong one."""
    default_effort: str | None = None
    """Sent when neither client nor route names an effort; None sends none."""
    low_budget_tokens: int = 0
    """A thinking budget below this is effort low."""
    thinking: Literal["adaptive", "manual", "none"] = "adaptive"
    """How a Messages model takes reasoning: effort, a token budget, or not at all."""
    can_disable_thinking: bool = True
    mid_system: bool = False
    """Messages accepts role system inside messages."""
    json_schema: bool = True
    """Accepts structured output by schema."""
    default_max_tokens: int = 32_000
    """Sent where the protocol requires a limit and the client gave none (Messages)."""
    max_output_cap: int | None = None
    """Larger wishes are lowered to this."""
    always_limit: bool = False
    """Send the cap as the limit also when the client gave none."""
    context_guard: int | None = None
    """Context window in tokens: a prompt that leaves no room in it is refused here, little room lowers the limit."""
    canonical_arguments: bool = False
    """Rewrite the arguments of earlier tool calls with sorted keys, for the upstream's prompt cache."""
    explicit_stream: bool = False
    """Say `stream: false` to a Chat upstream, for one that takes silence for true."""
    always_stream: bool = False
    """Ask a Chat upstream for a stream also when the client wants none."""
    tool_name_limit: int = 64
    stop_limit: int = 4
    cache_key: bool = False
    """Chat accepts prompt_cache_key and the other OpenAI-only advisory fields."""
    prompt_cache_key: bool = False
    """Chat accepts prompt_cache_key, though not the others."""
    cache_marks: bool = False
    """Chat prompts say by `cache_control` what is to be cached."""
    image_input: bool = True


_OPENAI = Traits(
    max_tokens_field="max_completion_tokens",
    developer_role=True,
    efforts=(),
    cache_key=True,
)
_LEVELS = ("low", "medium", "high")
_CLAUDE = Traits(efforts=("low", "medium", "high", "xhigh", "max"), tool_name_limit=128, mid_system=True)

# Its chat template takes silence for effort max, knows the three levels, and low does not switch reasoning off.
# It drops the reasoning of earlier human turns by itself (spec/cline.md 9).
_GLM = Traits(
    reasoning_replay=True,
    history_reasoning=False,
    efforts=("low", "high", "max"),
    effort_names=(("none", "low"), ("minimal", "low"), ("medium", "high"), ("xhigh", "high")),
    default_effort="high",
    low_budget_tokens=8192,
    max_output_cap=16_384,
    always_limit=True,
    canonical_arguments=True,
)


def _thinks(*efforts: str) -> Traits:
    """Return OpenAI's reasoning models of these levels, which refuse max_tokens and sampling controls."""
    return msgspec.structs.replace(_OPENAI, sampling=False, efforts=efforts)


_O1_MINI = msgspec.structs.replace(_thinks(), system_role="user", developer_role=False)
_THOUGHTLESS = msgspec.structs.replace(_CLAUDE, thinking="none", mid_system=False, efforts=())

_FAMILIES: tuple[tuple[str, Traits], ...] = (
    (r"(openai/)?o1-(mini|preview)", _O1_MINI),
    (r"(openai/)?o\d", _thinks(*_LEVELS)),
    (r"(openai/)?gpt-oss", Traits(efforts=_LEVELS)),
    (r"(openai/)?gpt-5[\d.]*-chat", _OPENAI),
    (r"(openai/)?gpt-5-pro", _thinks("high")),
    (r"(openai/)?gpt-5(\.1)?-codex(?!-max)", _thinks(*_LEVELS)),
    (r"(openai/)?gpt-5(?!\.)", _thinks("minimal", *_LEVELS)),
    (r"(openai/)?gpt-5\.1-codex", _thinks(*_LEVELS, "xhigh")),
    (r"(openai/)?gpt-5\.1(?!\d)", _thinks("none", *_LEVELS)),
    (r"(openai/)?gpt-5\.[2-5](?!\d)", _thinks("none", *_LEVELS, "xhigh")),
    (r"(openai/)?gpt-[5-9]", _thinks(*EFFORTS)),
    (r"(openai/)?codex", msgspec.structs.replace(_OPENAI, efforts=_LEVELS)),
    (r"(openai/)?(gpt-|chatgpt)", _OPENAI),
    # Before thinking at all, and with small answers.
    (
        r"(anthropic/)?claude-(2|instant|3-(haiku|sonnet|opus))",
        msgspec.structs.replace(_THOUGHTLESS, max_output_cap=4096),
    ),
    (r"(anthropic/)?claude-3[-.]5", msgspec.structs.replace(_THOUGHTLESS, max_output_cap=8192)),
    # Before adaptive thinking: a token budget, and no role system inside messages.
    (
        r"(anthropic/)?claude-(3|(haiku|sonnet|opus)-4(?![-.]?[678]))",
        msgspec.structs.replace(_CLAUDE, thinking="manual", mid_system=False),
    ),
    (r"(anthropic/)?claude", _CLAUDE),
    # DeepSeek and xAI refuse null reasoning_content and want the text of a tool loop back.
    (r"(deepseek/|deepseek-ai/)?deepseek", Traits(reasoning_replay=True)),
    (r"(x-ai/|xai/)?grok", Traits(efforts=("low", "medium", "high"), namespaces=False)),
    (r"(.*/)?([^/]*[-_.+])?glm(?=[-_.+\d]|\Z)[^/]*\Z", _GLM),
    (r"(moonshotai/)?kimi|(minimax/)?minimax|(qwen/)?qwen", Traits(reasoning_replay=True)),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), traits) for pattern, traits in _FAMILIES)
_GENERIC = Traits()


def traits_for(model: str) -> Traits:
    """Return the traits of the family that an upstream model name belongs to."""
    return next((traits for pattern, traits in _COMPILED if pattern.match(model)), _GENERIC)


def nearest_effort(effort: str, levels: tuple[str, ...]) -> str | None:
    """Return the nearest level that the model lists; None when it lists none or knows no way to switch off."""
    if effort in levels:
        return effort
    if not levels or effort not in EFFORTS:
        return None
    if effort == "none":
        return None
    wanted = EFFORTS.index(effort)
    real = [level for level in levels if level != "none" and level in EFFORTS]
    return min(real, key=lambda level: (abs(EFFORTS.index(level) - wanted), EFFORTS.index(level)), default=None)
