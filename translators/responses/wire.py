"""Wire types of OpenAI Responses: only the members that somebody here reads.

Upstream types take null wherever servers are known to write it; client types are strict, so that a wrong
type is told with its path.
"""

from typing import Any

import msgspec

from translators.events import Logprob

__all__ = [
    "ABSENT",
    "Annotation",
    "Failure",
    "Item",
    "LegacyFunction",
    "Lifecycle",
    "Moment",
    "Part",
    "Peeked",
    "ReasoningWish",
    "Request",
    "Response",
    "TextWish",
    "Tool",
    "ToolChoice",
    "decode_annotation",
    "decode_choice",
    "decode_failure",
    "decode_item",
    "decode_kind",
    "decode_lifecycle",
    "decode_moment",
    "decode_output",
    "decode_part",
    "decode_piece",
    "decode_response",
    "decode_text",
    "decode_tool",
    "given",
    "logprobs_of",
]

ABSENT = msgspec.Raw(b"")


def given(raw: msgspec.Raw) -> bytes:
    """Return a raw member's bytes; b"" when it is absent or null."""
    document = bytes(raw)
    return b"" if document == b"null" else document


# ------------------------------------------------------------------ the client's request


class Peeked(msgspec.Struct):
    """What routing reads."""

    model: str = ""
    stream: bool | None = None
    prompt_cache_key: str | None = None
    metadata: msgspec.Raw = ABSENT
    user: msgspec.Raw = ABSENT
    input: str | list[msgspec.Raw] | None = None


class ImageUrl(msgspec.Struct):
    """An image as Chat nests it; some clients send it here too."""

    url: str
    detail: str | None = None


class Part(msgspec.Struct):
    """A content part of a message, an output or a reasoning item, client's or upstream's."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageUrl | None = None
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    annotations: list[msgspec.Raw] | None = None
    logprobs: list[Any] | None = None


class Item(msgspec.Struct):
    """An input or output item: the union of the kinds that we translate. Hosted kinds keep their bytes instead."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    status: str | None = None
    content: str | list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Any = None
    input: Any = None
    output: msgspec.Raw = ABSENT
    summary: list[Part] | None = None
    encrypted_content: str | None = None
    tools: list[msgspec.Raw] | None = None
    server_label: str | None = None
    error: Any = None
    phase: Any = None


class Kind(msgspec.Struct):
    """What an item that does not fit Item says it is."""

    type: str | None = None
    id: str | None = None


class Format(msgspec.Struct):
    """Format of a custom tool; the grammar is flat here, and nested for clients that copy Chat."""

    type: str
    syntax: str | None = None
    definition: str | None = None
    grammar: "Grammar | None" = None


class Grammar(msgspec.Struct):
    """A nested grammar."""

    syntax: str
    definition: str


class Tool(msgspec.Struct):
    """A declared tool; a namespace has children in `tools`, which the bytes of hosted tools never are read for."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None
    format: Format | None = None
    defer_loading: bool | None = None
    tools: msgspec.Raw = ABSENT
    allowed_callers: Any = None
    output_schema: msgspec.Raw = ABSENT


class LegacyFunction(msgspec.Struct):
    """A function as old Chat clients declare it."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = ABSENT


class ToolName(msgspec.Struct):
    """One entry of an allowed_tools choice."""

    type: str
    name: str | None = None
    namespace: str | None = None


class ToolChoice(msgspec.Struct):
    """An object-valued tool_choice."""

    type: str | None = None
    name: str | None = None
    namespace: str | None = None
    mode: str | None = None
    tools: list[ToolName] = []


class ReasoningWish(msgspec.Struct):
    """The `reasoning` member."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    context: Any = None
    mode: Any = None


class TextFormat(msgspec.Struct):
    """The `text.format` member."""

    type: str
    name: str | None = None
    description: str | None = None
    schema: msgspec.Raw = ABSENT
    strict: bool | None = None


class TextWish(msgspec.Struct):
    """The `text` member."""

    format: TextFormat | None = None
    verbosity: str | None = None


class StreamOptions(msgspec.Struct):
    """The `stream_options` member."""

    include_obfuscation: bool | None = None


class Request(msgspec.Struct):
    """A request body. Members that only lifecycle objects repeat stay raw."""

    model: str
    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = ABSENT
    parallel_tool_calls: bool | None = None
    functions: list[LegacyFunction] | None = None
    function_call: str | LegacyFunction | None = None
    reasoning: ReasoningWish | None = None
    text: TextWish | None = None
    include: list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    truncation: str | None = None
    max_tool_calls: int | None = None
    context_management: msgspec.Raw = ABSENT
    moderation: msgspec.Raw = ABSENT
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: msgspec.Raw = ABSENT
    prompt_cache_key: str | None = None
    prompt_cache_options: msgspec.Raw = ABSENT
    prompt_cache_retention: str | None = None


# ------------------------------------------------------------------ the upstream's stream


class Moment(msgspec.Struct, gc=False):
    """The members of a delta, which most events are; other events are read again by their own type."""

    type: str = ""
    sequence_number: int | None = None
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    logprobs: list[Any] | None = None


class Piece(msgspec.Struct):
    """The members of an event that starts or ends something."""

    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    call_id: str | None = None
    item: msgspec.Raw = ABSENT
    part: msgspec.Raw = ABSENT
    annotation: msgspec.Raw = ABSENT
    text: str | None = None
    refusal: str | None = None
    arguments: Any = None
    input: Any = None
    logprobs: list[Any] | None = None


class Annotation(msgspec.Struct):
    """A citation in a text part."""

    type: str = ""
    url: str | None = None
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class IncompleteDetails(msgspec.Struct):
    """Why a response is incomplete."""

    reason: str | None = None


class Response(msgspec.Struct):
    """A response object, in lifecycle events and as a whole body."""

    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    status: str | None = None
    output: list[msgspec.Raw] | None = None
    usage: Any = None
    incomplete_details: IncompleteDetails | None = None
    error: Any = None


class Lifecycle(msgspec.Struct):
    """An event about the whole response."""

    response: msgspec.Raw = ABSENT


class Failure(msgspec.Struct):
    """An error event, an error document in place of a stream, or a response that failed."""

    type: str | None = None
    error: Any = None
    message: Any = None


decode_moment = msgspec.json.Decoder(Moment).decode
decode_piece = msgspec.json.Decoder(Piece).decode
decode_lifecycle = msgspec.json.Decoder(Lifecycle).decode
decode_response = msgspec.json.Decoder(Response).decode
decode_failure = msgspec.json.Decoder(Failure).decode
decode_item = msgspec.json.Decoder(Item).decode
decode_kind = msgspec.json.Decoder(Kind).decode
decode_part = msgspec.json.Decoder(Part).decode
decode_annotation = msgspec.json.Decoder(Annotation).decode
decode_tool = msgspec.json.Decoder(Tool).decode
decode_output = msgspec.json.Decoder(str | list[str | Part] | None).decode
decode_text = msgspec.json.Decoder(str | None).decode
decode_choice = msgspec.json.Decoder(str | ToolChoice).decode


def logprobs_of(values: list[Any] | None) -> tuple[Logprob, ...]:
    """Return log probabilities, () when there are none or they have another shape."""
    if not values:
        return ()
    try:
        return tuple(msgspec.convert(values, list[Logprob]))
    except msgspec.ValidationError:
        return ()
