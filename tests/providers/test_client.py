"""A provider's HTTP client: what every request to an upstream has, and what it never has."""

import pytest
from yarl import URL

from providers.api import Call, Setup
from providers.client import Client
from providers.identity import USER_AGENT
from providers.secret import Secret
from providers.transport import new_session
from tests.upstream import Upstream, reply_json

SENT = {"x-lang": "en", "anthropic-beta": "a-2026-01-01", "authorization": "Bearer theirs", "cookie": "c=1"}


def setup(**more):
    keys = {"k1": Secret("upstream-key-0001")}
    return Setup(name="up", base_url="http://127.0.0.1:1", dialect="chat", keys=keys, session=new_session, **more)


def call(*, stream):
    return Call(body=b"{}", stream=stream, model="m", client="chat", client_headers=SENT)


@pytest.mark.promise("S10")
@pytest.mark.parametrize(
    ("stream", "accept", "encoding"),
    [(True, "text/event-stream", "identity"), (False, "application/json", "gzip, deflate")],
)
def test_headers_are_built_from_nothing(stream, accept, encoding):
    """Nothing of the client's goes up unless it is named; a stream is asked for without compression."""
    expected = {
        "content-type": "application/json",
        "accept": accept,
        "accept-encoding": encoding,
        "user-agent": USER_AGENT,
    }
    assert expected == Client(setup()).headers(call(stream=stream))


def test_the_plugin_and_the_config_add_to_them():
    """A plugin's own headers go before ours, the config's before both, and named ones of the client are kept."""
    client = Client(setup(headers={"x-team": "agents", "user-agent": "theirs"}))
    made = client.headers(call(stream=False), ("anthropic-beta",), stream=True, x_mode="strict", user_agent="ours")
    assert ("a-2026-01-01", "strict", "agents", "theirs", "text/event-stream") == (
        made["anthropic-beta"],
        made["x-mode"],
        made["x-team"],
        made["user-agent"],
        made["accept"],
    )


async def test_one_session_serves_all_requests():
    """The session opens on first use, stays the same, and closes once."""
    async with Upstream([reply_json({}), reply_json({})]) as upstream:
        client = Client(setup())
        await client.close()
        for _ in range(2):
            reply = await client.post(URL(upstream.url), {"x-a": "b"}, b"{}")
            assert b"{}" == await reply.read(10)
            await reply.release()
        session = client.session
        await client.close()
        assert session.closed
        assert [1, 1] == [request.connection for request in upstream.requests]
