"""The scripted upstream does what it says, as seen by raw sockets and by aiohttp."""

import asyncio
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.upstream import LINGER_NOT, Delay, End, Head, Raw, Upstream, Wait, closed_port, reply_json

GET = b"GET /x?y=1 HTTP/1.1\r\nHost: here\r\nX-Odd-CASE:  a b \r\n\r\n"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def exchange(upstream: Upstream, data: bytes) -> bytes:
    """Everything that the upstream sends to a peer that sends the data and reads on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_steps_are_written_as_chunks_in_order():
    """Each bytes step is one chunk, and a list that runs out ends the body."""
    script = [[Head(200, [("X-A", "1")]), b"ab", b"", b"cde"]]
    async with Upstream(script) as upstream:
        reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
        writer.write(GET)
        said = await reader.readuntil(b"0\r\n\r\n")
        writer.close()
    head = b"HTTP/1.1 200 OK\r\nX-A: 1\r\ntransfer-encoding: chunked\r\n\r\n"
    assert head + b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n" == said


async def test_request_is_kept_as_it_was_sent():
    """Header order, header case, the query and the body of a request are kept."""
    async with Upstream([[End.CLOSE]]) as upstream:
        await exchange(upstream, b"POST /x?y=1 HTTP/1.1\r\nb: 1\r\nX-Odd-CASE:  a b \r\nContent-Length: 2\r\n\r\n{}")
        (request,) = upstream.requests
    assert ("POST", "/x?y=1", "/x") == (request.method, request.target, request.path)
    assert [("b", "1"), ("X-Odd-CASE", "a b"), ("Content-Length", "2")] == request.headers
    assert "a b" == request.header("x-odd-case")
    assert {} == request.json


async def test_chunked_request_body_is_joined(session):
    """A body that comes in chunks is kept as one."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with Upstream([reply_json({"a": 1}, 201)]) as upstream:
        async with session.post(upstream.url, data=pieces()) as response:
            assert (201, {"a": 1}) == (response.status, await response.json())
        assert b"one two" == upstream.requests[0].body


async def test_connection_is_kept_after_a_whole_reply(session):
    """Two requests, one after the other, may come over one connection."""
    async with Upstream([reply_json(1), reply_json(2)]) as upstream:
        for expected in (1, 2):
            async with session.get(upstream.url) as response:
                assert expected == await response.json()
        assert [1, 1] == [request.connection for request in upstream.requests]


async def test_request_beyond_the_script_is_counted(session):
    """A request that no reply was written for gets a 500 and is kept."""
    async with Upstream([]) as upstream:
        async with session.get(upstream.url) as response:
            assert 500 == response.status
        assert 1 == len(upstream.requests)


async def test_function_chooses_the_reply(session):
    """A script may be a function of the request."""
    async with Upstream(lambda request: reply_json(request.path)) as upstream, session.get(upstream.url + "/a") as got:
        assert "/a" == await got.json()


async def test_exception_of_the_function_is_raised():
    """What goes wrong in a script is raised where the test can see it."""
    with pytest.raises(KeyError, match="lost"):
        async with Upstream(lambda request: {}["lost"]) as upstream:
            assert b"" == await exchange(upstream, GET)


async def test_reset_before_the_head(session):
    """A reset before any byte is a disconnect to the client."""
    async with Upstream([[End.RESET]]) as upstream:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(upstream.url)  # aiohttp would send a GET again


async def test_reset_in_the_body(session):
    """A reset after some chunks breaks the body, and is no hangup of the peer."""
    async with Upstream([[Head(), b"data", Delay(0.05), End.RESET]]) as upstream:
        async with session.get(upstream.url) as response:
            assert b"data" == await response.content.readany()
            with pytest.raises(aiohttp.ClientError):
                await response.content.readany()
        assert upstream.requests[0].replied.is_set()
        assert upstream.requests[0].hangup is None


