"""Where clients are sent: address, model and key, from a configuration and from a gateway that runs."""

import hashlib

import pytest

from gateway.aim import Key, Listing, Unsuitable, address, choose, key_of, listing
from gateway.config import Client, Config, Model, Route, Server
from providers.secret import Secret
from tests.upstream import Upstream, closed_port, reply_json


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


ALICE = Client("alice", digest("key-of-alice"), models=("a*",))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8788"),
        ("0.0.0.0", "http://127.0.0.1:8788"),
        ("::", "http://[::1]:8788"),
        ("box.lan", "http://box.lan:8788"),
    ],
)
def test_address_is_one_that_can_be_called(host, url):
    """A wildcard is reached over loopback."""
    assert url == address(Config(server=Server(host=host)))


def test_without_clients_any_key_will_do():
    """The one of the environment if there is one."""
    assert Key("local", "") == key_of(Config(), {})
    assert "local" == key_of(Config(), {}).shown()
    assert Key("mine", "DRAGOMAN_KEY") == key_of(Config(), {"DRAGOMAN_KEY": "mine"})
    assert "$DRAGOMAN_KEY" == key_of(Config(), {"DRAGOMAN_KEY": "mine"}).shown()


@pytest.mark.promise("S01")
def test_a_known_key_is_shown_by_its_variable():
    """From $DRAGOMAN_KEY, or from a secret of the configuration that a client has; never by value."""
    config = Config(clients=(ALICE,), secrets=(Secret("upstream"), Secret("key-of-alice")))
    given = key_of(config, {"DRAGOMAN_KEY": "key-of-alice"})
    assert Key("key-of-alice", "DRAGOMAN_KEY", ALICE) == given
    found = key_of(config, {"DRAGOMAN_KEY": "wrong", "ALICE_KEY": "key-of-alice\n"})
    assert ("ALICE_KEY", "$ALICE_KEY") == (found.variable, found.shown())
    from_file = key_of(config, {})
    assert ("key-of-alice", "$DRAGOMAN_KEY") == (from_file.value, from_file.shown())


def test_a_digest_alone_gives_no_key():
    """Then nobody here knows one."""
    assert key_of(Config(clients=(ALICE,)), {"DRAGOMAN_KEY": "wrong"}) is None


MODELS = {
    "b-1": Model((Route("p"),)),
    "claude-x": Model((Route("p"),)),
    "gpt-*": Model((Route("p", "gpt-inner"),)),
}


@pytest.mark.parametrize(
    ("client", "wanted", "allowed", "chosen"),
    [
        ("claude", None, ("*",), "claude-x"),
        ("codex", None, ("*",), "b-1"),
        ("opencode", None, ("*",), "b-1"),
        ("opencode", None, ("c*",), "claude-x"),
        ("codex", "gpt-9", ("*",), "gpt-9"),
        ("codex", None, ("gpt*",), "gpt-inner"),
    ],
)
def test_the_model_suits_the_client(client, wanted, allowed, chosen):
    """Its family first, then the first alias, then an upstream's name that a prefix matches."""
    assert chosen == choose(client, MODELS, wanted, allowed)


@pytest.mark.parametrize(("wanted", "allowed"), [("nope", ("*",)), ("b-1", ("c*",)), (None, ("x*",))])
def test_no_model_is_a_sentence(wanted, allowed):
    """An alias that is not there, or not for this client."""
    with pytest.raises(Unsuitable):
        choose("claude", MODELS, wanted, allowed)


async def ask(*replies):
    import asyncio

    async with Upstream(list(replies)) as upstream:
        found = await asyncio.to_thread(listing, upstream.url + "/", "the-key")
        return found, upstream.requests


async def test_a_gateway_lists_models_with_windows():
    """It is known by its request id."""
    body = {"data": [{"id": "a", "context_window": 7}, {"id": "b"}]}
    found, requests = await ask(reply_json(body, headers=[("x-request-id", "1")]))
    assert Listing(200, {"a": 7, "b": None}) == found
    assert ("/v1/models", "Bearer the-key") == (requests[0].target, requests[0].header("authorization"))


@pytest.mark.parametrize("body", [[], {"data": 3}, {"data": [3]}, {"data": [{}]}, "x"])
async def test_odd_lists_are_empty(body):
    """Whatever came back, nothing raises."""
    found, _ = await ask(reply_json(body, headers=[("x-request-id", "1")]))
    assert Listing(200) == found


async def test_somebody_elses_server_is_no_gateway():
    """Nor is a refused connection, or an address that is none."""
    found, _ = await ask(reply_json({"data": []}))
    assert Listing(0) == found
    assert Listing(0) == listing(f"http://127.0.0.1:{closed_port()}", "k")
    assert Listing(0) == listing("https://127.0.0.1:1", "k")
    assert Listing(0) == listing("http://127.0.0.1:notaport", "k")


async def test_a_refusal_keeps_its_status():
    """A gateway that wants another key is one all the same."""
    found, _ = await ask(reply_json({}, 401, headers=[("x-request-id", "1")]))
    assert Listing(401) == found
