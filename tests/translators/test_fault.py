"""The Fault value: statuses by kind, messages short enough to show, and the two ways to make one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.fault import MESSAGE_LIMIT_CHARS, STATUS, Fault, Refused, broken, refuse


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("invalid_request", 400),
        ("context_length", 400),
        ("policy", 400),
        ("authentication", 401),
        ("billing", 402),
        ("permission", 403),
        ("not_found", 404),
        ("too_large", 413),
        ("unsupported_media", 415),
        ("rate_limited", 429),
        ("api", 502),
        ("overloaded", 503),
        ("timeout", 504),
    ],
)
def test_each_kind_has_its_status(kind, status):
    """A Fault without a status of its own takes the one of its kind (1.2)."""
    assert status == Fault(kind=kind, message="m").status
    assert 13 == len(STATUS)


def test_an_own_status_stays():
    """A status that the upstream gave is not replaced."""
    assert 529 == Fault(kind="overloaded", message="m", status=529).status


@pytest.mark.promise("S02")
@given(st.integers(MESSAGE_LIMIT_CHARS - 2, MESSAGE_LIMIT_CHARS + 2))
def test_messages_are_cut_at_the_limit(size):
    """A message of the limit stays, a longer one is cut to it and shows so."""
    message = Fault(kind="api", message="x" * size).message
    assert min(size, MESSAGE_LIMIT_CHARS) == len(message)
    assert (size > MESSAGE_LIMIT_CHARS) == message.endswith("…")


@pytest.mark.invariant("I31")
def test_refuse_blames_the_client():
    """A refusal is an exception that carries the client's Fault with the field's path."""
    refused = refuse("no", param="messages.0", code="unsupported_tool")
    assert isinstance(refused, Refused)
    assert "invalid_request" == str(refused)
    assert (
        Fault(
            kind="invalid_request",
            message="no",
            status=400,
            cause="client",
            param="messages.0",
            code="unsupported_tool",
        )
        == refused.fault
    )


def test_broken_blames_the_upstream():
    """A protocol violation is a 502 of the cause that is given."""
    assert Fault(kind="api", message="m", status=502, cause="protocol") == broken("m")
    assert Fault(kind="api", message="m", status=502, cause="limit", code="c") == broken("m", code="c", cause="limit")
