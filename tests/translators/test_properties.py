"""Properties of all nine pairs over generated scripts: whole, quirky, cut at any event and at any byte."""

import json
import os
import re
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.fidelity import BASES, PROBES
from tests.translators.readings import (
    ALIAS,
    Got,
    answered,
    fed,
    forwarded,
    meaning,
    prepare,
    read,
    requested,
    spelled,
    translated,
)
from tests.translators.scripts import DIALECTS as NAMED
from tests.translators.scripts import PAIRS, Counts, Refuse, Say, Script, expected, scripts, stop_of
from tests.translators.wires import MODEL, QUIRKS, sse, stream, whole
from translators.dialects import DIALECTS
from translators.fault import Fault, Refused
from translators.pair import Pair

pairs = pytest.mark.parametrize(("client", "upstream"), PAIRS)
EXAMPLES = int(os.environ.get("EXAMPLES", settings.default.max_examples // 8))
"""For each pair and property: 12, and two in a fast run; `EXAMPLES=500` looks deeper."""
few, some = settings(max_examples=max(EXAMPLES // 2, 1)), settings(max_examples=EXAMPLES)

LOSSY = ("whole message", "hosted item")
"""Quirks after which an answer has another form: a whole Chat message tells its text first, a hosted item parts a message."""
UNFIT = ("crlf", "comments", "[DONE]", "no message_stop", "no [DONE]", "leading chunk", "no event names", "no created")
"""Quirks that the native path mends or cannot keep byte for byte."""


@st.composite
def quirky(draw: st.DrawFn, upstream: str) -> tuple[Script, tuple[str, ...]]:
    script = draw(scripts(upstream))
    quirks = draw(st.lists(st.sampled_from([q for q in QUIRKS[upstream] if q not in LOSSY]), max_size=3, unique=True))
    return script, tuple(quirks)


def counts_of(script: Script) -> dict[str, int]:
    counts = script.counts if script.counted != "never" else Counts(0, 0, 0, 0, 0)
    told = {"prompt": counts.prompt, "output": counts.output, "cached": counts.cached, "written": counts.written}
    return told | {"reasoning": counts.reasoning}


def chopped(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(at, len(data)) for at in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.invariant("I9")
@pytest.mark.invariant("I10")
@pytest.mark.invariant("I11")
@pytest.mark.invariant("I12")
@pytest.mark.invariant("I15")
@pytest.mark.invariant("I19")
@pairs
@some
@given(data=st.data())
def test_answer_keeps_its_meaning(client, upstream, data):
    """Text is byte-exact, arguments parse equal, blocks keep their order, the stop and the counts are right."""
    script, quirks = data.draw(quirky(upstream))
    got = translated(client, upstream, stream(upstream, script, *quirks))
    assert "success" == got.terminal, got.fault
    assert meaning(expected(script, client, upstream)) == meaning(got.blocks)
    assert (stop_of(script, upstream), ALIAS) == (shown_stop(got, script), got.model)
    assert counts_of(script) == zeros() | got.usage


def zeros() -> dict[str, int]:
    return {"prompt": 0, "output": 0, "cached": 0, "written": 0, "reasoning": 0}


def shown_stop(got: Got, script: Script) -> str | None:
    """The stop as told; a complete Responses answer shows a refusal by its parts."""
    refused = got.stop == "end" and "refusal" in got.kinds
    return "refusal" if refused and script.stop == "end" else got.stop


@pytest.mark.invariant("I18")
@pairs
@some
@given(data=st.data())
def test_folded_stream_is_the_whole_answer(client, upstream, data):
    """A client that wants no stream gets the same from a stream, from a body, and out of a stream's pieces."""
    script = data.draw(scripts(upstream))
    streamed = translated(client, upstream, stream(upstream, script))
    folded = translated(client, upstream, stream(upstream, script), stream=False)
    assert meaning(streamed.blocks) == meaning(folded.blocks)
    assert (streamed.stop, streamed.usage) == (folded.stop, folded.usage)
    if client == "responses":
        assert final_response(streamed.raw) == json.loads(folded.raw)


def final_response(raw: bytes) -> dict:
    return json.loads(raw.strip().rpartition(b"\ndata: ")[2])["response"]


@pytest.mark.invariant("I18")
@pairs
@few
@given(data=st.data())
def test_body_says_what_the_stream_says(client, upstream, data):
    """An upstream's whole answer and its stream become the same body, for scripts that have the same form in both."""
    script = data.draw(scripts(upstream))
    folded = translated(client, upstream, stream(upstream, script), stream=False)
    direct = answered(client, upstream, whole(upstream, script), stream=False)
    if upstream == "chat":
        # A Chat body has no order between text, refusal and calls.
        assume(not {Say, Refuse} <= {type(block) for block in script.blocks})
        assert joined(folded.blocks) == joined(direct.blocks)
    else:
        assert meaning(folded.blocks) == meaning(direct.blocks)
    assert (folded.stop, folded.usage) == (direct.stop, direct.usage)


def joined(blocks):
    spoken = {
        kind: "".join(block.text for block in blocks if block.kind == kind) for kind in ("text", "refusal", "reasoning")
    }
    return [*spoken.items(), *(b for b in meaning(blocks) if b[0] == "tool")]


@pytest.mark.invariant("I2")
@pytest.mark.invariant("I20")
@pytest.mark.edge("E23")
@pairs
@some
@given(data=st.data())
def test_cut_at_an_event_never_ends_well(client, upstream, data):
    """A stream that stops before the upstream said how it ended is an error, and what was told is a true prefix."""
    script, quirks = data.draw(quirky(upstream))
    frames = stream(upstream, script, *quirks)
    at = data.draw(st.integers(0, ended_at(upstream, frames)))
    got = translated(client, upstream, frames[:at])
    assert got.terminal in ("error", "http")
    assert got.fault is not None
    assert "eof" == got.fault.cause
    prefixes(script, client, upstream, got.raw)


def ended_at(upstream: str, frames: list[bytes]) -> int:
    """The number of frames before the one that says how the answer ended."""
    marks = {
        "chat": re.compile(rb'"finish_reason":"'),
        "responses": re.compile(rb'"type":"response.(in)?complete'),
        "messages": re.compile(rb'"type":"message_delta"'),
    }
    return next(at for at, frame in enumerate(frames) if marks[upstream].search(frame))


def prefixes(script: Script, client: str, upstream: str, raw: bytes) -> None:
    told = expected(script, client, upstream)
    for kind, text in spelled(raw).items():
        if kind != "tool":
            assert "".join(block.text for block in told if block.kind == kind).startswith(text)


@pytest.mark.invariant("I3")
@pytest.mark.invariant("I4")
@pairs
@some
@given(data=st.data())
def test_cut_at_a_byte_is_all_or_an_error(client, upstream, data):
    """Wherever the bytes stop, the answer is complete or it ends in one error; nothing in between, nothing after."""
    script = data.draw(scripts(upstream))
    sent = b"".join(stream(upstream, script))
    at = data.draw(st.integers(0, len(sent)))
    prepared = prepare(client, upstream)
    machine = Pair(DIALECTS[client], DIALECTS[upstream]).stream(prepared)
    raw = fed(machine, [sent[:at]])
    if machine.begun:
        assert (machine.fault is None) == ("success" == read(client, raw).terminal)
    else:
        assert (b"", True) == (raw, machine.fault is not None)
    prefixes(script, client, upstream, raw)
    assert (b"", b"", b"", b"") == (
        machine.feed(sent),
        machine.finish(),
        machine.keepalive(),
        machine.fail(machine.fault),
    )


@pytest.mark.invariant("I30")
@pairs
@some
@given(data=st.data())
def test_chunks_do_not_matter(client, upstream, data):
    """The same bytes in other pieces, down to single ones, give the same bytes."""
    script, quirks = data.draw(quirky(upstream))
    sent = b"".join(stream(upstream, script, *quirks))
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=40))
    pair = Pair(DIALECTS[client], DIALECTS[upstream])
    prepared = prepare(client, upstream)
    once = fed(pair.stream(prepared), [sent])
    assert once == fed(pair.stream(prepared), chopped(sent, cuts))


@pytest.mark.invariant("I19")
@pairs
@some
@given(data=st.data())
def test_every_prefix_of_the_output_is_lawful(client, upstream, data):
    """After every frame of the upstream the client has whole events and no terminal before the last of them."""
    script, quirks = data.draw(quirky(upstream))
    machine = Pair(DIALECTS[client], DIALECTS[upstream]).stream(prepare(client, upstream))
    raw = b""
    for frame in stream(upstream, script, *quirks):
        raw += machine.feed(frame)
        if not machine.done:
            raw += machine.keepalive() if machine.begun else b""
            assert "cut" == read(client, raw, ended=False).terminal
    raw += machine.finish()
    assert "success" == read(client, raw).terminal


@pytest.mark.invariant("I36")
@pairs
@some
@given(data=st.data())
def test_no_bytes_of_an_upstream_raise(client, upstream, data):
    """Whatever is put among an upstream's bytes, the client gets a lawful stream or an HTTP error, never an exception."""
    script = data.draw(scripts(upstream))
    frames = stream(upstream, script)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frames)))
        frames.insert(at, data.draw(JUNK))
    got = translated(client, upstream, frames)
    assert got.terminal in ("success", "error", "http")
    assert (got.fault is None) == ("success" == got.terminal)


