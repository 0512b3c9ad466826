"""The replay store under 100,000 ids of 50 clients: time of a put and a look-up, and what it keeps."""

import sys
import tracemalloc
from pathlib import Path
from time import perf_counter

# Run by its path, the script would take benchmarks/gateway.py for the package.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from gateway.stores.replay import ENTRIES, MAX_BYTES, Replay, Slot  # noqa: E402
from translators.conversation import ToolCall  # noqa: E402

CALLS = 100_000
TENANTS = 50
ARGUMENTS = '{"path":"%s","text":"' + "x" * 2000 + '"}'


def fill(replay: Replay) -> list[Slot]:
    """Remember all calls, and return the clients' slots."""
    slots = [replay.slot(b"s" * 32, f"client-{number}", "grok-4.5") for number in range(TENANTS)]
    for number in range(CALLS):
        call = ToolCall(f"call_{number}", "write", ARGUMENTS % number)
        slot = slots[number % TENANTS]
        slot.item((f"fc_call_{number}", f"call_{number}"), call, number / 1000)
        slot.answer((f"resp_{number}",), f"thread-{number % 1000}", (call,), number / 1000)
    return slots


def main() -> None:
    began = perf_counter()
    fill(Replay())
    put = perf_counter() - began
    tracemalloc.start()
    replay = Replay()
    slots = fill(replay)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    began = perf_counter()
    hits = 0
    for number in range(CALLS):
        memory = slots[number % TENANTS].memory(CALLS / 1000)
        hits += bool(memory.item(f"fc_call_{number}"))
    got = perf_counter() - began
    assert len(replay.calls) <= ENTRIES
    assert replay.calls.bytes <= MAX_BYTES
    print(f"{CALLS} answers with a call of 2 kB, four keys each, by {TENANTS} clients")
    print(f"put      {put / CALLS * 1e6:8.2f} us an answer")
    print(f"look-up  {got / CALLS * 1e6:8.2f} us")
    print(f"kept     {len(replay.calls)} of at most {ENTRIES} entries, {hits} of {CALLS} calls found again")
    print(f"charged  {replay.calls.bytes / 1e6:8.1f} MB of at most {MAX_BYTES / 1e6:.1f} MB")
    print(f"memory   {held / 1e6:8.1f} MB held, {peak / 1e6:.1f} MB at the peak")


if __name__ == "__main__":
    main()
