"""Sessions find the key that served them, within bounds, and never another tenant's."""

import pytest

from gateway.affinity import MAX_SESSIONS, Affinity, fingerprint, short

SECRET = b"gateway-secret"


@pytest.mark.parametrize(("dialect", "shown"), [("messages", "70b8358fc22b733a"), ("responses", "ccf6415fe53337ab")])
def test_fingerprint_matches_the_published_vectors(dialect, shown):
    """Without a tenant the shown part is what cline-proxy computes for the same secret."""
    assert shown == short(fingerprint(SECRET, "", dialect, "user_1"))


@pytest.mark.promise("S30")
def test_fingerprints_differ_by_secret_tenant_dialect_and_session():
    """Nothing but the same session of the same tenant in the same dialect has the same full-length fingerprint."""
    made = {
        fingerprint(secret, tenant, dialect, session)
        for secret in (SECRET, b"other")
        for tenant in ("", "alice", "bob")
        for dialect in ("messages", "responses", "chat")
        for session in ("user_1", "user_2")
    }
    assert 2 * 3 * 3 * 2 == len(made)
    assert {64} == {len(digest) for digest in made}


@pytest.mark.promise("S31")
def test_no_session_has_no_fingerprint():
    """A request without a session id is nobody's, and is not remembered."""
    affinity = Affinity()
    affinity.put("alice", fingerprint(SECRET, "alice", "chat", ""), "m", "k1", 0.0)
    assert 0 == len(affinity)
    assert affinity.get("alice", "", "m", 0.0) is None


def test_lone_surrogates_have_a_fingerprint():
    """Session ids from escaped JSON that no UTF-8 can hold are hashed all the same."""
    assert fingerprint(SECRET, "a", "chat", "\ud800") != fingerprint(SECRET, "a", "chat", "\ud801")


def test_last_key_of_a_session_is_remembered():
    """A session that moved to another key stays there."""
    affinity = Affinity()
    affinity.put("alice", "s", "m", "k1", 0.0)
    affinity.put("alice", "s", "m", "k2", 1.0)
    assert "k2" == affinity.get("alice", "s", "m", 2.0)
    assert 1 == len(affinity)


@pytest.mark.promise("S30")
def test_equal_fingerprints_of_two_tenants_do_not_cross():
    """Even with a hash that collides, tenants do not share a session."""
    affinity = Affinity()
    affinity.put("alice", "same", "m", "k1", 0.0)
    assert affinity.get("bob", "same", "m", 0.0) is None


def test_each_model_of_a_session_has_its_own_key():
    """A model that moved on after a limit of its own leaves the session's other models where they are."""
    affinity = Affinity()
    affinity.put("alice", "s", "opus", "k1", 0.0)
    affinity.put("alice", "s", "haiku", "k2", 1.0)
    assert ("k1", "k2") == (affinity.get("alice", "s", "opus", 2.0), affinity.get("alice", "s", "haiku", 2.0))


def test_ttl_slides_with_use():
    """Each use renews the hour; an hour without use forgets."""
    affinity = Affinity(ttl_s=3600)
    affinity.put("a", "s", "m", "k1", 0.0)
    assert "k1" == affinity.get("a", "s", "m", 3599.0)
    assert "k1" == affinity.get("a", "s", "m", 7198.0)
    assert affinity.get("a", "s", "m", 10798.0) is None
    assert 0 == len(affinity)


def test_expired_sessions_make_room_by_themselves():
    """New sessions clear out the expired ones, so that a busy hour does not stay in memory."""
    affinity = Affinity(ttl_s=10)
    for index in range(100):
        affinity.put("a", str(index), "m", "k1", 0.0)
    affinity.put("a", "new", "m", "k1", 10.0)
    assert 1 == len(affinity)


def test_least_recently_used_goes_first():
    """At the limit the session that was used longest ago makes room."""
    affinity = Affinity(limit=2)
    affinity.put("a", "old", "m", "k1", 0.0)
    affinity.put("a", "mid", "m", "k1", 1.0)
    assert "k1" == affinity.get("a", "old", "m", 2.0)
    affinity.put("a", "new", "m", "k1", 3.0)
    assert [None, "k1", "k1"] == [affinity.get("a", name, "m", 4.0) for name in ("mid", "old", "new")]


def test_nothing_is_kept_without_time_to_live():
    """A time to live of 0 switches affinity off."""
    affinity = Affinity(ttl_s=0)
    affinity.put("a", "s", "m", "k1", 0.0)
    assert 0 == len(affinity)


@pytest.mark.promise("S24")
def test_distinct_sessions_are_bounded():
    """A hundred thousand sessions leave no more than the limit behind."""
    affinity = Affinity()
    for index in range(100_000):
        affinity.put("a", str(index), "m", "k1", index / 1000)
    assert MAX_SESSIONS == len(affinity)
