"""The keys of one provider: which one serves a request, and which ones rest (spec/cline.md 2; S35, S36).

Pure and driven by its caller's clock: `now` is monotonic seconds, `wall` seconds since the epoch. It promises that a
resting key is never lent, that one request at a time probes a key whose rest has ended, and that a request is lent a
key at most once. It never knows a secret: keys are names. Only a rate limit or a refused key moves traffic.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from translators.dialect import MAX_MODEL_CHARS

__all__ = [
    "BUSY_WAIT_S",
    "FALLBACK_COOLDOWN_S",
    "MAX_COOLDOWN_S",
    "MAX_MODELS",
    "KeyView",
    "Lease",
    "ModelView",
    "Outcome",
    "Phase",
    "Pool",
    "PoolState",
    "PoolView",
    "Rest",
    "Resting",
    "Strategy",
]

MAX_COOLDOWN_S = 86_400.0
"""Longest rest. Longer limits (a weekly quota) cost one probe a day, a wrong hint at most one day (S36)."""
FALLBACK_COOLDOWN_S = 3600.0
"""Rest after a limit that names no wait (spec/cline.md 1.10)."""
BUSY_WAIT_S = 1.0
"""Wait that is advised when a key may be free at any moment: it is being probed or full."""
MAX_MODELS = 256
"""Models with rests of their own; beyond that the rest that ends first is forgotten (S24)."""

Outcome = Literal["ok", "limited", "rejected", "failed", "cancelled"]
Strategy = Literal["sticky", "spread"]
Phase = Literal["healthy", "cooling", "half-open", "probing", "rejected"]


class Lease(msgspec.Struct, eq=False):
    """Lend one key to one attempt; hand it back to `Pool.report` exactly once, whatever happened."""

    key: str
    model: str
    probe: bool
    """The first use after a cooldown; until it is accepted nobody else gets the key."""
    started: float
    reported: bool = False


class Resting(msgspec.Struct, frozen=True):
    """Say that no key can be lent now, why, and in how many seconds one may be."""

    retry_after_s: float | None
    """None: waiting does not help, every key was rejected."""
    # busy: a key that this request may have rests no longer, but others probe it or fill it just now.
    reason: Literal["limited", "busy", "rejected"] = "limited"


class Rest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Keep one cooldown across restarts: the key's name, the wall-clock end and the model it is limited to."""

    key: str
    until: float
    model: str | None = None


class PoolState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Hold what a pool remembers across restarts (spec/cline.md 2.3)."""

    active: str | None = None
    rests: tuple[Rest, ...] = ()
    actives: dict[str, str] = {}
    """Keys of models that left the active one after a limit of their own."""


class ModelView(msgspec.Struct, frozen=True):
    """Show one model's rest on a key; `until` in seconds since the epoch."""

    model: str
    phase: Phase
    until: float


class KeyView(msgspec.Struct, frozen=True):
    """Show one key to the operator; `until` in seconds since the epoch while a rest is not yet over or proven over."""

    name: str
    phase: Phase
    until: float | None
    in_flight: int
    lent: int
    outcomes: dict[Outcome, int]
    models: tuple[ModelView, ...] = ()


class PoolView(msgspec.Struct, frozen=True):
    """Show a pool to the operator; `active` is the sticky strategy's present key."""

    strategy: Strategy
    active: str | None
    keys: tuple[KeyView, ...]


class _Key:
    __slots__ = ("bit", "in_flight", "index", "lent", "limit", "name", "outcomes")

    def __init__(self, name: str, index: int, limit: float) -> None:
        self.name = name
        self.limit = limit
        self.index = index
        self.bit = 1 << index
        self.in_flight = 0
        self.lent = 0
        self.outcomes: dict[Outcome, int] = dict.fromkeys(("ok", "limited", "rejected", "failed", "cancelled"), 0)


