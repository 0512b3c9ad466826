"""What only an upstream knows for the model list: names behind a prefix alias that passes them through, and limits.

Asked for lists alone, never to serve a request; a provider without a list, or one that cannot be had, adds nothing.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from gateway.config import Config, Model
from gateway.models import matches, resolve
from gateway.runtime import Runtime
from providers.api import Card

__all__ = ["card_of", "discovered"]

WAIT_S = 6.0
"""A list that takes longer is left out; the provider has a shorter limit of its own."""


async def discovered(runtime: Runtime) -> Config:
    """Return the configuration with the names that its pass-through prefixes stand for."""
    config = runtime.config
    open_ended = {
        pattern: model for pattern, model in config.models.items() if pattern.endswith("*") and _passes(model)
    }
    names = {model.routes[0].provider: await _names(runtime, model.routes[0].provider) for model in open_ended.values()}
    found: dict[str, Model] = {}
    # The longest prefix that matches serves a name, as it does for requests.
    for pattern in sorted(open_ended, key=len, reverse=True):
        model = open_ended[pattern]
        for name in _fitting(names[model.routes[0].provider], pattern):
            found.setdefault(name, model)
    return msgspec.structs.replace(config, models=found | config.models) if found else config


def card_of(runtime: Runtime, config: Config, name: str) -> Card | None:
    """Return what the provider of a model name knows of it; None for one that knows nothing."""
    resolved = resolve(config.models, name)
    if resolved is None or not resolved.routes:
        return None
    route = resolved.routes[0]
    describe = getattr(runtime.upstreams[route.provider].provider, "card", None)
    card: Card | None = describe(route.model or name) if describe is not None else None
    return card


def _passes(model: Model) -> bool:
    return bool(model.routes) and model.routes[0].model is None


def _fitting(names: Iterable[str], pattern: str) -> Iterable[str]:
    return (name for name in names if matches(pattern, name))


async def _names(runtime: Runtime, provider: str) -> tuple[str, ...]:
    ask = getattr(runtime.upstreams[provider].provider, "models", None)
    if ask is None:
        return ()
    try:
        async with asyncio.timeout(WAIT_S):
            names: tuple[str, ...] = await ask()
            return names
    except TimeoutError:
        return ()