NAMES = st.sampled_from(
    ("type", "choices", "delta", "index", "item", "output_index", "response", "message", "content_block", "error", "usage",
     "tool_calls", "content", "id", "status", "output", "sequence_number", "part", "summary_index", "function", "annotations")
)  # fmt: skip
TYPES = st.sampled_from(
    ("response.output_item.added", "response.output_text.delta", "response.completed", "content_block_start", "error",
     "content_block_delta", "message_delta", "message_start", "content_block_stop", "response.failed", "ping", "text_delta",
     "response.output_item.done", "response.content_part.added", "function_call", "reasoning", "tool_use", "mcp_call")
)  # fmt: skip
LEAVES = (
    st.sampled_from(
        (None, True, 0, -1, 7, 1e300, "", "x", [], {}, [None], [{}], [[]], {"type": "text"}, {"index": "0"})
    )
    | TYPES
)
MEMBERS = st.dictionaries(NAMES, LEAVES | st.dictionaries(NAMES, LEAVES, max_size=3), max_size=4)
JUNK = st.one_of(
    st.tuples(st.none() | TYPES, MEMBERS).map(lambda pair: sse(pair[1] | ({"type": pair[0]} if pair[0] else {}))),
    st.binary(max_size=30),
    st.sampled_from((b"data: {\n\n", b"data: \xff\n\n", b"data: null\n\n", b"data: []\n\n", b"event: error\ndata: {}\n\n", b'data: {"a":' + b"[" * 300 + b"\n\n")),
)  # fmt: skip


