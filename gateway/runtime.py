"""Everything that one configuration stands for, built whole and swapped whole (S39).

A Runtime is made from a Config and never changes; a reload makes a new one, which goes on with the same pool where
that is configured as before, and takes cooldowns over by key name where not. Requests keep the Runtime that they
began with.
"""

import asyncio
import secrets
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.affinity import Affinity
from gateway.config import Config, Model
from gateway.config import Provider as ProviderTable
from gateway.keypool import Pool
from gateway.models import Resolved, resolve
from gateway.prefixes import Prefixes
from gateway.scrub import Scrubber
from gateway.stores.replay import Replay
from gateway.stores.shadow import Shadow
from gateway.tokens import Tokens
from gateway.turns import Turns
from gateway.watch import Timeouts
from providers.api import Provider, Setup
from providers.registry import load
from providers.secret import Secret
from providers.transport import new_session
from translators.dialect import Target
from translators.dialects import DIALECTS
from translators.pair import Pair
from translators.traits import Traits

__all__ = ["PAIRS", "Runtime", "Upstreams"]

PAIRS = {(client, up): Pair(DIALECTS[client], DIALECTS[up]) for client in DIALECTS for up in DIALECTS}
TARGETS_KEPT = 4096


class Upstreams(msgspec.Struct):
    """One provider with its pool and the line before it, its sessions' keys and its timers."""

    provider: Provider
    turns: Turns
    affinity: Affinity
    timeouts: Timeouts
    retries: int = 0
    """Further attempts with the same key after a 502 or 503."""
    terms: dict[str, Any] = {}
    """What the pool was made with; one made with the same goes on after a reload."""

    @property
    def pool(self) -> Pool:
        """Return the keys."""
        return self.turns.pool

    def readmit(self) -> None:
        """Let logins serve again whose file was replaced since the upstream refused them."""
        readmitted = getattr(self.provider, "readmitted", None)
        for name in readmitted() if readmitted is not None else ():
            if self.pool.readmit(name):
                self.turns.wake()


class Runtime:
    """Providers, pools, routes and secrets of one configuration."""

    def __init__(self, config: Config, previous: "Runtime | None" = None) -> None:
        self.config = config
        self.scrub = Scrubber(config.secrets, self._held)
        self.pepper: bytes = previous.pepper if previous else secrets.token_bytes(32)
        self.replay: Replay = previous.replay if previous else Replay()
        self.shadow: Shadow = previous.shadow if previous else Shadow()
        self.prefixes: Prefixes = previous.prefixes if previous else Prefixes()
        self.tokens: Tokens = previous.tokens if previous else Tokens()
        self.upstreams = {name: self._upstreams(table, previous) for name, table in config.providers.items()}
        self._resolved: dict[str, Resolved] = {}
        self._targets: dict[tuple[str, str, str], Target] = {}
        self.running = 0
        self.retired = asyncio.Event()
        """Set once a newer Runtime took over; the last request to leave then closes the providers."""

    def _upstreams(self, table: ProviderTable, previous: "Runtime | None") -> Upstreams:
        provider = build_provider(table)
        before = previous.upstreams.get(table.name) if previous else None
        terms = _terms(table, provider)
        turns = before.turns if before is not None and before.terms == terms else Turns(Pool(**terms))
        if before is not None and before.turns is turns:
            # The keys may have been replaced, and that is the only way back for a refused one.
            for name in provider.key_names:
                turns.pool.readmit(name)
        elif before is not None:
            now, wall = time.monotonic(), time.time()
            turns.pool.restore(before.pool.export(now, wall), now, wall)
        limits = table.timeouts
        timeouts = Timeouts(limits.first_event_s, limits.first_meaning_s, limits.idle_s, limits.meaning_idle_s)
        affinity = before.affinity if before else Affinity()
        return Upstreams(provider, turns, affinity, timeouts, table.pool.retries, terms)

    def _held(self) -> Iterator[Secret]:
        """Yield the tokens of logins, which stand in files and change."""
        for upstreams in self.upstreams.values():
            offered = getattr(upstreams.provider, "secrets", None)
            yield from offered() if offered is not None else ()

    def pools(self) -> dict[str, Pool]:
        """Return the key pools by provider name."""
        return {name: upstreams.pool for name, upstreams in self.upstreams.items()}

    def resolve(self, name: str) -> Resolved | None:
        """Return the routes of a model name that a client sent."""
        found = self._resolved.get(name)
        if found is None:
            found = resolve(self.config.models, name)
            if found is not None:
                if len(self._resolved) >= TARGETS_KEPT:
                    self._resolved.clear()
                self._resolved[name] = found
        return found

    def target(self, resolved: Resolved, provider: Provider, model: str) -> Target:
        """Return what a request for this route is written for."""
        key = (resolved.pattern, provider.name, model)
        found = self._targets.get(key)
        if found is None:
            if len(self._targets) >= TARGETS_KEPT:
                self._targets.clear()
            found = self._targets[key] = _target(resolved.settings, provider, model)
        return found

    def ready(self) -> bool:
        """Tell whether at least one route has a key that could serve now."""
        now = time.monotonic()
        return any(
            any(key.phase in ("healthy", "half-open", "probing") for key in up.pool.snapshot(now, now).keys)
            for up in self.upstreams.values()
        )

    async def close(self) -> None:
        """Release all connections."""
        for upstreams in self.upstreams.values():
            await upstreams.provider.close()


def _target(settings: Model, provider: Provider, model: str) -> Target:
    traits = provider.traits(model)
    if settings.traits:
        traits = msgspec.convert(msgspec.structs.asdict(traits) | settings.traits, Traits)
    return Target(
        model=model,
        traits=traits,
        origin=provider.origin(model),
        strict=settings.translation == "strict",
        default_effort=settings.default_effort,
        max_output_tokens=settings.max_output_tokens,
    )


def _terms(table: ProviderTable, provider: Provider) -> dict[str, Any]:
    """Return the arguments of a provider's pool."""
    logins = dict.fromkeys((credential.name for credential in table.credentials), load(table.plugin).login_in_flight)
    return {
        "names": provider.key_names,
        "strategy": table.pool.strategy,
        "fallback_cooldown_s": table.pool.fallback_cooldown_s,
        "retire_rejected": table.pool.retire_rejected,
        "max_in_flight": logins | {key.name: key.max_in_flight for key in table.keys},
    }


def build_provider(table: ProviderTable) -> Provider:
    """Return the provider of one config table; only its plugin is imported (S44)."""
    plugin = load(table.plugin)
    options: Any = None
    if plugin.options is not None:
        options = msgspec.convert(table.options, plugin.options)
    setup = Setup(
        name=table.name,
        base_url=table.base_url or plugin.base_url,
        dialect=table.dialect or plugin.dialects[0],
        keys={key.name: key.value for key in table.keys},
        session=new_session,
        headers=table.headers,
        credentials={credential.name: credential.file or "" for credential in table.credentials},
        options=options,
        connect_s=table.timeouts.connect_s,
        trust_env=table.trust_env,
    )
    return plugin.build(setup)