class _Rests:
    """Keep the rests of one scope: all models, or one.

    Sets of keys are integers, bit i for key i: choosing among 100 keys then costs as much as among two.
    """

    __slots__ = ("cooling", "half_open", "next_end", "probers", "probing", "until")

    def __init__(self) -> None:
        self.cooling = 0
        self.half_open = 0
        self.probing = 0
        self.next_end = math.inf
        self.until: dict[int, float] = {}
        self.probers: dict[int, Lease] = {}

    def shut(self, now: float) -> int:
        """Return the keys that nobody may have now, after opening those whose rest has ended."""
        if now >= self.next_end:
            ended = sum(1 << i for i in _bits(self.cooling) if self.until[i] <= now)
            self.cooling &= ~ended
            self.half_open |= ended
            self._find_next_end()
        return self.cooling | self.probing

    def rest(self, key: _Key, until: float) -> None:
        """Let a key rest; whoever was probing it has lost the right to clear this."""
        self._drop(key)
        self.until[key.index] = until
        self.cooling |= key.bit
        self._find_next_end()

    def probe(self, key: _Key, lease: Lease) -> None:
        """Reserve a half-open key for one lease."""
        self.half_open &= ~key.bit
        self.probing |= key.bit
        self.probers[key.index] = lease

    def release(self, key: _Key, lease: Lease) -> None:
        """Make a key half-open again if this lease was probing it."""
        if self.probers.get(key.index) is lease:
            del self.probers[key.index]
            self.probing &= ~key.bit
            self.half_open |= key.bit

    def clear(self, key: _Key, lease: Lease) -> bool:
        """Make a key healthy if this lease was probing it; a lease from before the rest proves nothing."""
        if self.probers.get(key.index) is not lease:
            return False
        self.forget(key)
        return True

    def forget(self, key: _Key) -> None:
        """Remove everything known about a key."""
        self._drop(key)
        self.until.pop(key.index, None)
        self._find_next_end()

    def phase(self, key: _Key) -> Phase:
        """Return the key's phase; call `shut` before."""
        if key.bit & self.cooling:
            return "cooling"
        if key.bit & self.probing:
            return "probing"
        return "half-open" if key.bit & self.half_open else "healthy"

    def _drop(self, key: _Key) -> None:
        self.cooling &= ~key.bit
        self.half_open &= ~key.bit
        self.probing &= ~key.bit
        self.probers.pop(key.index, None)

    def _find_next_end(self) -> None:
        self.next_end = min((self.until[i] for i in _bits(self.cooling)), default=math.inf)


