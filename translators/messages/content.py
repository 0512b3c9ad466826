"""Content blocks of a Messages request, read into neutral parts (spec/translation.md 1.10, 3.1).

Promises: order is kept; what a block says is never lost without a note; a block of unknown type stays as its
bytes (Opaque). Every refusal names the block's path.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from translators.carrier import is_carrier
from translators.conversation import (
    Document,
    Image,
    Opaque,
    Part,
    Reasoning,
    Receipt,
    State,
    Text,
    ToolCall,
    ToolResult,
)
from translators.fault import Refused, refuse
from translators.jsonio import ERRORS, compact, encode
from translators.media import check_image, image_from
from translators.messages.wire import InputBlock, Source
from translators.notes import Notes

__all__ = ["Blocks", "receipt_of", "system_texts"]

PDF = "application/pdf"

_citations = msgspec.json.Decoder(list[dict[str, object]]).decode
_switch = msgspec.json.Decoder(dict[str, object]).decode


def system_texts(content: str | list[InputBlock], at: str) -> tuple[Text, ...]:
    """Return system content as texts; raises Refused(unsupported_content) for any other block."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    for index, block in enumerate(content):
        if block.type != "text":
            raise _unsupported(f"{at}.{index}.type", f"a system prompt takes text only, not {_told(block.type)}")
    return tuple(Text(_required(block.text, f"{at}.{index}.text")) for index, block in enumerate(content))


class Blocks:
    """Read the blocks of one request's messages. `raw(message, block)` gives a block's own bytes when asked for.

    `extras` collects (path, message) of what a block says that no other protocol has.
    """

    def __init__(self, notes: Notes, raw: Callable[[int, int], bytes]) -> None:
        self.extras: list[tuple[str, str]] = []
        self._notes = notes
        self._raw = raw

    def user(self, message: int, blocks: list[InputBlock]) -> list[Part]:
        """Return the parts of a user message; thinking and calls in it are refused (a security boundary, 3.1)."""
        parts: list[Part] = []
        for index, block in enumerate(blocks):
            at = f"messages.{message}.content.{index}"
            match block.type:
                case "tool_result":
                    parts.append(self._result(block, at))
                case "thinking" | "redacted_thinking" | "tool_use":
                    raise _unsupported(f"{at}.type", f"{block.type} blocks may only stand in assistant messages")
                case "text" | "image" | "document" | "search_result":
                    parts.extend(self._shown(block, at))
                case _:
                    parts.append(self._opaque(block, message, index, at))
        return parts

    def assistant(self, message: int, blocks: list[InputBlock]) -> list[Part]:
        """Return the parts of an assistant message; an MCP call and its result become one Receipt."""
        parts: list[Part] = []
        ran: dict[str, tuple[int, Receipt]] = {}
        for index, block in enumerate(blocks):
            at = f"messages.{message}.content.{index}"
            match block.type:
                case "text":
                    parts.extend(self._shown(block, at))
                case "thinking":
                    parts.append(Reasoning(block.thinking or "", _state(block.signature)))
                case "redacted_thinking":
                    parts.append(Reasoning("", _state(_required(block.data, f"{at}.data"), redacted=True)))
                case "tool_use":
                    parts.append(_call(block, at))
                case "mcp_tool_use":
                    call = _ran(block, at)
                    ran[call.id] = (len(parts), call)
                    parts.append(call)
                case "mcp_tool_result" if block.tool_use_id in ran:
                    where, call = ran[block.tool_use_id]
                    parts[where] = receipt_of(call, _joined(block.content), is_error=bool(block.is_error))
                case "image" | "document" | "search_result" | "tool_result":
                    raise _unsupported(f"{at}.type", f"{block.type} blocks may not stand in assistant messages")
                case _:
                    parts.append(self._opaque(block, message, index, at))
        return parts

    def _opaque(self, block: InputBlock, message: int, index: int, at: str) -> Opaque:
        if not block.type:
            raise refuse(f"{at}.type: Field required", param=f"{at}.type")
        return Opaque("messages", block.type, self._raw(message, index))

    def _shown(self, block: InputBlock, at: str) -> list[Text | Image | Document]:
        """Return what a block shows to the model, in a user turn or in a tool's result."""
        match block.type:
            case "text":
                return [Text(_required(block.text, f"{at}.text"), citations=_cited(block))]
            case "image":
                return [_image(block.source, f"{at}.source")]
            case "document":
                return self._document(block, at)
            case "search_result":
                self._notes.changed(at, "a search result is told as text")
                source = block.source if isinstance(block.source, str) else ""
                return [Text("\n".join(piece for piece in (block.title, source, _joined(block.content)) if piece))]
            case "tool_reference":
                self._notes.changed(at, "a tool reference is told as JSON text")
                told = {"type": "tool_reference", "tool_name": block.tool_name or ""}
                return [Text(encode(told).decode())]
            case _:
                self._notes.dropped(at, f"{_told(block.type)} cannot be shown to this model", "unsupported_content")
                return []

    def _all_shown(self, blocks: list[InputBlock], at: str) -> list[Text | Image | Document]:
        return [part for index, block in enumerate(blocks) for part in self._shown(block, f"{at}.{index}")]

    def _result(self, block: InputBlock, at: str) -> ToolResult:
        call_id = _required(block.tool_use_id, f"{at}.tool_use_id")
        content = block.content
        if content is None:
            parts: tuple[Text | Image | Document, ...] = ()
        elif isinstance(content, str):
            parts = (Text(content),)
        elif isinstance(content, list):
            parts = tuple(self._all_shown(content, f"{at}.content"))
        else:
            raise refuse(f"{at}.content: Input should be a string or a list", param=f"{at}.content")
        return ToolResult(call_id, parts, is_error=bool(block.is_error))

    def _document(self, block: InputBlock, at: str) -> list[Text | Image | Document]:
        if _on(block.citations):
            self.extras.append((f"{at}.citations", "only Anthropic's API cites from documents"))
        if block.context:
            self.extras.append((f"{at}.context", "only Anthropic's API takes a context beside a document"))
        source, title, where = block.source, block.title or "", f"{at}.source"
        if not isinstance(source, Source):
            raise refuse(f"{where}: Input should be an object", param=where)
        match source.type:
            case "base64":
                if source.media_type != PDF:
                    told = f"documents of type {_told(source.media_type)} are not supported"
                    raise _unsupported(f"{where}.media_type", told)
                return [Document(PDF, data=_required(source.data, f"{where}.data"), title=title)]
            case "url":
                return [Document(url=_required(source.url, f"{where}.url"), title=title)]
            case "text":
                return [Document("text/plain", text=_required(source.data, f"{where}.data"), title=title)]
            case "content":
                return self._compound(source, title, where)
            case _:
                raise _no_source(source.type, where)

    def _compound(self, source: Source, title: str, at: str) -> list[Text | Image | Document]:
        """Return a document of content blocks as one text document, with its images behind it (1.10)."""
        self._notes.changed(at, "a document of blocks is sent as its text, then its images")
        content = source.content or ""
        if isinstance(content, str):
            return [Document("text/plain", text=content, title=title)]
        inner = self._all_shown(content, f"{at}.content")
        text = "\n".join(part.text for part in inner if isinstance(part, Text))
        return [Document("text/plain", text=text, title=title), *(part for part in inner if not isinstance(part, Text))]


