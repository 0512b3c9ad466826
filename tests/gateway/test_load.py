"""A smoke load on a running gateway: no error, nothing left, bounded memory."""

import asyncio
import gc
import json
import resource
import time
from pathlib import Path

import pytest

from tests.gateway.conftest import open_files, tasks
from tests.gateway.live import CLIENT_KEY, PATHS, config, provider, request, running
from tests.gateway.wire import JSON, KEY, LOCAL, connect, head
from tests.streams import PIECE, STREAM, Say, Turn
from tests.upstream import Head, Upstream, Wait, sse

STATM = Path("/proc/self/statm")
CHUNKS = 200
FRAMES = STREAM["chat"](Turn([Say("x" * PIECE * CHUNKS)]))
ENDS = {"chat": b"data: [DONE]", "responses": b"event: response.completed", "messages": b"event: message_stop"}
STREAMS = 200
PER_STREAM_BYTES = 100_000
GROWTH_BYTES = 40 << 20


def resident() -> int:
    """What this process holds in memory, in bytes."""
    gc.collect()
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.promise("S26")
@pytest.mark.skipif(not STATM.exists(), reason="reads /proc")
async def test_fifty_streams_at_once_lose_nothing():
    """50 clients of three protocols, 200 chunks each, three rounds: every stream whole, nothing left, no growth."""
    assert len(FRAMES) >= CHUNKS
    async with Upstream(lambda _: sse(FRAMES)) as upstream, running(config(provider(upstream.url))) as live:
        clients = [list(PATHS)[number % 3] for number in range(50)]

        async def round_of():
            for client, reply in zip(clients, await asyncio.gather(*map(live.send, clients)), strict=True):
                assert (200, 1) == (reply.status, reply.body.count(ENDS[client]))
                assert b"x" * PIECE in reply.body

        await round_of()
        await asyncio.sleep(0.1)
        files, running_tasks, memory = open_files(), tasks(), resident()
        for _ in range(2):
            await round_of()
        records = await live.records(150)
        await asyncio.sleep(0.1)
        assert len(open_files()) <= len(files)
        assert len(tasks()) <= len(running_tasks)
        assert resident() - memory < GROWTH_BYTES
    assert {"complete"} == {record["outcome"] for record in records}
    assert max(record["overhead_ms"] for record in records) < 60_000


@pytest.mark.slow
@pytest.mark.promise("S26")
@pytest.mark.skipif(not STATM.exists(), reason="reads /proc")
async def test_an_open_silent_stream_costs_little():
    """200 streams that began and then say nothing take less than 100 kB each, upstream and client of the test included."""
    go_on = asyncio.Event()
    script = [Head(), *FRAMES[:3], Wait(go_on), *FRAMES[-3:]]
    async with Upstream(lambda _: script) as upstream, running(config(provider(upstream.url))) as live:
        body = json.dumps(request("messages")).encode()
        length = ("content-length", str(len(body)))
        sent = head(f"POST {PATHS['messages']}", LOCAL, KEY, JSON, length) + body
        warm = [await opened(live.url, sent) for _ in range(5)]
        before = resident()
        began = time.monotonic()
        streams = [await opened(live.url, sent) for _ in range(STREAMS)]
        taken = resident() - before
        assert STREAMS + 5 == len(live.listening.gateway.exchanges)
        assert taken / STREAMS < PER_STREAM_BYTES
        assert time.monotonic() - began < 60
        go_on.set()
        for reader, writer in (*warm, *streams):
            await reader.readuntil(b"message_stop")
            writer.close()
        records = await live.records(STREAMS + 5)
    assert {"complete"} == {record["outcome"] for record in records}
    assert CLIENT_KEY not in live.out.getvalue()


async def opened(url, sent):
    """A stream whose first events have come."""
    reader, writer = await connect(url)
    writer.write(sent)
    await reader.readuntil(b"content_block_delta")
    return reader, writer
