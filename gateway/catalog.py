"""`GET /v1/models` in the shapes that clients read: OpenAI, Anthropic, Codex and Grok Build."""

import re
from collections.abc import Mapping
from typing import Any

from gateway.auth import Tenant
from gateway.config import Config, Model
from gateway.models import permitted

__all__ = ["find", "listing"]

CREATED = 1_735_689_600
CREATED_AT = "2025-01-01T00:00:00Z"
"""Aliases have no birthday of their own; clients only need the fields to be there."""
DEFAULT_WINDOW = 200_000


def listing(config: Config, tenant: Tenant, headers: Mapping[str, str], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the models that a tenant may use: Anthropic's shape when `anthropic-version` is sent, OpenAI's otherwise.

    Prefix aliases stand for names that only the client knows, so they are not listed.
    """
    names = [name for name in config.models if not name.endswith("*") and permitted(tenant.models, name)]
    if "anthropic-version" in headers:
        return _anthropic(names, config.models)
    entries = [_openai(name, config.models[name]) for name in names]
    if "client_version" in query:  # Codex decodes `models` and wants the list to be there, though it may be empty
        return {"object": "list", "data": entries, "models": []}
    return {"object": "list", "data": entries}


def find(config: Config, tenant: Tenant, headers: Mapping[str, str], name: str) -> dict[str, Any] | None:
    """Return one model's entry, None when it is not configured or not for this tenant."""
    model = config.models.get(name)
    if model is None or name.endswith("*") or not permitted(tenant.models, name):
        return None
    return _entry(name, model) if "anthropic-version" in headers else _openai(name, model)


def _entry(name: str, model: Model) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "model", "id": name, "display_name": name, "created_at": CREATED_AT}
    if model.context_window:
        entry["max_input_tokens"] = model.context_window
    return entry


def _anthropic(names: list[str], models: Mapping[str, Model]) -> dict[str, Any]:
    data = [_entry(name, models[name]) for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def _openai(name: str, model: Model) -> dict[str, Any]:
    """Return an OpenAI entry with the members that Grok Build chooses its backend and window by (grok.md 16)."""
    entry: dict[str, Any] = {"id": name, "object": "model", "created": CREATED, "owned_by": "dragoman"}
    entry |= {
        "model": name,
        "name": name,
        "api_backend": "responses",
        "context_window": model.context_window or DEFAULT_WINDOW,
        "supported_in_api": True,
    }
    if not re.match(r"grok-(composer|build)", name):
        entry["reasoning_efforts"] = [{"value": effort} for effort in ("low", "medium", "high")]
    return entry
