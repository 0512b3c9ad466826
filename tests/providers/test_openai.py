"""Any OpenAI-compatible server: where a request goes, and with which headers."""

import pytest

from providers.api import Call, Setup
from providers.openai import OpenAI, plugin
from providers.secret import Secret
from providers.transport import new_session
from tests.upstream import Upstream, reply_json
from translators.conversation import Conversation
from translators.dialect import Target
from translators.traits import traits_for


def made(base_url="http://127.0.0.1:1/v1", dialect="chat", keys=("k1",), **more) -> OpenAI:
    secrets = {name: Secret(f"secret-of-{name}") for name in keys}
    provider = plugin.build(Setup("local", base_url, dialect, secrets, new_session, **more))
    assert isinstance(provider, OpenAI)
    return provider


def call(**more):
    fixed = {"body": b'{"a":1}', "stream": True, "model": "m", "client": "chat"}
    return Call(**(fixed | more))


async def sent(provider, asked, key="k1"):
    """The one request that a call puts on the wire."""
    async with Upstream([reply_json({})] * 2) as upstream:
        provider._url = provider._url.with_port(upstream.port)
        try:
            reply = await provider.open(asked, key)
            await reply.release()
        finally:
            await provider.close()
        return upstream.requests[0]


@pytest.mark.parametrize(("dialect", "path"), [("chat", "/v1/chat/completions"), ("responses", "/v1/responses")])
async def test_the_dialect_decides_the_path(dialect, path):
    """The body goes there as it is."""
    request = await sent(made(dialect=dialect), call())
    assert ("POST", path, b'{"a":1}') == (request.method, request.target, request.body)


@pytest.mark.promise("S10")
@pytest.mark.parametrize(
    ("stream", "accept", "encoding"),
    [(True, "text/event-stream", "identity"), (False, "application/json", "gzip, deflate")],
)
async def test_headers_are_ours(stream, accept, encoding):
    """Type, what we read, our name, the key; nothing else."""
    request = await sent(made(), call(stream=stream))
    headers = {name.lower(): value for name, value in request.headers}
    assert headers.pop("user-agent").startswith("dragoman/")
    assert headers.pop("host").startswith("127.0.0.1")
    assert {
        "content-type": "application/json",
        "accept": accept,
        "accept-encoding": encoding,
        "authorization": "Bearer secret-of-k1",
        "content-length": "7",
    } == headers


@pytest.mark.promise("S10")
@pytest.mark.parametrize(("native", "beta"), [(True, "x"), (False, None)])
async def test_one_client_header_passes_to_its_own_dialect(native, beta):
    """`openai-beta` reaches a server of the client's protocol, and no other header ever."""
    headers = {"openai-beta": "x", "authorization": "Bearer client", "cookie": "c", "x-other": "y"}
    request = await sent(made(), call(native=native, client_headers=headers))
    assert beta == request.header("openai-beta")
    assert (None, None) == (request.header("cookie"), request.header("x-other"))
    assert "Bearer secret-of-k1" == request.header("authorization")


async def test_configured_headers_are_sent():
    """They may name our agent anew, but never the key."""
    request = await sent(made(headers={"x-team": "a", "user-agent": "mine"}), call())
    assert ("a", "mine") == (request.header("x-team"), request.header("user-agent"))


async def test_a_server_without_keys_gets_none():
    """Local servers ask for none; the pool still has a name to count under."""
    provider = made(keys=())
    assert ("none",) == provider.key_names
    assert (await sent(provider, call(), "none")).header("authorization") is None


async def test_two_calls_share_a_session():
    """The connection is used again."""
    provider = made()
    async with Upstream([reply_json({}), reply_json({})]) as upstream:
        provider._url = provider._url.with_port(upstream.port)
        for _ in range(2):
            await (await provider.open(call(), "k1")).release()
        await provider.close()
        assert [1, 1] == [request.connection for request in upstream.requests]


async def test_closing_an_unused_provider_does_nothing():
    """It has made no session yet."""
    await made().close()


async def test_errors_get_the_shared_judgement():
    """A 429 is limited, nothing is amended."""
    verdict = await made().judge(429, {"retry-after": "3"}, b"", call(), "k1")
    assert (True, 3.0, None) == (verdict.limited, verdict.wait_s, verdict.amended)


def test_requests_are_left_as_they_are():
    """A generic server has no policy; traits are those of the model's family."""
    conversation = Conversation(dialect="chat", model="m", turns=[])
    assert conversation is made().amend(conversation, Target(model="m", traits=traits_for("m")))
    assert traits_for("gpt-5") == made().traits("gpt-5")


def test_reasoning_state_stays_with_its_origin():
    """Another provider, another address or another model is another origin; a variant of the model is not."""
    here = made().origin("m")
    assert here == made().origin("m:thinking")
    assert 3 == len({here, made().origin("n"), made("http://127.0.0.1:2/v1").origin("m")})
