"""Write system text and turns as Chat messages (spec/translation.md 1.10 to 1.12, 3.1, 3.3)."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec

from translators.carrier import unseal
from translators.conversation import (
    Conversation,
    Document,
    Image,
    Opaque,
    Part,
    Reasoning,
    Receipt,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    located,
    place,
)
from translators.dialect import Target
from translators.fault import refuse
from translators.identifiers import call_id_for_openai
from translators.instructions import joined
from translators.jsonio import ERRORS
from translators.media import data_uri, image_url
from translators.notes import Notes
from translators.toolbox import Toolbox, wrap

__all__ = ["FILE_NOTE", "IMAGE_NOTE", "rendered_messages"]

IMAGE_NOTE = "[image]"
"""Stands in a tool message's text for an image that follows in a user message."""
FILE_NOTE = "[file]"
"""The same for a file that is no text."""

_ERROR = "ERROR: "
_NO_IMAGES = "[image left out: the model takes no images]"

_details = msgspec.json.Decoder(list[msgspec.Raw]).decode


def rendered_messages(
    conversation: Conversation, toolbox: Toolbox, target: Target, notes: Notes
) -> list[dict[str, Any]]:
    """Return the `messages` list; turns are adjacent already (adjacency.py). Raises Refused for foreign content."""
    writer = _Writer(conversation.dialect == "chat", toolbox, target, notes)
    instructions = joined(conversation)
    if instructions:
        writer.out.append({"role": target.traits.system_role, "content": instructions})
    for turn in _merged(conversation):
        writer.write(turn)
    if writer.out and writer.out[-1]["role"] == "assistant" and "tool_calls" not in writer.out[-1]:
        notes.changed(conversation.turns[-1].at, "the answer's beginning is sent as an assistant message")
    if not any(message["role"] in ("user", "assistant", "tool") for message in writer.out) and not writer.same:
        writer.out.append({"role": "user", "content": " "})
    return writer.out


def _merged(conversation: Conversation) -> Iterable[Turn]:
    """Return the turns with an assistant's text and its calls in one, which Responses keeps in separate items."""
    turns = conversation.turns
    if conversation.dialect == "chat" or not any(a.role == b.role == "assistant" for a, b in pairwise(turns)):
        return turns
    out: list[Turn] = []
    for turn in turns:
        if out and _joins(out[-1], turn):
            moved = [located(part, turn.at) for part in turn.parts]
            out[-1] = Turn("assistant", (*out[-1].parts, *moved), out[-1].at)
        else:
            out.append(turn)
    return out


def _joins(before: Turn, turn: Turn) -> bool:
    if before.role != "assistant" or turn.role != "assistant":
        return False
    called = any(isinstance(part, ToolCall) for part in before.parts)
    spoke = any(isinstance(part, Text) for part in before.parts)
    speaks = any(isinstance(part, Text) for part in turn.parts)
    return not called and not (spoke and speaks)


