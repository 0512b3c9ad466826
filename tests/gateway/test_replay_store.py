"""The replay store: sliding life, budgets, and clients that cannot see each other."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stores.replay import MAX_ID_CHARS, TTL_S, Replay, Shelf
from translators.conversation import ToolCall, Turn
from translators.replay import Past

CALL = ToolCall("call_1", "lookup", "{}")
SIZE = len(msgspec.json.encode(CALL))


def key(name):
    return b"t", "m", name


def test_life_slides():
    """A look-up renews an entry; one that nobody asked for in time is gone."""
    shelf = Shelf[str](10, 1000)
    shelf.put(key("a"), "x", 1, 0)
    assert "x" == shelf.get(key("a"), TTL_S - 1)
    assert "x" == shelf.get(key("a"), 2 * TTL_S - 2)
    assert shelf.get(key("a"), 3 * TTL_S) is None
    assert (0, 0) == (len(shelf), shelf.bytes)


def test_least_recently_used_goes_first():
    """At the limit of entries the one that was longest not asked for goes; expired ones before it."""
    shelf = Shelf[str](2, 1000)
    shelf.put(key("a"), "x", 1, 0)
    shelf.put(key("b"), "y", 1, 1)
    shelf.get(key("a"), 2)
    shelf.put(key("c"), "z", 1, 3)
    assert [None, "x", "z"] == [shelf.get(key(name), 4) for name in "bac"]
    shelf.put(key("d"), "w", 1, 5 + TTL_S)
    assert 1 == len(shelf)


def test_what_is_too_large_is_not_kept():
    """An entry larger than the whole budget is not stored, and takes an older one of its name away."""
    shelf = Shelf[str](10, 256)
    shelf.put(key("a"), "small", 10, 0)
    shelf.put(key("a"), "large", 512, 0)
    assert shelf.get(key("a"), 0) is None
    shelf.put(key("b"), "small", 200, 0)
    shelf.put(key("c"), "small", 100, 0)
    assert [None, "small"] == [shelf.get(key(name), 0) for name in "bc"]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 300), st.integers(0, 2000)), max_size=60))
def test_budgets_hold(puts):
    """Whatever is put, entries and bytes stay within their limits, and the bytes are those of what is kept."""
    shelf, now, sizes = Shelf[int](8, 1000, ttl_s=5000), 0, {}
    for name, size, pause in puts:
        now += pause
        shelf.put(key(str(name)), size, size, now)
        sizes[str(name)] = size
        assert len(shelf) <= 8
        assert shelf.bytes <= 1000
    kept = [found for name in sizes if (found := shelf.get(key(name), now)) is not None]
    assert sum(kept) == shelf.bytes


@pytest.mark.promise("S30")
def test_clients_are_apart():
    """The same ids under two clients, or two models, are different entries."""
    replay = Replay()
    mine, other = replay.slot(b"s", "a", "grok-4.5"), replay.slot(b"s", "b", "grok-4.5")
    mine.item(("fc_1",), CALL, 0)
    mine.answer(("resp_1",), "thread", (CALL,), 0)
    for slot in (other, replay.slot(b"s", "a", "grok-4.5-build-free")):
        memory = slot.memory(1)
        assert ((), (), ()) == (memory.item("fc_1"), memory.response("resp_1"), memory.session("thread"))
    other.item(("fc_1",), ToolCall("call_1", "other", "{}"), 0)
    assert (CALL,) == mine.memory(1).item("fc_1")
    assert not any("fc_1" in str(found[0]) or found[0] == b"a" for found in replay.calls._kept)


def test_session_holds_the_latest_tool_turn():
    """A session key names the last answer with calls; one without calls changes nothing."""
    slot = Replay().slot(b"s", "a", "m")
    later = ToolCall("call_2", "lookup", "{}")
    slot.answer(("r1", "up1"), "thread", (CALL,), 0)
    slot.answer(("r2",), "thread", (later,), 1)
    slot.answer(("r3",), "thread", (), 2)
    memory = slot.memory(3)
    assert ((later,), (CALL,), (CALL,), ()) == (
        memory.session("thread"),
        memory.response("r1"),
        memory.response("up1"),
        memory.response("r3"),
    )


def test_blank_and_endless_names_are_not_kept():
    """Without a name, a model or with a name that is too long nothing is stored."""
    replay = Replay()
    slot = replay.slot(b"s", "a", "m")
    slot.item((" ", "x" * (MAX_ID_CHARS + 1)), CALL, 0)
    slot.answer(("",), "", (CALL,), 0)
    past = Past((), (Turn("user", ()),))
    slot.past("", past, 0)
    replay.slot(b"s", "a", "").item(("fc_1",), CALL, 0)
    assert (0, 0) == (len(replay.calls), len(replay.pasts))


def test_whole_conversations_have_a_budget_of_their_own():
    """A remembered conversation is found by its answer's id, and counts apart from the calls."""
    replay = Replay(Shelf(2, SIZE * 4), Shelf(1, 10_000))
    slot = replay.slot(b"s", "a", "m")
    past = Past((), (Turn("assistant", (CALL,)),))
    for name in ("r1", "r2"):
        slot.past(name, past, 0)
    memory = slot.memory(1)
    assert (None, past) == (memory.whole("r1"), memory.whole("r2"))
    assert 0 == len(replay.calls)