async def test_close_in_a_chunk():
    """A raw step may begin a chunk that never ends."""
    async with Upstream([[Head(200, ()), Raw(b"ff\r\nonly"), End.CLOSE]]) as upstream:
        assert (await exchange(upstream, GET)).endswith(b"\r\n\r\nff\r\nonly")


async def test_close_without_the_last_chunk(session):
    """A clean end without its last chunk is a broken body."""
    async with Upstream([[Head(), b"data", End.CLOSE]]) as upstream, session.get(upstream.url) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_body_until_the_connection_closes(session):
    """A head with `connection: close` has no framing; the end of the connection ends the body."""
    head = Head(200, [("connection", "close")])
    async with Upstream([[head, b"a", b"b"]]) as upstream, session.get(upstream.url) as response:
        assert b"ab" == await response.read()


async def test_content_length_that_lies(session):
    """A body shorter than announced is broken once the connection closes."""
    head = Head(200, [("content-length", "10")])
    async with Upstream([[head, b"short", End.CLOSE]]) as upstream, session.get(upstream.url) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_wait_holds_until_the_event(session):
    """Nothing is sent past a wait until its event is set."""
    event = asyncio.Event()
    async with Upstream([[Head(), b"a", Wait(event), b"b"]]) as upstream:
        async with session.get(upstream.url) as response:
            assert b"a" == await response.content.readany()
            rest = asyncio.ensure_future(response.content.read())
            await asyncio.sleep(0.05)
            assert not rest.done()
            event.set()
            assert b"b" == await rest


async def test_stall_ends_when_the_peer_hangs_up(session):
    """A stalled reply notes when and how the peer gave up."""
    async with Upstream([[Head(), b"a", End.STALL]]) as upstream:
        response = await session.get(upstream.url)
        assert b"a" == await response.content.readany()
        response.close()
        hangup = await upstream.requests[0].hung_up()
    assert ("eof", True) == (hangup.how, hangup.early)
    assert not upstream.requests[0].replied.is_set()


async def test_reset_of_the_peer_is_told_from_its_close():
    """A peer that resets is noted as such."""
    async with Upstream([[Head(), b"a", End.STALL]]) as upstream:
        reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
        writer.write(GET)
        await reader.readuntil(b"a")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        writer.transport.abort()
        assert "reset" == (await upstream.requests[0].hung_up()).how


async def test_peer_that_leaves_at_once_is_noted():
    """A peer that closes right behind its request is early, and its request is kept."""
    async with Upstream([[Head(), Delay(60)]]) as upstream:
        _, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
        writer.write(GET)
        writer.close()
        (request,) = await upstream.received()
        assert (await request.hung_up()).early


async def test_close_after_the_reply_is_not_early():
    """A peer that read everything may leave."""
    async with Upstream([reply_json(1)]) as upstream:
        async with aiohttp.ClientSession() as session, session.get(upstream.url) as response:
            await response.read()
        assert not (await upstream.requests[0].hung_up()).early


async def test_end_of_the_context_ends_every_connection(session):
    """Nothing is left running behind the context."""
    before = asyncio.all_tasks()
    async with Upstream([[Head(), b"a", End.STALL]]) as upstream:
        response = await session.get(upstream.url)
    with pytest.raises(aiohttp.ClientError):
        await response.read()
    assert before == asyncio.all_tasks()


def test_reply_in_place_of_a_script_is_refused():
    """The brackets of the list of replies cannot be forgotten."""
    with pytest.raises(TypeError, match="list of replies"):
        Upstream([Head(), b"a"])


async def test_another_script_forgets_the_requests(session):
    """One server may play script after script."""
    async with Upstream([reply_json(1)]) as upstream:
        await session.get(upstream.url)
        upstream.play([reply_json(2)])
        assert [] == upstream.requests
        async with session.get(upstream.url) as response:
            assert 2 == await response.json()


async def test_closed_port_refuses(session):
    """A closed port refuses connections."""
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.get(f"http://127.0.0.1:{closed_port()}")
