"""Names for the model list that only an upstream knows: behind a prefix alias that passes names through.

Asked for lists alone, never to serve a request; a provider without a list, or one that cannot be had, adds nothing.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from gateway.config import Config, Model
from gateway.models import matches
from gateway.runtime import Runtime

__all__ = ["discovered"]

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
