"""The one kind of session, its replies, and what a broken connection is called."""

import asyncio
import socket
import ssl

import aiohttp
import pytest
from yarl import URL

from providers import transport
from providers.api import Unreachable
from providers.transport import Reply, explain, new_session, send
from tests.upstream import Delay, End, Head, Raw, Upstream, closed_port, reply_json, sse


@pytest.fixture
async def session():
    async with new_session(connect_s=5, trust_env=False) as made:
        yield made


async def reply_of(session, upstream, body=b"{}", **headers) -> Reply:
    return await send(session, URL(upstream.url + "/v1/x"), headers, body)


async def whole(reply):
    return b"".join([chunk async for chunk in reply.chunks()])


@pytest.mark.promise("S10")
async def test_only_given_headers_are_sent(session):
    """The library adds no agent, encoding or type of its own: what goes out is host, length and what we say."""
    async with Upstream([reply_json({})]) as upstream:
        await (await reply_of(session, upstream, b"{}", accept="x")).release()
        [request] = upstream.requests
    assert ["host", "accept", "content-length"] == [name.lower() for name, _ in request.headers]
    assert ("POST", "/v1/x", b"{}") == (request.method, request.target, request.body)


@pytest.mark.parametrize("size", [0, 1, transport.SLICE_BYTES, transport.SLICE_BYTES + 1, 3_000_000])
async def test_a_body_of_any_size_has_its_length(session, size):
    """A large one goes out in pieces, and is no chunked body for that."""
    async with Upstream([reply_json({})]) as upstream:
        await (await reply_of(session, upstream, bytes(size))).release()
        [request] = upstream.requests
    assert (str(size), None) == (request.header("content-length"), request.header("transfer-encoding"))
    assert bytes(size) == request.body


@pytest.mark.promise("S11")
async def test_cookies_are_never_kept(session):
    """What one reply sets does not come with the next request."""
    async with Upstream([reply_json({}, headers=[("set-cookie", "a=1; Path=/")]), reply_json({})]) as upstream:
        await (await reply_of(session, upstream)).release()
        await (await reply_of(session, upstream)).release()
        assert upstream.requests[1].header("cookie") is None


@pytest.mark.promise("S12")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(session, status):
    """They would take our keys along; the reply is what it is."""
    async with Upstream([[Head(status, [("location", "/elsewhere"), ("content-length", "0")])]]) as upstream:
        reply = await reply_of(session, upstream)
        assert status == reply.status
        reply.abort()
        assert 1 == len(upstream.requests)


