"""The scripted model behind the gateway: it answers by what it is sent, in the dialect that it is asked in.

It knows the clients' tools by name only as far as it must: which one runs a shell command, and how its arguments look
is read from the declared schema. So a run shows that the declaration, the call and the result all came through.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.clients.upstreams import Kind
from tests.streams import STREAM, WHOLE, Block, Call, Say, Think, Turn
from tests.upstream import Delay, End, Reply, Request, reply_json, sse

ANSWER = 'This is the whole answer: caf\u00e9 \u2713 \U0001f980, `a < b && c > "d"`, the end.'
MARK = "caf\u00e9 \u2713 \U0001f980"
THOUGHT = "First I look at the file. Then I say what is in it."
SEAL = "c2NyaXB0ZWQgc3RhdGU="  # what a vendor would decrypt: it may only come back here
TOKEN = re.compile(r"token-[0-9a-f]{16}")
DIALECTS = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
SHELLS = ("Bash", "bash", "exec_command", "run_terminal_command", "run_commands", "exec")
COMMANDS = ("command", "cmd", "commands", "input")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the upstream sees it declared."""

    name: str
    schema: dict[str, Any]
    namespace: str | None = None
    custom: bool = False

    def is_called(self, name: str) -> bool:
        """Whether this is the client's tool of that name, or the flat name that a namespace's tool was given."""
        return self.name == name or self.name.endswith(f"__{name}")

    def call(self, text: str, call_id: str) -> Call:
        """A call with the text as its free input, or as the one argument that takes a command."""
        arguments = text if self.custom else json.dumps(self._arguments(text), ensure_ascii=False)
        return Call(self.name, arguments, call_id, self.namespace, self.custom)

    def _arguments(self, text: str) -> dict[str, Any]:
        known: dict[str, Any] = self.schema.get("properties", {})
        filler: dict[str, Any] = {"string": "scripted", "integer": 1, "number": 1, "boolean": False, "array": []}
        arguments = {name: filler[known[name]["type"]] for name in self.schema.get("required", ()) if name in known}
        for name, schema in known.items():
            if name in COMMANDS:
                arguments[name] = [text] if schema.get("type") == "array" else text
        return arguments


def declared(body: dict[str, Any]) -> Iterator[Tool]:
    """The tools that a request of any dialect declares."""
    listed = list(body.get("tools") or ())
    for item in body.get("input") or () if isinstance(body.get("input"), list) else ():
        if item.get("type") == "additional_tools":
            listed += item["tools"]
    for tool in listed:
        if tool.get("type") == "namespace":
            yield from (declaration(child, tool["name"]) for child in tool["tools"])
        elif "name" in (inner := tool.get("function") or tool.get("custom") or tool):
            yield declaration(inner | {"type": tool.get("type")})


def declaration(tool: dict[str, Any], namespace: str | None = None) -> Tool:
    schema = tool.get("parameters") or tool.get("input_schema") or {}
    return Tool(tool["name"], schema, namespace, custom=tool.get("type") == "custom")


def results(body: dict[str, Any]) -> dict[str, str]:
    """The texts of all tool results in a request of any dialect, by the id of their call."""
    found = {}
    for item in body.get("messages") or body.get("input") or ():
        if item.get("role") == "tool":
            found[item["tool_call_id"]] = as_text(item.get("content"))
        elif str(item.get("type")).endswith("_call_output"):
            found[item["call_id"]] = as_text(item["output"])
        elif isinstance(item.get("content"), list):
            parts = (part for part in item["content"] if part.get("type") == "tool_result")
            found |= {part["tool_use_id"]: as_text(part["content"]) for part in parts}
    return found


def as_text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(as_text(part) for part in value)
    return str(value.get("text", "")) if isinstance(value, dict) else str(value or "")


