"""The Messages protocol as typed JSON: only the members that are read; unknown ones are ignored.

Promises nothing about meaning: that is the business of the modules that read these records. Members of foreign
shape (schemas, tool input, citations) stay the bytes that they came in.
"""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from translators.events import Usage
from translators.notes import Notes

__all__ = [
    "ABSENT",
    "BlockDelta",
    "Body",
    "Counts",
    "Event",
    "Head",
    "InputBlock",
    "InputMessage",
    "InputTool",
    "OutputBlock",
    "OutputMessage",
    "Source",
    "merged",
    "usage_of",
]

ABSENT = Raw(b"")
"""What a Raw member is when the JSON does not have it."""


class Source(msgspec.Struct):
    """Where an image or a document comes from."""

    type: str = ""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    content: "str | list[InputBlock] | None" = None


class InputBlock(msgspec.Struct):
    """Any content block of a request: one wide record, for a tagged union would refuse blocks of unknown type."""

    type: str = ""
    text: str | None = None
    source: Source | str | None = None
    title: str | None = None
    context: str | None = None
    citations: Raw = ABSENT
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    server_name: str | None = None
    input: Raw = ABSENT
    tool_use_id: str | None = None
    content: "str | list[InputBlock] | InputBlock | None" = None
    is_error: bool | None = None
    tool_name: str | None = None


class InputMessage(msgspec.Struct):
    """One message of a request."""

    role: str = ""
    content: str | list[InputBlock] | UnsetType = UNSET


class InputTool(msgspec.Struct):
    """One tool declaration; server tools have a `type` other than `custom`."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: Raw = ABSENT
    strict: bool | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None


class InputChoice(msgspec.Struct):
    """The request's tool_choice."""

    type: str = ""
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class InputThinking(msgspec.Struct):
    """The request's thinking."""

    type: str = ""
    budget_tokens: int | None = None
    display: str | None = None


class InputFormat(msgspec.Struct):
    """A wish for structured output."""

    type: str = ""
    schema: Raw = ABSENT


class OutputConfig(msgspec.Struct):
    """The request's output_config."""

    effort: str | None = None
    format: InputFormat | None = None
    task_budget: Raw = ABSENT


class Metadata(msgspec.Struct):
    """The request's metadata."""

    user_id: str | None = None


class Head(msgspec.Struct):
    """What routing needs of a request."""

    model: str | None = None
    stream: bool | None = None
    metadata: Raw = ABSENT
    messages: list[Raw] | None = None


class Body(msgspec.Struct):
    """A request. The Raw members at its end exist in this protocol alone."""

    model: str | None = None
    max_tokens: int | None = None
    messages: list[InputMessage] | None = None
    system: str | list[InputBlock] | None = None
    stream: bool | None = None
    tools: list[InputTool] | None = None
    tool_choice: InputChoice | None = None
    thinking: InputThinking | None = None
    output_config: OutputConfig | None = None
    output_format: InputFormat | None = None
    metadata: Metadata | None = None
    service_tier: str | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    context_management: Raw = ABSENT
    container: Raw = ABSENT
    mcp_servers: Raw = ABSENT
    speed: Raw = ABSENT
    inference_geo: Raw = ABSENT
    fallbacks: Raw = ABSENT
    compaction: Raw = ABSENT


class CacheCreation(msgspec.Struct, gc=False):
    """Cache writes by their lifetime."""

    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class OutputDetails(msgspec.Struct, gc=False):
    """The part of the output that was reasoning."""

    thinking_tokens: int | None = None


class Counts(msgspec.Struct):
    """A usage object of the wire."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None


class BlockDelta(msgspec.Struct, gc=False, frozen=True):
    """The `delta` of content_block_delta and of message_delta."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: Raw = ABSENT
    stop_reason: str | None = None
    stop_sequence: str | None = None


_NO_DELTA = BlockDelta()


class Event(msgspec.Struct, gc=False):
    """Any event of a stream; what only its rarer kinds have is decoded when it is needed."""

    type: str = ""
    index: int = -1
    delta: BlockDelta = _NO_DELTA
    content_block: Raw = ABSENT
    message: Raw = ABSENT
    usage: Raw = ABSENT
    error: Raw = ABSENT


class OutputBlock(msgspec.Struct):
    """Any content block of an answer."""

    type: str = ""
    text: str | None = None
    citations: Raw = ABSENT
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    server_name: str | None = None
    input: Raw = ABSENT
    tool_use_id: str | None = None
    content: Raw = ABSENT
    is_error: bool | None = None


class OutputMessage(msgspec.Struct):
    """An answer: whole, or its head in message_start."""

    type: str = ""
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Raw = ABSENT
    error: Raw = ABSENT


def merged(old: Counts, new: Counts) -> Counts:
    """Return cumulative counts: what the newer object has overwrites (section 1.7)."""
    fresh = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **fresh)


def usage_of(counts: Counts, notes: Notes) -> Usage:
    """Return the neutral record of wire counts; impossible members are left out and noted (section 1.7)."""
    write = counts.cache_creation_input_tokens
    if write is None and counts.cache_creation is not None:
        split = counts.cache_creation
        write = (split.ephemeral_5m_input_tokens or 0) + (split.ephemeral_1h_input_tokens or 0)
    details = counts.output_tokens_details
    output = _sane(counts.output_tokens, notes)
    reasoning = _sane(details.thinking_tokens if details is not None else None, notes)
    if reasoning is not None and output is not None and reasoning > output:
        notes.omitted("usage", "more reasoning than output is reported")
        reasoning = None
    return Usage(
        uncached=_sane(counts.input_tokens, notes),
        cache_read=_sane(counts.cache_read_input_tokens, notes),
        cache_write=_sane(write, notes),
        output=output,
        reasoning=reasoning,
    )


def _sane(count: int | None, notes: Notes) -> int | None:
    if count is not None and count < 0:
        notes.omitted("usage", "a negative count is reported")
        return None
    return count
