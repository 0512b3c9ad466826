"""Token counts for clients that ask before they send: an estimate that learns from what upstreams report.

The estimate of `translators.messages.count` errs upwards; a factor per upstream and model brings it near the truth,
fast when it was too low (a client that trusts a low count overflows) and slowly when it was too high.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import msgspec

from gateway.tokenizer import Tokenizer, Unfit, load
from translators.messages.count import estimate

__all__ = ["Files", "Tokens"]

LOWEST, HIGHEST = 0.3, 2.0
"""Bounds of what is believed: beyond them something else is wrong than the estimate, so nothing is learned."""
UP, DOWN = 0.5, 0.15
"""Parts of the way to a new ratio."""
MAX_MODELS = 512
MIN_TOKENS = 200
"""A shorter prompt is mostly template and teaches nothing."""
EAGER = 8
"""So many first answers all teach; of later ones each SPARSE-th, since an estimate costs a walk over the prompt."""
SPARSE = 16
MAX_BYTES = 512 * 1024
"""A longer body does not teach: walking it takes milliseconds."""


class _Learned(msgspec.Struct):
    factor: float = 1.0
    lessons: int = 0
    seen: int = 0


class Files:
    """The tokenizer files that routes name, each read once, in a thread, when it is first asked."""

    def __init__(self, warn: Callable[[str, str], object]) -> None:
        self._warn = warn
        self._read: dict[str, asyncio.Task[Tokenizer | None]] = {}

    async def count(self, path: str | None, body: bytes) -> int | None:
        """Return the tokens of a body by a route's file; None without one, or where it cannot tell now."""
        if path is None:
            return None
        if path not in self._read:
            self._read[path] = asyncio.create_task(self._load(path))
        found = await asyncio.shield(self._read[path])
        return None if found is None else await found.count(body)

    async def _load(self, path: str) -> Tokenizer | None:
        try:
            return await asyncio.to_thread(load, Path(path))
        except Unfit as unfit:
            self._warn(path, str(unfit))
            return None


class Tokens:
    """Count tokens of upstream bodies, per upstream and model; the model that taught longest ago is forgotten first."""

    def __init__(self, models: int = MAX_MODELS) -> None:
        self._limit = models
        self._learned: OrderedDict[tuple[str, str], _Learned] = OrderedDict()

    def __len__(self) -> int:
        return len(self._learned)

    def count(self, upstream: str, model: str, body: bytes) -> tuple[int, bool]:
        """Return the tokens of a body and whether anything was learned about its model; raises Refused."""
        learned = self._learned.get((upstream, model))
        if learned is None or not learned.lessons:
            return estimate(body), False
        return -int(-estimate(body) * learned.factor // 1), True

    def learn(self, upstream: str, model: str, body: bytes, reported: int | None) -> None:
        """Take note of the prompt tokens that an upstream reported for a body."""
        if reported is None or reported < MIN_TOKENS or len(body) > MAX_BYTES:
            return
        learned = self._learned.setdefault((upstream, model), _Learned())
        self._learned.move_to_end((upstream, model))
        if len(self._learned) > self._limit:
            self._learned.popitem(last=False)
        learned.seen += 1
        if learned.lessons >= EAGER and learned.seen % SPARSE:
            return
        ratio = reported / estimate(body)
        if not LOWEST <= ratio <= HIGHEST:
            return
        learned.factor += (UP if ratio > learned.factor else DOWN) * (ratio - learned.factor)
        learned.lessons += 1
