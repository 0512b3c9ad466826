"""The kinds of upstream behind the gateway: the three plain dialects, and the two that have ways of their own.

A kind is the provider's table in the gateway's configuration, what it does to plain streams before it sends them, and
what it refuses. The oddities are those seen at the real services; what is usual there has no business here.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.streams import frame, typed

Event = dict[str, Any]


def unchanged(frames: list[bytes]) -> list[bytes]:
    return frames


def takes_anything(body: Event) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of upstream. `refuse` says what is wrong with a request, or nothing; `route` adds to the alias."""

    dialect: str
    provider: str
    dress: Callable[[list[bytes]], list[bytes]] = unchanged
    refuse: Callable[[Event], str] = takes_anything
    route: str = ""


def parsed(data: bytes) -> Event | None:
    """The JSON of a frame; None for `[DONE]`."""
    text = data.partition(b"data: ")[2]
    return None if text.startswith(b"[DONE]") else json.loads(text)


def cline(frames: list[bytes]) -> list[bytes]:
    """Comments, CRLF, a null error in every chunk, reasoning told twice, and the gateway's own metadata at the end."""
    dressed = [b": PROCESSING\n\n"]
    for data in frames:
        chunk = parsed(data)
        if chunk is not None:
            for choice in chunk["choices"]:
                cline_reasoning(choice["delta"])
                if choice["finish_reason"]:
                    cost = {"cost": "0.000123", "generationId": "gen_1"}
                    choice["delta"]["provider_metadata"] = {"gateway": {"routing": {"resolvedProvider": "zai"}} | cost}
                    chunk["generationId"] = "gen_1"
            chunk["error"] = None
            if "usage" in chunk:
                chunk["usage"] |= {"cost": 0.000123, "is_byok": False}
        dressed += [data if chunk is None else frame(chunk), b": PROCESSING\n\n"]
    return [data.replace(b"\n", b"\r\n") for data in dressed]


def cline_refuses(body: Event) -> str:
    """What costs money or breaks there: a stream by silence, GLM's most expensive effort by silence."""
    if missing := {"stream", "reasoning_effort", "max_tokens"} - body.keys():
        return f"no {sorted(missing)}"
    if body.keys() & {"store", "metadata"}:
        return "fields of OpenAI alone"
    images = (
        message
        for message in body["messages"]
        if message["role"] == "tool" and message["content"] != str(message["content"])
    )
    return "a tool message that is no text" if any(images) else ""


def cline_reasoning(delta: Event) -> None:
    if text := delta.pop("reasoning_content", None):
        detail = {"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}
        delta |= {"reasoning": text, "reasoning_details": [detail], "reasoning_content": None}


def grok(frames: list[bytes]) -> list[bytes]:
    """Events that no client knows, a `completed` without output, usage without details, another model's name."""
    events: list[Event] = []
    for event in map(parsed, frames):
        assert event is not None
        if "response" in event:
            response = event["response"] | {"output": [], "model": "grok-build-free"}
            if usage := response["usage"]:
                response["usage"] = {key: usage[key] for key in ("input_tokens", "output_tokens", "total_tokens")}
            event["response"] = response
        events += [event, {"type": "keepalive"}]
        if event["type"] == "response.output_item.added":
            events.append({"type": "response.doom_loop_check", "detected": False})
    return [typed(event | {"sequence_number": number}) for number, event in enumerate(events[:-1])]


GROK_BODY = (
    "include input max_output_tokens model parallel_tool_calls prompt_cache_key reasoning store stream temperature "
    "text tool_choice tools top_p"
)
GROK_ITEMS = {
    "message": "type role content",
    "reasoning": "type id summary content encrypted_content",
    "function_call": "type call_id name arguments",
    "function_call_output": "type call_id output",
}


def grok_refuses(body: Event) -> str:
    """What its strict decoder would not take; it answers with a 422 that helps nobody."""
    if extra := body.keys() - set(GROK_BODY.split()):
        return f"unknown fields {sorted(extra)}"
    for item in body["input"]:
        kind = item.get("type")
        if kind not in GROK_ITEMS or item.keys() - set(GROK_ITEMS[kind].split()):
            return f"an item {kind!r} with {sorted(item)}"
        if item.get("role", "user") not in ("system", "user", "assistant"):
            return f"role {item['role']!r}"
    if kinds := {tool["type"] for tool in body.get("tools", ())} - {"function", "web_search", "x_search"}:
        return f"tools of type {sorted(kinds)}"
    return ""


OPENAI = 'plugin = "openai"\nbase_url = "{url}/v1"\ndialect = "{dialect}"'
KINDS = {
    "chat": Kind("chat", OPENAI.replace("{dialect}", "chat")),
    "responses": Kind("responses", OPENAI.replace("{dialect}", "responses")),
    "messages": Kind("messages", 'plugin = "anthropic"\nbase_url = "{url}"'),
    "cline": Kind(
        "chat",
        'plugin = "cline"\nbase_url = "{url}/api/v1"',
        dress=cline,
        refuse=cline_refuses,
        route='model = "z-ai/glm-5.3-flash"',
    ),
    "cline-quiet": Kind(
        "chat",
        'plugin = "cline"\nbase_url = "{url}/api/v1"',
        dress=cline,
        refuse=cline_refuses,
        route='model = "z-ai/glm-5.3-flash"\nreasoning = "never"',
    ),
    "grok": Kind("responses", 'plugin = "grok-cli"\nbase_url = "{url}/v1"', dress=grok, refuse=grok_refuses),
}
