"""Native streams: the upstream's own bytes under the client's alias, and never a success without an end."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.dialect import Reply, Source
from translators.dialects import DIALECTS
from translators.events import Delta, Usage
from translators.fault import Fault, Refused, broken
from translators.native import HELD_BYTES, MAX_STREAM_BYTES, NativeStream, NativeWhole, _counted
from translators.notes import Notes
from translators.sse import COMMENT, END, Splitter, frame_of

DONE = b"data: [DONE]\n\n"
OBJECT = re.compile(rb"\s*\{.*\}\s*", re.DOTALL)


def frame(value, event=""):
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta, reason=None, model="up-m", **more):
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return frame({"id": "1", "model": model, "choices": choices, **more})


def named(kind, **more):
    return frame({"type": kind, **more}, kind)


def response(status):
    return {"id": "resp_1", "object": "response", "status": status, "model": "up-m", "output": []}


MODEL_TEXT = 'Say "model":"up-m" twice: "model": "up-m"'
STREAMS = {
    "chat": [
        chunk({"role": "assistant"}),
        chunk({"content": MODEL_TEXT}),
        chunk({"content": "b"}),
        chunk({}, "stop"),
        frame({"id": "1", "model": "up-m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
        DONE,
    ],
    "messages": [
        named("message_start", message={"id": "msg_1", "model": "up-m", "usage": {"input_tokens": 3, "output_tokens": 0}}),
        named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        named("content_block_delta", index=0, delta={"type": "text_delta", "text": MODEL_TEXT}),
        named("ping"),
        named("content_block_stop", index=0),
        named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
        named("message_stop"),
    ],
    "responses": [
        named("response.created", sequence_number=0, response=response("in_progress")),
        named("response.output_text.delta", sequence_number=1, output_index=0, content_index=0, delta=MODEL_TEXT),
        named("response.completed", sequence_number=2, response=response("completed")),
    ],
}  # fmt: skip
BEGUN = {"chat": 2, "messages": 3, "responses": 2}
"""Frames after which each of the streams is in the middle of its answer."""


def machine(name, clean=str, source=Source(), **more):  # noqa: B008
    return NativeStream(DIALECTS[name], Reply("mine", seed="5eed"), clean, source, **more)


def play(stream, chunks):
    return b"".join(stream.feed(piece) for piece in chunks) + stream.finish()


def whole(name):
    return b"".join(STREAMS[name])


def renamed(raw):
    return raw.replace(b'"model":"up-m"', b'"model":"mine"')


def frames(raw):
    return Splitter().feed(raw)


every = pytest.mark.parametrize("name", sorted(STREAMS))


@pytest.mark.edge("E38")
@pytest.mark.parametrize("name", ["chat", "messages"])
@given(st.data())
def test_bytes_stay_save_the_model(name, data):
    """At any cuts, with any line ends, the client gets the upstream's bytes with its own alias as the model."""
    raw = whole(name)
    crlf = data.draw(st.booleans())
    sent = raw.replace(b"\n", b"\r\n") if crlf else raw
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=12))), len(sent)]
    stream = machine(name)
    assert renamed(raw) == play(stream, [sent[start:end] for start, end in pairwise(edges)])
    assert (True, None, True) == (stream.done, stream.fault, stream.begun)
    assert ("up-m", "end") == (stream.tally.upstream_model, stream.tally.stop)
    assert (3, 2) == (stream.tally.usage.prompt, stream.tally.usage.output)


@every
@pytest.mark.invariant("I29")
def test_nothing_follows_the_last_frame(name):
    """What an upstream says behind its own end never reaches the client, in the same packet or a later one."""
    ghost = STREAMS[name][BEGUN[name] - 1]
    together, apart = machine(name), machine(name)
    expected = play(machine(name), STREAMS[name])
    assert expected == play(together, [whole(name) + ghost])
    assert expected == play(apart, [whole(name), ghost])


