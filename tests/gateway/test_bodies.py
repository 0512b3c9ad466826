"""Bodies that are too large, too deep, too odd or too slow, through a running gateway (S20, S21, S22)."""

import asyncio
import gzip
import json
import resource
import time
import zlib

import aiohttp
import pytest
from backports import zstd

from gateway import body, lifecycle
from tests.gateway.live import DEADLINE_S, PATHS, config, provider, request, running
from tests.gateway.wire import JSON, KEY, LOCAL, connect, head, talk, talk_on, whole
from tests.streams import STREAM, Say, Turn
from tests.upstream import Upstream, sse

LIMIT = 20_000
STREAMED = sse(STREAM["chat"](Turn([Say("It is warm.")])))
CHUNKED = ("transfer-encoding", "chunked")
every_client = pytest.mark.parametrize("client", PATHS)
PACK = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}


def padded(client, size):
    """A request of exactly so many bytes."""
    plain = json.dumps(request(client)).encode()
    return plain[:-1] + b" " * (size - len(plain)) + b"}"


def chunks(data, size=4096):
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@every_client
@pytest.mark.promise("S20")
async def test_the_limit_is_exact(client):
    """A body of the limit is served and one of a byte more is a 413, with a length as without."""
    async with (
        Upstream(lambda _: STREAMED) as upstream,
        running(config(provider(upstream.url), max_request_bytes=LIMIT)) as live,
    ):
        for size, status in ((LIMIT, 200), (LIMIT + 1, 413)):
            data = padded(client, size)
            with_length = await talk(live.url, whole(f"POST {PATHS[client]}", data, KEY, JSON))
            without = head(f"POST {PATHS[client]}", LOCAL, KEY, JSON, CHUNKED, ("connection", "close")) + chunks(data)
            assert (status, status) == (with_length.status, (await talk(live.url, without)).status)
        records = await live.records(4)
    assert ["complete", "complete", "client_error", "client_error"] == [record["outcome"] for record in records]
    assert 2 == len(upstream.requests)


@pytest.mark.slow
@pytest.mark.promise("S20")
@pytest.mark.parametrize("encoding", PACK)
async def test_a_bomb_is_a_413(encoding):
    """A few kilobytes that would be 200 MiB cost neither memory nor time."""
    bomb = PACK[encoding](bytes(200 << 20))
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        await live.send("chat")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.monotonic()
        reply = await live.post(PATHS["chat"], bomb, headers={"content-encoding": encoding})
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert 413 == reply.status
    assert time.monotonic() - began < 5
    assert grown < 150 << 10  # KiB: the limit of 32 MiB, once or twice


@pytest.mark.promise("S20")
async def test_a_refused_upload_gets_its_answer():
    """The client of a body that is too large, or has no key, reads the error, and not a reset of its connection."""
    data = b"x" * (8 << 20)
    async with running(config(provider("http://127.0.0.1:1"), max_request_bytes=1 << 20)) as live:
        for headers, status in (((KEY, JSON), 413), ((JSON,), 401), ((KEY, ("content-type", "text/plain")), 415)):
            answer, reset = await talk_on(live.url, [whole(f"POST {PATHS['chat']}", data, *headers)])
            assert (status, False) == (answer.status, reset)


@pytest.mark.promise("S20")
async def test_a_client_that_sends_before_it_reads_gets_its_answer():
    """As most libraries do: the whole body first."""
    async with running(config(provider("http://127.0.0.1:1"), max_request_bytes=1 << 20)) as live:

        async def pieces():
            for _ in range(64):
                yield b"x" * (1 << 17)

        headers = {"content-type": "application/json", "x-api-key": "client-key-for-tests-0001"}
        async with aiohttp.ClientSession() as session:
            async with session.post(live.url + PATHS["chat"], data=pieces(), headers=headers) as response:
                assert 413 == response.status


