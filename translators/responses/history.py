"""Write turns as the `input` items of a Responses upstream (spec/translation.md 3.2, 3.5).

Keeps the order of the parts, splits assistant text at calls, puts a reasoning item directly before the item
it belongs to, and sends opaque state only to the origin that it came from (I17).
"""

import base64
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
    place,
)
from translators.dialect import Target
from translators.identifiers import call_id_for_openai
from translators.media import data_uri, image_url
from translators.notes import Notes
from translators.toolbox import Toolbox, wrap

__all__ = ["input_items"]

Wire = dict[str, Any] | msgspec.Raw


def input_items(conversation: Conversation, box: Toolbox, target: Target, notes: Notes) -> list[Wire]:
    """Return the input items of adjacent turns, at least one; notes what an upstream of this kind cannot take."""
    writer = _Writer(conversation.dialect == "responses", box, target, notes)
    for turn in conversation.turns:
        writer.turn(turn)
    last = writer.items[-1] if writer.items else None
    if isinstance(last, dict) and last.get("role") == "assistant" and conversation.dialect != "responses":
        notes.changed(conversation.turns[-1].at, "the answer's beginning is sent as an assistant message")
    # The API refuses an empty input, which a request of instructions only would be.
    return writer.items or [_message("user", [{"type": "input_text", "text": " "}])]


class _Writer:
    def __init__(self, same: bool, box: Toolbox, target: Target, notes: Notes) -> None:
        self._same = same
        self._box = box
        self._target = target
        self._notes = notes
        self._custom: set[str] = set()
        self._run: list[dict[str, Any]] = []
        self._waiting: list[dict[str, Any]] = []
        self.items: list[Wire] = []

    def turn(self, turn: Turn) -> None:
        for part in turn.parts:
            self._part(part, turn)
        self._flush(turn)
        if self._waiting:
            self._waiting.clear()
            self._notes.omitted(turn.at, "reasoning with no item after it is left out")

    def _part(self, part: Part, turn: Turn) -> None:
        match part:
            case Text():
                self._text(part, turn)
            case Image():
                self._run.append(self._image(part, turn.at))
            case Document():
                self._run.append(_file(part))
            case ToolCall():
                self._item(self._call(part), turn)
            case ToolResult():
                self._item(self._result(part, place(part, turn.at)), turn)
            case Reasoning():
                self._reasoning(part, turn)
            case Receipt():
                self._item(_receipt(part), turn)
            case Opaque():
                self._opaque(part, turn)

    def _item(self, item: Wire, turn: Turn) -> None:
        self._flush(turn)
        self._put(item)

    def _put(self, item: Wire) -> None:
        self.items.extend(self._waiting)
        self._waiting.clear()
        self.items.append(item)

    def _flush(self, turn: Turn) -> None:
        """End the run of text and media: it becomes one message."""
        if self._run:
            role = "developer" if turn.role == "system" else turn.role
            self._put(_message(role, self._run))
            self._run = []

    def _text(self, part: Text, turn: Turn) -> None:
        if not part.text:
            return
        if turn.role != "assistant":
            self._run.append({"type": "input_text", "text": part.text})
        elif part.refusal:
            self._run.append({"type": "refusal", "refusal": part.text})
        else:
            self._run.append({"type": "output_text", "text": part.text, **_annotations(part)})

    def _image(self, image: Image, at: str) -> dict[str, Any]:
        if not self._target.traits.image_input:
            self._notes.dropped(at, "the model takes no images", code="unsupported_content")
            return {"type": "input_text", "text": "[image]"}
        return {"type": "input_image", "image_url": image_url(image), "detail": image.detail or "auto"}

    def _call(self, call: ToolCall) -> dict[str, Any]:
        name = self._box.wire(call.name, call.namespace)
        entry = self._box.find(name)
        space = {} if call.namespace is None or self._box.flat else {"namespace": call.namespace}
        call_id = call_id_for_openai(call.id)
        if not call.custom:
            arguments = call.arguments or "{}"
        elif entry is not None and entry.wrapped:
            arguments = wrap(call.arguments)
        else:
            self._custom.add(call_id)
            return {"type": "custom_tool_call", "call_id": call_id, **space, "name": name, "input": call.arguments}
        return {"type": "function_call", "call_id": call_id, **space, "name": name, "arguments": arguments}

    def _result(self, result: ToolResult, at: str) -> dict[str, Any]:
        call_id = call_id_for_openai(result.call_id)
        if result.is_error:
            self._notes.changed(at, "a failed tool result begins with ERROR")
        # By the kind of the call, which a client of another protocol does not repeat on the result.
        kind = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
        return {"type": kind, "call_id": call_id, "output": self._output(result, at)}

    def _output(self, result: ToolResult, at: str) -> str | list[dict[str, Any]]:
        mark = "ERROR: " if result.is_error else ""
        match result.parts:
            case ():
                return mark
            case (Text(text=text),):
                return mark + text
        parts: list[dict[str, Any]] = []
        for part in result.parts:
            if isinstance(part, Text):
                parts.append({"type": "input_text", "text": part.text})
            else:
                parts.append(self._image(part, at) if isinstance(part, Image) else _file(part))
        if mark and parts[0]["type"] == "input_text":
            parts[0]["text"] = mark + parts[0]["text"]
        elif mark:
            parts.insert(0, {"type": "input_text", "text": mark})
        return parts

    def _reasoning(self, part: Reasoning, turn: Turn) -> None:
        self._flush(turn)
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        carried = unseal(part.state, ("rs",), self._target.origin)
        if carried is not None:
            item_id, content = carried.id, carried.data
        elif part.state is not None and part.state.native == "responses" and self._same:
            item_id, content = part.state.id, part.state.value
        else:
            self._notes.omitted(place(part, turn.at), "reasoning of another origin is left out")
            return
        named = {"id": item_id} if item_id else {}
        self._waiting.append({"type": "reasoning", **named, "summary": summary, "encrypted_content": content})

    def _opaque(self, part: Opaque, turn: Turn) -> None:
        if part.dialect == "responses":
            self._item(msgspec.Raw(part.raw), turn)
            return
        self._flush(turn)
        self._waiting.clear()
        at = place(part, turn.at)
        self._notes.dropped(at, f"{part.kind} has no equal in a Responses request", code="unsupported_content")


def _message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _annotations(part: Text) -> dict[str, Any]:
    if not part.citations:
        return {}
    return {
        "annotations": [
            {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": len(part.text)}
            for url, title in part.citations
        ]
    }


def _file(document: Document) -> dict[str, Any]:
    if document.url:
        return {"type": "input_file", "file_url": document.url}
    if document.text is not None:
        data = data_uri("text/plain", base64.b64encode(document.text.encode("utf-8", "surrogatepass")).decode())
        return {"type": "input_file", "filename": document.title or "document.txt", "file_data": data}
    name = document.title or "document.pdf"
    return {"type": "input_file", "filename": name, "file_data": data_uri(document.media_type, document.data)}


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "type": "mcp_call",
        "id": receipt.id,
        "server_label": receipt.server,
        "name": receipt.name,
        "arguments": receipt.arguments or "{}",
        "output": receipt.output,
        "error": receipt.error,
    }
