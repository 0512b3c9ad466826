"""Read a Chat history into neutral system text and turns (spec/translation.md 3.5, 3.6)."""

import base64
from collections.abc import Iterator, Sequence

from translators.chat.details import own_state, text_of_details
from translators.chat.wire import FunctionIn, Message, PartIn, ToolCallIn, present
from translators.conversation import Document, Image, Part, Reasoning, Role, State, Text, ToolCall, ToolResult, Turn
from translators.fault import refuse
from translators.identifiers import made_call_id
from translators.jsonio import text_of
from translators.media import image_from, split_data_uri
from translators.notes import Notes

__all__ = ["MAX_BLOCKS", "MAX_MESSAGES", "read_history"]

MAX_MESSAGES = 10_000
MAX_BLOCKS = 50_000
"""Bounds of one request (spec/translation.md 8)."""

_INSTRUCTIONS = ("system", "developer")
_RESULTS = ("tool", "function")


def read_history(messages: list[Message], notes: Notes) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    """Return the leading instructions and the turns; raises Refused naming the message that is wrong."""
    if len(messages) > MAX_MESSAGES:
        raise refuse(f"messages: more than {MAX_MESSAGES} messages", param="messages")
    history = _History(notes)
    for index, message in enumerate(messages):
        history.add(message, f"messages.{index}")
    history.finish()
    return tuple(history.system), tuple(history.turns)


class _History:
    """Collect turns; remembers calls, since results refer to them by id or (legacy) by name."""

    def __init__(self, notes: Notes) -> None:
        self.system: list[Text] = []
        self.turns: list[Turn] = []
        self._notes = notes
        self._custom: set[str] = set()
        self._legacy: dict[str, list[str]] = {}
        self._made = 0
        self._results: list[ToolResult] = []
        self._results_at = ""
        self._blocks = 0
        self._cited = False

    def add(self, message: Message, at: str) -> None:
        role = message.role
        if role in _INSTRUCTIONS:
            parts = tuple(_instructions(message, at))
            if not self.turns and not self._results:
                self._count(len(parts))
                self.system.extend(parts)
            elif parts:
                self._append(Turn("system" if role == "system" else "developer", parts, at))
        elif role == "user":
            self._append(Turn("user", tuple(_user_parts(message, at)), at))
        elif role == "assistant":
            self._assistant(message, at)
        elif role in _RESULTS:
            self._result(message, at)
        else:
            raise refuse(f"{at}.role: unknown role {role[:40]!r}", param=f"{at}.role")

    def finish(self) -> None:
        """Close a run of results: they make one turn."""
        if self._results:
            self.turns.append(Turn("user", tuple(self._results), self._results_at))
            self._results = []

    def _append(self, turn: Turn) -> None:
        self.finish()
        self._count(len(turn.parts))
        self.turns.append(turn)

    def _count(self, parts: int) -> None:
        self._blocks += parts
        if self._blocks > MAX_BLOCKS:
            raise refuse(f"messages: more than {MAX_BLOCKS} content blocks", param="messages")

    def _assistant(self, message: Message, at: str) -> None:
        parts: list[Part] = [*_reasoning(message), *_assistant_text(message, at)]
        for index, call in enumerate(message.tool_calls or ()):
            parts.append(self._call(call, f"{at}.tool_calls.{index}"))
        if message.function_call:
            call_id = self._new_id()
            self._legacy.setdefault(message.function_call.name, []).append(call_id)
            parts.append(ToolCall(call_id, message.function_call.name, _arguments(message.function_call)))
        if present(message.audio):
            self._notes.omitted(f"{at}.audio", "earlier audio answers cannot be sent on")
        if bytes(message.annotations) not in (b"", b"null", b"[]") and not self._cited:
            self._cited = True
            self._notes.omitted(f"{at}.annotations", "annotations of earlier answers are not sent on")
        if parts:
            self._append(Turn("assistant", tuple(parts), at))

    def _call(self, call: ToolCallIn, at: str) -> ToolCall:
        call_id = call.id or self._new_id()
        if call.custom is not None:
            self._custom.add(call_id)
            return ToolCall(call_id, call.custom.name, call.custom.input, custom=True)
        if call.function is None:
            raise refuse(f"{at}.function: a tool call needs its function", param=f"{at}.function")
        return ToolCall(call_id, call.function.name, _arguments(call.function))

    def _new_id(self) -> str:
        self._made += 1
        return made_call_id("call_", "history", self._made)

    def _result(self, message: Message, at: str) -> None:
        call_id = self._legacy_id(message, at) if message.role == "function" else message.tool_call_id
        if not call_id:
            raise refuse(f"{at}.tool_call_id: a tool message names its call", param=f"{at}.tool_call_id")
        parts = tuple(_result_parts(message, at))
        self._count(1 + len(parts))
        self._results_at = self._results_at if self._results else at
        self._results.append(ToolResult(call_id, parts, custom=call_id in self._custom))

    def _legacy_id(self, message: Message, at: str) -> str:
        """Return the id of the open call with this function's name; two of them cannot be told apart (3.5)."""
        found = self._legacy.get(message.name or "")
        if not found:
            return self._new_id()
        if len(found) > 1:
            raise refuse(f"{at}.name: several open calls have this function's name", param=f"{at}.name")
        return found.pop()


