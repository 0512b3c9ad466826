"""Explicit prompt caching: mark what a model shall remember of a prompt (spec/cline.md 1.2).

Models of Anthropic and MiniMax behind OpenRouter-like services cache nothing unless the prompt says where. Marks
stand on the system message and on the two latest user messages, as the service's own client sets them: the older
of the two is what the last request ended with, and is found again.
"""

from typing import Any

__all__ = ["MARK", "marked"]

MARK = {"type": "ephemeral"}
LATEST = 2


def marked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with cache marks; texts become lists of parts, so that a moving mark keeps their form."""
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    chosen = set(users[-LATEST:])
    if messages and messages[0]["role"] in ("system", "developer"):
        chosen.add(0)
    return [
        _parts(message, mark=index in chosen) if index in chosen or message["role"] == "user" else message
        for index, message in enumerate(messages)
    ]


def _parts(message: dict[str, Any], *, mark: bool) -> dict[str, Any]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if mark and parts:
        last = max((index for index, part in enumerate(parts) if part["type"] == "text"), default=len(parts) - 1)
        parts[last] = {**parts[last], "cache_control": MARK}
    return {**message, "content": parts}
