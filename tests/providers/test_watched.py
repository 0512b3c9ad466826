"""A reply that is watched on its way, and says which token it was asked with."""

from providers.watched import GENERATION, Watched, generation_of


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


class Eye:
    def __init__(self):
        self.seen = []

    def feed(self, chunk):
        self.seen.append(chunk)

    def end(self):
        self.seen.append("end")


async def test_chunks_are_shown():
    """The watch sees each chunk and the end; the reader gets the same bytes."""
    eye = Eye()
    watched = Watched(Reply([b"a", b"b"]), {GENERATION: "2"}, eye)
    assert [b"a", b"b"] == [chunk async for chunk in watched.chunks()]
    assert [b"a", b"b", "end"] == eye.seen
    assert {"x-a": "1", GENERATION: "2"} == watched.headers


async def test_reply_is_passed_through():
    """Without anything to learn the reply is what it was."""
    reply = Reply([b"abc"])
    watched = Watched(reply, {})
    assert [b"abc"] == [chunk async for chunk in watched.chunks()]
    assert b"ab" == await watched.read(2)
    watched.abort()
    await watched.release()
    assert ["abort", "release"] == reply.calls


def test_generation():
    """A reply names it; without headers, or for a plain key, there is none."""
    assert [3, None, None] == [generation_of(headers) for headers in ({GENERATION: "3"}, {}, {GENERATION: "-1"})]
