"""Ids: pure functions, legal for their target, and distinct where their sources are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.identifiers import (
    CALL_ID_LIMIT,
    call_id_for_messages,
    call_id_for_openai,
    item_id,
    made_call_id,
    response_id,
)


@pytest.mark.invariant("I30")
@given(st.text(st.characters(), min_size=1))
def test_messages_gets_legal_ids(call_id):
    """Any id becomes one that Messages accepts; a legal one stays, also when it comes back (1.3)."""
    made = call_id_for_messages(call_id)
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", made)
    assert made == call_id_for_messages(made) == call_id_for_messages(call_id)
    assert (made == call_id) == bool(re.fullmatch(r"[a-zA-Z0-9_-]+", call_id))


def test_ids_that_clean_up_alike_stay_apart():
    """Two ids that differ only in illegal characters do not become one."""
    assert "a_b_" == call_id_for_messages("a.b")[:4]
    assert 12 == len(call_id_for_messages("a.b"))
    assert 3 == len({call_id_for_messages(call_id) for call_id in ("a.b", "a:b", "a_b")})


def test_a_line_end_is_not_legal():
    """The end of the pattern is the end of the id, not of a line in it."""
    assert "a\n" != call_id_for_messages("a\n")


@given(st.text(st.characters(), max_size=CALL_ID_LIMIT * 2))
def test_openai_gets_ids_of_at_most_64_characters(call_id):
    """A long id is cut and marked, a short one stays, and the result is stable."""
    made = call_id_for_openai(call_id)
    assert CALL_ID_LIMIT >= len(made)
    assert made == call_id_for_openai(made)
    assert (made == call_id) == (len(call_id) <= CALL_ID_LIMIT)


def test_long_ids_with_the_same_beginning_stay_apart():
    """47 characters and 16 hex digits of the whole id."""
    one, other = call_id_for_openai("x" * 64 + "a"), call_id_for_openai("x" * 64 + "b")
    assert one != other
    assert re.fullmatch(r"x{47}_[0-9a-f]{16}", one)


@pytest.mark.parametrize(
    ("upstream", "family", "made"),
    [
        ("", "msg_", "msg_5eed"),
        ("msg_1", "msg_", "msg_1"),
        ("chatcmpl-1", "msg_", "msg_1"),
        ("msg_1", "resp_", "resp_1"),
        ("resp_1", "chatcmpl-", "chatcmpl-1"),
        ("gen-1", "resp_", "resp_1"),
        ("other", "msg_", "msg_other"),
    ],
)
def test_response_ids_carry_the_clients_prefix(upstream, family, made):
    """A known prefix is exchanged, an unknown id is prefixed, a missing one made from the seed (1.3)."""
    assert made == response_id(upstream, family, "5eed")


@pytest.mark.invariant("I13")
def test_made_ids():
    """Made call ids count on; item ids name their answer once and are no call ids."""
    assert ["toolu_5eed_0", "call_5eed_1"] == [made_call_id("toolu_", "5eed", 0), made_call_id("call_", "5eed", 1)]
    assert ["msg_1_0", "rs_x_3"] == [item_id("msg", "resp_1", 0), item_id("rs", "x", 3)]