def _arguments(function: FunctionIn) -> str:
    if isinstance(function.arguments, dict):
        return text_of(function.arguments)
    return function.arguments or "{}"


def _required(text: str | None, at: str) -> str:
    if text is None:
        raise refuse(f"{at}: a string is required here", param=at)
    return text


def _listed(content: str | list[PartIn] | None) -> Sequence[PartIn]:
    if isinstance(content, str):
        return (PartIn("text", text=content),)
    return content or ()


def _instructions(message: Message, at: str) -> Iterator[Text]:
    for index, part in enumerate(_listed(message.content)):
        path = f"{at}.content.{index}"
        if part.type != "text":
            raise _unsupported(part, path, message.role)
        yield Text(_required(part.text, f"{path}.text"))


def _user_parts(message: Message, at: str) -> Iterator[Text | Image | Document]:
    if message.content is None:
        raise refuse(f"{at}.content: a user message needs content", param=f"{at}.content")
    for index, part in enumerate(_listed(message.content)):
        yield _input_part(part, f"{at}.content.{index}", "user")


def _result_parts(message: Message, at: str) -> Iterator[Text | Image | Document]:
    for index, part in enumerate(_listed(message.content)):
        if part.type != "text" or part.text:
            yield _input_part(part, f"{at}.content.{index}", message.role)


def _input_part(part: PartIn, at: str, role: Role | str) -> Text | Image | Document:
    if part.type == "text":
        return Text(_required(part.text, f"{at}.text"))
    if part.type == "image_url" and part.image_url is not None:
        if isinstance(part.image_url, str):
            return image_from(part.image_url, None, f"{at}.image_url")
        return image_from(part.image_url.url, part.image_url.detail, f"{at}.image_url.url")
    if part.type == "file" and part.file is not None:
        return _document(part, at)
    raise _unsupported(part, at, role)


def _document(part: PartIn, at: str) -> Document:
    file, at = part.file, f"{at}.file"
    if file is None or not file.file_data:
        raise refuse(f"{at}: a file by id cannot be resolved; send file_data", param=at, code="unresolved_resource")
    media_type, data = split_data_uri(file.file_data, f"{at}.file_data")
    if media_type not in ("application/pdf", "text/plain"):
        raise refuse(f"{at}: type {media_type[:80]!r} is not supported", param=at, code="unsupported_content")
    try:
        content = base64.b64decode(data, validate=True)
        if media_type == "text/plain":
            return Document(media_type=media_type, text=content.decode(), title=file.filename or "")
    except ValueError:
        raise refuse(f"{at}: the file is no base64 (of UTF-8 text)", param=at, code="unsupported_content") from None
    return Document(media_type=media_type, data=data, title=file.filename or "")


def _unsupported(part: PartIn, at: str, role: str) -> Exception:
    return refuse(
        f"{at}.type: content of type {part.type[:40]!r} is not supported in a {role} message",
        param=f"{at}.type",
        code="unsupported_content",
    )


def _assistant_text(message: Message, at: str) -> Iterator[Text]:
    for index, part in enumerate(_listed(message.content)):
        path = f"{at}.content.{index}"
        if part.type == "refusal":
            yield Text(_required(part.refusal, f"{path}.refusal"), refusal=True)
        elif part.type != "text":
            raise _unsupported(part, path, "assistant")
        elif text := _required(part.text, f"{path}.text"):
            yield Text(text)
    if message.refusal:
        yield Text(message.refusal, refusal=True)


def _reasoning(message: Message) -> list[Reasoning]:
    """Return a message's reasoning: one part for each carrier, with the text that belongs to it.

    Our encoder writes the text of every block into reasoning_content and repeats it in the details of all blocks
    but the first, so the first one's text is what the others leave of it.
    """
    details = message.reasoning_details or []
    plain = message.reasoning_content or (message.reasoning if isinstance(message.reasoning, str) else "")
    carried = [(entry, state) for entry in details if (state := own_state(entry)) is not None]
    native = [entry for entry in details if own_state(entry) is None]
    text = plain or text_of_details(native)
    parts: list[Reasoning] = []
    for entry, state in reversed(carried[1:]):
        own = text_of_details([entry])
        text = text.removesuffix(own)
        parts.insert(0, Reasoning(own, state))
    if carried:
        return [Reasoning(text, carried[0][1]), *parts]
    state = State(text_of(native), native="chat") if any(_opaque(entry) for entry in native) else None
    return [Reasoning(text, state)] if text or state else []


def _opaque(entry: dict[str, object]) -> bool:
    return any(isinstance(value := entry.get(name), str) and value for name in ("data", "signature"))