class Pool:
    """Lend the keys of one provider, in the order of its configuration.

    `sticky` stays on one key until that is limited and does not come back by itself, which keeps the upstream's prompt
    cache warm; `spread` takes the key with the fewest requests in flight.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        strategy: Strategy = "sticky",
        fallback_cooldown_s: float = FALLBACK_COOLDOWN_S,
        retire_rejected: bool = True,
        max_in_flight: int | Mapping[str, int] = 0,
    ) -> None:
        if not names or len(set(names)) != len(names):
            raise ValueError("a pool needs at least one key and distinct names")
        self.strategy: Strategy = strategy
        self.revision = 0
        """Grows when `export` would differ, so that a state file is not written on every request."""
        self._fallback_s = fallback_cooldown_s
        self._retire = retire_rejected
        # One limit for each key, or limits by key name; 0 is none.
        limits = max_in_flight if isinstance(max_in_flight, Mapping) else dict.fromkeys(names, max_in_flight)
        self._keys = [_Key(name, index, limits.get(name) or math.inf) for index, name in enumerate(names)]
        self._named = {key.name: key for key in self._keys}
        self._every = (1 << len(self._keys)) - 1
        self._rejected = 0
        self._full = 0
        self._rests = _Rests()
        self._models: dict[str, _Rests] = {}
        self._levels = {0: self._every}
        """Keys by requests in flight; empty levels are absent, so there are never more levels than keys."""
        self._active = 0
        self._actives: dict[str, int] = {}
        """The active key of each model that has left the common one, as its quota there was used up."""
        self._turn = 0

    def acquire(self, now: float, model: str, tried: Collection[str], prefer: str | None = None) -> Lease | Resting:
        """Lend a key for one attempt of a request, or say how long none can be.

        `tried` names the keys that this request has used; the caller adds `lease.key`. `prefer` is a wish
        (session affinity): a key that rests, is full or was tried is left for the next one.
        """
        scopes = self._scopes(model)
        shut = self._rejected | self._full
        for rests in scopes:
            shut |= rests.shut(now)
        used = 0
        for name in tried:
            if name in self._named:
                used |= self._named[name].bit
        free = self._every & ~(shut | used)
        if not free:
            return self._resting(now, scopes, used)
        return self._lend(self._choose(free, prefer, model), now, model, scopes)

    def accept(self, lease: Lease) -> None:
        """Note that the upstream took the request (2xx headers): a probe has succeeded, the lease goes on.

        Without this a probe that streams for minutes would hold back everybody else (spec/cline.md 2.1).
        """
        if not lease.probe or lease.reported:
            return
        key = self._named[lease.key]
        cleared = [rests.clear(key, lease) for rests in self._scopes(lease.model)]
        if any(cleared):
            self.revision += 1
            self._follow(key, lease.model)
            self._prune(lease.model)

    def report(
        self, lease: Lease, outcome: Outcome, now: float, *, wait_s: float | None = None, model: str | None = None
    ) -> None:
        """Take a lease back with its outcome; a second report of the same lease changes nothing.

        `limited` lets the key rest for `wait_s` seconds (none or nonsense: the fallback). If the upstream named a
        `model`, it rests for the lease's model only: that is the one it means, however it spells it (`zai/`, `z-ai/`,
        `-free`). `failed` and `cancelled` say nothing about the key, so they move nothing (S36).
        """
        if lease.reported:
            return
        if outcome == "ok":
            self.accept(lease)
        lease.reported = True
        key = self._named[lease.key]
        key.outcomes[outcome] += 1
        self._count(key, -1)
        if lease.probe:
            for rests in self._scopes(lease.model):
                rests.release(key, lease)
        if outcome == "limited":
            self._limit(key, now, wait_s, None if model is None else lease.model)
        elif outcome == "rejected" and self._retire:
            self._reject(key)

    def readmit(self, name: str) -> bool:
        """Use a rejected key again, as after its credential was replaced; False if it was not rejected."""
        key = self._named.get(name)
        if key is None or not key.bit & self._rejected:
            return False
        self._rejected &= ~key.bit
        return True

    def snapshot(self, now: float, wall: float) -> PoolView:
        """Return names, phases, ends, requests in flight and counters, for the operator."""
        for rests in (self._rests, *self._models.values()):
            rests.shut(now)
        active = self._keys[self._active].name if self.strategy == "sticky" else None
        return PoolView(self.strategy, active, tuple(self._view(key, wall - now) for key in self._keys))

    def export(self, now: float, wall: float) -> PoolState:
        """Return the rests by key name with wall-clock ends; rejections are left out, the key may be replaced."""
        offset = wall - now
        rests = [Rest(self._keys[i].name, until + offset) for i, until in self._rests.until.items()]
        for model, scope in self._models.items():
            rests += [Rest(self._keys[i].name, until + offset, model) for i, until in scope.until.items()]
        actives = {model: self._keys[index].name for model, index in self._actives.items()}
        return PoolState(self._keys[self._active].name if self.strategy == "sticky" else None, tuple(rests), actives)

    def restore(self, state: PoolState, now: float, wall: float) -> None:
        """Take over exported rests: unknown names are dropped, ends in the past are half-open, far ones capped.

        A wall clock that jumped can so shorten a rest to one probe or lengthen it to MAX_COOLDOWN_S, not more.
        """
        for rest in state.rests:
            key = self._named.get(rest.key)
            if key is None or len(rest.model or "") > MAX_MODEL_CHARS or math.isnan(rest.until):
                continue
            scope = self._rests if rest.model is None else self._for_model(rest.model)
            scope.rest(key, now + min(rest.until - wall, MAX_COOLDOWN_S))
        if state.active in self._named:
            self._active = self._named[state.active].index
        for model, name in state.actives.items():
            if name in self._named and len(model) <= MAX_MODEL_CHARS:
                self._stay(model, self._named[name].index)

    def _scopes(self, model: str) -> tuple[_Rests, ...]:
        scope = self._models.get(model) if self._models else None
        return (self._rests,) if scope is None else (self._rests, scope)

    def _choose(self, free: int, prefer: str | None, model: str) -> _Key:
        if prefer is not None and prefer in self._named and self._named[prefer].bit & free:
            return self._named[prefer]
        if self.strategy == "sticky":
            return self._keys[_next_bit(free, self._actives.get(model, self._active))]
        idle = next(hit for level in sorted(self._levels) if (hit := self._levels[level] & free))
        # Among equals take turns, else a quiet gateway would use the first key alone.
        index = _next_bit(idle, self._turn)
        self._turn = index + 1
        return self._keys[index]

    def _lend(self, key: _Key, now: float, model: str, scopes: tuple[_Rests, ...]) -> Lease:
        lease = Lease(key.name, model, False, now)
        for rests in scopes:
            if key.bit & rests.half_open:
                rests.probe(key, lease)
                lease.probe = True
        key.lent += 1
        self._count(key, 1)
        if not lease.probe:
            self._follow(key, model)
        return lease

    def _count(self, key: _Key, change: int) -> None:
        left = self._levels[key.in_flight] & ~key.bit
        if left:
            self._levels[key.in_flight] = left
        else:
            del self._levels[key.in_flight]
        key.in_flight += change
        self._levels[key.in_flight] = self._levels.get(key.in_flight, 0) | key.bit
        if key.in_flight >= key.limit:
            self._full |= key.bit
        else:
            self._full &= ~key.bit

    def _resting(self, now: float, scopes: tuple[_Rests, ...], used: int) -> Resting:
        live = self._every & ~self._rejected
        if not live:
            return Resting(None, "rejected")
        cooling = 0
        for rests in scopes:
            cooling |= rests.cooling
        if len(scopes) == 1:
            wait = self._rests.next_end - now
        else:
            # A key is back when both its own rest and the one for this model are over.
            ends = (max(rests.until.get(i, now) for rests in scopes) for i in _bits(cooling & live))
            wait = min(ends, default=math.inf) - now
        if live & ~cooling:
            wait = min(wait, BUSY_WAIT_S)
        return Resting(wait, "busy" if live & ~(cooling | used) else "limited")

    def _limit(self, key: _Key, now: float, wait_s: float | None, model: str | None) -> None:
        if key.bit & self._rejected:
            return
        rests = self._rests if model is None else self._for_model(model)
        cooling = bool(rests.shut(now) & rests.cooling & key.bit)
        hinted = wait_s is not None and wait_s >= 0
        if cooling and not hinted:
            return  # a known end beats the guess
        wait = wait_s if wait_s is not None and hinted else self._fallback_s
        until = now + min(wait, MAX_COOLDOWN_S)
        # Requests that were in flight together report one limit, or two limits that both have to end.
        rests.rest(key, max(until, rests.until[key.index]) if cooling else until)
        self.revision += 1
        self._leave(key, model)

    def _reject(self, key: _Key) -> None:
        self._rejected |= key.bit
        self._rests.forget(key)
        for model in tuple(self._models):
            self._models[model].forget(key)
            self._prune(model)
        self.revision += 1
        self._leave(key)

    def _leave(self, key: _Key, model: str | None = None) -> None:
        """Make the next usable key the active one, of a model or of all, where this was it; with none left it stays."""
        if self.strategy != "sticky":
            return
        usable = self._every & ~(self._rejected | self._rests.cooling | self._rests.probing)
        if model is not None:
            leaving = [model] if self._actives.get(model, self._active) == key.index else []
        else:
            leaving = [name for name, index in self._actives.items() if index == key.index]
            if key.index == self._active and usable:
                self._active = _next_bit(usable, self._active)
        for name in leaving:
            rests = self._models.get(name)
            fit = usable & ~(rests.cooling | rests.probing) if rests is not None else usable
            if fit:
                self._stay(name, _next_bit(fit, key.index))

    def _follow(self, key: _Key, model: str) -> None:
        """Make a key that works the active one if the active one does not, so that its recovery changes nothing."""
        if self.strategy != "sticky":
            return
        down = self._rejected | self._rests.cooling
        if self._keys[self._active].bit & down:
            self._active = key.index
            self.revision += 1
        if self._models and model in self._models:
            down |= self._models[model].cooling
        if self._keys[self._actives.get(model, self._active)].bit & down:
            self._stay(model, key.index)

    def _stay(self, model: str, index: int) -> None:
        """Keep a model on a key of its own, until that one is limited too; the model that moved first is forgotten."""
        self._actives.pop(model, None)
        if index != self._active:
            self._actives[model] = index
            if len(self._actives) > MAX_MODELS:
                del self._actives[next(iter(self._actives))]
        self.revision += 1

    def _for_model(self, model: str) -> _Rests:
        if model not in self._models and len(self._models) >= MAX_MODELS:
            del self._models[
                min(self._models, key=lambda name: max(self._models[name].until.values(), default=-math.inf))
            ]
        return self._models.setdefault(model, _Rests())

    def _prune(self, model: str) -> None:
        if model in self._models and not self._models[model].until:
            del self._models[model]

    def _view(self, key: _Key, offset: float) -> KeyView:
        end = self._rests.until.get(key.index)
        models = tuple(
            ModelView(model, rests.phase(key), rests.until[key.index] + offset)
            for model, rests in self._models.items()
            if key.index in rests.until
        )
        return KeyView(
            name=key.name,
            phase="rejected" if key.bit & self._rejected else self._rests.phase(key),
            until=None if end is None else end + offset,
            in_flight=key.in_flight,
            lent=key.lent,
            outcomes=dict(key.outcomes),
            models=models,
        )


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _next_bit(mask: int, start: int) -> int:
    """Return the first set bit at or after start, else the first of all."""
    found = mask >> start << start or mask
    return (found & -found).bit_length() - 1
