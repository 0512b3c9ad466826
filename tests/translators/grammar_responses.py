"""An independent reader of Responses streams: what spec/translation.md 2.2 allows, and nothing else.

Written from the specification with the standard library only, so that it cannot share a mistake with the encoder.
"""

import json
from dataclasses import dataclass, field
from typing import Any

RESPONSE_KEYS = {
    "id", "object", "created_at", "status", "error", "incomplete_details", "instructions", "max_output_tokens",
    "model", "output", "parallel_tool_calls", "previous_response_id", "reasoning", "store", "temperature", "text",
    "tool_choice", "tools", "top_p", "truncation", "usage", "user", "metadata",
}  # fmt: skip
ENDS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
ITEMS = {"message", "reasoning", "function_call", "custom_tool_call", "mcp_call"}
CODES = {
    "server_error", "rate_limit_exceeded", "invalid_prompt", "context_length_exceeded", "insufficient_quota",
}  # fmt: skip


@dataclass
class Call:
    """One tool call as a client ends up with it; `arguments` of a custom call is its raw input."""

    id: str
    name: str
    arguments: str = ""
    custom: bool = False
    namespace: str | None = None
    status: str = ""


@dataclass
class Summary:
    """What a client learns from a stream. `terminal` is completed, incomplete, failed, error, or cut."""

    terminal: str = "cut"
    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    carriers: list[str] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    receipts: list[dict[str, Any]] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    stop: str | None = None
    error: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    types: list[str] = field(default_factory=list)


def check(raw: bytes, *, ended: bool = True) -> Summary:
    """Raise AssertionError unless `raw` is a Responses stream; `ended` false allows a prefix of one."""
    reader = _Reader()
    for number, event in enumerate(_events(raw, ended=ended)):
        assert reader.summary.terminal == "cut", f"{event['type']} after the terminal"
        assert "sequence_number" in event, f"{event['type']} without sequence_number"
        if event["type"] == "error":
            reader.error(event)
            continue
        assert number == event["sequence_number"], (
            f"{event['type']} has number {event['sequence_number']}, not {number}"
        )
        reader.take(number, event)
    if ended:
        assert reader.summary.terminal != "cut", "no terminal event"
    return reader.summary


def _events(raw: bytes, *, ended: bool) -> list[dict[str, Any]]:
    *blocks, tail = raw.decode(errors="strict" if ended else "ignore").split("\n\n")
    assert not ended or not tail, "the last event has no blank line"
    events = []
    for block in blocks:
        lines = block.split("\n")
        if all(line.startswith(":") for line in lines):
            continue
        assert len(lines) == 2, f"an event of {len(lines)} lines"
        assert lines[0].startswith("event: "), "no event line"
        assert lines[1].startswith("data: "), "no data line"
        event = json.loads(lines[1][6:])
        assert lines[0][7:] == event["type"], "the event line and the type differ"
        events.append(event)
    return events