@pytest.mark.parametrize("dialect", NAMED)
@some
@given(data=st.data())
def test_native_stream_is_forwarded(dialect, data):
    """Between equal dialects all bytes pass, whatever they are cut into; only the model's name is another."""
    script, quirks = data.draw(quirky(dialect))
    frames = stream(dialect, script, *(quirk for quirk in quirks if quirk not in UNFIT))
    sent = b"".join(frames)
    raw, machine = forwarded(dialect, chopped(sent, data.draw(st.lists(st.integers(0, len(sent)), max_size=20))))
    assert renamed(sent) == raw
    assert machine.fault is None


def renamed(sent: bytes) -> bytes:
    return sent.replace(f'"model":"{MODEL}"'.encode(), f'"model":"{ALIAS}"'.encode())


@pytest.mark.parametrize("dialect", NAMED)
@some
@given(data=st.data())
def test_native_stream_that_is_cut_ends_in_an_error(dialect, data):
    """On the native path too: whole events as they came, then the error form and nothing else."""
    script = data.draw(scripts(dialect))
    frames = stream(dialect, script)
    at = data.draw(st.integers(0, ended_at(dialect, frames)))
    raw, machine = forwarded(dialect, frames[:at])
    sent = renamed(b"".join(frames[:at]))
    assert machine.fault is not None
    assert raw.startswith(sent) if machine.begun else b"" == raw
    tail = raw[len(sent) :]
    assert [line[:6] for line in tail.split(b"\n")].count(b"data: ") == machine.begun


