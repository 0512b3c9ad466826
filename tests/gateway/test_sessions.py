"""Session ids come from what a client says, never from its content."""

import pytest

from gateway.sessions import HEADERS, MAX_SESSION_CHARS, session_of
from translators.dialect import Peek


def test_the_body_comes_first():
    """An id in the body wins over every header."""
    assert "body" == session_of(dict.fromkeys(HEADERS, "header"), Peek("m", session="body", user="u"))


@pytest.mark.parametrize("name", HEADERS)
def test_each_known_header_names_a_session(name):
    """The clients' own headers are read."""
    assert "s1" == session_of({name: "s1"}, Peek("m", user="u"))


def test_the_first_known_header_wins():
    """Their order is fixed, whatever order they came in."""
    assert "1" == session_of({"x-session-id": "2", "x-claude-code-session-id": "1"}, Peek("m"))


@pytest.mark.promise("S31")
@pytest.mark.parametrize("headers", [{}, {"user-agent": "x", "x-forwarded-for": "10.0.0.1", "x-request-id": "r"}])
def test_nothing_else_is_a_session(headers):
    """Addresses, agents and request ids are not guessed to be one."""
    assert "" == session_of(headers, Peek("m"))


@pytest.mark.promise("S24")
def test_an_id_without_end_is_none():
    """An over-long id is passed over, a header at the limit is not."""
    long, fits = "x" * (MAX_SESSION_CHARS + 1), "y" * MAX_SESSION_CHARS
    assert fits == session_of({"session-id": fits}, Peek("m", session=long))
    assert "" == session_of({"session-id": long}, Peek("m", session=long, user=long))


@pytest.mark.promise("S31")
def test_who_asks_stands_for_a_session_that_nobody_names():
    """The user that a body names comes last: one user may have several sessions."""
    assert "alice" == session_of({}, Peek("m", user="alice"))
