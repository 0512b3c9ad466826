"""The request body that the Grok CLI's upstream takes: an allow-list, since one odd item fails the whole request.

Pure: a Responses body as `translators.responses` renders it in, the strict form out (spec/grok.md 7 and 11.5).
Everything that is not named here is left out, and the same input always gives the same bytes.
"""

import re
from collections.abc import Container
from typing import Any

import msgspec

from providers.grok_input import items
from translators.jsonio import encode

__all__ = ["Policy", "bare", "effort", "strict", "undressed"]

Json = dict[str, Any]

ENCRYPTED = "reasoning.encrypted_content"
PASSED = ("max_output_tokens", "temperature", "top_p")
SEARCHES = ("web_search", "x_search")
"""Hosted tools that this upstream has; their options are refused ("Argument not supported")."""
SUMMARY = "concise"
"""What the official client always asks for."""
PERMISSIVE: Json = {"type": "object", "properties": {}, "additionalProperties": True}
_IMAGES_SINCE = re.compile(r"grok-(\d+)(?:\.(\d+))?(?![\d.])")


class Policy(msgspec.Struct, frozen=True):
    """What a body depends on beside the request: the model's efforts, reasoning state, and the session's key.

    `efforts` () means a model without the field. `sealed` passes encrypted reasoning; `known` then says which values
    may go (None: all that are not another vendor's).
    """

    efforts: tuple[str, ...] = ("low", "medium", "high")
    sealed: bool = False
    known: Container[str] | None = None
    cache_key: str = ""


def strict(body: bytes, policy: Policy) -> bytes:
    """Return the body that the upstream takes; applied to its own output it changes nothing."""
    given: Json = msgspec.json.decode(body)
    model = str(given.get("model") or "")
    wire, lifted = items(given.get("input"), sealed=policy.sealed, known=policy.known)
    instructions = given.get("instructions")
    if isinstance(instructions, str) and instructions.strip():
        wire.insert(0, {"type": "message", "role": "system", "content": instructions})
    made: Json = {"model": model, "input": wire}
    made |= _tools([*_listed(given.get("tools")), *lifted], given, model)
    if policy.sealed:
        made["include"] = [ENCRYPTED]
    reasoning = _reasoning(given.get("reasoning"), policy.efforts)
    if reasoning:
        made["reasoning"] = reasoning
    made |= {name: given[name] for name in PASSED if isinstance(given.get(name), int | float)}
    form = given.get("text", {}).get("format") if isinstance(given.get("text"), dict) else None
    if isinstance(form, dict):
        made["text"] = {"format": form}
    made["store"] = False
    made["stream"] = given.get("stream") is True
    if policy.cache_key:
        made["prompt_cache_key"] = policy.cache_key
    return encode(made)


def bare(body: bytes) -> bytes | None:
    """Return a strict body without encrypted reasoning, None when it has none (spec/grok.md 9, undecryptable)."""
    given: Json = msgspec.json.decode(body)
    if not any("encrypted_content" in item for item in given["input"]):
        return None
    kept, _ = items(given["input"], sealed=False, known=None)
    return encode(given | {"input": kept})


def undressed(body: bytes) -> bytes | None:
    """Return a strict body whose session key is blank, which keeps it from getting one; None when it has none."""
    given: Json = msgspec.json.decode(body)
    return encode(given | {"prompt_cache_key": ""}) if given.get("prompt_cache_key") else None


def effort(wanted: str, efforts: tuple[str, ...]) -> str | None:
    """Return the level to send (spec/grok.md 5): none and minimal are low, more than high is xhigh or high."""
    if wanted in efforts:
        return wanted
    if not efforts:
        return None
    if wanted in ("none", "minimal"):
        return "low" if "low" in efforts else None
    if wanted in ("xhigh", "max"):
        return "xhigh" if "xhigh" in efforts else "high" if "high" in efforts else efforts[-1]
    return "high" if wanted == "medium" and "high" in efforts else None


def _reasoning(wish: Any, efforts: tuple[str, ...]) -> Json:
    if not efforts:
        return {}
    given = wish if isinstance(wish, dict) else {}
    level = effort(given["effort"], efforts) if isinstance(given.get("effort"), str) else None
    summary = given.get("summary") if given.get("summary") in ("auto", "concise", "detailed") else SUMMARY
    return {"effort": level, "summary": summary} if level else {"summary": summary}


# ---------------------------------------------------------------------- tools


def _tools(given: list[Json], body: Json, model: str) -> Json:
    choice, names = _choice(body.get("tool_choice"))
    made: dict[tuple[str, str], Json] = {}
    for tool in given:
        written = _tool(tool, model)
        if written is not None and (names is None or written.get("name") in names):
            made[written["type"], written.get("name", "")] = written  # of two with one name the last counts
    functions = {name for kind, name in made if kind == "function"}
    tools = [tool for (kind, _), tool in made.items() if kind == "function" or kind not in functions]
    if not tools:
        return {}  # a choice without tools is refused
    told: Json = {"tools": tools}
    if isinstance(choice, dict) and choice["name"] not in functions:
        choice = "required" if choice["name"] in {tool["type"] for tool in tools} else None
    if choice is not None:
        told["tool_choice"] = choice
    if isinstance(body.get("parallel_tool_calls"), bool):
        told["parallel_tool_calls"] = body["parallel_tool_calls"]
    return told


def _listed(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _tool(tool: Json, model: str) -> Json | None:
    kind = tool.get("type")
    if kind == "function" and isinstance(tool.get("name"), str):
        written: Json = {"type": "function", "name": tool["name"]}
        if isinstance(tool.get("description"), str) and tool["description"]:
            written["description"] = tool["description"]
        return written | _schema(tool)
    if kind in SEARCHES:
        return {"type": kind}
    if isinstance(kind, str) and kind.startswith("web_search"):  # dated and preview names of the same tool
        return {"type": "web_search"}
    if kind == "image_generation" and _draws(model):
        return {"type": kind}
    return None


def _schema(tool: Json) -> Json:
    schema = tool.get("parameters")
    if not isinstance(schema, dict) or not schema:
        return {"parameters": {"type": "object", "properties": {}}}
    if "type" not in schema and isinstance(schema.get("properties"), dict):
        schema = {"type": "object", **schema}
    if schema.get("type") != "object":
        # "tool parameter root must be an object type"
        return {"parameters": PERMISSIVE, "strict": False}
    return {"parameters": schema, "strict": True} if tool.get("strict") is True else {"parameters": schema}


def _draws(model: str) -> bool:
    found = _IMAGES_SINCE.match(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (4, 6)


def _choice(choice: Any) -> tuple[str | Json | None, set[str] | None]:
    """Return the choice in words or as a name, and the names that it leaves of the tools (None: all)."""
    if isinstance(choice, str):
        return (choice, None) if choice in ("auto", "none", "required") else (None, None)
    if not isinstance(choice, dict):
        return None, None
    if choice.get("type") == "allowed_tools":
        names = {str(tool.get("name")) for tool in _listed(choice.get("tools"))}
        return ("required" if choice.get("mode") == "required" else "auto"), names
    kind = str(choice.get("type"))
    if kind in ("function", "custom"):
        return {"type": "function", "name": str(choice.get("name"))}, None
    return {"type": "function", "name": kind}, None  # a hosted tool: becomes "required"
