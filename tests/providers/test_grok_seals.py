"""Where encrypted reasoning came from, learned from the bytes of a reply."""

from providers.grok_input import token
from providers.grok_seals import Seals, Watched
from tests.streams import frame


class Reply:
    status = 200

    def __init__(self, chunks):
        self.headers = {"X-A": "1"}
        self._chunks, self.calls = chunks, []

    async def chunks(self):
        for chunk in self._chunks:
            yield chunk

    async def read(self, limit):
        return b"".join(self._chunks)[:limit]

    def abort(self):
        self.calls.append("abort")

    async def release(self):
        self.calls.append("release")


def item(sealed):
    return frame({"type": "response.output_item.done", "item": {"type": "reasoning", "encrypted_content": sealed}})


async def test_origin_is_learned_across_chunks():
    """A value is known for the credential that its reply came through, however the bytes were cut."""
    seals, data = Seals(), item("x" * 40) + frame({"type": "a", "encrypted_content": "y"}) + item(None)
    reply = Reply([data[:30], data[30:], b'data: {"encrypted_content"\n\n'])
    watched = Watched(reply, {"x-b": "2"}, seals.watcher("k1", True))
    assert data == b"".join([chunk async for chunk in watched.chunks()]).removesuffix(b'data: {"encrypted_content"\n\n')
    assert frozenset([token("x" * 40)]) == seals.of("k1")
    assert frozenset() == seals.of("k2")
    assert {"x-a": "1", "x-b": "2"} == watched.headers


async def test_reply_is_passed_through():
    """Without anything to learn the reply is what it was."""
    reply = Reply([b"abc"])
    watched = Watched(reply, {}, Seals().watcher("k", False))
    assert [b"abc"] == [chunk async for chunk in watched.chunks()]
    assert b"ab" == await watched.read(2)
    watched.abort()
    await watched.release()
    assert ["abort", "release"] == reply.calls


def test_memory_is_bounded():
    """The oldest values are forgotten."""
    seals = Seals(limit=2)
    for value in ("a", "b", "a", "c"):
        seals.put(value, "k")
    assert frozenset([token("a"), token("c")]) == seals.of("k")


def test_endless_event_is_left_to_the_decoder():
    """An event over the limit teaches nothing and breaks nothing."""
    learn = Seals().watcher("k", True)
    assert learn is not None
    for _ in range(20):
        learn(b"data: " + b"x" * 4_000_000)
