"""A Messages request, read into a neutral Conversation (spec/translation.md 3.1, clients.md 1).

Promises: pure; wrong input raises Refused naming the field; what other protocols cannot say is listed in
`extras`, advisory fields are left out silently; tool schemas keep their bytes.
"""

from collections.abc import Callable

import msgspec

from translators.conversation import Choice, Controls, Conversation, Part, Schema, Text, Thinking, Tool, Turn
from translators.dialect import Peek
from translators.fault import refuse
from translators.head import checked
from translators.jsonio import ERRORS, MAX_DEPTH, nested_too_deep, reader
from translators.messages.content import Blocks, system_texts
from translators.messages.wire import Body, Head, InputChoice, InputFormat, InputThinking, InputTool
from translators.notes import Notes
from translators.whose import MAX_SESSION_CHARS, within

__all__ = ["parse", "peek"]

PLACEHOLDER = "DeferredToolPlaceholder"
"""A tool that Claude Code declares so that the list is never empty; its description says never to call it."""

_head: Callable[[bytes], Head] = reader(Head)
_body: Callable[[bytes], Body] = reader(Body)
_any = msgspec.json.Decoder().decode


class _RawMessage(msgspec.Struct):
    content: list[msgspec.Raw] = []


class _RawMessages(msgspec.Struct):
    messages: list[msgspec.Raw] = []


class _RawTools(msgspec.Struct):
    tools: list[msgspec.Raw] = []


class _Session(msgspec.Struct):
    session_id: str = ""