# Mutations: documents as they should be, but for one value


def places_of(value: object, path: tuple = ()) -> list[tuple]:
    """The paths of all values in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in inner for found in places_of(child, (*path, key)))]


def replaced(document: object, path: tuple, value: object) -> object:
    """A copy of a document with another value at a path; `value` GONE leaves it out."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    if value is GONE and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


GONE = object()


@st.composite
def mutated(draw: st.DrawFn, document: object) -> object:
    path = draw(st.sampled_from(places_of(document)))
    return replaced(document, path, draw(LEAVES | st.just(GONE))) if path else draw(LEAVES)


@pytest.mark.invariant("I36")
@pairs
@some
@given(data=st.data())
def test_no_mutated_event_raises(client, upstream, data):
    """One wrong value in one event gives a lawful answer or an error, and nothing else."""
    frames = stream(upstream, data.draw(scripts(upstream)))
    at = data.draw(st.sampled_from([at for at, frame in enumerate(frames) if b"data: {" in frame]))
    event = json.loads(frames[at].partition(b"data: ")[2])
    frames[at] = sse(
        data.draw(mutated(event)), frames[at][7:].partition(b"\n")[0].decode() if frames[at][:6] == b"event:" else ""
    )
    got = translated(client, upstream, frames)
    assert got.terminal in ("success", "error", "http")
    if client == upstream:
        _, machine = forwarded(client, frames)
        assert machine.done


@pytest.mark.invariant("I36")
@pairs
@some
@given(data=st.data())
def test_no_mutated_answer_raises(client, upstream, data):
    """The same for whole answers, told as a body and as a stream."""
    body = json.loads(whole(upstream, data.draw(scripts(upstream))))
    sent = json.dumps(data.draw(mutated(body))).encode()
    for streamed in (True, False):
        assert answered(client, upstream, sent, stream=streamed).terminal in ("success", "error", "http")
    if client == upstream:
        # A native answer is the upstream's own: whole, or a fault and nothing.
        prepared = prepare(client, upstream, stream=False, native=True)
        machine = Pair(DIALECTS[client], DIALECTS[upstream]).whole(prepared, sent)
        assert bool(machine.output) == (machine.fault is None)


@pytest.mark.invariant("I31")
@pytest.mark.invariant("I36")
@pairs
@some
@given(data=st.data())
def test_no_mutated_request_raises(client, upstream, data):
    """One wrong value in a request gives an upstream request or a fault of the client's, lenient, strict and native."""
    probe = data.draw(st.sampled_from(PROBES[client]))
    body = BASES[client] | probe.beside | probe.members
    sent = json.dumps(data.draw(mutated(body))).encode()
    for native, strict in ((False, False), (False, True), (True, False)):
        try:
            got = requested(client, upstream, sent, native=native and client == upstream, strict=strict)
        except Refused as refused:
            got = refused.fault  # of peek, which the gateway asks first
        if isinstance(got, Fault):
            assert (True, "client") == (400 <= got.status < 500, got.cause)
        else:
            assert isinstance(json.loads(got.body), dict)
