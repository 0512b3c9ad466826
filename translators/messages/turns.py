"""A neutral history, written as the `messages` of a Messages request (spec/translation.md 1.11, 1.12, 3.4, 3.6).

Promises the shape that the API wants: the first message is the user's, roles alternate, tool results lead a user
message, calls end an assistant message, no text is empty. Opaque reasoning goes back only to its origin (I17).
"""

from typing import Any

from msgspec import Raw

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
from translators.fault import refuse
from translators.identifiers import call_id_for_messages
from translators.jsonio import is_object
from translators.media import IMAGE_TYPES
from translators.messages.receipt import receipt_blocks
from translators.notes import Notes
from translators.toolbox import Toolbox, wrap

__all__ = ["History"]

Json = dict[str, Any]

BLANK = " "
"""Text of a user message that the API wants but the client did not write; it refuses an empty one."""

_SYSTEM = ("system", "developer")


class History:
    """Write the turns of one conversation. `system` afterwards has the texts of turns before the first message."""

    def __init__(self, conversation: Conversation, toolbox: Toolbox, target: Target, notes: Notes) -> None:
        self.system: list[Text] = []
        self._native = conversation.dialect == "messages"
        self._turns = conversation.turns
        self._toolbox = toolbox
        self._target = target
        self._notes = notes
        self._messages: list[Json] = []
        self._instructed = ""

    def messages(self) -> list[Json]:
        """Return the messages; raises Refused for content that this protocol cannot carry."""
        for turn in self._turns:
            if turn.role in _SYSTEM:
                self._instruct(turn)
            elif turn.role == "user":
                self._add("user", [block for part in turn.parts for block in self._asked(part, place(part, turn.at))])
            else:
                self._add(
                    "assistant", [block for part in turn.parts for block in self._answered(part, place(part, turn.at))]
                )
        if not self._messages or self._messages[0]["role"] != "user":
            if self._messages:
                self._notes.changed(self._turns[0].at, "a blank user message is put before the first assistant message")
            self._messages.insert(0, {"role": "user", "content": [_text(BLANK)]})
        for message in self._messages:
            _order(message)
        return self._messages

    def _add(self, role: str, blocks: list[Json | Raw]) -> None:
        if not blocks:
            return
        if role == "user" and self._messages and self._messages[-1]["role"] == "system":
            # Role system is taken before the assistant or at the end only.
            self._remind()
        if self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"].extend(blocks)
        else:
            self._messages.append({"role": role, "content": blocks})

    def _instruct(self, turn: Turn) -> None:
        """Put instructions where they stand: hoisting them would change what they apply to (1.11)."""
        texts = [part for part in turn.parts if isinstance(part, Text) and part.text]
        if len(texts) != sum(not (isinstance(part, Text) and not part.text) for part in turn.parts):
            raise refuse(f"{turn.at}: a system message takes text only", param=turn.at, code="unsupported_content")
        if not texts:
            return
        if not self._messages:
            self.system.extend(texts)
            return
        self._add("system", [_text(part.text) for part in texts])
        self._instructed = turn.at
        if not self._may_instruct():
            self._remind()

    def _may_instruct(self) -> bool:
        """Tell whether the API takes the last message as role system: behind the user or a server tool."""
        before = self._messages[-2]
        if before["role"] == "assistant":
            block = before["content"][-1]
            behind = isinstance(block, Raw) and b"_tool_result" in bytes(block)
        else:
            behind = True
        return behind and self._target.traits.mid_system

    def _remind(self) -> None:
        """Turn the last message, of role system, into the user's text; it keeps its place."""
        told = "\n\n".join(block["text"] for block in self._messages.pop()["content"])
        self._notes.changed(self._instructed, "the system message becomes a reminder in the user's text")
        self._add("user", [_text(f"<system-reminder>\n{told}\n</system-reminder>")])

    def _asked(self, part: Part, at: str) -> list[Json | Raw]:
        if isinstance(part, ToolResult):
            return [self._result(part, at)]
        if isinstance(part, Opaque):
            return self._opaque(part, at)
        return list(self._shown(part, at))

    def _answered(self, part: Part, at: str) -> list[Json | Raw]:
        match part:
            case Reasoning():
                return list(self._reasoning(part, at))
            case ToolCall():
                return [self._call(part, at)]
            case Receipt():
                return list(receipt_blocks(part))
            case Opaque():
                return self._opaque(part, at)
            case Text(refusal=True):
                self._notes.changed(at, "a refusal is sent as plain text")
                return list(self._shown(part, at))
            case Image() | Document():
                raise refuse(f"{at}: an assistant message takes no files", param=at, code="unsupported_content")
            case _:
                return list(self._shown(part, at))

    def _shown(self, part: Part, at: str) -> list[Json]:
        match part:
            case Text(text=text):
                if part.citations:
                    self._notes.omitted(at, "citations of web pages have no form here")
                return [_text(text)] if text else []
            case Image():
                return [self._image(part, at)]
            case Document():
                return [_document(part, at)]
            case _:
                raise refuse(f"{at}: this content may not stand here", param=at, code="unsupported_content")

    def _image(self, image: Image, at: str) -> Json:
        if not self._target.traits.image_input:
            self._notes.dropped(at, "the model takes no images", "unsupported_content")
            return _text("[image]")
        if image.url:
            return {"type": "image", "source": {"type": "url", "url": image.url}}
        if image.media_type not in IMAGE_TYPES:
            told = f"{at}: images of type {image.media_type[:64]!r} are not supported"
            raise refuse(told, param=at, code="unsupported_content")
        return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}

    def _result(self, result: ToolResult, at: str) -> Json:
        block: Json = {"type": "tool_result", "tool_use_id": call_id_for_messages(result.call_id)}
        if len(result.parts) == 1 and isinstance(result.parts[0], Text):
            block["content"] = result.parts[0].text
        elif result.parts:
            block["content"] = [block for part in result.parts for block in self._shown(part, at)]
        if result.is_error:
            block["is_error"] = True
        return block

    def _call(self, call: ToolCall, at: str) -> Json:
        arguments = wrap(call.arguments) if call.custom else self._object(call.arguments, at)
        return {
            "type": "tool_use",
            "id": call_id_for_messages(call.id),
            "name": self._toolbox.wire(call.name, call.namespace),
            "input": Raw(arguments.encode()),
        }

    def _object(self, arguments: str, at: str) -> str:
        """Return arguments as the object that `input` has to be (1.13)."""
        if not arguments.strip():
            return "{}"
        if is_object(arguments):
            return arguments
        if self._notes.strict:
            raise refuse(f"{at}: the tool arguments are not a JSON object", param=at, code="invalid_tool_arguments")
        self._notes.changed(at, 'tool arguments that are no JSON object are sent under "input"')
        return wrap(arguments)

    def _reasoning(self, part: Reasoning, at: str) -> list[Json]:
        """Return a thinking block only with a signature that this very origin gave (1.6)."""
        state = part.state
        carried = unseal(state, ("th", "rt"), self._target.origin)
        if carried is not None:
            signature, redacted = carried.data, carried.kind == "rt"
        elif state is not None and state.native == "messages" and self._native:
            signature, redacted = state.value, state.redacted
        else:
            self._notes.omitted(at, "reasoning without a signature of this upstream cannot be sent back")
            return []
        if redacted:
            return [{"type": "redacted_thinking", "data": signature}]
        return [{"type": "thinking", "thinking": part.text, "signature": signature}]

    def _opaque(self, part: Opaque, at: str) -> list[Json | Raw]:
        if part.dialect == "messages" and self._native:
            return [Raw(part.raw)]
        self._notes.dropped(at, f"{part.kind[:64]} has no form in Messages", "unsupported_content")
        return []


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _document(document: Document, at: str) -> Json:
    if document.text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": document.text}
    elif document.url:
        source = {"type": "url", "url": document.url}
    elif document.media_type == "application/pdf":
        source = {"type": "base64", "media_type": document.media_type, "data": document.data}
    else:
        raise refuse(
            f"{at}: files of type {document.media_type[:64]!r} are not supported", param=at, code="unsupported_content"
        )
    block: Json = {"type": "document", "source": source}
    if document.title:
        block["title"] = document.title
    return block


def _order(message: Json) -> None:
    """Put results first in a user message and calls last in an assistant message; one plain text stays a string."""
    blocks: list[Json | Raw] = message["content"]
    if message["role"] == "user":
        blocks.sort(key=lambda block: not _is(block, "tool_result"))
    elif message["role"] == "assistant":
        blocks.sort(key=lambda block: _is(block, "tool_use"))
    if len(blocks) == 1 and _is(blocks[0], "text") and message["role"] != "assistant":
        message["content"] = blocks[0]["text"]  # type: ignore[call-overload]


def _is(block: Json | Raw, kind: str) -> bool:
    return isinstance(block, dict) and block["type"] == kind
