"""The neutral request: what the three protocols can say, in one vocabulary.

Parsers build it, writers read it; nobody else looks inside JSON. JSON that is not ours to understand (tool
schemas, metadata) stays as the bytes it came in, so that key order survives.
"""

from typing import Any, Literal

import msgspec

__all__ = [
    "Choice",
    "Controls",
    "Conversation",
    "Document",
    "Image",
    "Opaque",
    "Part",
    "Reasoning",
    "Receipt",
    "Role",
    "Schema",
    "State",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Turn",
    "located",
    "place",
    "tools_of",
]

Role = Literal["user", "assistant", "system", "developer"]
DialectName = Literal["chat", "responses", "messages"]


class Text(msgspec.Struct, frozen=True):
    """Plain text; `refusal` marks an assistant's refusal text."""

    text: str
    refusal: bool = False
    citations: tuple[tuple[str, str], ...] = ()
    """(url, title) of web pages cited for all of this text."""
    at: str = ""
    """Path in the client's request where it is another than the turn's, as in all parts that have it."""


class Image(msgspec.Struct, frozen=True):
    """An image by https URL, or as base64 `data` of a `media_type`; exactly one of url and data is set."""

    url: str = ""
    media_type: str = ""
    data: str = ""
    detail: str | None = None


class Document(msgspec.Struct, frozen=True):
    """A file: base64 `data`, a `url`, or plain `text`; one of the three is set."""

    media_type: str = "application/pdf"
    data: str = ""
    url: str = ""
    text: str | None = None
    title: str = ""


class State(msgspec.Struct, frozen=True):
    """Opaque reasoning state in a history: the carrier string, or the vendor's native value untagged.

    `native` names the dialect whose own value it is when it has no carrier tag (only same-vendor use).
    """

    value: str
    native: DialectName | None = None
    id: str = ""
    redacted: bool = False


class Reasoning(msgspec.Struct, frozen=True):
    """A model's earlier reasoning: readable text, and opaque state that may go back only to its origin (I17)."""

    text: str = ""
    state: State | None = None
    at: str = ""


class ToolCall(msgspec.Struct, frozen=True):
    """A model's call of a tool. `arguments` is JSON text, or the raw input of a custom tool."""

    id: str
    name: str
    arguments: str
    custom: bool = False
    namespace: str | None = None
    at: str = ""


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool returned, for the call with this id."""

    call_id: str
    parts: tuple["Text | Image | Document", ...] = ()
    is_error: bool = False
    custom: bool = False
    at: str = ""


class Receipt(msgspec.Struct, frozen=True):
    """An MCP call that the provider ran itself, with its outcome; history only, never executed by anyone here."""

    id: str
    server: str
    name: str
    arguments: str
    output: str | None = None
    error: str | None = None
    at: str = ""


class Opaque(msgspec.Struct, frozen=True):
    """A part that only its own dialect understands (hosted tools and the like), as its JSON."""

    dialect: DialectName
    kind: str
    raw: bytes
    at: str = ""


Part = Text | Image | Document | Reasoning | ToolCall | ToolResult | Receipt | Opaque


class Turn(msgspec.Struct, frozen=True):
    """One message: a role and its parts in order. `at` is its path in the client's request, for notes.

    Tool results stand in user turns; calls and reasoning in assistant turns.
    """

    role: Role
    parts: tuple[Part, ...]
    at: str = ""


class Tool(msgspec.Struct, frozen=True):
    """A tool that the client declares.

    `function` has JSON schema bytes in `parameters`; `custom` takes free text, with an optional grammar;
    `hosted` is run by the provider (`hosted` keeps its declaration, `name` its type). `namespace` is set for
    the children of a Responses namespace tool.
    """

    kind: Literal["function", "custom", "hosted"]
    name: str
    description: str = ""
    parameters: bytes = b""
    strict: bool | None = None
    namespace: str | None = None
    grammar: tuple[str, str] | None = None
    """(syntax, definition) of a custom tool's format; None takes any text."""
    deferred: bool = False
    hosted: bytes = b""
    at: str = ""
    namespace_description: str = ""


class Choice(msgspec.Struct, frozen=True):
    """Which tools the model may or must use. `names` lists (namespace, name) for `tool` (one) and `allowed`.

    For `allowed`, `required` tells whether one of them has to be called.
    """

    mode: Literal["auto", "required", "none", "tool", "allowed"]
    names: tuple[tuple[str | None, str], ...] = ()
    required: bool = False


class Schema(msgspec.Struct, frozen=True):
    """Structured output: a JSON schema, or any JSON object when `schema` is empty."""

    schema: bytes = b""
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Thinking(msgspec.Struct, frozen=True):
    """How much to reason and whether to show it.

    `mode` is Messages' own word (absent elsewhere). `effort` is the OpenAI vocabulary none..max. `visible`:
    True or False when the client said so, None when it said nothing.
    """

    mode: Literal["enabled", "disabled", "adaptive", "between_tools"] | None = None
    budget: int | None = None
    effort: str | None = None
    visible: bool | None = None
    summary: str | None = None
    """Responses' wish auto, concise or detailed."""


class Controls(msgspec.Struct, frozen=True):
    """Everything that steers generation: the union of what the three protocols know. None means absent."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    thinking: Thinking = Thinking()
    choice: Choice | None = None
    parallel: bool | None = None
    output: Schema | None = None
    verbosity: str | None = None
    seed: int | None = None
    n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: bytes | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    prediction: bytes | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: bytes | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: bytes | None = None
    prompt_cache_retention: str | None = None
    store: bool | None = None
    obfuscation: bool | None = None
    """Chat and Responses `stream_options.include_obfuscation`."""


class Conversation(msgspec.Struct, frozen=True):
    """One request in neutral form; `extras` are (path, message) pairs of fields that have no neutral place.

    A parser puts into `extras` what only its own dialect knows and a writer would have to drop: the writer
    notes (or, strict, refuses) each. Advisory fields are not even put there.
    """

    dialect: DialectName
    model: str
    system: tuple[Text, ...] = ()
    turns: tuple[Turn, ...] = ()
    tools: tuple[Tool, ...] = ()
    controls: Controls = Controls()
    stream: bool = False
    extras: tuple[tuple[str, str], ...] = ()
    include_usage: bool = False
    """Chat `stream_options.include_usage`."""
    include_encrypted: bool = False
    """Responses `include` names reasoning.encrypted_content."""
    previous_response_id: str | None = None
    echo: dict[str, Any] = {}
    """Responses request fields that its lifecycle objects repeat."""


def place(part: Part, turn_at: str) -> str:
    """Return a part's path in the client's request: its own, else its turn's."""
    return turn_at if isinstance(part, Image | Document) else part.at or turn_at


def located(part: Part, at: str) -> Part:
    """Return a part that keeps its path when it moves to a turn of another one."""
    if not at or isinstance(part, Image | Document) or part.at:
        return part
    return msgspec.structs.replace(part, at=at)


def tools_of(conversation: Conversation, kind: str) -> tuple[Tool, ...]:
    """Return the declared tools of one kind, in order."""
    return tuple(tool for tool in conversation.tools if tool.kind == kind)