@every
def test_cuts_do_not_matter(name):
    """Whole, byte by byte and frame by frame the client gets the same; content is what it was."""
    raw = whole(name)
    out = play(machine(name), [raw])
    assert out == play(machine(name), [raw[at : at + 1] for at in range(len(raw))])
    assert out == play(machine(name), STREAMS[name])
    assert frames(STREAMS[name][BEGUN[name] - 1].replace(b'"model":"up-m"', b'"model":"mine"'))[0] in frames(out)
    assert b'"up-m"' not in out


@every
def test_tally_of_a_native_stream(name):
    """Events are counted, and content moves the timers that wait for it."""
    stream = machine(name)
    play(stream, STREAMS[name])
    assert len(STREAMS[name]) == stream.tally.events
    assert 0 < stream.tally.meanings < len(STREAMS[name])


# The model's name, in whatever spelling


@pytest.mark.edge("E38")
@pytest.mark.parametrize(
    "spelled", [r'"model":"a\/b"', '"model": "a/b"', '"model" : "a/b"', r'"model":"\u0061/b"', r'"model":"a\/b","x":{"model":"c"}']
)  # fmt: skip
def test_the_model_is_found_in_any_spelling(spelled):
    """Escapes and spaces of another serialiser hide no model, and other names under that key stay."""
    raw = b'data: {"id":"1",%b,"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n' % spelled.encode()
    out = play(machine("chat"), [raw, raw, chunk({}, "stop")])
    models = [json.loads(one.data) for one in frames(out)[:2]]
    assert ["mine", "mine"] == [one["model"] for one in models]
    assert ('"x"' in spelled) == (models[0].get("x") == {"model": "c"})


@pytest.mark.edge("E38")
def test_the_model_may_come_late():
    """A leading chunk with an empty name does not end the search for it."""
    raw = [frame({"id": "", "model": "", "choices": []}), *STREAMS["chat"]]
    models = [json.loads(one.data)["model"] for one in frames(play(machine("chat"), raw))[:-1]]
    assert {"mine"} == set(models)


def test_an_upstream_without_a_name_is_forwarded():
    """No model is made up where the upstream tells none."""
    raw = [frame({"choices": [{"index": 0, "delta": {"content": "x"}}]})] * 2 + [
        frame({"choices": [{"finish_reason": "stop"}]})
    ]
    assert b"".join(raw) + DONE == play(machine("chat"), raw)


def test_a_name_in_a_comment_is_no_name():
    """Broken JSON beside the data does no harm."""
    raw = b': "model":"\\x" "model":"up-m"\n' + STREAMS["chat"][1]
    assert b': "model":"\\x" "model":"mine"\n' + renamed(STREAMS["chat"][1]) == machine("chat").feed(raw)


# Ends


@pytest.mark.promise("S37")
@pytest.mark.invariant("I2")
@pytest.mark.edge("E23")
@every
def test_no_prefix_is_a_success_without_a_terminal(name):
    """Cut anywhere, a stream whose end was not told ends in the error form, and nothing half reaches the client."""
    raw = whole(name)
    for cut in range(len(raw)):
        stream = machine(name)
        out = play(stream, [raw[:cut]])
        for one in frames(out):
            assert one.data == b"[DONE]" or json.loads(one.data)
        assert b"" == stream.finish() == stream.feed(raw)
        assert stream.done
        if stream.fault is None:
            assert stream.tally.stop == "end"
        else:
            assert "eof" == stream.fault.cause
            assert stream.begun == bool(out)
            assert not out or b"error" in frames(out)[-1].data


@every
def test_an_empty_stream_is_a_fault_without_bytes(name):
    """Nothing at all can still become an HTTP error."""
    stream = machine(name)
    assert b"" == stream.finish()
    assert ("eof", False, True) == (stream.fault.cause, stream.begun, stream.done)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_last_frame_without_its_blank_line_counts(end):
    """Servers that leave the last blank line out are whole all the same."""
    raw = whole("chat").removesuffix(b"\n\n") + end
    stream = machine("chat")
    assert renamed(whole("chat")) == play(stream, [raw])
    assert stream.fault is None


