"""Read the `input` of a Responses request into turns.

Consecutive assistant-side items form one turn and consecutive outputs one user turn, so that every target
sees the calls of one answer together (spec/translation.md 3.3, the batch rule). Order is kept.
"""

import base64
import binascii

import msgspec

from translators.carrier import MARK, is_carrier
from translators.conversation import (
    Document,
    Image,
    Opaque,
    Part,
    Reasoning,
    Receipt,
    Role,
    State,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    located,
    place,
)
from translators.fault import refuse
from translators.jsonio import ERRORS, text_of
from translators.media import image_from, split_data_uri
from translators.notes import Notes
from translators.responses import wire
from translators.responses.client import misfit, read_at
from translators.responses.tools import Declared

__all__ = ["Reader", "receipt_of"]

_OURS = (
    "message",
    "function_call",
    "custom_tool_call",
    "function_call_output",
    "custom_tool_call_output",
    "reasoning",
    "additional_tools",
)
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


class Reader:
    """Take input items one by one; `turns` has what they say, `system` the leading run of instructions."""

    def __init__(self, declared: Declared, notes: Notes | None = None) -> None:
        self._notes = notes or Notes()
        self._lost: set[str] = set()
        self._declared = declared
        self._assistant: list[Part] = []
        self._results: list[Part] = []
        self._at = ""
        self.system: list[Text] = []
        self.turns: list[Turn] = []

    def add(self, raw: msgspec.Raw, index: int) -> None:
        """Take one item; raises Refused for a shape that no client of this protocol may send."""
        at = f"input.{index}"
        try:
            item = wire.decode_item(raw)
        except ERRORS as error:
            self._other(raw, at, error)
            return
        match item.type:
            case "message":
                self._message(item, at)
            case "function_call" | "custom_tool_call":
                self._assist(_call(item, at), at)
            case "function_call_output" | "custom_tool_call_output":
                self._result(item, at)
            case "reasoning":
                self._reasoning(item, at)
            case "additional_tools":
                self._declared.add(item.tools or [], f"{at}.tools")
            case "mcp_call":
                self._assist(receipt_of(item), at)
            case None if item.role is not None:
                self._message(item, at)
            case None if item.id is None:
                raise refuse(f"{at}.type: missing", param=f"{at}.type")
            case kind:
                self._assist(Opaque("responses", kind or "item_reference", bytes(raw)), at)

    def finish(self) -> None:
        """Close the turn that is still open."""
        self._close()

    def _other(self, raw: msgspec.Raw, at: str, error: Exception) -> None:
        """Keep an item of a hosted kind whose members have types of their own; refuse one of ours."""
        kind = read_at(wire.decode_kind, raw, at).type
        if kind is None or kind in _OURS:
            raise misfit(error, at)
        self._assist(Opaque("responses", kind, bytes(raw)), at)

    def _message(self, item: wire.Item, at: str) -> None:
        parts = _content(item.content, f"{at}.content")
        match item.role:
            case "assistant":
                self._lose(item, at)
                self._assistant_message(parts, at)
            case "user":
                self._turn("user", parts, at)
            case "system" | "developer":
                self._instructions(item.role, parts, at)
            case _:
                raise refuse(f"{at}.role: expected user, assistant, system or developer", param=f"{at}.role")

    def _lose(self, item: wire.Item, at: str) -> None:
        """Note what is not sent on of earlier answers (3.3); once for each kind, since every answer may have it."""
        parts = item.content if isinstance(item.content, list) else []
        found = {
            "phase": item.phase,
            "annotations": any(part.annotations for part in parts),
            "logprobs": any(part.logprobs for part in parts),
        }
        for name, value in found.items():
            if value and name not in self._lost:
                self._lost.add(name)
                self._notes.omitted(f"{at}.{name}", f"{name} of earlier answers are not sent on")

    def _assistant_message(self, parts: list[Part], at: str) -> None:
        if any(isinstance(part, Text | ToolCall) for part in self._assistant):
            trailing: list[Part] = []
            while isinstance(self._assistant[-1], Reasoning):
                trailing.insert(0, self._assistant.pop())
            self._close()
            self._assistant = trailing
            if trailing:
                self._at = place(trailing[0], self._at)
        for part in parts:
            if not isinstance(part, Text):
                raise refuse(f"{at}.content: an assistant message holds text only", param=f"{at}.content")
            self._assist(part, at)

    def _instructions(self, role: Role, parts: list[Part], at: str) -> None:
        texts = [part for part in parts if isinstance(part, Text)]
        if len(texts) != len(parts):
            raise refuse(
                f"{at}.content: a {role} message holds text only", param=f"{at}.content", code="unsupported_content"
            )
        if self.turns or self._assistant or self._results:
            self._turn(role, parts, at)
        else:
            self.system.extend(texts)

    def _turn(self, role: Role, parts: list[Part], at: str) -> None:
        self._close()
        if parts:
            self.turns.append(Turn(role, tuple(parts), at))

    def _reasoning(self, item: wire.Item, at: str) -> None:
        content = item.content if isinstance(item.content, list) else []
        text = _joined(item.summary) or _joined(content)
        state = None
        if item.encrypted_content:
            value = item.encrypted_content
            native = None if is_carrier(value) else "responses"
            state = State(value, native, item.id or "", redacted=value.startswith(f"{MARK}rt."))  # type: ignore[arg-type]
        if text or state is not None:
            self._assist(Reasoning(text, state), at)

    def _assist(self, part: Part, at: str) -> None:
        if self._results:
            self._close()
        if not self._assistant:
            self._at = at
        self._assistant.append(part if at == self._at else located(part, at))

    def _result(self, item: wire.Item, at: str) -> None:
        if not item.call_id:
            raise refuse(f"{at}.call_id: missing", param=f"{at}.call_id")
        if self._assistant:
            self._close()
        if not self._results:
            self._at = at
        parts, own = _output(item.output, f"{at}.output"), "" if at == self._at else at
        self._results.append(ToolResult(item.call_id, parts, custom=item.type == "custom_tool_call_output", at=own))

    def _close(self) -> None:
        if self._assistant:
            self.turns.append(Turn("assistant", tuple(self._assistant), self._at))
        elif self._results:
            self.turns.append(Turn("user", tuple(self._results), self._at))
        self._assistant, self._results = [], []