DEEP = 100_000
WITH_NUMBER = (
    b'{"model":"m1","max_tokens":%b,"max_output_tokens":%b,"input":"hi","messages":[{"role":"user","content":"hi"}]}'
)
HUGE = b"1" + b"0" * 5000
DOCUMENTS = {
    "arrays": b"[" * DEEP + b"]" * DEEP,
    "objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "open": b"[" * DEEP,
    "nothing": b"",
    "null": b"null",
    "text": b'"hi"',
    "half": b'{"model":"m1","messages":[{"role":"user"',
    "two": b"{}{}",
    "surrogate": b'{"model":"\\ud800","messages":[]}',
    "not-utf8": b'{"model":"\xff\xfe"}',
    "utf16": '{"model":"m1"}'.encode("utf-16"),
    "comment": b'{"model":"m1" /* x */}',
    "nan": b'{"model":"m1","temperature":NaN}',
    "huge-number": WITH_NUMBER % (HUGE, HUGE),
    "huge-exponent": WITH_NUMBER % (b"1e999999999", b"1e999999999"),
    "model-of-bytes": b'{"model":5}',
    "empty-objects": b"[" + b"{}," * 1_000_000 + b"{}]",
}


@pytest.mark.slow
@every_client
@pytest.mark.promise("S21")
@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_document_that_is_no_request_is_a_400(client, name):
    """In the client's envelope and in good time, whatever the JSON does; nothing is asked upstream."""
    other = "messages" if client != "messages" else "chat"  # its own dialect would take the bytes as they are
    async with Upstream() as upstream, running(config(provider(upstream.url, other))) as live:
        began = time.monotonic()
        answer = await talk(live.url, whole(f"POST {PATHS[client]}", DOCUMENTS[name], KEY, JSON))
        [record] = await live.records()
        log = live.out.getvalue()
    assert 400 == answer.status
    assert json.loads(answer.body)["error"]["message"]
    assert len(answer.body) < 3000
    assert "client_error" == record["outcome"]
    assert "crash" not in log
    assert time.monotonic() - began < 5
    assert [] == upstream.requests


MEMBERS = {
    "deep-member": b'{"model":"m1","max_tokens":9,"x":' + b"[" * DEEP + b"]" * DEEP + b",%b}",
    "deep-tool": b'{"model":"m1","max_tokens":9,"tools":[' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"],%b}",
    "many-members": b'{"model":"m1","max_tokens":9,' + b"".join(b'"k%d":{},' % n for n in range(200_000)) + b"%b}",
    "many-messages": b'{"model":"m1","max_tokens":9,"x":[' + b"{}," * 500_000 + b"{}],%b}",
    "huge-integers": b'{"model":"m1","max_tokens":9,"x":[' + b"9" * 4000 + b"],%b}",
}
ASK = {"chat": b'"messages":[{"role":"user","content":"hi"}]', "responses": b'"input":"hi"'}
ASK["messages"] = ASK["chat"]


@pytest.mark.slow
@every_client
@pytest.mark.promise("S21")
@pytest.mark.parametrize("up", PATHS)
@pytest.mark.parametrize("name", MEMBERS)
async def test_odd_members_break_nothing(client, up, name):
    """Deep, wide and huge values beside a proper request are refused or passed, and the gateway goes on."""
    data = MEMBERS[name] % ASK[client]
    answer_of = sse(STREAM[up](Turn([Say("x")])))
    async with Upstream(lambda _: answer_of) as upstream, running(config(provider(upstream.url, up))) as live:
        answer = await talk(live.url, whole(f"POST {PATHS[client]}", data, KEY, JSON))
        alive = await live.send(client)
        log = live.out.getvalue()
    assert answer.status in (200, 400)
    assert 200 == alive.status
    assert "crash" not in log


@every_client
@pytest.mark.promise("S21")
async def test_of_two_equal_members_one_counts_everywhere(client):
    """What decides the route is what the upstream is asked for: nobody smuggles a second model past a check."""
    data = b'{"model":"forbidden","model":"m1","stream":false,"stream":true,"max_tokens":9,' + ASK[client] + b"}"
    for up in PATHS:
        async with (
            Upstream([sse(STREAM[up](Turn([Say("x")])))]) as upstream,
            running(config(provider(upstream.url, up))) as live,
        ):
            answer = await talk(live.url, whole(f"POST {PATHS[client]}", data, KEY, JSON))
            assert 200 == answer.status
            assert 1 == upstream.requests[0].body.count(b'"model"')
            assert ("up-m", True) == (upstream.requests[0].json["model"], upstream.requests[0].json["stream"])


@every_client
@pytest.mark.promise("S22")
async def test_a_body_that_drips_is_a_408(client, monkeypatch):
    """A byte now and then does not hold a connection for ever; the answer comes and the connection is closed."""
    monkeypatch.setattr(body, "BODY_S", 0.2)
    monkeypatch.setattr(lifecycle, "LINGER_S", 0.1)
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        start = head(f"POST {PATHS[client]}", LOCAL, KEY, JSON, ("content-length", "1000"))
        began = time.monotonic()
        answer = await talk(live.url, start, *[b" "] * 200, pause_s=0.02)
        [record] = await live.records()
    assert (408, "client_error") == (answer.status, record["outcome"])
    assert time.monotonic() - began < 3
    assert 0 == live.listening.gateway.admission.running()


@pytest.mark.promise("S22")
@pytest.mark.parametrize("drip", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: "])
async def test_a_connection_without_a_request_is_closed(monkeypatch, drip):
    """Silence, half a line and endless headers end with the time of an idle connection."""
    monkeypatch.setattr(lifecycle, "IDLE_CONNECTION_S", 0.3)
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        reader, writer = await connect(live.url)
        began = time.monotonic()
        writer.write(drip)
        try:
            async with asyncio.timeout(DEADLINE_S):
                while await read(reader) and time.monotonic() - began < DEADLINE_S:
                    continue
        finally:
            writer.close()
    assert time.monotonic() - began < 5


async def read(reader):
    try:
        return await reader.read(1000)
    except ConnectionError:
        return b""