class _Writer:
    """Append the messages of one turn after the other. `same`: the client speaks Chat too, so nothing is dropped."""

    def __init__(self, same: bool, toolbox: Toolbox, target: Target, notes: Notes) -> None:
        self.out: list[dict[str, Any]] = []
        self.same = same
        self._toolbox = toolbox
        self._target = target
        self._notes = notes

    def write(self, turn: Turn) -> None:
        if turn.role == "assistant":
            self._assistant(turn)
        elif turn.role == "user":
            self._user(turn)
        else:
            self._instructions(turn)

    def _instructions(self, turn: Turn) -> None:
        texts = []
        for part in turn.parts:
            if not isinstance(part, Text):
                raise refuse(
                    f"{turn.at}: only text is possible in a {turn.role} message",
                    param=turn.at,
                    code="unsupported_content",
                )
            texts.append(part.text)
        traits = self._target.traits
        role = "developer" if turn.role == "developer" and traits.developer_role else traits.system_role
        content = "\n\n".join(text for text in texts if text)
        if content:
            self.out.append({"role": role, "content": content})

    def _user(self, turn: Turn) -> None:
        media: list[Image | Document] = []
        rest: list[Part] = []
        for part in turn.parts:
            if isinstance(part, ToolResult):
                self._result(part, place(part, turn.at), media)
            else:
                rest.append(part)
        content = [wire for part in (*media, *rest) for wire in self._content(part, place(part, turn.at))]
        if not content:
            return
        texts = [part for part in content if part["type"] == "text"]
        filled = [part for part in content if part["type"] != "text" or part["text"]] or content[:1]
        if len(filled) == 1 and texts and filled[0]["type"] == "text":
            self.out.append({"role": "user", "content": filled[0]["text"]})
        else:
            self.out.append({"role": "user", "content": filled})

    def _result(self, result: ToolResult, at: str, media: list[Image | Document]) -> None:
        texts: list[str] = []
        for part in result.parts:
            if isinstance(part, Image):
                if self._target.traits.image_input:
                    media.append(part)
                    texts.append(IMAGE_NOTE)
                    self._notes.changed(at, "a tool's image follows in a user message")
                else:
                    texts.append(self._no_image(at))
            elif not isinstance(part, Document):
                texts.append(part.text)
            elif part.text is not None:
                texts.append(self._told(part, part.text, at))
            else:
                media.append(part)
                texts.append(FILE_NOTE)
                self._notes.changed(at, "a tool's file follows in a user message")
        text = "\n".join(texts)
        if result.is_error:
            self._notes.changed(at, "a failed tool result begins with ERROR")
            text = _ERROR + text
        self.out.append({"role": "tool", "tool_call_id": call_id_for_openai(result.call_id), "content": text})

    def _told(self, document: Document, text: str, at: str) -> str:
        self._notes.changed(at, "a document is sent as text")
        return f"{document.title}\n\n{text}" if document.title else text

    def _no_image(self, at: str) -> str:
        self._notes.dropped(at, "the model takes no images", "unsupported_content")
        return _NO_IMAGES

    def _content(self, part: Part, at: str) -> Iterator[dict[str, Any]]:
        match part:
            case Text(text=text):
                yield {"type": "text", "text": text}
            case Image() if self._target.traits.image_input:
                url = {"url": image_url(part)}
                yield {"type": "image_url", "image_url": {**url, "detail": part.detail} if part.detail else url}
            case Image():
                yield {"type": "text", "text": self._no_image(at)}
            case Document(text=str(text)):
                yield {"type": "text", "text": self._told(part, text, at)}
            case Document():
                yield self._file(part, at)
            case Opaque(kind=kind):
                self._notes.dropped(at, f"{kind} has no form in Chat Completions", "unsupported_content")
            case _:
                raise refuse(f"{at}: this content cannot stand in a user message", param=at, code="unsupported_content")

    def _file(self, document: Document, at: str) -> dict[str, Any]:
        if document.url:
            raise refuse(f"{at}: a file by link cannot be sent", param=at, code="unsupported_content")
        if document.media_type != "application/pdf":
            kind = document.media_type[:80]
            raise refuse(f"{at}: files of type {kind!r} are not supported", param=at, code="unsupported_content")
        file = {"file_data": data_uri(document.media_type, document.data), "filename": document.title or "document.pdf"}
        return {"type": "file", "file": file}

    def _assistant(self, turn: Turn) -> None:
        texts, refusals, calls, reasoning = [], [], [], []
        for part in turn.parts:
            match part:
                case Text(refusal=True):
                    refusals.append(part.text)
                case Text():
                    texts.append(part.text)
                    if part.citations:
                        self._notes.omitted(place(part, turn.at), "citations of web pages have no form here")
                case ToolCall():
                    calls.append(self._call(part))
                case Reasoning():
                    reasoning.append(part)
                case Receipt() | Opaque():
                    name = part.kind if isinstance(part, Opaque) else part.name
                    at = place(part, turn.at)
                    self._notes.dropped(at, f"{name} of a hosted tool has no form here", "unsupported_content")
                case _:
                    raise refuse(f"{turn.at}: only text can be sent back", param=turn.at, code="unsupported_content")
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
        if refusals and any(refusals):
            message["refusal"] = "".join(refusals)
        message.update(self._thought(reasoning, place(reasoning[0], turn.at) if reasoning else turn.at))
        if calls:
            message["tool_calls"] = calls
        if len(message) > 2 or message["content"]:
            # Servers want content or calls; reasoning alone is a turn of no text.
            if not calls and "refusal" not in message and message["content"] is None:
                message["content"] = ""
            self.out.append(message)

    def _call(self, call: ToolCall) -> dict[str, Any]:
        name = self._toolbox.wire(call.name, call.namespace)
        call_id = call_id_for_openai(call.id)
        entry = self._toolbox.find(name)
        wrapped = entry.wrapped if entry else not self._target.traits.custom_tools
        if call.custom and not wrapped:
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": call.arguments}}
        arguments = wrap(call.arguments) if call.custom else call.arguments or "{}"
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _thought(self, parts: list[Reasoning], at: str) -> dict[str, Any]:
        """Return the fields that give a model its own reasoning back: state to its origin, text where it is wanted."""
        out: dict[str, Any] = {}
        details = [entry for part in parts for entry in self._state(part)]
        texts = [part.text for part in parts if part.text]
        if texts and (self._target.traits.reasoning_replay or (self.same and not details)):
            out["reasoning_content"] = "\n\n".join(texts)
        if details:
            out["reasoning_details"] = details
        if parts and not out:
            self._notes.omitted(at, "earlier reasoning is not sent to this model")
        return out

    def _state(self, part: Reasoning) -> list[msgspec.Raw]:
        carried = unseal(part.state, ("rd",), self._target.origin)
        native = part.state.value if self.same and part.state and part.state.native == "chat" else None
        listed = carried.data if carried else native
        try:
            return _details(listed) if listed else []
        except (*ERRORS, UnicodeEncodeError):
            return []
