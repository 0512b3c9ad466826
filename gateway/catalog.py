"""`GET /v1/models` in the shapes that clients read: OpenAI, Anthropic, Codex and Grok Build."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from gateway.auth import Tenant
from gateway.config import Config, Model
from gateway.models import permitted, resolve
from providers.api import Card

__all__ = ["find", "listing"]

CREATED = 1_735_689_600
CREATED_AT = "2025-01-01T00:00:00Z"
"""Aliases have no birthday of their own; clients only need the fields to be there."""
DEFAULT_WINDOW = 200_000
Cards = Callable[[str], Card | None]
"""What a provider knows of the model behind a name."""


def unknown(_name: str) -> None:
    """Return nothing, for providers that know nothing of their models."""


def listing(
    config: Config,
    tenant: Tenant,
    headers: Mapping[str, str],
    query: Mapping[str, str],
    card: Cards = unknown,
) -> dict[str, Any]:
    """Return the models that a tenant may use: Anthropic's shape when `anthropic-version` is sent, OpenAI's otherwise.

    Prefix aliases stand for names that only the client knows, so they are not listed. `card` is what providers know
    of a name's model; the configuration goes before it.
    """
    names = [name for name in config.models if not name.endswith("*") and permitted(tenant.models, name)]
    if "anthropic-version" in headers:
        return _anthropic(names, config.models, card)
    entries = [_openai(name, config.models[name], card(name)) for name in names]
    if "client_version" in query:  # Codex decodes `models` and wants the list to be there, though it may be empty
        return {"object": "list", "data": entries, "models": []}
    return {"object": "list", "data": entries}


def find(
    config: Config, tenant: Tenant, headers: Mapping[str, str], name: str, card: Cards = unknown
) -> dict[str, Any] | None:
    """Return one model's entry, None when no alias serves it or it is not for this tenant.

    A name that only a prefix alias serves has an entry, though no list has it.
    """
    resolved = resolve(config.models, name)
    if resolved is None or not name or name.endswith("*") or not permitted(tenant.models, name):
        return None
    model = resolved.settings
    make = _entry if "anthropic-version" in headers else _openai
    return make(name, model, card(name))


def _entry(name: str, model: Model, card: Card | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "model", "id": name, "display_name": name, "created_at": CREATED_AT}
    if window := _window(model, card):
        entry["max_input_tokens"] = window
    return entry


def _window(model: Model, card: Card | None) -> int | None:
    return model.context_window or (card.context if card is not None else None)


def _anthropic(names: list[str], models: Mapping[str, Model], card: Cards) -> dict[str, Any]:
    data = [_entry(name, models[name], card(name)) for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def _openai(name: str, model: Model, card: Card | None) -> dict[str, Any]:
    """Return an OpenAI entry with the members that Grok Build chooses its backend and window by (grok.md 16)."""
    entry: dict[str, Any] = {"id": name, "object": "model", "created": CREATED, "owned_by": "dragoman"}
    entry |= {
        "model": name,
        "name": name,
        "api_backend": "responses",
        "context_window": _window(model, card) or DEFAULT_WINDOW,
        "supported_in_api": True,
    }
    if efforts := _efforts(name, card):
        entry["reasoning_efforts"] = [{"value": effort} for effort in efforts]
    return entry


def _efforts(name: str, card: Card | None) -> tuple[str, ...]:
    if card is not None:
        return card.efforts
    return () if re.match(r"grok-(composer|build)", name) else ("low", "medium", "high")
