"""Price of choosing a key: microseconds for acquire + report, with 1 and 100 keys, and after a million requests.

Ratios matter more than the numbers: near 1 on any machine.
"""

import gc
import sys
import time
from pathlib import Path
from typing import get_args

# Run by its path, the script would take benchmarks/gateway.py for the package.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from gateway.keypool import Lease, Pool, Strategy  # noqa: E402

ROUNDS = 1000
REPEATS = 100
HISTORY = 1_000_000


def run(pool: Pool, rounds: int) -> float:
    """Return the seconds that this many requests cost."""
    started = time.perf_counter()
    for count in range(rounds):
        lease = pool.acquire(float(count), "model", ())
        assert isinstance(lease, Lease)
        pool.report(lease, "ok", float(count))
    return time.perf_counter() - started


def prices_us(*pools: Pool) -> list[float]:
    """Return the best microseconds of one acquire + report for each pool, measured in turns against drift."""
    rounds = [[run(pool, ROUNDS) for pool in pools] for _ in range(REPEATS)]
    return [min(times) / ROUNDS * 1e6 for times in zip(*rounds, strict=True)]


def names(count: int) -> list[str]:
    return [f"key-{index}" for index in range(count)]


def busy(strategy: Strategy) -> Pool:
    """Return a pool of 100 keys, 99 of which rest: the worst choice."""
    pool = Pool(names(100), strategy=strategy)
    for _ in range(99):
        lease = pool.acquire(0.0, "model", ())
        assert isinstance(lease, Lease)
        pool.report(lease, "limited", 0.0, wait_s=86_400)
    return pool


def main() -> None:
    gc.freeze()
    for strategy in get_args(Strategy):
        fresh, used = Pool(names(100), strategy=strategy), Pool(names(100), strategy=strategy)
        run(used, HISTORY)
        one, many, resting, later = prices_us(Pool(names(1), strategy=strategy), fresh, busy(strategy), used)
        print(f"{strategy}: 1 key {one:.2f} us, 100 keys {many:.2f} us ({many / one:.2f} x),", end=" ")
        print(f"99 of them resting {resting:.2f} us ({resting / one:.2f} x),", end=" ")
        print(f"after {HISTORY:,} requests {later:.2f} us ({later / many:.2f} x)")


if __name__ == "__main__":
    main()
