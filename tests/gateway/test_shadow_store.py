"""The store of withheld reasoning keeps tenants and sessions apart and stays within every bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stores.shadow import ENTRY_COST_BYTES, Shadow


def test_entries_belong_to_tenant_and_session():
    """Neither another tenant nor another session finds an entry."""
    shadow = Shadow()
    shadow.put("a", "s1", ["c1", "c2"], "why", 0)
    assert "why" == shadow.get("a", "s1", "c1", 0) == shadow.get("a", "s1", "c2", 0)
    assert None is shadow.get("b", "s1", "c1", 0)
    assert None is shadow.get("a", "s2", "c1", 0)


def test_no_session_no_shadow():
    """A client without a session id shares nothing with others like it."""
    shadow = Shadow()
    shadow.put("a", "", ["c1"], "why", 0)
    assert (None, 0) == (shadow.get("a", "", "c1", 0), len(shadow))


def test_too_long_a_text_is_skipped():
    """One byte over the limit is not kept, and counted."""
    shadow = Shadow(entry_bytes=4)
    shadow.put("a", "s", ["c1"], "éé", 0)
    shadow.put("a", "s", ["c2"], "ééx", 0)
    assert ("éé", None) == (shadow.get("a", "s", "c1", 0), shadow.get("a", "s", "c2", 0))
    assert (1, 1) == (shadow.counts.stores, shadow.counts.oversized)


def test_the_session_used_longest_ago_goes_first():
    """One session too many pushes out the one that nobody used."""
    shadow = Shadow(sessions=2)
    for name in ("s1", "s2"):
        shadow.put("a", name, ["c"], name, 0)
    shadow.get("a", "s1", "c", 1)
    shadow.put("a", "s3", ["c"], "s3", 2)
    assert ["s1", None, "s3"] == [shadow.get("a", name, "c", 2) for name in ("s1", "s2", "s3")]
    assert 1 == shadow.counts.evicted


def test_time_ends_a_session():
    """Without a request for the whole time an entry is gone, and its memory with the next store."""
    shadow = Shadow(ttl_s=600)
    shadow.put("a", "s", ["c"], "why", 0)
    assert "why" == shadow.get("a", "s", "c", 599)
    assert None is shadow.get("a", "s", "c", 599 + 600)
    shadow.put("a", "t", ["c"], "why", 2000)
    assert 1 == len(shadow)


def test_forgets_single_calls():
    """A new human turn drops the calls before it, not what another agent of the session still needs."""
    shadow = Shadow()
    shadow.put("a", "s", ["c1", "c2"], "why", 0)
    shadow.forget("a", "s", ["c1", "unknown"])
    assert (None, "why") == (shadow.get("a", "s", "c1", 0), shadow.get("a", "s", "c2", 0))
    shadow.forget("a", "s", ["c2"])
    shadow.forget("a", "nobody", ["c2"])
    assert (0, 0, 0) == (len(shadow), shadow.bytes, shadow.entries)


@pytest.mark.slow
@pytest.mark.promise("S24")
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from("xyz"), st.sets(st.sampled_from("1234"), min_size=1), st.text()
        )
    )
)
def test_bounds_hold_whatever_is_stored(puts):
    """Sessions, entries and bytes stay within their limits, and the accounts agree with the content."""
    shadow = Shadow(sessions=3, entries=6, max_bytes=6 * ENTRY_COST_BYTES + 40, entry_bytes=20)
    for now, (tenant, session, calls, text) in enumerate(puts):
        shadow.put(tenant, session, sorted(calls), text, now)
        assert len(shadow) <= 3
        assert shadow.entries <= 6
        assert shadow.bytes <= 6 * ENTRY_COST_BYTES + 40
    for tenant in "abc":
        for session in "xyz":
            shadow.forget(tenant, session, "1234")
    assert (0, 0, 0) == (len(shadow), shadow.bytes, shadow.entries)