@pytest.mark.promise("S12")
async def test_a_proxy_of_the_environment_is_not_used(session, monkeypatch):
    """Unless it is configured."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    async with Upstream([reply_json({}), reply_json({})]) as upstream:
        await (await reply_of(session, upstream)).release()
        async with new_session(connect_s=5, trust_env=True) as trusting:
            with pytest.raises(Unreachable):
                await reply_of(trusting, upstream)


@pytest.mark.promise("S27")
async def test_a_session_has_no_hidden_limits(session):
    """No queue for connections, no total time; connecting has its time."""
    assert (0, 0) == (session.connector.limit, session.connector.limit_per_host)
    assert (None, None, 5) == (session.timeout.total, session.timeout.sock_read, session.timeout.sock_connect)


async def test_a_reply_has_status_headers_and_body(session):
    """Header names are found in any case, the body is as it came."""
    async with Upstream([sse([b"one", b"two"], headers=[("X-Some", "y")])]) as upstream:
        reply = await reply_of(session, upstream)
        assert (200, "y") == (reply.status, reply.headers.get("x-some"))
        assert b"onetwo" == await whole(reply)
        await reply.release()


@pytest.mark.parametrize(("limit", "got"), [(100, b"onetwo"), (6, b"onetwo"), (4, b"onet"), (3, b"one")])
async def test_a_body_is_read_up_to_a_limit(session, limit, got):
    """More is left where it is."""
    async with Upstream([sse([b"one", b"two"])], gap_s=0.02) as upstream:
        reply = await reply_of(session, upstream)
        assert got == await reply.read(limit)
        reply.abort()
        reply.abort()


async def test_a_connection_is_used_again(session):
    """After its body was read, also when the end of it is still to come."""
    frames = [[Head(), b"data", Delay(0.01)], reply_json({})]
    async with Upstream(frames) as upstream:
        reply = await reply_of(session, upstream)
        await anext(reply.chunks())
        await reply.release()
        await (await reply_of(session, upstream)).release()
        assert [1, 1] == [request.connection for request in upstream.requests]


@pytest.mark.parametrize(
    "end", [[End.STALL], [Raw(b"zz\r\n"), End.STALL], [End.CLOSE]], ids=["stall", "garbage", "cut"]
)
async def test_a_body_that_does_not_end_costs_its_connection(session, end):
    """Giving it back waits a moment only, and then closes it."""
    async with Upstream([[Head(), b"data", *end], reply_json({})]) as upstream:
        reply = await reply_of(session, upstream)
        await anext(reply.chunks())
        async with asyncio.timeout(5):
            await reply.release()
        await (await reply_of(session, upstream)).release()
        assert [1, 2] == [request.connection for request in upstream.requests]


async def test_a_talkative_end_is_cut(session, monkeypatch):
    """A body that goes on and on after its terminal is not read on for ever."""
    monkeypatch.setattr(transport, "END_WAIT_S", 0.05)
    async with Upstream([[Head(), *[b"x", Delay(0.01)] * 1000]]) as upstream:
        reply = await reply_of(session, upstream)
        async with asyncio.timeout(3):
            await reply.release()
        await upstream.requests[0].hung_up()


class Certificate(aiohttp.ClientConnectorCertificateError):
    def __init__(self):
        pass


def connector(kind, error):
    key = aiohttp.client_reqrep.ConnectionKey("secret.host", 1, False, True, None, None, None)
    return kind(key, error)


@pytest.mark.promise("S02")
@pytest.mark.parametrize(
    ("error", "words", "status", "cause"),
    [
        (TimeoutError("secret"), "did not accept", 504, "stall"),
        (aiohttp.ServerTimeoutError("secret"), "did not accept", 504, "stall"),
        (connector(aiohttp.ClientConnectorDNSError, OSError(1, "secret")), "name", 502, "upstream"),
        (connector(aiohttp.ClientConnectorError, socket.gaierror(1, "secret")), "name", 502, "upstream"),
        (connector(aiohttp.ClientConnectorSSLError, OSError(1, "secret")), "secure", 502, "upstream"),
        (ssl.SSLError(1, "secret"), "secure", 502, "upstream"),
        (Certificate(), "secure", 502, "upstream"),
        (connector(aiohttp.ClientConnectorError, OSError(111, "secret")), "refuses", 502, "upstream"),
        (aiohttp.ClientPayloadError("secret"), "broke", 502, "eof"),
        (aiohttp.ServerDisconnectedError("secret"), "broke", 502, "eof"),
        (ConnectionResetError("secret"), "broke", 502, "eof"),
        (aiohttp.ClientOSError(104, "secret"), "broke", 502, "eof"),
        (aiohttp.ClientError("secret"), "not valid HTTP", 502, "protocol"),
    ],
)
def test_a_failure_is_told_in_our_words(error, words, status, cause):
    """Which kind it was, and nothing of its text, which has addresses and headers in it."""
    fault = explain(error)
    assert words in fault.message
    assert "secret" not in fault.message
    assert (status, cause) == (fault.status, fault.cause)


@pytest.mark.parametrize(
    ("reply", "cause"),
    [([End.RESET], "eof"), ([End.CLOSE], "eof"), ([Raw(b"banana\r\n\r\n"), End.CLOSE], "protocol")],
    ids=["reset", "close", "garbage"],
)
async def test_no_reply_is_unreachable(session, reply, cause):
    """Whatever happens before the headers is one exception with a Fault, and no traceback of the library's."""
    async with Upstream([reply]) as upstream:
        with pytest.raises(Unreachable) as caught:
            await reply_of(session, upstream)
    assert cause == caught.value.fault.cause
    assert caught.value.__suppress_context__


async def test_a_refused_connection_is_unreachable(session):
    """Nobody listens there."""
    with pytest.raises(Unreachable) as caught:
        await send(session, URL(f"http://127.0.0.1:{closed_port()}/"), {}, b"")
    assert (502, "upstream") == (caught.value.fault.status, caught.value.fault.cause)


async def test_a_slow_connect_is_a_504():
    """`connect_s` bounds it; a full backlog on loopback answers nobody."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    try:
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            waiting.append(one)
        async with new_session(connect_s=0.2, trust_env=False) as session:
            port = listener.getsockname()[1]
            with pytest.raises(Unreachable) as caught:
                await send(session, URL(f"http://127.0.0.1:{port}/"), {}, b"")
        assert (504, "stall") == (caught.value.fault.status, caught.value.fault.cause)
    finally:
        for one in (*waiting, listener):
            one.close()


async def test_a_bare_timeout_is_a_504(session, monkeypatch):
    """Also one that is no error of the library."""

    async def post(*args, **options):
        raise TimeoutError

    monkeypatch.setattr(session, "_request", post)
    with pytest.raises(Unreachable) as caught:
        await send(session, URL("http://127.0.0.1/"), {}, b"")
    assert "timeout" == caught.value.fault.kind
