"""Chat Completions on the wire: the fields that are read, typed; unknown fields are ignored.

Requests are typed strictly, as a client can be told what is wrong. Answers are typed loosely where real servers
differ (`Any`, `Raw`), since an upstream cannot be told anything.
"""

from typing import Annotated, Any

import msgspec

__all__ = [
    "ABSENT",
    "AllowedTools",
    "Body",
    "CallDelta",
    "Choice",
    "ChoiceObject",
    "Chunk",
    "Custom",
    "DeltaMessage",
    "FilePart",
    "FunctionDelta",
    "FunctionTool",
    "ImageUrl",
    "Message",
    "Named",
    "PartIn",
    "ResponseFormat",
    "StreamOptions",
    "ToolCallIn",
    "ToolIn",
    "present",
]

ABSENT = msgspec.Raw(b"")
_NOTHING = (b"", b"null")

Positive = Annotated[int, msgspec.Meta(ge=1)]


def present(raw: msgspec.Raw) -> bool:
    """Tell whether a raw member was sent and is not null."""
    return bytes(raw) not in _NOTHING


class ImageUrl(msgspec.Struct):
    """An image link or data URI."""

    url: str
    detail: str | None = None


class FilePart(msgspec.Struct):
    """A file by content or by an id that we cannot resolve."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class PartIn(msgspec.Struct):
    """One content part of a request message."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | str | None = None
    file: FilePart | None = None


class Named(msgspec.Struct):
    """A function's or custom tool's name in a choice."""

    name: str


class FunctionIn(msgspec.Struct):
    """A function call in a history; some clients send the arguments as an object."""

    name: str
    arguments: str | dict[str, Any] | None = None


class CustomIn(msgspec.Struct):
    """A custom tool call in a history."""

    name: str
    input: str = ""


class ToolCallIn(msgspec.Struct):
    """A call in an assistant message of a history."""

    id: str | None = None
    type: str | None = None
    function: FunctionIn | None = None
    custom: CustomIn | None = None


class Message(msgspec.Struct):
    """One message of a request, fields of all roles together."""

    role: str
    content: str | list[PartIn] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallIn] | None = None
    tool_call_id: str | None = None
    function_call: FunctionIn | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    reasoning_details: list[dict[str, Any]] | None = None
    audio: msgspec.Raw = ABSENT
    annotations: msgspec.Raw = ABSENT


class FunctionTool(msgspec.Struct):
    """A function's declaration."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None


class Grammar(msgspec.Struct):
    """A custom tool's grammar; nested here, flat in Responses."""

    syntax: str
    definition: str


class Format(msgspec.Struct):
    """What input a custom tool takes."""

    type: str = "text"
    grammar: Grammar | None = None


class Custom(msgspec.Struct):
    """A custom tool's declaration."""

    name: str
    description: str | None = None
    format: Format | None = None


class ToolIn(msgspec.Struct):
    """One entry of `tools`."""

    type: str
    function: FunctionTool | None = None
    custom: Custom | None = None


class AllowedTool(msgspec.Struct):
    """One entry of an allowed_tools choice."""

    type: str = "function"
    function: Named | None = None
    custom: Named | None = None


class AllowedTools(msgspec.Struct):
    """The subset of tools that a choice allows."""

    mode: str
    tools: list[AllowedTool]


class ChoiceObject(msgspec.Struct):
    """A tool_choice that is no plain word."""

    type: str
    function: Named | None = None
    custom: Named | None = None
    allowed_tools: AllowedTools | None = None


class JsonSchema(msgspec.Struct):
    """The schema of a structured output."""

    name: str | None = None
    schema: msgspec.Raw = ABSENT
    strict: bool | None = None
    description: str | None = None


class ResponseFormat(msgspec.Struct):
    """The wished form of the answer."""

    type: str
    json_schema: JsonSchema | None = None


class StreamOptions(msgspec.Struct):
    """Wishes about the stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Body(msgspec.Struct):
    """A Chat Completions request."""

    model: str
    messages: list[Message]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: Positive | None = None
    max_tokens: Positive | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | list[str] | None = None
    n: Positive | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: msgspec.Raw = ABSENT
    logprobs: bool | None = None
    top_logprobs: int | None = None
    prediction: msgspec.Raw = ABSENT
    tools: list[ToolIn] | None = None
    functions: list[FunctionTool] | None = None
    tool_choice: str | ChoiceObject | None = None
    function_call: str | Named | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    reasoning: msgspec.Raw = ABSENT
    response_format: ResponseFormat | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: msgspec.Raw = ABSENT
    prompt_cache_key: str | None = None
    prompt_cache_options: msgspec.Raw = ABSENT
    prompt_cache_retention: str | None = None
    store: bool | None = None
    modalities: list[str] | None = None
    audio: msgspec.Raw = ABSENT
    web_search_options: msgspec.Raw = ABSENT
    moderation: msgspec.Raw = ABSENT


class FunctionDelta(msgspec.Struct, gc=False):
    """A piece of a function call; some servers send the arguments as an object."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CustomDelta(msgspec.Struct, gc=False):
    """A custom tool call of an answer."""

    name: str | None = None
    input: str | None = None


class CallDelta(msgspec.Struct, gc=False):
    """A piece of a tool call, or a whole one in an answer that is no stream."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None


class DeltaMessage(msgspec.Struct, gc=False):
    """What one chunk adds, or the whole message of an answer that is no stream."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    reasoning_text: str | None = None
    reasoning_details: msgspec.Raw = ABSENT
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: FunctionDelta | None = None
    annotations: msgspec.Raw = ABSENT


class Choice(msgspec.Struct, gc=False):
    """One alternative of a chunk or answer."""

    index: int | None = None
    delta: DeltaMessage | None = None
    message: DeltaMessage | None = None
    finish_reason: str | None = None
    logprobs: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    """Kimi's place for it."""


class Chunk(msgspec.Struct, gc=False):
    """One event of a stream, or a whole answer."""

    id: Any = None
    model: Any = None
    created: Any = None
    choices: list[Choice] | None = None
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    data: msgspec.Raw = ABSENT
    """The envelope of some gateways: `{"success": true, "data": {...}}`."""
    success: Any = None