@dataclass(slots=True)
class Scene:
    """What the model does in one run. `calls` are (tool name, text) pairs; without any it just answers.

    `busy` answers the first turn with a 429, `cut` breaks every stream off in its middle, and `early` ends it there
    as if that were all.
    """

    calls: list[tuple[str, str]] = field(default_factory=list)
    think: bool = False
    fault: Literal["", "busy", "cut", "early"] = ""

    def blocks(self, body: dict[str, Any], tag: str) -> list[Block]:
        thought: list[Block] = [Think(THOUGHT, SEAL)] if self.think else []
        if not self.calls:
            return [*thought, Say(ANSWER)]
        if told := results(body):  # clients send the results of parallel calls in any order
            tokens = TOKEN.findall("\n".join(told[call_id] for call_id in sorted(told)))
            return [Say(f"It holds {' and '.join(tokens)}.")]
        tools = list(declared(body))
        return [
            *thought,
            *(pick(tools, name).call(text, f"call_{tag}_{i}") for i, (name, text) in enumerate(self.calls)),
        ]


def pick(tools: list[Tool], name: str) -> Tool:
    """The declared tool of that name; `shell` is any that runs a command."""
    for wanted in SHELLS if name == "shell" else (name,):
        for tool in tools:
            if tool.is_called(wanted):
                return tool
    raise LookupError(f"no tool {name!r} among {[tool.name for tool in tools]}")


class Model:
    """The script of an `Upstream`: one scene at a time, and the requests that belong to it.

    Side requests (Grok Build asks for a title with a forced tool, before or beside its first turn) are answered and
    kept apart, so that `turns` counts what the user's prompt cost.
    """

    def __init__(self, kind: Kind | None = None) -> None:
        self.kind = kind  # without one: plain streams in the dialect of the path
        self.scene = Scene()
        self.turns: list[Request] = []
        self.called: list[str] = []  # the ids of the calls that the scene made
        self.answered = 0
        self.problem = ""

    def begin(self, scene: Scene) -> None:
        self.scene, self.turns, self.called, self.problem = scene, [], [], ""

    def __call__(self, request: Request) -> Reply:
        dialect = next((name for end, name in DIALECTS.items() if request.path.endswith(end)), None)
        if request.method != "POST" or dialect is None:
            return reply_json({"error": {"type": "not_found_error", "message": "no such path"}}, 404)
        self.answered += 1
        tag, body = str(self.answered), request.json
        try:
            blocks = self._blocks(request, body, tag)
        except LookupError as problem:
            return self._refuse(str(problem))
        if self.kind and (wrong := self.kind.refuse(body)):
            return self._refuse(wrong)
        fault = self.scene.fault if request in self.turns else ""
        if fault == "busy" and len(self.turns) == 1:
            error = {"type": "rate_limit_error", "message": "scripted rate limit"}
            return reply_json({"type": "error", "error": error}, 429, headers=[("retry-after", "1")])
        turn = Turn(blocks, model=body["model"], tag=tag)
        if not body.get("stream"):
            return reply_json(WHOLE[dialect](turn))
        frames = self.kind.dress(STREAM[dialect](turn)) if self.kind else STREAM[dialect](turn)
        if fault in ("cut", "early"):
            end = [End.CLOSE] if fault == "cut" else []
            return [*sse(frames[: len(frames) // 2]), Delay(0.05), *end]
        return sse(frames)

    def _refuse(self, problem: str) -> Reply:
        """A 400, which ends every client's run; the test shows the reason."""
        self.problem = self.problem or problem
        return reply_json({"error": {"type": "invalid_request_error", "message": problem}}, 400)

    def _blocks(self, request: Request, body: dict[str, Any], tag: str) -> list[Block]:
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and (name := (choice.get("function") or choice).get("name")):
            return [pick(list(declared(body)), name).call("scripted", f"call_{tag}")]
        self.turns.append(request)
        blocks = self.scene.blocks(body, tag)
        self.called += [block.id for block in blocks if isinstance(block, Call)]
        return blocks
