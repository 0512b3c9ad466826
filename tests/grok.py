"""A Grok CLI upstream and its issuer on loopback: strict about what it decodes, odd in how it answers.

`Proxy` is the script of an `Upstream`: it validates each request as the real one's decoder would (422 without a hint)
and answers with the turns it is given. `Issuer` hands out tokens and counts how often it was asked.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.clients.upstreams import grok, grok_refuses
from tests.streams import Call, Turn, responses, responses_whole
from tests.upstream import Reply, Request, reply_json, sse

MISMATCH = "Failed to deserialize the JSON body into the target type: data did not match any variant of untagged enum ModelInput"
ISSUED = "FAKE.ACCESS.{}"


def refused(body: dict[str, Any]) -> str:
    """What of a body the strict decoder would not take."""
    if wrong := grok_refuses(body):
        return wrong
    for item in body["input"]:
        match item:
            case {"type": "function_call", "call_id": str(), "name": str(), "arguments": str()} if len(item) == 4:
                pass
            case {"type": "function_call_output", "call_id": str(), "output": str()}:
                pass
            case {"type": "message", "content": str()}:
                pass
            case {"type": "message", "role": "user", "content": list(parts)} if all(
                part.get("type") in ("input_text", "input_image") for part in parts
            ):
                pass
            case {"type": "reasoning", "summary": list()} if None not in item.values():
                pass
            case _:
                return f"an item {item}"
    if not body["input"]:
        return "no input"
    if "tools" not in body and ("tool_choice" in body or "parallel_tool_calls" in body):
        return "a choice without tools"
    for tool in body.get("tools", ()):
        if tool["type"] == "function" and tool["parameters"].get("type") != "object":
            return "tool parameter root must be an object type"
        if tool["type"] != "function" and len(tool) != 1:
            return "Argument not supported"
    if body["store"] is not False:
        return "store"
    return ""


@dataclass(slots=True)
class Proxy:
    """The proxy's script. `turns` are played in order (the last one again and again); a Reply is sent as it is."""

    turns: Sequence[Turn | Reply]
    requests: list[Request] = field(default_factory=list)
    titles: list[Request] = field(default_factory=list)
    problem: str = ""
    accepts: str = ""  # the only access token that is taken; empty: any

    def __call__(self, request: Request) -> Reply:
        if request.method == "GET":
            return reply_json({"data": []})
        body = request.json
        if self.accepts and request.header("authorization") != f"Bearer {self.accepts}":
            return reply_json({"error": {"message": "no", "code": "unauthenticated:bad-credentials"}}, 401)
        if wrong := refused(body):
            self.problem = self.problem or wrong
            return reply_json({"error": MISMATCH}, 422)
        if isinstance(choice := body.get("tool_choice"), dict):  # Grok Build's title, asked beside the first turn
            self.titles.append(request)
            return sse(responses(Turn([Call(choice["name"], '{"title": "T"}', "call_title")], tag="title")))
        self.requests.append(request)
        turn = self.turns[min(len(self.requests), len(self.turns)) - 1]
        if not isinstance(turn, Turn):
            return turn
        return sse(grok(responses(turn))) if body["stream"] else reply_json(responses_whole(turn))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.json for request in self.requests]


@dataclass(slots=True)
class Issuer:
    """The issuer's script: each refresh gives the next pair of tokens. `answers` are given first, as they are."""

    answers: list[Reply] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    discovery: dict[str, Any] = field(default_factory=dict)

    def __call__(self, request: Request) -> Reply:
        if request.path == "/.well-known/openid-configuration":
            return reply_json(self.discovery)
        self.forms.append({name: values[0] for name, values in parse_qs(request.body.decode()).items()})
        if self.answers:
            return self.answers.pop(0)
        number = len(self.forms)
        return reply_json(
            {"access_token": ISSUED.format(number), "refresh_token": f"FAKE-REFRESH-{number}", "expires_in": 21_600}
        )


def login(issuer: str, *, token: str = "FAKE.ACCESS.0", expires: str = "2036-01-01T00:00:00Z") -> dict[str, Any]:
    """The entry of the official CLI's file for a login at a loopback issuer."""
    return {
        f"{issuer}::test-client": {
            "key": token,
            "auth_mode": "oidc",
            "create_time": "2026-01-01T00:00:00Z",
            "expires_at": expires,
            "refresh_token": "FAKE-REFRESH-0",
            "oidc_issuer": issuer,
            "oidc_client_id": "test-client",
            "principal_type": "User",
            "principal_id": "user-1",
        }
    }


def auth_file(path: Path, *entries: dict[str, Any]) -> Path:
    """Write an auth file with these entries, readable by its owner alone."""
    path.write_text(json.dumps({key: value for entry in entries for key, value in entry.items()}))
    path.chmod(0o600)
    return path


def kinds(body: dict[str, Any]) -> list[str]:
    """The types of a request's input items, messages by their role."""
    return [item.get("role") or item["type"] for item in body["input"]]


def pick(items: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in items if item["type"] == kind]
