"""Bodies under limits of size and time, whole and compressed."""

import asyncio
import gzip
import sys
import tracemalloc
import zlib
from types import SimpleNamespace

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from gateway import body
from gateway.body import MEMBERS, read_body
from translators.fault import Fault

LIMIT = 1000
PACK = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}
every_encoding = pytest.mark.parametrize("encoding", PACK)


class Content:
    """The body of a request, in the pieces in which it arrives; None is a pause without end."""

    def __init__(self, pieces):
        self.pieces = list(pieces)

    def is_eof(self):
        return False

    async def readany(self):
        piece = self.pieces.pop(0) if self.pieces else b""
        if piece is None:
            await asyncio.Event().wait()
        return piece


async def read(*pieces, encoding=None, length=None, limit=LIMIT):
    headers = {"content-encoding": encoding} if encoding is not None else {}
    return await read_body(SimpleNamespace(content_length=length, headers=headers, content=Content(pieces)), limit)


def told(fault):
    assert isinstance(fault, Fault)
    assert "client" == fault.cause
    return fault.status


@pytest.mark.parametrize("pieces", [(), (b"one",), (b"one", b"two", b"three")])
async def test_a_body_is_read_whole(pieces):
    """However it arrives, the bytes are the same."""
    assert b"".join(pieces) == await read(*pieces)


@pytest.mark.promise("S20")
@pytest.mark.parametrize("length", [None, LIMIT])
async def test_a_body_at_the_limit_passes(length):
    """The limit itself is allowed, announced or not."""
    assert b"x" * LIMIT == await read(b"x" * 400, b"x" * 600, length=length)


@pytest.mark.promise("S20")
async def test_a_byte_over_the_limit_is_refused():
    """An announced length is refused unread, a chunked body as soon as it is over."""
    content = Content([b"x" * (LIMIT + 1)])
    request = SimpleNamespace(content_length=LIMIT + 1, headers={}, content=content)
    assert 413 == told(await read_body(request, LIMIT))
    assert 1 == len(content.pieces)
    assert 413 == told(await read(b"x" * LIMIT, b"x", None))


@every_encoding
async def test_a_compressed_body_is_unpacked(encoding):
    """Encodings that clients use are read, whatever the case and spaces of their name."""
    packed = PACK[encoding](b"hello " * 100)
    assert b"hello " * 100 == await read(packed[:10], packed[10:], encoding=f" {encoding.upper()} ")


@pytest.mark.parametrize("encoding", ["", "identity"])
async def test_identity_is_no_encoding(encoding):
    """A body under the name of no encoding is taken as it is."""
    assert b"plain" == await read(b"plain", encoding=encoding)


@every_encoding
@pytest.mark.promise("S20")
async def test_the_limit_holds_after_unpacking(encoding):
    """At the limit it passes, one byte more is a 413."""
    assert LIMIT == len(await read(PACK[encoding](b"x" * LIMIT), encoding=encoding))
    assert 413 == told(await read(PACK[encoding](b"x" * (LIMIT + 1)), encoding=encoding))


@pytest.mark.slow
@every_encoding
@pytest.mark.promise("S20")
async def test_a_bomb_is_never_built(encoding):
    """64 MiB in a few kilobytes are refused without the memory that they would take."""
    bomb = PACK[encoding](bytes(64 << 20))
    tracemalloc.start()
    try:
        assert 413 == told(await read(bomb, encoding=encoding, limit=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@every_encoding
@pytest.mark.parametrize(
    ("mangle", "words"),
    [
        (lambda data: b"\x00" + data, "is not valid"),
        (lambda data: data[:-3], "is cut off"),
        (lambda data: b"", "is cut off"),
        (lambda data: data + b"more", "something follows"),
    ],
    ids=["garbage", "cut", "empty", "trailing"],
)
async def test_a_broken_encoding_is_a_400(encoding, mangle, words):
    """Nothing is guessed from half a body or from what follows one."""
    fault = await read(mangle(PACK[encoding](b"hello" * 30)), encoding=encoding)
    assert 400 == told(fault)
    assert words in fault.message


async def test_deflate_without_its_envelope_is_read():
    """Some clients send what RFC 1951 describes, without the header and checksum of RFC 1950."""
    machine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    raw = machine.compress(b"hello " * 100) + machine.flush()
    assert b"hello " * 100 == await read(raw, encoding="deflate")
    assert "is cut off" in (await read(raw[:-1], encoding="deflate")).message
    assert "something follows" in (await read(raw + b"x", encoding="deflate")).message
    assert 413 == told(await read(raw, encoding="deflate", limit=599))


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "zstd"])
async def test_a_body_of_several_members_is_read_whole(encoding):
    """Parallel compressors make them; limits and ends hold for all together."""
    packed = PACK[encoding](b"one") + PACK[encoding](b"") + PACK[encoding](b"two")
    assert b"onetwo" == await read(packed, encoding=encoding)
    assert "is cut off" in (await read(packed[:-1], encoding=encoding)).message


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.promise("S20")
async def test_members_are_limited(encoding):
    """Sixteen are enough for anybody, and tiny ones by the million would take minutes."""
    one = PACK[encoding](b"x")
    assert b"x" * MEMBERS == await read(one * MEMBERS, encoding=encoding)
    assert "something follows" in (await read(one * (MEMBERS + 1), encoding=encoding)).message
    assert 413 == told(await read(PACK[encoding](b"x" * 600) * 2, encoding=encoding))


@pytest.mark.promise("S20")
@pytest.mark.parametrize("encoding", ["br", "compress", "gzip, gzip", "x" * 500])
async def test_unknown_encodings_are_a_415(encoding):
    """The message names what is read, and the unknown name only in part."""
    fault = await read(b"data", encoding=encoding)
    assert 415 == told(fault)
    assert "gzip, deflate, zstd" in fault.message
    assert len(fault.message) < 200


async def test_zstd_needs_a_library(monkeypatch):
    """Without one, zstd is a 415 that says what to install."""
    for name in ("compression", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    fault = await read(b"data", encoding="zstd")
    assert 415 == told(fault)
    assert "extra" in fault.message


async def test_zstd_of_the_standard_library_comes_first(monkeypatch):
    """Python 3.14 has zstd itself."""
    monkeypatch.setitem(sys.modules, "compression", SimpleNamespace(zstd=zstd))
    monkeypatch.setitem(sys.modules, "backports", None)
    assert b"data" == await read(zstd.compress(b"data"), encoding="zstd")


@pytest.mark.promise("S22")
async def test_a_body_that_does_not_arrive_is_a_408(monkeypatch):
    """The whole body has BODY_S seconds, however it drips."""
    monkeypatch.setattr(body, "BODY_S", 0.05)
    fault = await read(b"a", None)
    assert (408, "timeout") == (told(fault), fault.kind)


@pytest.mark.promise("S20")
@given(st.binary(max_size=200), st.sampled_from(list(PACK)))
def test_random_bytes_are_a_400_or_a_body(data, encoding):
    """No input raises, and nothing over the limit comes out."""
    got = body._inflated(data, encoding, 50)
    assert got.status in (400, 413) if isinstance(got, Fault) else len(got) <= 50
