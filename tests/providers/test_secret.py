"""A secret's value leaves through reveal() and through nothing else."""

import copy
import hashlib
import json
import pickle
import traceback

import msgspec
import pytest

from providers.secret import HELD, Held, Secret

VALUE = "canary-5f1c2e"


def test_the_value_comes_out_of_reveal():
    """reveal() returns the value as it was given."""
    assert VALUE == Secret(VALUE).reveal()


@pytest.mark.promise("S01")
@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        ascii,
        "{}".format,
        "{!r:>20}".format,
        "{:>20}".format,
        lambda secret: repr([{"key": secret}]),
        lambda secret: repr(msgspec.defstruct("Holder", [("key", Secret)])(secret)),
        lambda secret: "".join(traceback.format_exception(KeyError(secret))),
    ],
)
def test_no_text_form_shows_the_value(show):
    """Every way of turning a secret into text gives a fixed word."""
    text = show(Secret(VALUE))
    assert "[secret]" in text
    assert VALUE not in text


@pytest.mark.promise("S01")
@pytest.mark.parametrize("encode", [json.dumps, msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins])
def test_encoders_refuse_it(encode):
    """No encoder takes a secret, and its complaint does not show the value."""
    with pytest.raises(TypeError) as caught:
        encode({"key": Secret(VALUE)})
    assert VALUE not in str(caught.value)


@pytest.mark.promise("S01")
def test_pickling_is_refused():
    """A secret cannot be pickled under any protocol."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(Secret(VALUE), protocol)


def test_copies_are_the_secret_itself():
    """Copying a structure that holds a secret does not need pickling."""
    secret = Secret(VALUE)
    assert secret is copy.copy(secret)
    assert secret is copy.deepcopy([secret])[0]


def test_equality_is_by_value_among_secrets_only():
    """Equal values are equal secrets with equal hashes; a plain string never equals one."""
    assert Secret(VALUE) == Secret(VALUE)
    assert hash(Secret(VALUE)) == hash(Secret(VALUE))
    assert Secret(VALUE) != Secret(VALUE + "x")
    assert Secret(VALUE) != VALUE


def test_equality_takes_constant_time(monkeypatch):
    """Values are compared by hmac.compare_digest over digests of one length."""
    seen = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: seen.append((a, b)) or False)
    assert Secret("a") != Secret("bb")
    assert [(64, 64)] == [(len(a), len(b)) for a, b in seen]


def test_sha256_is_that_of_the_value():
    """sha256() is what a config may hold in place of a client key, also for text that UTF-8 cannot hold."""
    assert hashlib.sha256(VALUE.encode()).hexdigest() == Secret(VALUE).sha256()
    assert 64 == len(Secret("\udc80").sha256())


def test_an_empty_secret_is_refused():
    """An empty value would match an absent header."""
    with pytest.raises(ValueError, match="empty"):
        Secret("")


def test_held_are_the_latest():
    """A credential is known by the secrets that it has and lately had; None is none."""
    held = Held()
    held.add(Secret("a"), None)
    for number in range(HELD - 1):
        held.add(Secret(f"t{number}"))
    held.add(Secret("a"), Secret("b"))
    assert (HELD, True) == (len(list(held)), {Secret("a"), Secret("b")} <= set(held))
    assert Secret("t0") not in set(held)
