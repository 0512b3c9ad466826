"""JSON in and out: every decoding error, RecursionError included, becomes one Fault (S21)."""

import re
from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from translators.fault import Fault, broken, refuse

__all__ = [
    "ERRORS",
    "MAX_DEPTH",
    "canonical",
    "compact",
    "encode",
    "explain",
    "is_object",
    "nested_too_deep",
    "path_of",
    "reader",
    "size_of",
    "text_of",
    "unreadable",
]

T = TypeVar("T")

MAX_DEPTH = 128
"""Nesting of arrays and objects that is accepted in one document."""

ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

_encoder = msgspec.json.Encoder()
encode: Callable[[Any], bytes] = _encoder.encode
"""Encode a value as compact JSON in UTF-8."""

_any = msgspec.json.Decoder()
_STRING = re.compile(rb'"[^"]*"')
_NOT_SHAPE = bytes(b for b in range(256) if b not in b'[]{}"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def nested_too_deep(document: bytes) -> bool:
    """Tell whether a valid JSON document nests deeper than MAX_DEPTH, without building it."""
    if document.count(b"[") + document.count(b"{") <= MAX_DEPTH:
        return False
    # Backslashes stand only inside strings. Pairs go first, so that what is left before a quote escapes it.
    plain = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    shape = _STRING.sub(b"", plain.translate(None, _NOT_SHAPE)).translate(_STEPS)
    return max(accumulate(array("b", shape)), default=0) > MAX_DEPTH


def explain(error: Exception) -> str:
    """Say in a sentence fit for a client what is wrong with a document, naming the field where known."""
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    if isinstance(error, RecursionError):
        return f"the JSON nests deeper than {MAX_DEPTH} levels"
    if isinstance(error, UnicodeDecodeError):
        return "the JSON is not valid UTF-8"
    return f"the JSON is malformed: {error}"


def path_of(error: Exception) -> str | None:
    """Return the field path that msgspec names (`$.messages[0].role`) as `messages.0.role`."""
    found = re.search(r"at `(?:key in )?\$\.?([^`]*)`", str(error))
    if not found:
        return None
    # msgspec does not tell the key of a map; the path leads to the map.
    return re.sub(r"\[(\d+)\]", r".\1", found[1].replace("[...]", "")).strip(".") or None


def reader(type_: type[T] | Any) -> Callable[[bytes], T]:
    """Return a decoder of client documents of one type; it raises Refused (400) and names the field."""
    decode = msgspec.json.Decoder(type_).decode

    def read(document: bytes) -> T:
        try:
            return decode(document)  # type: ignore[no-any-return]
        except ERRORS as error:
            raise refuse(explain(error), param=path_of(error)) from None

    return read


_ESCAPE = re.compile(r"\\(?:u([dD][89abAB]..)\\u([dD][c-fC-F]..)|u(....)|.)")
"""An escape, whole: a surrogate pair, one of four digits, or a backslash with what it stands before."""


def compact(document: bytes | msgspec.Raw) -> str:
    """Return a JSON document without insignificant white space and without escapes of what is not ASCII (1.13).

    Key order and numbers are kept as written.
    """
    try:
        plain = msgspec.json.format(bytes(document), indent=-1).decode()
    except ERRORS as error:
        raise refuse(explain(error)) from None
    return _ESCAPE.sub(_unescaped, plain) if "\\u" in plain else plain


def _unescaped(found: re.Match[str]) -> str:
    high, low, digits = found.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    code = int(digits, 16) if digits else 0
    return chr(code) if code >= 0x80 and not 0xD800 <= code <= 0xDFFF else found[0]


def is_object(document: str | bytes) -> bool:
    """Tell whether a text is one complete JSON object."""
    try:
        return isinstance(_any.decode(document), dict)
    except (*ERRORS, UnicodeEncodeError):
        return False


def canonical(arguments: str) -> str:
    """Return tool arguments compact with sorted keys, or unchanged when they are not JSON."""
    try:
        value = _any.decode(arguments)
    except (*ERRORS, UnicodeEncodeError):
        return arguments
    return msgspec.json.encode(value, order="sorted").decode()


def text_of(value: Any) -> str:
    """Return a decoded JSON value as compact text."""
    return encode(value).decode()


def size_of(text: str) -> int:
    """Return the UTF-8 length of a text in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def unreadable(error: Exception) -> Fault:
    """Return the Fault for an upstream document that does not decode; its text stays out of the message."""
    what = "wrong types" if isinstance(error, msgspec.ValidationError) else "malformed JSON"
    return broken(f"the upstream sent {what}")