def receipt_of(call: Receipt, output: str, *, is_error: bool) -> Receipt:
    """Return a provider-run call with its outcome."""
    return msgspec.structs.replace(call, output=None if is_error else output, error=output if is_error else None)


def _ran(block: InputBlock, at: str) -> Receipt:
    return Receipt(
        id=_required(block.id, f"{at}.id"),
        server=block.server_name or "",
        name=_required(block.name, f"{at}.name"),
        arguments=_input(block.input, at),
    )


def _call(block: InputBlock, at: str) -> ToolCall:
    return ToolCall(
        id=_required(block.id, f"{at}.id"),
        name=_required(block.name, f"{at}.name"),
        arguments=_input(block.input, at),
    )


def _input(raw: Raw, at: str) -> str:
    text = bytes(raw)
    if not text or text == b"null":
        return "{}"
    if not text.startswith(b"{"):
        raise refuse(f"{at}.input: Input should be a valid dictionary", param=f"{at}.input")
    return compact(text)


def _state(value: str | None, *, redacted: bool = False) -> State | None:
    if not value:
        return None
    return State(value, native=None if is_carrier(value) else "messages", redacted=redacted)


def _image(source: Source | str | None, at: str) -> Image:
    if not isinstance(source, Source):
        raise refuse(f"{at}: Input should be an object", param=at)
    match source.type:
        case "base64":
            media_type, data = source.media_type or "", _required(source.data, f"{at}.data")
            check_image(media_type, data, at)
            return Image(media_type=media_type, data=data)
        case "url":
            return image_from(_required(source.url, f"{at}.url"), None, at)
        case _:
            raise _no_source(source.type, at)


def _no_source(kind: str, at: str) -> Refused:
    if kind == "file":
        return refuse(f"{at}: files by id are not known here; send the content", param=at, code="unresolved_resource")
    return _unsupported(f"{at}.type", f"a source of type {_told(kind)} is not supported")


def _joined(content: str | list[InputBlock] | InputBlock | None) -> str:
    if isinstance(content, list):
        return "\n".join(block.text for block in content if block.text)
    return content if isinstance(content, str) else ""


def _cited(block: InputBlock) -> tuple[tuple[str, str], ...]:
    """Return the web pages that a text cites; other citations point at blocks of their own protocol only."""
    raw = bytes(block.citations)
    if b"web_search_result_location" not in raw:
        return ()
    try:
        cited = _citations(raw)
    except ERRORS:
        return ()
    return tuple(
        (str(citation["url"]), str(citation.get("title") or ""))
        for citation in cited
        if citation.get("type") == "web_search_result_location" and citation.get("url")
    )


def _on(citations: Raw) -> bool:
    try:
        return bool(_switch(bytes(citations)).get("enabled"))
    except ERRORS:
        return False


def _required(value: str | None, at: str) -> str:
    if value is None:
        raise refuse(f"{at}: Field required", param=at)
    return value


def _told(kind: str | None) -> str:
    return repr((kind or "")[:64])


def _unsupported(at: str, message: str) -> Refused:
    return refuse(f"{at}: {message}", param=at, code="unsupported_content")
