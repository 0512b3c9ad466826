"""Carriers: opaque state comes back only from its own kind and origin, and anything else is no state at all."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.carrier import MARK, MAX_CARRIER_BYTES, is_carrier, origin_of, seal, unseal
from translators.conversation import State
from translators.events import Carried
from translators.notes import Notes

ORIGIN = origin_of("p", "https://a.example/v1", "m")
KINDS = ("rs", "th", "rt", "rd")
texts = st.text(max_size=40)


@pytest.mark.invariant("I17")
@given(st.sampled_from(KINDS), texts, texts)
def test_state_comes_back_whole(kind, data, id_):
    """What was sealed is unsealed for its kind and origin, byte for byte."""
    sealed = seal(Carried(kind, data, id_), ORIGIN)
    assert sealed.startswith(f"{MARK}{kind}.{ORIGIN}.")
    assert is_carrier(sealed)
    assert Carried(kind, data, id_) == unseal(State(sealed), (kind,), ORIGIN)
    assert Carried(kind, data, id_) == unseal(State(sealed), KINDS, ORIGIN)


@pytest.mark.invariant("I17")
@pytest.mark.parametrize("kind", KINDS)
def test_state_never_leaves_its_kind_or_origin(kind):
    """Another kind or another origin gets nothing."""
    sealed = seal(Carried(kind, "data"), ORIGIN)
    others = tuple(other for other in KINDS if other != kind)
    assert unseal(State(sealed), others, ORIGIN) is None
    assert unseal(State(sealed), (), ORIGIN) is None
    assert unseal(State(sealed), KINDS, origin_of("p", "https://b.example/v1", "m")) is None


def test_origins_differ_in_each_part():
    """Provider, address and family all tell origins apart, also where their joint text is the same."""
    origins = {
        origin_of(*parts)
        for parts in [
            ("p", "u", "f"),
            ("q", "u", "f"),
            ("p", "v", "f"),
            ("p", "u", "g"),
            ("pu", "", "f"),
            ("", "pu", "f"),
        ]
    }
    assert 6 == len(origins)
    assert {16} == {len(origin) for origin in origins}
    assert not any("." in origin for origin in origins)


def test_size_at_the_limit_and_beyond():
    """A carrier of just the limit is kept, a longer one is not made."""

    def length(size):
        sealed = seal(Carried("th", "x" * size), ORIGIN)
        return None if sealed is None else len(sealed)

    size = next(size for size in range(MAX_CARRIER_BYTES * 3 // 4, 0, -1) if length(size) is not None)
    assert MAX_CARRIER_BYTES - 4 < length(size) <= MAX_CARRIER_BYTES
    assert length(size + 4) is None


def carrier(payload, kind="th", origin=ORIGIN):
    return f"{MARK}{kind}.{origin}.{base64.urlsafe_b64encode(payload).decode()}"


@pytest.mark.promise("S21")
@pytest.mark.parametrize(
    "value",
    [
        "", "EqQBCkYIBxgCKkD", MARK, f"{MARK}th", f"{MARK}th.{ORIGIN}", f"{MARK}th.{ORIGIN}.", f"{MARK}th.{ORIGIN}.abc",
        f"{MARK}th.{ORIGIN}.ä", f"{MARK}xx.{ORIGIN}.e30=", carrier(b"{"), carrier(b"[]"), carrier(b'{"id":"i"}'),
        carrier(b'{"data":"\xff"}'), carrier(b'{"data":"d","more":' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    ],
)  # fmt: skip
def test_garbage_is_no_state(value):
    """Whatever a client puts there, nothing is raised and nothing is restored."""
    assert unseal(State(value), (*KINDS, "xx"), ORIGIN) is None


def test_no_state_is_none():
    """A history without state has nothing to restore."""
    assert unseal(None, KINDS, ORIGIN) is None


@given(texts)
def test_any_text_is_safe_to_look_at(value):
    """A text of any kind behind the mark is read or dropped."""
    assert unseal(State(f"{MARK}th.{ORIGIN}.{value}"), KINDS, ORIGIN) is None


def test_state_that_is_too_large_is_noted():
    """What is left out has one note, what is carried has none."""
    notes = Notes()
    assert seal(Carried("th", "x"), ORIGIN, notes)
    assert 0 == notes.count
    assert (None, None) == tuple(seal(Carried("th", "x" * MAX_CARRIER_BYTES), ORIGIN, notes) for _ in range(2))
    assert ["reasoning"] == [note.field for note in notes.kept]
