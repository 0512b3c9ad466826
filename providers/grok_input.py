"""Input items in the few shapes that the Grok CLI's upstream decodes (spec/grok.md 7.1, 11.5). Pure.

Four shapes leave here: messages, reasoning, function calls with exactly four members, outputs as text. What has no
such shape becomes text where it tells the model something, and goes where it does not.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Container
from typing import Any

from translators.jsonio import encode

__all__ = ["items", "token"]

Json = dict[str, Any]

OPENAI_SEAL = "gAAAA"
"""Encrypted reasoning of OpenAI begins so; it must not be sent here."""


def token(encrypted: str) -> str:
    """Return the name under which the origin of encrypted reasoning is remembered."""
    return hashlib.sha256(encrypted.encode("utf-8", "surrogatepass")).hexdigest()


def items(given: Any, *, sealed: bool, known: Container[str] | None) -> tuple[list[Json], list[Json]]:
    """Return the input in strict shapes, and tools that stood among the items."""
    if isinstance(given, str):
        return [_said("user", given)], []
    writer = _Writer(sealed, known)
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict):
            writer.add(item)
    writer.finish()
    return writer.made, writer.lifted


class _Writer:
    def __init__(self, sealed: bool, known: Container[str] | None) -> None:
        self._sealed = sealed
        self._known = known
        self._pictures: list[Json] = []
        self.made: list[Json] = []
        self.lifted: list[Json] = []

    def add(self, item: Json) -> None:
        kind = item.get("type") or ("message" if item.get("role") else "")
        if kind not in ("function_call_output", "custom_tool_call_output"):
            self.finish()  # pictures of outputs follow the whole run, so that the run stays together
        write = _WRITERS.get(str(kind))
        if write is not None:
            write(self, item)

    def finish(self) -> None:
        """Write the pictures that outputs had, which strings cannot hold."""
        if self._pictures:
            text = {"type": "input_text", "text": "Images from the tool output above:"}
            self.made.append({"type": "message", "role": "user", "content": [text, *self._pictures]})
            self._pictures = []

    def _message(self, item: Json) -> None:
        role = item.get("role")
        role = "system" if role == "developer" else role if role in ("system", "assistant") else "user"
        content = item.get("content")
        if isinstance(content, str):
            self._say(role, content)
            return
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        pictures = any(part.get("type") == "input_image" for part in parts)
        if role != "user" or not pictures:
            self._say(role, "".join(_text(part) for part in parts))
            return
        written = [_picture(part) or {"type": "input_text", "text": _text(part)} for part in parts]
        self.made.append({"type": "message", "role": role, "content": [part for part in written if _full(part)]})

    def _say(self, role: str, text: str) -> None:
        if text:
            self.made.append(_said(role, text))

    def _call(self, item: Json) -> None:
        arguments = item.get("arguments")
        if item.get("type") == "custom_tool_call":
            arguments = encode({"input": item.get("input") or ""}).decode()
        elif arguments is None or (isinstance(arguments, str) and not arguments.strip()):
            arguments = "{}"
        elif not isinstance(arguments, str):
            arguments = encode(arguments).decode()
        name = f"{item['namespace']}__{item.get('name')}" if item.get("namespace") else item.get("name")
        call = {"type": "function_call", "call_id": item.get("call_id"), "name": name, "arguments": arguments}
        self.made.append(call)

    def _output(self, item: Json) -> None:
        output = item.get("output")
        if isinstance(output, list):
            pictures = [picture for part in output if isinstance(part, dict) and (picture := _picture(part))]
            self._pictures.extend(pictures)
            texts = [_entry(part) for part in output if not (isinstance(part, dict) and _picture(part))]
            output = "\n".join(texts)
        elif output is None:
            output = ""
        elif not isinstance(output, str):
            output = encode(output).decode()
        self.made.append({"type": "function_call_output", "call_id": item.get("call_id"), "output": output})

    def _reasoning(self, item: Json) -> None:
        summary = [{"type": "summary_text", "text": text} for text in _texts(item.get("summary")) if text]
        content = [{"type": "reasoning_text", "text": text} for text in _texts(item.get("content")) if text]
        encrypted = item.get("encrypted_content")
        passed = isinstance(encrypted, str) and bool(encrypted) and self._passes(encrypted)
        if not (summary or content or passed):
            return
        made: Json = {"type": "reasoning"}
        if isinstance(item.get("id"), str) and item["id"]:
            made["id"] = item["id"]
        made["summary"] = summary
        if content:
            made["content"] = content
        if passed:
            made["encrypted_content"] = encrypted
        self.made.append(made)

    def _passes(self, encrypted: str) -> bool:
        if not self._sealed or encrypted.startswith(OPENAI_SEAL):
            return False
        return self._known is None or token(encrypted) in self._known

    def _found_tools(self, item: Json) -> None:
        names = ", ".join(str(tool["name"]) for tool in self._lift(item) if tool.get("name"))
        if names:
            self._say("system", f"These tools are available now: {names}")

    def _more_tools(self, item: Json) -> None:
        self._lift(item)

    def _lift(self, item: Json) -> list[Json]:
        tools = item.get("tools")
        found = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
        self.lifted.extend(found)
        return found

    def _agent(self, item: Json) -> None:
        content = item.get("content")
        text = content if isinstance(content, str) else "".join(_texts(content))
        if text:
            names = f"{item.get('author') or '?'} -> {item.get('recipient') or '?'}"
            self._say("system", f"Agent message ({names}):\n{text}")

    def _shell(self, item: Json) -> None:
        action = encode(item.get("action")).decode()
        self._say("assistant", f"Ran a local shell command ({item.get('status') or 'unknown'}): {action}")

    def _shell_output(self, item: Json) -> None:
        self._say("user", f"Output of the local shell command: {_entry(item.get('output'))}")

    def _mcp_output(self, item: Json) -> None:
        self._say("system", f"Output of tool call {item.get('call_id')}: {_entry(item.get('output'))}")


_WRITERS: dict[str, Callable[[_Writer, Json], None]] = {
    "message": _Writer._message,
    "function_call": _Writer._call,
    "custom_tool_call": _Writer._call,
    "function_call_output": _Writer._output,
    "custom_tool_call_output": _Writer._output,
    "reasoning": _Writer._reasoning,
    "additional_tools": _Writer._more_tools,
    "tool_search_output": _Writer._found_tools,
    "agent_message": _Writer._agent,
    "local_shell_call": _Writer._shell,
    "local_shell_call_output": _Writer._shell_output,
    "mcp_tool_call_output": _Writer._mcp_output,
}
"""Every type that says something here; all others (hosted calls, compaction, what is new) are left out."""


def _said(role: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": text}


def _full(part: Json) -> bool:
    return part["type"] != "input_text" or bool(part["text"])


def _picture(part: Json) -> Json | None:
    url = part.get("image_url")
    if part.get("type") != "input_image" or not isinstance(url, str):
        return None
    detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
    return {"type": "input_image", "image_url": url, **detail}


def _text(part: Json) -> str:
    for name in ("text", "refusal"):
        if isinstance(part.get(name), str):
            return str(part[name])
    return _file(part) if part.get("type") == "input_file" else ""


def _file(part: Json) -> str:
    """Return a text file as text; of others the model learns that there was one."""
    name = part.get("filename") or part.get("file_url") or "document"
    data = part.get("file_data")
    if isinstance(data, str) and data.startswith("data:text/"):
        try:
            text = base64.b64decode(data.partition(",")[2], validate=True).decode()
        except (binascii.Error, ValueError):
            text = ""
        return f"[file {name}]\n{text}\n"
    return f"[file {name}: this model takes no files of its type]"


def _texts(parts: Any) -> list[str]:
    if not isinstance(parts, list):
        return []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def _entry(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and _text(part):
        return _text(part)
    return "" if part is None else encode(part).decode()
