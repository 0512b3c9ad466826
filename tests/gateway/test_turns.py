"""Requests wait in line for a key that others use: in order, a few at a time, never for long, never in vain."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import turns as module
from gateway.keypool import BUSY_WAIT_S, Lease, Pool, Resting
from gateway.turns import AT_ONCE, RAMP_S, Turns


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most five seconds."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


async def lined_up(turns: Turns, *requests: Awaitable) -> list[asyncio.Task]:
    """Start requests one after the other, each in line before the next."""
    tasks = []
    for request in requests:
        count = len(turns)
        tasks.append(asyncio.ensure_future(request))
        await until(lambda count=count: len(turns) > count)
    return tasks


async def probing(names=("a",), **more) -> tuple[Turns, Lease]:
    """A pool whose keys have rested, and the probe of the first."""
    turns = Turns(Pool(names, **more))
    for _ in names:
        turns.report(await turns.take("m", ()), "limited", wait_s=0.0)
    probe = await turns.take("m", ())
    assert isinstance(probe, Lease)
    assert probe.probe
    return turns, probe


def keys(tasks: list[asyncio.Task]) -> list[str]:
    """The keys of those that have been served."""
    return [task.result().key for task in tasks if task.done()]


async def test_a_free_key_is_lent_at_once():
    """Without a line a request gets what the pool says: a lease, or that its keys rest."""
    turns = Turns(Pool(["a"]))
    lease = await turns.take("m", ())
    assert "a" == lease.key
    turns.report(lease, "limited", wait_s=60.0)
    assert "limited" == (await turns.take("m", ())).reason
    assert 0 == len(turns)


@pytest.mark.promise("S36")
async def test_a_probes_success_opens_the_line():
    """Those that waited for the probe are served, in order and none with another probe."""
    turns, probe = await probing()
    tasks = await lined_up(turns, *(turns.take("m", ()) for _ in range(AT_ONCE)))
    turns.accept(probe)
    leases = await asyncio.gather(*tasks)
    assert [False] * AT_ONCE == [lease.probe for lease in leases]
    assert 0 == len(turns)


@pytest.mark.promise("S36")
async def test_a_recovered_key_is_not_run_over():
    """A line of many gets leases a few at a time, twice as many with each that is accepted."""
    turns, probe = await probing()
    tasks = await lined_up(turns, *(turns.take("m", ()) for _ in range(4 * AT_ONCE)))
    turns.accept(probe)
    await until(lambda: AT_ONCE == len(keys(tasks)))
    assert [True] * AT_ONCE == [task.done() for task in tasks[:AT_ONCE]]
    for task in tasks[:AT_ONCE]:
        turns.accept(task.result())
    await until(lambda: AT_ONCE + AT_ONCE * AT_ONCE == len(keys(tasks)))
    await asyncio.wait(tasks, timeout=5)
    assert 4 * AT_ONCE == len(keys(tasks))


async def test_a_slow_upstream_does_not_hold_a_healthy_key_back():
    """While it accepts nothing the line moves all the same, by the clock."""
    turns, probe = await probing()
    tasks = await lined_up(turns, *(turns.take("m", ()) for _ in range(2 * AT_ONCE)))
    turns.accept(probe)
    began = monotonic()
    await asyncio.wait(tasks, timeout=5)
    assert 2 * AT_ONCE == len(keys(tasks))
    assert RAMP_S / 2 < monotonic() - began < 4 * RAMP_S


@pytest.mark.promise("S36")
async def test_a_probes_limit_tells_all_at_once():
    """When the key rests again nobody waits in vain."""
    turns, probe = await probing()
    tasks = await lined_up(turns, *(turns.take("m", ()) for _ in range(5 * AT_ONCE)))
    turns.report(probe, "limited", wait_s=40.0)
    answers = await asyncio.gather(*tasks)
    assert {("limited", 40)} == {(answer.reason, round(answer.retry_after_s)) for answer in answers}


async def test_a_failed_probe_gives_the_next_one_to_the_first_in_line():
    """One request at a time probes, in the order in which they came."""
    turns, probe = await probing()
    tasks = await lined_up(turns, *(turns.take("m", ()) for _ in range(3)))
    for number, task in enumerate(tasks):
        turns.report(probe, "failed")
        probe = await task
        assert probe.probe
        assert number + 1 == sum(task.done() for task in tasks)


@pytest.mark.promise("S24")
async def test_a_slot_goes_to_the_first_in_line():
    """A key with a limit of its own serves in order, and a late request does not slip in."""
    turns = Turns(Pool(["a"], max_in_flight=1))
    lease = await turns.take("m", ())
    tasks = await lined_up(turns, *(turns.take("m", ()) for _ in range(3)))
    turns.report(lease, "ok")
    late = (await lined_up(turns, turns.take("m", ())))[0]
    order = []
    for task in (*tasks, late):
        lease = await task
        order.append([other.done() for other in (*tasks, late)])
        turns.report(lease, "ok")
    assert [[n <= number for n in range(4)] for number in range(4)] == order


async def test_the_wait_is_bounded_and_its_end_is_told():
    """Who waited long enough hears that the keys are busy; its place is free."""
    turns = Turns(Pool(["a"], max_in_flight=1))
    await turns.take("m", ())
    began = monotonic()
    assert Resting(BUSY_WAIT_S, "busy") == await turns.take("m", (), wait_s=0.05)
    assert 0.04 < monotonic() - began < 2
    assert 0 == len(turns)


async def test_no_place_in_line(monkeypatch):
    """A line that is full takes nobody in, and says so at once."""
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    turns = Turns(Pool(["a"], max_in_flight=1))
    lease = await turns.take("m", ())
    waiting = await lined_up(turns, turns.take("m", ()))
    assert Resting(BUSY_WAIT_S, "busy") == await asyncio.wait_for(turns.take("m", ()), 1)
    turns.report(lease, "ok")
    assert "a" == (await waiting[0]).key


async def test_the_last_look_finds_a_free_key(monkeypatch):
    """At the end of its wait a request is not refused for its place in line while a key is free."""
    monkeypatch.setattr(module, "AT_ONCE", 0)
    turns, probe = await probing()
    tasks = await lined_up(turns, turns.take("m", (), wait_s=0.05))
    turns.accept(probe)
    assert "a" == (await tasks[0]).key


@pytest.mark.promise("S25")
async def test_a_client_that_leaves_gives_its_place_up():
    """A cancelled request leaves the line; one whose turn had just come hands its lease on."""
    turns = Turns(Pool(["a"], max_in_flight=1))
    lease = await turns.take("m", ())
    gone, lucky, last = await lined_up(turns, *(turns.take("m", ()) for _ in range(3)))
    gone.cancel()
    await until(lambda: 2 == len(turns))
    turns.report(lease, "ok")
    lucky.cancel()
    assert "a" == (await last).key
    assert [True, True] == [task.cancelled() for task in (gone, lucky)]
    assert [1] == [key.in_flight for key in turns.pool.snapshot(0, 0).keys]


async def test_others_are_not_held_back_by_a_line():
    """A request for a model that does not rest, or with another key to use, passes those that wait."""
    turns = Turns(Pool(["a", "b"]))
    turns.report(await turns.take("m", ()), "limited", wait_s=0.0, model="m")
    probe = await turns.take("m", ("b",))
    assert probe.probe
    waiting = await lined_up(turns, turns.take("m", ("b",)))
    assert "b" == (await turns.take("m", ())).key
    assert isinstance(await turns.take("other", ("b",)), Lease)
    turns.accept(probe)
    assert "a" == (await waiting[0]).key


async def test_a_rest_that_ends_meanwhile_serves_the_line():
    """The clock alone opens a key for those that wait for another."""
    turns = Turns(Pool(["a", "b"]))
    for wait in (0.0, 0.2):
        turns.report(await turns.take("m", ()), "limited", wait_s=wait)
    probe = await turns.take("m", ())
    assert "a" == probe.key
    task = (await lined_up(turns, turns.take("m", ())))[0]
    assert "b" == (await asyncio.wait_for(task, 5)).key


async def test_a_readmitted_key_serves_the_line():
    """A login that was replaced is given to those that wait."""
    turns = Turns(Pool(["a", "b"], max_in_flight={"b": 1}))
    turns.report(await turns.take("m", ()), "rejected")
    await turns.take("m", ())
    task = (await lined_up(turns, turns.take("m", ())))[0]
    turns.pool.readmit("a")
    turns.wake()
    assert "a" == (await task).key


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 3),
    names=st.integers(1, 3),
    outcomes=st.lists(st.sampled_from(["ok", "failed", "cancelled", "limited"]), min_size=1, max_size=30),
)
def test_everybody_gets_an_answer_and_every_lease_comes_back(limit, names, outcomes):
    """Whatever becomes of the requests, none is forgotten in line and no key is lent beyond its limit."""

    async def played() -> None:
        turns = Turns(Pool([str(n) for n in range(names)], max_in_flight=limit))
        most = 0

        async def request(outcome: str) -> None:
            nonlocal most
            lease = await turns.take("m", ())
            if isinstance(lease, Lease):
                most = max(most, *(key.in_flight for key in turns.pool.snapshot(0, 0).keys))
                await asyncio.sleep(0)
                turns.report(lease, outcome, wait_s=0.0)

        async with asyncio.timeout(8):
            await asyncio.gather(*(request(outcome) for outcome in outcomes))
        assert most <= limit
        assert (0, [0] * names) == (len(turns), [key.in_flight for key in turns.pool.snapshot(0, 0).keys])

    asyncio.run(played())
