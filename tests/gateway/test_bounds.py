"""Nothing grows with what clients send (S24), and nothing is left of what went wrong (S25, S26)."""

import asyncio
import json

import pytest

from gateway.config import Model, Pool, Route
from gateway.prefixes import MAX_SESSIONS
from gateway.runtime import TARGETS_KEPT
from gateway.tokens import MAX_MODELS
from tests.gateway.live import CLIENT_KEY, DEADLINE_S, PATHS, config, provider, request, running
from tests.streams import STREAM, Say, Turn
from tests.upstream import Delay, End, Head, Raw, Upstream, reply_json, sse

FRAMES = STREAM["chat"](Turn([Say("It is warm.")], input_tokens=500))
LIMITED = reply_json(
    {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, 429, headers=[("retry-after", "9")]
)
every_client = pytest.mark.parametrize("client", PATHS)


async def until(true):
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.005)


@pytest.mark.slow
@pytest.mark.promise("S24")
async def test_tables_do_not_grow_with_names_and_sessions():
    """Of 600 requests, each with a model and a session of its own, no table keeps more than its bound."""
    models = {"*": Model(routes=(Route("up"),))}
    async with (
        Upstream(lambda _: sse(FRAMES)) as upstream,
        running(config(provider(upstream.url), models=models)) as live,
    ):
        for start in range(0, 600, 30):
            sends = (
                live.send("chat", model=f"m{n}", headers={"session-id": f"s{n}", f"x-{n}": "y"})
                for n in range(start, start + 30)
            )
            assert {200} == {reply.status for reply in await asyncio.gather(*sends)}
        runtime = live.listening.gateway.runtime
        assert len(runtime._targets) <= TARGETS_KEPT
        assert len(runtime.prefixes) <= MAX_SESSIONS
        assert len(runtime.tokens) <= MAX_MODELS
        assert 1 == len(live.listening.gateway.admission._uses)
        assert 0 == len(live.listening.gateway.exchanges)


@pytest.mark.slow
@pytest.mark.promise("S24", "S30")
async def test_runtime_tables_hold_their_bounds():
    """A hundred thousand names, straight into the tables that a request touches."""
    models = {"*": Model(routes=(Route("up"),))}
    async with running(config(provider("http://127.0.0.1:1"), models=models)) as live:
        runtime = live.listening.gateway.runtime
        up = runtime.upstreams["up"]
        for number in range(100_000):
            name = str(number)
            up.affinity.put("alice", name, "m", "k1", float(number))
            if number % 20 == 0:
                runtime.target(runtime.resolve(name), up.provider, name)
                lease = up.pool.acquire(number, name, set(), None)
                up.pool.report(lease, "limited", number, wait_s=0.001, model=name) if number % 40 else up.pool.report(
                    lease, "ok", number
                )
                runtime.tokens.learn("up", name, b'{"messages":[]}', 100)
        assert len(runtime._targets) <= TARGETS_KEPT
        assert len(runtime.tokens) <= MAX_MODELS
        assert len(up.affinity) <= 100_000 // 2
        rests = up.pool.export(0.0, 0.0).rests
        assert len(rests) <= 257


STEPS = {
    "before-headers": [[Delay(30)]],
    "after-headers": [[Head(), End.STALL]],
    "first-frame": [[Head(), FRAMES[0], End.STALL]],
    "mid-answer": [[Head(), *FRAMES[:3], End.STALL]],
    "mid-frame": [[Head(), *FRAMES[:3], b'data: {"ch', End.STALL]],
    "after-the-terminal": [[Head(), *FRAMES, End.STALL]],
    "error-body": [
        [Head(500, [("content-type", "application/json"), ("content-length", "900")]), b'{"error":', End.STALL]
    ],
    "second-key": [LIMITED, [Delay(30)]],
}


@pytest.mark.slow
@every_client
@pytest.mark.promise("S25", "S26")
@pytest.mark.parametrize("step", STEPS)
async def test_a_client_may_leave_at_any_step(client, step):
    """The upstream connection ends within a second, the lease is back, one record is written, nothing is left."""
    async with Upstream(STEPS[step]) as upstream, running(config(provider(upstream.url, keys=2))) as live:
        body = json.dumps(request(client)).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {CLIENT_KEY}"}
        sending = asyncio.create_task(live.session.post(live.url + PATHS[client], data=body, headers=headers))
        await upstream.received(len(STEPS[step]))
        await asyncio.sleep(0.1)
        if sending.done():
            sending.result().close()
        else:
            sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await upstream.requests[-1].hung_up(within_s=2)
        gateway = live.listening.gateway
        await until(lambda: not gateway.exchanges)
        [record] = await live.records()
        pool = gateway.runtime.upstreams["up"].pool
        assert 0 == sum(key.in_flight for key in pool.snapshot(0, 0).keys)
        assert 0 == gateway.admission.running()
        assert 0 == gateway.runtime.running
    assert record["outcome"] in ("client_disconnected", "complete")
    assert len(STEPS[step]) == len(upstream.requests)


FAULTS = {
    "refused": None,
    "reset": [End.RESET],
    "garbage": [Raw(b"banana\r\n\r\n"), End.CLOSE],
    "cut": [Head(), *FRAMES[:3], End.CLOSE],
    "bad-chunk": [Head(), *FRAMES[:3], Raw(b"zz\r\n"), End.CLOSE],
    "stall": [Head(), *FRAMES[:3], End.STALL],
    "limited": LIMITED,
    "error": reply_json({"error": {"message": "x"}}, 500),
    "html": [Head(headers=[("content-type", "text/html")]), b"<html>"],
    "broken-frame": [Head(), b"data: {\n\n"],
    "after-end": [Head(), *FRAMES, FRAMES[1]],
}


@pytest.mark.slow
@pytest.mark.promise("S26")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_leaves_nothing_behind(fault):
    """Of twenty requests into the same fault no task, socket, lease or entry is left; each has its record."""
    script = FAULTS[fault]
    async with Upstream(lambda _: script or []) as upstream:
        url = upstream.url if script is not None else "http://127.0.0.1:1"
        table = provider(url, keys=2, pool=Pool(fallback_cooldown_s=0.01), idle_s=0.2, meaning_idle_s=0.2)
        async with running(config(table)) as live:
            replies = await asyncio.gather(*(live.send(client) for client in PATHS for _ in range(7)))
            records = await live.records(len(replies))
            gateway = live.listening.gateway
            await until(lambda: not gateway.exchanges)
            pool = gateway.runtime.upstreams["up"].pool
            assert 0 == sum(key.in_flight for key in pool.snapshot(0, 0).keys)
            assert 0 == gateway.admission.running()
    assert len(replies) == len(records) == len({record["request_id"] for record in records})


@pytest.mark.promise("S27")
async def test_an_answer_without_end_is_cut():
    """An event that never ends is a broken upstream at its limit; memory is not filled first."""
    piece = b"x" * (1 << 20)
    async with (
        Upstream([[Head(), b"data: ", *[piece] * 20, End.STALL]]) as upstream,
        running(config(provider(upstream.url))) as live,
    ):
        reply = await live.send("messages")
        await upstream.requests[0].hung_up()
        [record] = await live.records()
    assert (502, "limit") == (reply.status, record["outcome"])