def test_half_a_frame_behind_the_end_is_left_out():
    """A cut inside the sentinel or the counts does not spoil an answer that is complete."""
    for rest in (b"data: [DO", b'data: {"id":"1","usage":{"prompt', b": comm"):
        stream = machine("chat")
        assert renamed(b"".join(STREAMS["chat"][:4])) + DONE == play(stream, [*STREAMS["chat"][:4], rest])
        assert stream.fault is None


def test_an_error_as_the_last_frame_is_one():
    """An error without its blank line fails the stream like any other."""
    stream = machine("chat")
    stream.feed(b"".join(STREAMS["chat"][:2]))
    stream.feed(b'data: {"error":{"message":"no","type":"server_error"}}')
    assert b'"error"' in stream.finish()
    assert "no" == stream.fault.message


ERRORS = {
    "chat": frame({"error": {"message": "key sk-secret is over", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}),
    "messages": named("error", error={"type": "rate_limit_error", "message": "key sk-secret is over"}),
    "responses": named("error", code="rate_limit_exceeded", message="key sk-secret is over"),
}  # fmt: skip


@pytest.mark.promise("S02")
@pytest.mark.edge("E25")
@every
def test_an_upstream_error_ends_the_stream_cleaned(name):
    """The error form of the protocol follows what was sent, secrets are masked, and nothing comes after it."""
    begin = STREAMS[name][: BEGUN[name]]
    stream = machine(name, lambda text: re.sub(r"sk-\w+", "***", text))
    out = stream.feed(b"".join([*begin, ERRORS[name], *STREAMS[name]]))
    assert b"sk-secret" not in out
    assert b"key *** is over" in out
    assert ("rate_limited", "key *** is over") == (stream.fault.kind, stream.fault.message)
    assert b"rate_limit" in stream.raw
    assert b"" == stream.feed(whole(name)) + stream.finish() + stream.fail(broken("again")) + stream.keepalive()
    assert len(begin) + 1 == len(frames(out))


@every
def test_an_error_first_sends_nothing(name):
    """Before anything was sent an error stays a fault, so that it can become an HTTP error."""
    stream = machine(name)
    assert b"" == stream.feed(b": hello\n\n" + ERRORS[name])
    assert (False, True, "rate_limited") == (stream.begun, stream.done, stream.fault.kind)
    assert b"over" in stream.failure(stream.fault)


@every
def test_the_gateway_can_end_a_stream(name):
    """A stall or a shutdown ends it in the error form, once."""
    stream = machine(name)
    stream.feed(b"".join(STREAMS[name][: BEGUN[name]]))
    fault = Fault(kind="timeout", message="stalled", cause="stall")
    assert b"stalled" in stream.fail(fault)
    assert (fault, b"") == (stream.fault, stream.fail(fault))


@pytest.mark.promise("S35")
@every
def test_a_handshake_is_held_until_something_means_something(name):
    """An error right behind the handshake sends nothing, so that it can become an HTTP error or go to another key."""
    stream = machine(name)
    assert b"" == stream.feed(STREAMS[name][0])
    assert b"" == stream.feed(ERRORS[name])
    assert (False, "rate_limited") == (stream.begun, stream.fault.kind)


def test_a_handshake_without_end_is_let_go():
    """What is held is bounded; then it goes out."""
    stream = machine("chat")
    head = chunk({"role": "assistant"})
    times = HELD_BYTES // len(head) + 1
    held = [stream.feed(head) for _ in range(times)]
    assert b"" == b"".join(held[:-1])
    assert len(held[-1]) > HELD_BYTES
    assert stream.begun


# What the source leaves out or spells badly

STOPPED = named("message_stop")


@pytest.mark.parametrize(("name", "kept", "end"), [("chat", 4, DONE), ("messages", 6, STOPPED)])
def test_a_missing_last_frame_is_added_and_noted(name, kept, end):
    """An answer that is complete gets the end that its source left out; strict mode calls the source broken (5.2)."""
    notes, sent = Notes(), b"".join(STREAMS[name][:kept])
    stream = machine(name, source=Source(notes=notes))
    out = play(stream, [sent])
    assert renamed(sent) + end == out
    assert (None, True, 1) == (stream.fault, stream.done, notes.count)
    strict = machine(name, source=Source(strict=True))
    out = play(strict, [sent])
    assert out.startswith(renamed(sent))
    assert b"error" in frames(out)[-1].data
    assert "eof" == strict.fault.cause
    whole_stream = machine(name, source=Source(strict=True))
    assert renamed(whole(name)) == play(whole_stream, [whole(name)])


@pytest.mark.invariant("I2")
@pytest.mark.parametrize(("name", "end"), [("chat", DONE), ("messages", STOPPED)])
def test_an_end_marker_alone_is_no_success(name, end):
    """The last frame without a reason for the end is a cut, not an answer (S37)."""
    stream = machine(name)
    out = play(stream, [*STREAMS[name][: BEGUN[name]], end])
    assert b"error" in frames(out)[-1].data
    assert end not in out
    assert "api" == stream.fault.kind


@pytest.mark.edge("E29")
@pytest.mark.parametrize("bad", [b"data: {bad\n\n", b"data: bad}\n\n", b"data: 7\n\n", b"event: x\ndata: [1]\n\n"])
@pytest.mark.parametrize("together", [True, False])
@every
def test_malformed_frames_poison(name, bad, together):
    """What is no JSON object by its ends fails the stream, behind all that came before it and before all after."""
    begin, rest = STREAMS[name][: BEGUN[name]], STREAMS[name][BEGUN[name] :]
    stream = machine(name)
    pieces = [*begin, begin[-1], bad, begin[-1], *rest]
    out = play(stream, [b"".join(pieces)] if together else pieces)
    assert renamed(begin[-1]) * 2 in out
    assert len(begin) + 2 == len(frames(out))
    assert b"error" in frames(out)[-1].data
    assert "the upstream sent malformed JSON" == stream.fault.message


@every
@pytest.mark.parametrize(
    "harmless",
    [b": comment\n\n", b"\n\n", b"data: [DONE]\n\n", b"data:\n\n", b'data:{"type":"x"}\n\n', b'data: {"type":\ndata: "x"}\n\n', b'id: 7\ndata: {"type":"x"} \n\n'],
)  # fmt: skip
def test_other_spellings_are_no_harm(name, harmless):
    """Comments, blank lines, foreign end markers and data in other spellings pass in the middle of content."""
    if name == "chat" and b"DONE" in harmless:
        return
    begin, rest = STREAMS[name][: BEGUN[name]], STREAMS[name][BEGUN[name] :]
    stream = machine(name)
    out = play(stream, [*begin, begin[-1] + harmless + begin[-1], *rest])
    assert stream.fault is None
    assert harmless in out


PIECES = [b"event: x\n", b"data: {", b"data: ", b"}\n\n", b"}", b"\n", b"\n\n", b": c\n\n", b"{", b"z", b"data: {}\n\n", b"event: x\ndata: {}\n\n"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_counting_agrees_with_looking(pieces):
    """However lines are put together, the short way finds as many frames as a split, and no bad one among them."""
    region = b"".join(pieces) + END
    blocks = [frame_of(block) for block in region[:-2].split(END)]
    shaped = all(
        block is None or block.data.strip() in (b"", b"[DONE]") or OBJECT.fullmatch(block.data) for block in blocks
    )
    assert (region.count(END), shaped) == _counted(region)


@pytest.mark.edge("E29")
def test_malformed_json_in_a_frame_that_is_looked_at_poisons():
    """A done item or a lifecycle event that cannot be read is no part of an answer."""
    stream = machine("responses")
    stream.feed(b"".join(STREAMS["responses"][:2]))
    assert b"response.failed" in stream.feed(b'data: {"type":"response.output_item.done","item":{bad}\n\n')
    assert "protocol" == stream.fault.cause


# Bounds, comments, keepalive


@pytest.mark.parametrize("piece", [b": c\n\n", chunk({})])
def test_the_frame_count(piece):
    """As many frames as allowed pass, comments included, and one more poisons (section 8, F6)."""
    stream = machine("chat", frames=10)
    out = stream.feed(STREAMS["chat"][1] + piece * 9)
    assert (None, 10) == (stream.fault, stream.tally.events)
    assert renamed(STREAMS["chat"][1] + piece * 9) == out
    assert b"too many" in stream.feed(piece)
    assert "limit" == stream.fault.cause


def test_the_frame_limit():
    """A frame of the limit passes and a longer one fails, also when it is interesting and whole in one chunk."""
    size = max(len(one) for one in STREAMS["chat"])
    assert machine("chat", limit=size - 2).feed(whole("chat"))
    stream = machine("chat", limit=size - 3)
    assert b"error" in frames(stream.feed(chunk({"content": "a"})) + stream.feed(whole("chat")))[-1].data
    assert "limit" == stream.fault.cause


def test_the_answer_limit():
    """64 MiB of an answer pass, one byte more does not (section 8)."""
    stream = machine("chat", limit=2 * MAX_STREAM_BYTES)
    begin = chunk({"content": "a"})
    stream.feed(begin)
    assert b"" == stream.feed(b"x" * (MAX_STREAM_BYTES - len(begin)))
    assert b"too large" in stream.feed(b"x")
    assert "limit" == stream.fault.cause


@pytest.mark.edge("E37")
@every
def test_keepalive_fits_between_any_two_bytes(name):
    """A comment after every byte of the upstream leaves the frames as they are; none comes after the end."""
    raw, stream = whole(name), machine(name)
    out = b"".join(stream.feed(raw[at : at + 1]) + stream.keepalive() for at in range(len(raw))) + stream.finish()
    assert frames(play(machine(name), [raw])) == frames(out)
    assert COMMENT in out
    assert b"" == stream.keepalive()


def test_comments_do_not_begin_an_answer():
    """Comments before the first event stay back, later ones pass, blank lines too."""
    stream = machine("chat")
    assert b"" == stream.feed(b": processing\n\n")
    assert not stream.begun
    later = b": still there\n\n" + STREAMS["chat"][1] + b"\n\n: more\n\n"
    assert renamed(STREAMS["chat"][0] + later) == stream.feed(STREAMS["chat"][0] + later)


def test_a_swallowed_frame_begins_nothing():
    """A private event of the upstream is no part of the answer."""
    stream = machine("responses")
    assert b"" == stream.feed(named("keepalive", sequence_number=0))
    assert not stream.begun


# Whole answers

ANSWER = {
    "id": "1", "model": "up-m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}  # fmt: skip


def answered(value, clean=str, dialect=DIALECTS["chat"], observe=None):
    body = json.dumps(value, separators=(",", ":")).encode()
    events = dialect.read_answer(body, Source())
    return NativeWhole(dialect, Reply("mine"), clean, body, events, observe)


def test_a_whole_answer_keeps_its_bytes():
    """Only the model's name changes; counts and stop are told, and each event is shown to an observer."""
    seen = []
    made = answered(ANSWER, observe=seen.append)
    assert {**ANSWER, "model": "mine"} == json.loads(made.output)
    assert (Usage(uncached=3, output=2), "end", None) == (made.tally.usage, made.tally.stop, made.fault)
    assert (True, False, b"") == (made.done, made.begun, made.raw)
    assert ["hi"] == [event.text for event in seen if isinstance(event, Delta)]


def test_a_whole_answer_that_is_an_error():
    """An error with status 200 is a cleaned fault and no output."""
    made = answered(
        {"error": {"message": "key sk-1", "type": "server_error"}}, lambda text: text.replace("sk-1", "***")
    )
    assert ("key ***", b"") == (made.fault.message, made.output)
    assert b"key ***" in made.failure(made.fault)
    assert b"sk-1" in made.raw


def test_an_answer_that_cannot_be_told_is_a_fault():
    """A dialect that refuses to write an answer does not raise into the gateway."""
    import msgspec

    def refuse(body, reply):
        raise Refused(broken("unreadable"))

    made = answered(ANSWER, dialect=msgspec.structs.replace(DIALECTS["chat"], native_answer=refuse))
    assert ("unreadable", b"") == (made.fault.message, made.output)
