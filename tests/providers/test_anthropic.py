"""Any Messages server: address, credentials, beta flags, and what it teaches us about them."""

import pytest

from providers.anthropic import EFFORT_BETA, MAX_REFUSED, Anthropic, Options, plugin
from providers.api import Call, Setup
from providers.secret import Secret
from providers.transport import new_session
from tests.upstream import Upstream, reply_json
from translators.conversation import Conversation
from translators.dialect import Target
from translators.traits import traits_for

EFFORT = b'{"output_config":{"effort":"high"}}'


def made(base_url="https://api.example/v1", **more) -> Anthropic:
    fixed = {"options": Options()} | more
    provider = plugin.build(Setup("claude", base_url, "messages", {"k1": Secret("secret-of-k1")}, new_session, **fixed))
    assert isinstance(provider, Anthropic)
    return provider


def call(**more):
    return Call(**({"body": b"{}", "stream": True, "model": "m", "client": "messages", "native": True} | more))


async def sent(asked, *, path="/v1", **more):
    """The one request that a call puts on the wire."""
    async with Upstream([reply_json({})]) as upstream:
        provider = made(upstream.url + path, **more)
        try:
            await (await provider.open(asked, "k1")).release()
        finally:
            await provider.close()
        return upstream.requests[0]


@pytest.mark.parametrize(
    ("path", "target"),
    [("/v1", "/v1/messages"), ("", "/v1/messages"), ("/anthropic", "/anthropic/v1/messages"), ("/v2", "/v2/messages")],
)
async def test_the_version_is_added_where_it_is_missing(path, target):
    """base_url with or without it leads to the same place."""
    assert target == (await sent(call(), path=path)).target


@pytest.mark.promise("S10")
@pytest.mark.parametrize(
    ("auth", "headers"),
    [("x-api-key", ("secret-of-k1", None)), ("bearer", (None, "Bearer secret-of-k1"))],
)
async def test_the_key_goes_into_one_header(auth, headers):
    """The one that is configured, whatever the client sent."""
    client = {"authorization": "Bearer client", "x-api-key": "client", "cookie": "c"}
    request = await sent(call(client_headers=client), options=Options(auth=auth))
    assert headers == (request.header("x-api-key"), request.header("authorization"))
    assert request.header("cookie") is None


@pytest.mark.promise("S10")
async def test_version_and_betas_pass_to_their_own_dialect():
    """A Messages client's version and flags reach a Messages server; a translated request has ours."""
    client = {"anthropic-version": "2099-01-01", "anthropic-beta": "a-2025-01-01, b-2025-01-01,,a-2025-01-01"}
    native = await sent(call(client_headers=client))
    assert ("2099-01-01", "a-2025-01-01,b-2025-01-01") == (
        native.header("anthropic-version"),
        native.header("anthropic-beta"),
    )
    translated = await sent(call(client_headers=client, native=False, stream=False))
    assert ("2023-06-01", None) == (translated.header("anthropic-version"), translated.header("anthropic-beta"))
    assert ("application/json", "gzip, deflate") == (translated.header("accept"), translated.header("accept-encoding"))


@pytest.mark.parametrize(("native", "beta"), [(False, EFFORT_BETA), (True, None)])
async def test_an_effort_of_ours_needs_its_flag(native, beta):
    """A translated effort would be ignored without it; a native client sends its own flags."""
    assert beta == (await sent(call(body=EFFORT, native=native))).header("anthropic-beta")


async def test_configured_headers_are_sent():
    """They win over our own."""
    assert "mine" == (await sent(call(), headers={"user-agent": "mine"})).header("user-agent")


async def test_closing_an_unused_provider_does_nothing():
    """It has made no session yet."""
    await made().close()


async def refusal(provider, message, asked, status=400):
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"%b"}}' % message
    return await provider.judge(status, {}, body, asked, "k1")


async def test_a_refused_flag_is_left_out_from_then_on():
    """A 400 that names a beta flag of ours is sent again once without it; the second time nothing is new."""
    provider = made()
    asked = call(client_headers={"anthropic-beta": "a-2025-01-01,b-2025-01-01"})
    message = b"Unexpected value(s) `a-2025-01-01` for the `anthropic-beta` header"
    assert b"{}" == (await refusal(provider, message, asked)).amended
    assert "b-2025-01-01" == provider._betas(asked.client_headers["anthropic-beta"], asked)
    assert (await refusal(provider, message, asked)).amended is None


async def test_the_effort_flag_may_be_refused_too():
    """It is ours, though no client sent it."""
    provider = made()
    asked = call(body=EFFORT, native=False)
    assert (await refusal(provider, b"beta effort-2025-11-24 is unknown", asked)).amended is not None
    assert "" == provider._betas("", asked)


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (b"beta c-2025-01-01 is unknown", 400),
        (b"model a-2025-01-01 is unknown", 400),
        (b"beta a-2025-01-01 is unknown", 403),
        (b"no beta is named", 400),
    ],
)
async def test_other_refusals_change_nothing(message, status):
    """A flag that nobody sent, a model with a date, another status."""
    asked = call(client_headers={"anthropic-beta": "a-2025-01-01"})
    assert (await refusal(made(), message, asked, status)).amended is None


@pytest.mark.promise("S24")
async def test_refused_flags_are_bounded():
    """Clients invent flags; only so many are remembered."""
    provider = made()
    for number in range(MAX_REFUSED + 50):
        flag = f"f{number}-2025-01-01"
        await refusal(provider, b"beta %b" % flag.encode(), call(client_headers={"anthropic-beta": flag}))
    assert MAX_REFUSED == len(provider._refused)


def test_an_unknown_name_is_a_messages_model_here():
    """Its traits are Claude's; a known family keeps its own."""
    assert traits_for("claude") == made().traits("house-model")
    assert traits_for("glm-5") == made().traits("glm-5")


def test_signatures_hold_across_models_of_one_address():
    """Only the provider and its address make the origin."""
    assert made().origin("claude-a") == made().origin("claude-b")
    assert made().origin("a") != made("https://other.example").origin("a")


def test_requests_are_left_as_they_are():
    """No policy of its own."""
    conversation = Conversation(dialect="chat", model="m", turns=[])
    assert conversation is made().amend(conversation, Target(model="m", traits=traits_for("m")))