class _RawBlocks:
    """The blocks' own bytes. Types that need them are rare: only then is the body read a second time."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._messages: list[msgspec.Raw] | None = None
        self._blocks: dict[int, list[msgspec.Raw]] = {}

    def find(self, message: int, block: int) -> bytes:
        if self._messages is None:
            self._messages = _raw_messages(self._body).messages
        if message not in self._blocks:
            self._blocks[message] = _raw_message(self._messages[message]).content
        return bytes(self._blocks[message][block])


_raw_messages = msgspec.json.Decoder(_RawMessages).decode
_raw_message = msgspec.json.Decoder(_RawMessage).decode
_raw_tools = msgspec.json.Decoder(_RawTools).decode
_session = msgspec.json.Decoder(_Session).decode


def peek(body: bytes) -> Peek:
    """Return what routing needs; raises Refused for a body without a model."""
    head = _head(body)
    if not head.model:
        raise refuse("model: Field required", param="model")
    checked(body, head.messages, "messages")
    session, user = within(head.metadata)
    return Peek(head.model, bool(head.stream), _session_of(user or "") or session, user)


def _session_of(user: str) -> str | None:
    """Return the session that Claude Code names in `metadata.user_id`: in JSON, in older versions after a marker."""
    try:
        found = _session(user).session_id if user.startswith("{") else user.partition("_session_")[2]
    except (*ERRORS, UnicodeEncodeError):
        return None
    return found if 0 < len(found) <= MAX_SESSION_CHARS else None


def parse(body: bytes, notes: Notes) -> Conversation:
    """Return the request in neutral form; raises Refused (400) naming the field."""
    if nested_too_deep(body):
        raise refuse(f"the JSON nests deeper than {MAX_DEPTH} levels")
    wire = _body(body)
    if not wire.model:
        raise refuse("model: Field required", param="model")
    if wire.max_tokens is None:
        raise refuse("max_tokens: Field required", param="max_tokens")
    if wire.max_tokens <= 0:
        raise refuse("max_tokens: Input should be greater than or equal to 1", param="max_tokens")
    turns, extras = _turns(wire, body, notes)
    return Conversation(
        dialect="messages",
        model=wire.model,
        system=system_texts(wire.system or "", "system"),
        turns=turns,
        tools=_tools(wire.tools or [], body, extras, notes),
        controls=_controls(wire, notes),
        stream=bool(wire.stream),
        extras=(*_foreign(wire), *extras),
    )


def _turns(wire: Body, body: bytes, notes: Notes) -> tuple[tuple[Turn, ...], list[tuple[str, str]]]:
    if not wire.messages:
        raise refuse("messages: at least one message is required", param="messages")
    blocks = Blocks(notes, _RawBlocks(body).find)
    turns: list[Turn] = []
    for index, message in enumerate(wire.messages):
        at, content = f"messages.{index}", message.content
        if isinstance(content, msgspec.UnsetType):
            raise refuse(f"{at}.content: Field required", param=f"{at}.content")
        parts: list[Part]
        match message.role:
            case "user":
                parts = [Text(content)] if isinstance(content, str) else blocks.user(index, content)
                turns.append(Turn("user", tuple(parts), at))
            case "assistant":
                parts = [Text(content)] if isinstance(content, str) else blocks.assistant(index, content)
                turns.append(Turn("assistant", tuple(parts), at))
            case "system":
                turns.append(Turn("system", system_texts(content, f"{at}.content"), at))
            case _:
                raise refuse(
                    f'{at}.role: Unexpected role "{message.role[:64]}"; allowed are user, assistant and system',
                    param=f"{at}.role",
                )
    return tuple(turns), blocks.extras


def _tools(declared: list[InputTool], body: bytes, extras: list[tuple[str, str]], notes: Notes) -> tuple[Tool, ...]:
    raws: list[msgspec.Raw] = []
    tools: list[Tool] = []
    for index, tool in enumerate(declared):
        at = f"tools.{index}"
        if tool.type not in (None, "custom"):
            raws = raws or _raw_tools(body).tools
            tools.append(Tool("hosted", str(tool.type), hosted=bytes(raws[index]), at=at))
            continue
        if not tool.name:
            raise refuse(f"{at}.name: Field required", param=f"{at}.name")
        if tool.name == PLACEHOLDER and tool.defer_loading:
            notes.omitted(at, "a placeholder that must never be called is not offered")
            continue
        if tool.allowed_callers and tool.allowed_callers != ["direct"]:
            extras.append((f"{at}.allowed_callers", "only Anthropic's API lets code call tools"))
        tools.append(_function(tool, at))
    return tuple(tools)


def _function(tool: InputTool, at: str) -> Tool:
    schema = bytes(tool.input_schema)
    if schema and not schema.startswith(b"{"):
        raise refuse(f"{at}.input_schema: Input should be an object", param=f"{at}.input_schema")
    return Tool(
        "function",
        tool.name or "",
        tool.description or "",
        schema,
        strict=tool.strict,
        deferred=bool(tool.defer_loading),
        at=at,
    )


def _controls(wire: Body, notes: Notes) -> Controls:
    choice, parallel = _choice(wire.tool_choice)
    return Controls(
        max_output_tokens=wire.max_tokens,
        temperature=wire.temperature,
        top_p=wire.top_p,
        top_k=wire.top_k,
        stop=tuple(wire.stop_sequences or ()),
        thinking=_thinking(wire, notes),
        choice=choice,
        parallel=parallel,
        output=_output(wire),
        # The neutral word for no paid priority is OpenAI's.
        service_tier="default" if wire.service_tier == "standard_only" else wire.service_tier,
        user=wire.metadata.user_id if wire.metadata is not None else None,
    )


def _choice(choice: InputChoice | None) -> tuple[Choice | None, bool | None]:
    if choice is None:
        return None, None
    parallel = None if choice.disable_parallel_tool_use is None else not choice.disable_parallel_tool_use
    match choice.type:
        case "auto":
            return Choice("auto"), parallel
        case "any":
            return Choice("required"), parallel
        case "none":
            return Choice("none"), None
        case "tool":
            if not choice.name:
                raise refuse("tool_choice.name: Field required", param="tool_choice.name")
            return Choice("tool", ((None, choice.name),)), parallel
        case _:
            raise refuse("tool_choice.type: Input should be auto, any, tool or none", param="tool_choice.type")


def _thinking(wire: Body, notes: Notes) -> Thinking:
    effort = wire.output_config.effort if wire.output_config is not None else None
    asked = wire.thinking
    if asked is None:
        return Thinking(effort=effort)
    budget = asked.budget_tokens
    if budget is not None and asked.type == "enabled" and effort is not None:
        notes.omitted("thinking.budget_tokens", "output_config.effort says how much to think")
        budget = None
    match asked.type:
        case "enabled":
            return Thinking("enabled", budget, effort, asked.display != "omitted", _summary(asked))
        case "adaptive":
            return Thinking("adaptive", None, effort, asked.display != "omitted", _summary(asked))
        case "disabled":
            return Thinking("disabled", None, effort, visible=False)
        case "between_tools":
            return Thinking("between_tools", None, effort, visible=False)
        case _:
            raise refuse(
                "thinking.type: Input should be enabled, adaptive, disabled or between_tools", param="thinking.type"
            )


def _summary(asked: InputThinking) -> str | None:
    return "auto" if asked.display == "summarized" else None


def _output(wire: Body) -> Schema | None:
    asked = wire.output_config.format if wire.output_config is not None else None
    if asked is None:
        return _schema(wire.output_format, "output_format")
    current, legacy = _schema(asked, "output_config.format"), _schema(wire.output_format, "output_format")
    if current is not None and legacy is not None and _any(current.schema) != _any(legacy.schema):
        raise refuse("output_format: differs from output_config.format; send only the latter", param="output_format")
    return current


def _schema(asked: InputFormat | None, at: str) -> Schema | None:
    if asked is None:
        return None
    if asked.type != "json_schema":
        raise refuse(f"{at}.type: Input should be json_schema", param=f"{at}.type")
    if not bytes(asked.schema).startswith(b"{"):
        raise refuse(f"{at}.schema: Input should be an object", param=f"{at}.schema")
    return Schema(bytes(asked.schema))


_FOREIGN = ("context_management", "container", "mcp_servers", "speed", "inference_geo", "fallbacks", "compaction")


def _foreign(wire: Body) -> list[tuple[str, str]]:
    """Return the fields with an effect on execution that only Anthropic's API has (3.1)."""
    found = [
        (name, "only Anthropic's API has this")
        for name in _FOREIGN
        if bytes(getattr(wire, name)) not in (b"", b"null", b"[]", b'"standard"')
    ]
    config = wire.output_config
    if config is not None and bytes(config.task_budget) not in (b"", b"null"):
        found.append(("output_config.task_budget", "only Anthropic's API has this"))
    return found