class _Reader:
    """Follow one stream. `item` is the open item, `part` the open part in it."""

    def __init__(self) -> None:
        self.summary = Summary()
        self.first: dict[str, Any] | None = None
        self.item: dict[str, Any] | None = None
        self.part: dict[str, Any] | None = None
        self.parts: list[dict[str, Any]] = []
        self.text = ""
        self.finished = False

    def take(self, number: int, event: dict[str, Any]) -> None:
        kind = event["type"]
        self.summary.types.append(kind)
        if number < 2:
            assert kind == ("response.created", "response.in_progress")[number], f"event {number} is {kind}"
            self._begun(event["response"])
        elif kind in ENDS:
            self._ended(ENDS[kind], event["response"])
        elif kind == "response.output_item.added":
            self._added(event)
        else:
            assert self.item is not None, f"{kind} outside an item"
            assert event["output_index"] == len(self.summary.items), f"{kind} for another item"
            if kind == "response.output_item.done":
                self._done(event)
            else:
                assert event["item_id"] == self.item["id"], f"{kind} for item {event['item_id']}"
                self._inside(kind.removeprefix("response."), event)

    def error(self, event: dict[str, Any]) -> None:
        assert isinstance(event["message"], str)
        assert event["message"], "an error without a message"
        self.summary.terminal, self.summary.error = "error", event

    # ------------------------------------------------------------ the response

    def _lifecycle(self, response: dict[str, Any]) -> None:
        assert response.keys() >= RESPONSE_KEYS, f"missing {RESPONSE_KEYS - response.keys()}"
        assert response["object"] == "response"
        assert response["id"].startswith("resp_")
        assert type(response["created_at"]) is int
        assert response["previous_response_id"] is None or isinstance(response["previous_response_id"], str)
        self.first = self.first or response
        for name in RESPONSE_KEYS - {"status", "error", "incomplete_details", "output", "usage"}:
            assert self.first[name] == response[name], f"{name} changes"

    def _begun(self, response: dict[str, Any]) -> None:
        self._lifecycle(response)
        assert response["status"] == "in_progress"
        assert response["output"] == []
        assert response["usage"] is None
        assert response["error"] is None
        assert response["incomplete_details"] is None

    def _ended(self, status: str, response: dict[str, Any]) -> None:
        self._lifecycle(response)
        assert response["status"] == status
        assert response["output"] == self.summary.items, "the final output is not the done items"
        if status == "failed":
            assert response["error"].keys() == {"code", "message"}
            assert response["error"]["code"] in CODES or response["error"]["code"].endswith("policy")
            assert response["error"]["message"]
            assert response["incomplete_details"] is None
        else:
            assert self.item is None, "an item is still open"
            assert response["error"] is None
        if status == "incomplete":
            assert response["incomplete_details"]["reason"] in ("max_output_tokens", "content_filter")
            self.summary.stop = response["incomplete_details"]["reason"]
        elif status == "completed":
            assert response["incomplete_details"] is None
            assert all(item.get("status") != "in_progress" for item in self.summary.items)
            self.summary.stop = "completed"
        if response["usage"] is not None or status != "failed":
            _usage(response["usage"])
        self.summary.terminal, self.summary.usage = status, response["usage"]
        self.summary.error, self.summary.response = response["error"], response

    # ------------------------------------------------------------ items

    def _added(self, event: dict[str, Any]) -> None:
        assert self.item is None, "two items are open"
        item = event["item"]
        assert event["output_index"] == len(self.summary.items), "output_index has a gap"
        assert item["type"] in ITEMS, f"a client does not know items of type {item['type']}"
        assert item["status"] == "in_progress"
        assert item["id"] not in [done["id"] for done in self.summary.items], "an item id is used twice"
        match item["type"]:
            case "message":
                assert item["role"] == "assistant"
                assert item["content"] == []
            case "reasoning":
                assert item["summary"] == []
                assert "encrypted_content" not in item
            case "function_call":
                assert item["arguments"] == ""
            case "custom_tool_call":
                assert item["input"] == ""
        if "call_id" in item:
            assert item["call_id"]
            assert item["call_id"] != item["id"], "the item id is the call id"
            assert item["call_id"] not in [call.id for call in self.summary.calls], "a call id is used twice"
            assert item["name"]
        self.item, self.part, self.parts, self.text, self.finished = item, None, [], "", False

    def _done(self, event: dict[str, Any]) -> None:
        assert self.item is not None
        item, before = event["item"], self.item
        assert self.part is None, "a part is still open"
        assert item["status"] in ("completed", "incomplete", "failed")
        for name in ("id", "type", "role", "call_id", "name", "namespace", "server_label"):
            assert before.get(name) == item.get(name), f"{name} changes between added and done"
        match item["type"]:
            case "message":
                assert self.parts, "a message without parts"
                assert item["content"] == self.parts
            case "reasoning":
                assert item["summary"] == self.parts
                self.summary.reasoning.append("".join(part["text"] for part in self.parts))
                assert item.get("encrypted_content") != "", "empty opaque state"
                if "encrypted_content" in item:
                    self.summary.carriers.append(item["encrypted_content"])
            case "mcp_call":
                self.summary.receipts.append(item)
            case _:
                self._called(item)
        self.summary.items.append(item)
        self.item = None

    def _called(self, item: dict[str, Any]) -> None:
        assert self.finished, "a call without its done event"
        custom = item["type"] == "custom_tool_call"
        arguments = item["input" if custom else "arguments"]
        assert arguments == self.text, "the done item and the deltas differ"
        if not custom and item["status"] == "completed":
            assert isinstance(json.loads(arguments), dict), "arguments are no object"
        self.summary.calls.append(
            Call(item["call_id"], item["name"], arguments, custom, item.get("namespace"), item["status"])
        )

    # ------------------------------------------------------------ inside an item

    def _inside(self, kind: str, event: dict[str, Any]) -> None:
        assert self.item is not None
        if self.item["type"] == "message":
            assert event["content_index"] == len(self.parts), f"{kind} for another part"
            self._message(kind, event)
        elif self.item["type"] == "reasoning":
            assert event["summary_index"] == len(self.parts), f"{kind} for another part"
            self._reasoning(kind, event)
        else:
            self._call(kind, event)

    def _message(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "content_part.added":
            empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            assert event["part"] in (empty, {"type": "refusal", "refusal": ""}), "an announced part is not empty"
            assert self.part is None, "two parts are open"
            self.part, self.text, self.finished = {**event["part"], "cited": []}, "", False
            return
        assert self.part is not None, f"{kind} outside a part"
        refusal = self.part["type"] == "refusal"
        match kind:
            case "output_text.delta" | "refusal.delta":
                assert kind.startswith("refusal") == refusal
                assert not self.finished, "text after its end"
                assert not self.part["cited"], "text after a citation"
                assert refusal or isinstance(event["logprobs"], list)
                self._more(event)
            case "output_text.annotation.added":
                assert not refusal
                assert not self.finished
                assert event["annotation_index"] == len(self.part["cited"])
                self.part["cited"].append(event["annotation"])
            case "output_text.done" | "refusal.done":
                assert kind.startswith("refusal") == refusal
                assert event["refusal" if refusal else "text"] == self.text
                assert refusal or isinstance(event["logprobs"], list)
                self.finished = True
            case "content_part.done":
                assert self.finished, "a part ends without its text"
                self._part_done(event["part"])
            case _:
                raise AssertionError(f"{kind} in a message")

    def _part_done(self, part: dict[str, Any]) -> None:
        assert self.part is not None
        if part["type"] == "refusal":
            assert part == {"type": "refusal", "refusal": self.text}
            self.summary.refusals.append(self.text)
        else:
            assert part["type"] == self.part["type"]
            assert part["text"] == self.text
            assert part["annotations"] == self.part["cited"], "the part and its citations differ"
            assert isinstance(part["logprobs"], list)
            for note in part["annotations"]:
                assert note.keys() == {"type", "url", "title", "start_index", "end_index"}
            self.summary.texts.append(self.text)
            self.summary.citations.extend(part["annotations"])
        self.parts.append(part)
        self.part = None

    def _reasoning(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "reasoning_summary_part.added":
            assert self.part is None, "two parts are open"
            assert event["part"] == {"type": "summary_text", "text": ""}
            self.part, self.text, self.finished = event["part"], "", False
            return
        assert self.part is not None, f"{kind} outside a part"
        match kind:
            case "reasoning_summary_text.delta":
                assert not self.finished
                self._more(event)
            case "reasoning_summary_text.done":
                assert event["text"] == self.text
                self.finished = True
            case "reasoning_summary_part.done":
                assert self.finished
                assert event["part"] == {"type": "summary_text", "text": self.text}
                self.parts.append(event["part"])
                self.part = None
            case _:
                raise AssertionError(f"{kind} in a reasoning item")

    def _call(self, kind: str, event: dict[str, Any]) -> None:
        assert self.item is not None
        custom = self.item["type"] == "custom_tool_call"
        name = {"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}.get(
            self.item["type"]
        )
        assert not self.finished, f"{kind} after the call's end"
        if kind == f"{name}.delta":
            self._more(event)
        elif kind == f"{name}.done":
            assert event["input" if custom else "arguments"] == self.text
            assert custom or event["name"] == self.item["name"]
            assert custom or self.text, "empty arguments"
            self.finished = True
        else:
            raise AssertionError(f"{kind} in a {self.item['type']}")

    def _more(self, event: dict[str, Any]) -> None:
        assert isinstance(event["delta"], str)
        assert event["delta"], "an empty delta"
        self.text += event["delta"]


def _usage(usage: dict[str, Any]) -> None:
    counts = [
        usage["input_tokens"], usage["output_tokens"], usage["total_tokens"],
        usage["input_tokens_details"]["cached_tokens"], usage["input_tokens_details"]["cache_write_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    ]  # fmt: skip
    assert all(type(count) is int and count >= 0 for count in counts), "usage has members that are no integers"
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
