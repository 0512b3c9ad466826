"""The live feed: ids, resuming, slow followers, bounds."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import feed as module
from gateway.feed import BATCH, MAX_FOLLOWERS, Feed, Full
from gateway.record import Record


def filled(count: int, kept: int = 1000) -> Feed:
    feed = Feed(kept, gather_s=0, heartbeat_s=0.01)
    for number in range(1, count + 1):
        feed.put(Record(request_id=f"r{number}"))
    return feed


def events(data: bytes) -> list[tuple[str, str, dict]]:
    """Id, type and data of each event."""
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields:
            found.append((fields.get("id", ""), fields["event"], msgspec.json.decode(fields["data"])))
    return found


def names(data: bytes) -> list[str]:
    return [told["request_id"] for _, kind, told in events(data) if kind == "request"]


def test_records_come_with_numbered_ids():
    """Each event has its record and an id that names this process."""
    feed = filled(2)
    data, at = feed.take(0)
    assert [
        (f"{feed.boot}-1", "request", {"request_id": "r1"}),
        (f"{feed.boot}-2", "request", {"request_id": "r2"}),
    ] == events(data)
    assert (b"", 2) == feed.take(at)


@pytest.mark.parametrize(
    ("last_id", "newest", "expected"),
    [
        ("", 10, ["r1", "r2", "r3"]),
        ("", 2, ["r2", "r3"]),
        ("", 0, []),
        ("{boot}-2", 0, ["r3"]),
        ("{boot}-3", 10, []),
        ("{boot}-99", 10, []),
        ("{boot}-", 10, ["r1", "r2", "r3"]),
        ("{boot}-²", 10, ["r1", "r2", "r3"]),
        ("{boot}-" + "9" * 30, 10, ["r1", "r2", "r3"]),
        ("deadbeef-2", 0, ["r1", "r2", "r3"]),
        ("nonsense", 0, ["r1", "r2", "r3"]),
    ],
)
def test_a_follower_resumes_where_it_was(last_id, newest, expected):
    """An id of this process continues behind it; one of another process gets all; no id gets the newest."""
    feed = filled(3)
    data, _ = feed.take(feed.position(last_id.format(boot=feed.boot), newest))
    assert expected == names(data)


@pytest.mark.promise("S24")
@given(st.integers(1, 30), st.integers(0, 90), st.lists(st.integers(0, 20), max_size=12))
def test_every_record_is_told_or_counted_as_missed(kept, first, more):
    """However slowly a follower reads, told and missed together are all records, in order, once."""
    feed = filled(first, kept)
    at = first
    told: list[str] = []
    missed = 0
    number = first
    for burst in more:
        for _ in range(burst):
            number += 1
            feed.put(Record(request_id=f"r{number}"))
        while True:
            data, at = feed.take(at)
            if not data:
                break
            told += names(data)
            missed += sum(event["count"] for _, kind, event in events(data) if kind == "missed")
        assert len(feed) <= kept
    if first:  # a follower from position 0 asked for what is kept, and so misses nothing
        assert number - first == len(told) + missed
    assert sorted(told, key=lambda name: int(name[1:])) == told
    assert len(set(told)) == len(told)


def test_a_long_backlog_comes_in_batches():
    """One write holds BATCH records at most."""
    feed = filled(BATCH + 5)
    data, at = feed.take(0)
    assert BATCH == len(names(data)) == at
    assert 5 == len(names(feed.take(at)[0]))


@pytest.mark.promise("S15")
@given(st.text())
def test_no_name_breaks_an_event(alias):
    """Whatever a client calls its model, the event ends where it should."""
    feed = Feed()
    feed.put(Record(alias=alias))
    [(_, kind, told)] = events(feed.take(0)[0])
    assert ("request", alias) == (kind, told.get("alias"))


async def test_followers_are_told_at_once_and_kept_awake():
    """A follower gets what is there, then comments in silence, then what is new."""
    feed = filled(1)
    async with aclosing(feed.follow("", 10)) as frames:
        assert b"event: hello" in await anext(frames)
        assert ["r1"] == names(await anext(frames))
        assert (await anext(frames)).startswith(b":")
        feed.put(Record(request_id="r2"))
        data = b""
        while not names(data):
            data = await anext(frames)
        assert ["r2"] == names(data)
    assert 0 == feed.followers


async def test_closing_ends_followers():
    """A shutdown ends the feed, so that it does not wait for pages."""
    feed = Feed(gather_s=0, heartbeat_s=60)

    async def read() -> list[bytes]:
        return [data async for data in feed.follow("", 10)]

    reader = asyncio.create_task(read())
    while not feed.followers:
        await asyncio.sleep(0)
    feed.close()
    assert 1 == len(await asyncio.wait_for(reader, 5))


@pytest.mark.promise("S24")
async def test_followers_are_bounded(monkeypatch):
    """One more than MAX_FOLLOWERS is refused, and room is made when one leaves."""
    feed = Feed()
    open_ones = [feed.follow("", 0) for _ in range(MAX_FOLLOWERS)]
    for frames in open_ones:
        await anext(frames)
    with pytest.raises(Full):
        await anext(feed.follow("", 0))
    await open_ones.pop().aclose()
    last = feed.follow("", 0)
    await anext(last)
    for frames in (*open_ones, last):
        await frames.aclose()
    assert module.MAX_FOLLOWERS == MAX_FOLLOWERS
