"""Who is asking, and from where: keys, Host and Origin as tables."""

import hashlib
import hmac
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import auth
from gateway.auth import ANYONE, Tenant, allowed_host, allowed_origin, authenticate, is_admin, key_of
from gateway.config import Client
from translators.fault import Fault


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


ALICE = Client("alice", digest("key-a"), models=("m*",), requests_per_minute=3, max_concurrent=2, tokens_per_day=9)
BOB = Client("bob", digest("key-b"))
CLIENTS = (ALICE, BOB)


@pytest.mark.promise("S03")
@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, None),
        ({"authorization": "Bearer key-a"}, "key-a"),
        ({"authorization": "bearer  key-a "}, "key-a"),
        ({"x-api-key": " key-a "}, "key-a"),
        ({"authorization": "Bearer key-a", "x-api-key": "key-a"}, "key-a"),
        ({"authorization": "Bearer ", "x-api-key": "key-a"}, "key-a"),
        ({"authorization": "Basic a2V5LWE=", "x-api-key": "key-a"}, "key-a"),
        ({"authorization": "Basic a2V5LWE="}, None),
        ({"authorization": "key-a"}, None),
        ({"authorization": "", "x-api-key": ""}, None),
    ],
)
def test_either_header_carries_the_key(headers, key):
    """Bearer and x-api-key are the same to us; other schemes are no keys."""
    assert key == key_of(headers)


@pytest.mark.promise("S03")
@pytest.mark.parametrize("order", [("authorization", "x-api-key"), ("x-api-key", "authorization")])
def test_two_different_keys_are_a_401(order):
    """Two valid keys of two clients are nobody's request, in whatever order they come."""
    values = {"authorization": "Bearer key-a", "x-api-key": "key-b"}
    fault = authenticate({name: values[name] for name in order}, CLIENTS)
    assert isinstance(fault, Fault)
    assert (401, "client") == (fault.status, fault.cause)


def test_a_key_names_its_tenant():
    """The tenant has the client's name, models and limits."""
    assert Tenant("alice", ("m*",), 3, 2, 9) == authenticate({"x-api-key": "key-a"}, CLIENTS)
    assert Tenant("bob") == authenticate({"authorization": "Bearer key-b"}, CLIENTS)


@pytest.mark.promise("S03")
def test_missing_and_wrong_keys_are_told_the_same():
    """Nothing tells a wrong key from none, an empty one, or the digest in place of the key."""
    faults = [
        authenticate(headers, CLIENTS)
        for headers in (
            {},
            {"x-api-key": "wrong"},
            {"x-api-key": ""},
            {"x-api-key": digest("key-a")},
            {"x-api-key": "k\udc80"},
        )
    ]
    assert [faults[0]] * 5 == faults
    assert 401 == faults[0].status


@pytest.mark.promise("S03")
@pytest.mark.parametrize("key", ["key-a", "key-b", "wrong", ""])
def test_every_key_is_compared(monkeypatch, key):
    """Each configured digest is compared in constant time, also after a match and without a key."""
    compared = []

    def compare(left, right):
        compared.append(right)
        return hmac.compare_digest(left, right)

    monkeypatch.setattr(auth, "hmac", SimpleNamespace(compare_digest=compare))
    authenticate({"x-api-key": key}, CLIENTS)
    assert [ALICE.key_sha256, BOB.key_sha256] == compared


def test_without_clients_everybody_is_local():
    """A gateway without clients serves anybody who reaches it, with whatever key, but not two different ones."""
    assert ANYONE == authenticate({}, ())
    assert ANYONE == authenticate({"x-api-key": "any"}, ())
    assert isinstance(authenticate({"x-api-key": "a", "authorization": "Bearer b"}, ()), Fault)


@pytest.mark.promise("S04")
@pytest.mark.parametrize(
    ("headers", "configured", "loopback", "admin"),
    [
        ({"x-api-key": "root"}, "root", False, True),
        ({"x-api-key": "key-a"}, "root", True, False),
        ({}, "root", True, False),
        ({"x-api-key": "root", "authorization": "Bearer other"}, "root", True, False),
        ({}, None, True, True),
        ({"x-api-key": "root"}, None, False, False),
    ],
)
def test_admin_data_needs_the_admin_key(headers, configured, loopback, admin):
    """With an admin key only that opens it; without one only a peer on this machine may look."""
    assert admin == is_admin(headers, digest(configured) if configured else None, loopback_peer=loopback)


@pytest.mark.promise("S13")
@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:8788", True),
        ("localhost.", True),
        ("a.localhost", True),
        ("127.0.0.1:8788", True),
        ("127.9.9.9", True),
        ("[::1]:8788", True),
        ("[::ffff:127.0.0.1]", True),
        ("10.0.0.7:8788", True),
        ("gateway.lan", True),
        ("GATEWAY.lan.:443", True),
        ("[fd00::7]", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("localhost..", False),
        ("", False),
        ("127.0.0.1@evil.example", False),
        ("evil.example#localhost", False),
        ("localhost/livez?", False),
        ("localhost:8788:1", False),
        ("localhost:port", False),
        ("localhost\n", False),
        ("::1", False),
        ("[::1", False),
        ("2130706433", False),
        ("127.1", False),
        ("0x7f.0.0.1", False),
        ("[fd00::8]", False),
    ],
)
def test_hosts_that_are_served(host, allowed):
    """Loopback names, the bound address and configured names; no other spelling of an address (DNS rebinding)."""
    assert allowed == allowed_host(host, bound=("10.0.0.7", "fd00::7"), allowed=("gateway.lan",))


@pytest.mark.promise("S13")
@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("https://127.0.0.1", True),
        ("https://gateway.lan", True),
        ("http://[::1]:1", True),
        ("null", False),
        ("", False),
        ("file://", False),
        ("https://evil.example", False),
        ("http://localhost@evil.example", False),
        ("chrome-extension://localhost", False),
        ("http://[", False),
    ],
)
def test_origins_that_may_drive_us(origin, allowed):
    """Pages of this machine and of configured hosts; not `null`, not a foreign page, not a broken value."""
    assert allowed == allowed_origin(origin, bound=("127.0.0.1",), allowed=("gateway.lan",))


@pytest.mark.promise("S13")
@given(st.text(max_size=40))
def test_an_allowed_host_is_a_plain_name(text):
    """Whatever passes has no character that could mean something else in an address."""
    if allowed_host(text, bound=(), allowed=()):
        assert not set(text) & set("@/?#%\\ \t\r\n\0")


@pytest.mark.promise("S03")
@given(st.dictionaries(st.sampled_from(["authorization", "x-api-key"]), st.binary(max_size=20)))
def test_no_header_gets_in_without_a_key(headers):
    """Random header bytes, which a server hands over with surrogates for those above 0x7f, are refused."""
    decoded = {name: value.decode("utf-8", "surrogateescape") for name, value in headers.items()}
    assert isinstance(authenticate(decoded, CLIENTS), Fault)
