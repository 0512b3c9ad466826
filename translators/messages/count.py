"""An estimate of a request's input tokens, made here, for upstreams that have no way to count them (section 6).

A heuristic, meant to err upwards: a client that trusts too low a number stops compacting and overflows. Words
are counted by their bytes (English has a little over 4 to a token), marks one by one, since code and JSON are dense
with them, other scripts by their longer bytes. Structure, tools and pictures have flat costs.
"""

import re
from typing import Any

import msgspec

from translators.fault import refuse
from translators.jsonio import ERRORS, explain

__all__ = ["IMAGE_TOKENS", "estimate"]

WORD_BYTES = 3.6
"""ASCII letters, digits and white space to a token."""
MARK_TOKENS = 0.6
"""A punctuation mark; often two are one token, seldom one is two."""
OTHER_BYTES = 2
"""UTF-8 bytes outside of ASCII to a token: a Chinese character of 3 bytes is one to two tokens."""
SHORT_CHARS = 24
SHORT_BYTES = 3
"""Names and other ASCII texts this short are not worth a closer look; a schema has thousands of them."""
OPAQUE_BYTES = 8
"""Bytes to a token of encrypted state, which stands for text that is shorter than itself."""
IMAGE_TOKENS = 1600
"""What the largest image costs that Anthropic's API does not scale down."""
FILE_BYTES = 20
"""Base64 characters of a PDF to a token: about 3,000 tokens for a page of 60 KB."""
REQUEST_TOKENS = 4
PART_TOKENS = 4
"""Roles and separators around each message, block, item or tool."""
TOOLS_TOKENS = 346
"""The instructions that an API adds to the prompt once there are tools."""

_PROMPT = (
    "messages",
    "system",
    "input",
    "instructions",
    "response_format",
    "output_config",
    "text",
)
"""Members of a Messages, Chat or Responses request that the model reads, apart from its tools."""

_OPAQUE = frozenset({"signature", "encrypted_content"})
_UNREAD = frozenset({"type", "id", "tool_use_id", "tool_call_id", "call_id", "media_type", "detail"})
_WORDS = bytes(b for b in range(128) if chr(b).isalnum() or chr(b).isspace())
_ASCII = bytes(range(128))
_DATA_URI = re.compile(r"data:([^;,]{0,100});base64,")

_decode = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def estimate(body: bytes) -> int:
    """Return about how many input tokens a request body of any dialect has, rather more than fewer, never below 5."""
    try:
        request = _members(body)
        tokens: float = REQUEST_TOKENS + PART_TOKENS / 4
        tokens += sum(_tokens(_decode(request[name])) for name in _PROMPT if name in request)
    except ERRORS as error:
        raise refuse(explain(error)) from None
    # The model reads declarations as JSON, and they have neither pictures nor files.
    tools = b"".join(bytes(request[name]) for name in ("tools", "functions") if name in request)
    if len(tools) > len(b"null"):
        tokens += TOOLS_TOKENS + _bytes(tools, len(tools.translate(None, delete=_ASCII)))
    return -int(-tokens // 1)


def _tokens(value: Any) -> float:
    if type(value) is str:
        return _text(value)
    if type(value) is dict:
        return _object(value)
    if type(value) is list:
        return sum(_tokens(member) + (PART_TOKENS if type(member) is dict else 1) for member in value)
    return 0 if value is None else 1


def _object(value: dict[str, Any]) -> float:
    kind = value.get("type")
    if kind in ("image", "image_url", "input_image"):
        return IMAGE_TOKENS
    if kind == "redacted_thinking":
        return len(str(value.get("data"))) / OPAQUE_BYTES
    if kind == "input_audio":
        return len(str(value)) / FILE_BYTES
    if kind == "base64" and isinstance(value.get("data"), str):
        return _file(value["data"])
    tokens: float = 0
    for name, member in value.items():
        if type(member) is not str:
            tokens += len(name) / SHORT_BYTES + _tokens(member)
        elif name in _UNREAD:
            tokens += 1
        elif name in _OPAQUE:
            tokens += len(member) / OPAQUE_BYTES
        else:
            tokens += len(name) / SHORT_BYTES + _text(member)
    return tokens


def _text(text: str) -> float:
    if len(text) <= SHORT_CHARS and text.isascii():
        return len(text) / SHORT_BYTES
    found = _DATA_URI.match(text)
    if found:
        return IMAGE_TOKENS if found[1].startswith("image/") else _file(text)
    raw = text.encode("utf-8", "surrogatepass")
    return _bytes(raw, 0 if text.isascii() else len(raw.translate(None, delete=_ASCII)))


def _bytes(raw: bytes, strange: int) -> float:
    """Count bytes of which `strange` ones are not ASCII."""
    marks = len(raw.translate(None, delete=_WORDS)) - strange
    return (len(raw) - marks - strange) / WORD_BYTES + marks * MARK_TOKENS + strange / OTHER_BYTES


def _file(data: str) -> float:
    return max(IMAGE_TOKENS, len(data) / FILE_BYTES)
