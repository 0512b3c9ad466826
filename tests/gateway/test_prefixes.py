"""Each request of a session is compared with the conversation that it continues."""

import json

from gateway.prefixes import MAX_ELEMENTS, MAX_LINES, Prefixes
from gateway.record import Record
from translators.prefix import prefix_of


def prompt(*texts: str, system: str = "s"):
    found = prefix_of(json.dumps({"system": system, "messages": list(texts)}).encode())
    assert found is not None
    return found


def test_a_growing_conversation_keeps_its_prefix():
    """Each turn keeps all of the one before."""
    prefixes = Prefixes()
    assert None is prefixes.follow("t", "s", "up", prompt("a"))
    found = prefixes.follow("t", "s", "up", prompt("a", "b"))
    assert (len('"s"') + len('"a"'), None) == (found.bytes, found.broken_at)


def test_a_broken_prefix_is_named():
    """A changed message and a changed system text are told apart."""
    prefixes = Prefixes()
    prefixes.follow("t", "s", "up", prompt("a", "b"))
    assert "message 2" == prefixes.follow("t", "s", "up", prompt("a", "x")).broken_at
    assert "system" == prefixes.follow("t", "s", "up", prompt("a", "x", system="other")).broken_at


def test_interleaved_agents_keep_their_own_lines():
    """A sub-agent's prompt in the same session does not make the main line look broken."""
    prefixes = Prefixes()
    prefixes.follow("t", "s", "up", prompt("a"))
    prefixes.follow("t", "s", "up", prompt("z", system="sub"))
    assert None is prefixes.follow("t", "s", "up", prompt("a", "b")).broken_at
    assert None is prefixes.follow("t", "s", "up", prompt("z", "y", system="sub")).broken_at


def test_tenants_sessions_and_upstreams_are_apart():
    """Nothing is compared across tenants, sessions or upstreams, nor without a session."""
    prefixes = Prefixes()
    for tenant, session, upstream in (("t", "s", "u"), ("x", "s", "u"), ("t", "y", "u"), ("t", "s", "w")):
        assert None is prefixes.follow(tenant, session, upstream, prompt("a"))
    assert None is prefixes.follow("t", "", "u", prompt("a"))
    assert None is prefixes.follow("t", "", "u", prompt("a"))


def test_the_record_is_told():
    """A request's record has its prompt's hash and size; what was kept only once there is something to keep."""
    prefixes, first, second = Prefixes(), Record(provider="u"), Record(provider="u")
    body = json.dumps({"system": "s", "messages": ["a"]}).encode()
    prefixes.note(first, "t", "s", body)
    prefixes.note(second, "t", "s", body)
    assert (64, 8, None) == (len(first.prefix_hash), first.prefix_bytes, first.prefix_kept_bytes)
    assert (6, None) == (second.prefix_kept_bytes, second.prefix_broken_at)
    prefixes.note(third := Record(), "t", "s", b"no object")
    assert None is third.prefix_hash


def test_without_a_session_hash_and_size_are_told():
    """A request without a session has the same hash and size, and is not remembered."""
    prefixes, known, unknown, none = Prefixes(), Record(provider="u"), Record(provider="u"), Record()
    body = json.dumps({"system": "s", "tools": [], "messages": ["a"]}).encode()
    prefixes.note(known, "t", "s", body)
    for _ in range(2):
        prefixes.note(unknown, "t", "", body)
    assert (known.prefix_hash, known.prefix_bytes, None) == (
        unknown.prefix_hash,
        unknown.prefix_bytes,
        unknown.prefix_kept_bytes,
    )
    prefixes.note(none, "t", "", b"no object")
    assert (None, None) == (none.prefix_hash, none.prefix_bytes)
    assert 1 == len(prefixes)


def test_sessions_lines_and_elements_are_bounded():
    """The oldest session and the least like line make place; a huge prompt is not remembered."""
    prefixes = Prefixes(sessions=2)
    for name in "abc":
        prefixes.follow("t", name, "u", prompt("a"))
    assert 2 == len(prefixes)
    assert None is prefixes.follow("t", "a", "u", prompt("a"))
    for number in range(MAX_LINES + 3):
        prefixes.follow("t", "a", "u", prompt("q", system=str(number)))
    assert MAX_LINES == len(prefixes._sessions["t", "a", "u"])
    assert None is prefixes.follow("t", "a", "u", prompt(*"x" * MAX_ELEMENTS))