def _joined(parts: list[wire.Part] | None) -> str:
    return "\n\n".join(part.text for part in parts or () if part.text)


def _call(item: wire.Item, at: str) -> ToolCall:
    if not item.call_id:
        raise refuse(f"{at}.call_id: missing", param=f"{at}.call_id")
    if not item.name:
        raise refuse(f"{at}.name: missing", param=f"{at}.name")
    if item.type == "custom_tool_call":
        if not isinstance(item.input, str):
            raise refuse(f"{at}.input: expected a string", param=f"{at}.input")
        return ToolCall(item.call_id, item.name, item.input, custom=True, namespace=item.namespace or None)
    arguments = item.arguments
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else text_of(arguments)
    return ToolCall(item.call_id, item.name, arguments if arguments.strip() else "{}", namespace=item.namespace or None)


def receipt_of(item: wire.Item) -> Receipt:
    """Return an mcp_call item, the client's or the upstream's, as a receipt."""
    output = wire.given(item.output)
    error = item.error if isinstance(item.error, str) or item.error is None else text_of(item.error)
    arguments = item.arguments if isinstance(item.arguments, str) else "{}"
    try:
        told = wire.decode_text(output) if output else None
    except ERRORS:
        told = output.decode("utf-8", "replace")
    return Receipt(item.id or "", item.server_label or "", item.name or "", arguments, told, error)


def _content(content: str | list[wire.Part] | None, at: str) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts = [_part(part, f"{at}.{index}") for index, part in enumerate(content)]
    return [part for part in parts if not (isinstance(part, Text) and not part.text)]


def _output(raw: msgspec.Raw, at: str) -> tuple[Text | Image | Document, ...]:
    document = wire.given(raw)
    if not document:
        return ()
    try:
        output = wire.decode_output(document)
    except ERRORS:
        # What is neither text nor parts is data that the tool returned: its JSON is the text.
        return (Text(document.decode("utf-8", "replace")),)
    if isinstance(output, str):
        return (Text(output),) if output else ()
    parts: list[Text | Image | Document] = []
    for index, entry in enumerate(output or []):
        part = _entry(entry, f"{at}.{index}")
        if not (isinstance(part, Text) and not part.text):
            parts.append(part)
    return tuple(parts)


def _entry(entry: str | wire.Part, at: str) -> Text | Image | Document:
    """Return one entry of an output; some clients leave the type of texts out (spec/grok.md 11.5)."""
    if isinstance(entry, str):
        return Text(entry)
    return Text(entry.text) if entry.type is None and entry.text is not None else _part(entry, at)


def _part(part: wire.Part, at: str) -> Text | Image | Document:
    kind = part.type
    if kind in _TEXTS:
        if part.text is None:
            raise refuse(f"{at}.text: missing", param=f"{at}.text")
        return Text(part.text)
    if kind == "refusal":
        return Text(part.refusal or part.text or "", refusal=True)
    if kind == "input_image":
        return _image(part, at)
    if kind == "input_file":
        return _file(part, at)
    if kind is None:
        raise refuse(f"{at}.type: missing", param=f"{at}.type")
    at = f"{at}.type"
    raise refuse(f"{at}: content of type {kind!r} is not supported", param=at, code="unsupported_content")


def _image(part: wire.Part, at: str) -> Image:
    image = part.image_url
    if isinstance(image, str):
        image = wire.ImageUrl(image)
    if image and image.url:
        return image_from(image.url, image.detail or part.detail, f"{at}.image_url")
    raise _missing(part, at, "image_url")


def _file(part: wire.Part, at: str) -> Document:
    title = part.filename or ""
    if part.file_url:
        return Document(url=part.file_url, title=title)
    if part.file_data:
        data = part.file_data
        if not data.startswith("data:"):
            # The API takes bare base64 of a PDF too.
            data = f"data:application/pdf;base64,{data}"
        return _inline(*split_data_uri(data, f"{at}.file_data"), title, f"{at}.file_data")
    raise _missing(part, at, "file_data")


def _inline(media_type: str, data: str, title: str, at: str) -> Document:
    if media_type == "application/pdf":
        return Document(data=data, title=title)
    if not media_type.startswith("text/"):
        raise refuse(f"{at}: files of type {media_type!r} are not supported", param=at, code="unsupported_content")
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        raise refuse(f"{at}: the file is not base64 of UTF-8 text", param=at, code="unsupported_content") from None
    return Document("text/plain", text=text, title=title)


def _missing(part: wire.Part, at: str, name: str) -> Exception:
    if part.file_id:
        return refuse(
            f"{at}.file_id: files stored elsewhere cannot be read here; send the content itself",
            param=f"{at}.file_id",
            code="unresolved_resource",
        )
    return refuse(f"{at}.{name}: missing", param=f"{at}.{name}")
