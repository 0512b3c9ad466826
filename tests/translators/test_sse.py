"""Server-sent events: the same frames however the stream is cut, and a bound on each of them."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from translators.fault import Refused
from translators.sse import COMMENT, DONE, Frame, Regions, Splitter, data_frame, event_frame, frame_of


def pieces(raw, cuts):
    edges = [0, *sorted(cuts), len(raw)]
    return [raw[start:end] for start, end in pairwise(edges)]


def frames_of(chunks, limit=1 << 20):
    splitter = Splitter(limit)
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    last = splitter.finish()
    return frames if last is None else [*frames, last]


def by_the_standard(raw):
    """The frames of a stream by the words of the HTML standard, line by line, its unfinished end included."""
    raw = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    frames, event, data = [], b"", []
    for line in [*raw.split(b"\n"), b""]:
        if not line:
            if data:
                frames.append(Frame(b"\n".join(data), event))
            event, data = b"", []
        elif line.startswith(b":"):
            continue
        else:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif name == b"event":
                event = value.removeprefix(b" ")
    return frames


lines = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"data:  c",
        b"event: e",
        b"event:f",
        b": comment",
        b"id: 7",
        b"",
        b"",
        b"\xef\xbb\xbf",
        b"x",
    ]
)
ends = st.sampled_from([b"\n", b"\r", b"\r\n"])
streams = st.builds(
    lambda bom, pairs, rest: b"\xef\xbb\xbf" * bom + b"".join(line + end for line, end in pairs) + rest,
    st.booleans(),
    st.lists(st.tuples(lines, ends), max_size=20),
    lines,
)


@given(streams, st.data())
@example(b"data: a\r\n\ndata: b\r\n\r\n", None)
@example(b"data: a\n\n\n\n\ndata: b\n", None)
def test_frames_do_not_depend_on_cuts(raw, data):
    """Whole, byte by byte and at random cuts, with any mix of line ends, the frames are those of the standard."""
    expected = by_the_standard(raw)
    assert expected == frames_of([raw])
    assert expected == frames_of([raw[at : at + 1] for at in range(len(raw))])
    if data is not None:
        assert expected == frames_of(pieces(raw, data.draw(st.lists(st.integers(0, len(raw)), max_size=8))))


@pytest.mark.parametrize(
    ("raw", "frames"),
    [
        (b"data: 1\n\n", [Frame(b"1")]),
        (b"data:1\n\n", [Frame(b"1")]),
        (b"event: e\ndata: 1\ndata: 2\n\n", [Frame(b"1\n2", b"e")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [Frame(b"1")]),
        (b": hi\n\ndata: 1\r\r: hi\r\n\r\n", [Frame(b"1")]),
        (b"data\n\n", [Frame(b"")]),
        (b"event: e\n\n", []),
        (b"\n\n\n\n", []),
        (b"data: half", [Frame(b"half")]),
        (b"", []),
    ],
)
def test_frames(raw, frames):
    """Each part of the grammar: fields, several lines of data, BOM, comments, line ends, an end without blank line."""
    assert frames == frames_of([raw])
    assert frames == frames_of([raw[at : at + 1] for at in range(len(raw))])


def test_an_empty_chunk_changes_nothing():
    """Between the two bytes of a line end, of a BOM and of a blank line there may be nothing."""
    chunks = [b"", b"\xef", b"", b"\xbb\xbf", b"data: a\r", b"", b"\n", b"", b"\r", b"", b"\n"]
    assert [Frame(b"a")] == frames_of(chunks)


LIMIT = 16
WITHIN, BEYOND = b"data: 0123456789", b"data: 0123456789a"


@pytest.mark.parametrize("start", [b"", b"\n", b"\n\n\n", b"data: ok\n\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n\n\n\n", b"\n", b""])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_a_frame_of_the_limit_passes(start, end, size):
    """A frame of just the limit is one at every cut, whatever blank lines stand around it."""
    raw = start + WITHIN + end
    frames = frames_of([raw[at : at + size] for at in range(0, len(raw), size)], LIMIT)
    assert Frame(b"0123456789") == frames[-1]


@pytest.mark.parametrize("start", [b"", b"\n", b"data: ok\n\n"])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b""])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_a_frame_beyond_the_limit_is_refused(start, end, size):
    """One byte more is refused at every cut, also while its end is not there yet (section 8)."""
    raw = start + BEYOND + end
    with pytest.raises(Refused) as refused:
        frames_of([raw[at : at + size] for at in range(0, len(raw), size)], LIMIT)
    assert ("limit", 502) == (refused.value.fault.cause, refused.value.fault.status)


def test_small_frames_do_not_add_up():
    """The limit is one frame's, not that of a chunk with many."""
    assert 100 == len(frames_of([(WITHIN + b"\n\n") * 100], LIMIT))


@given(streams, st.data())
def test_regions_keep_every_byte(raw, data):
    """What goes through in regions is the stream itself, with LF as line end and without its BOM."""
    regions = Regions()
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    out = [regions.feed(piece) for piece in pieces(raw, cuts)]
    assert all(not region or region.endswith(b"\n\n") for region in out)
    plain = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert plain == b"".join(out) + regions.finish()


def test_frames_of_ours():
    """What we write is read back: named, unnamed, the sentinel and the comment."""
    assert Frame(b"{}", b"ping") == frame_of(event_frame("ping", b"{}").removesuffix(b"\n\n"))
    assert [Frame(b"{}"), Frame(b"[DONE]")] == frames_of([data_frame(b"{}") + COMMENT + DONE])
    assert frame_of(b": keepalive") is None


@pytest.mark.promise("S15")
@given(st.text())
def test_text_cannot_make_frames(text):
    """Model text with line ends and field names stays inside its JSON string."""
    from translators.jsonio import encode

    raw = event_frame("e", encode({"text": text + "\n\ndata: injected\n\n"}))
    assert 1 == len(frames_of([raw]))


@pytest.mark.parametrize("piece", [b": c\n\n", b"data: x\n\n", b"\n\n"])
@pytest.mark.parametrize("together", [True, False])
def test_frames_are_counted(piece, together):
    """As many frames as allowed pass, comments and blank lines included; one more is refused (section 8)."""
    splitter = Splitter(frames=10)
    chunks = [piece * 10] if together else [piece] * 10
    assert (piece[:1] == b"d") * 10 == sum(len(splitter.feed(chunk)) for chunk in chunks)
    with pytest.raises(Refused) as caught:
        splitter.feed(piece * 2 if together else piece)
    assert "limit" == caught.value.fault.cause
