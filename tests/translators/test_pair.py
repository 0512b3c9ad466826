"""Pairs: what a request becomes, when an answer begins, and how it ends, in every combination of dialects."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import translators.pair as module
from translators.carrier import MAX_CARRIER_BYTES
from translators.conversation import Conversation, Text, ToolResult, Turn
from translators.dialect import Peek, Reply, Source, Target
from translators.dialects import DIALECTS
from translators.events import BlockStart, Delta, Finish, Start, Usage
from translators.fault import Fault, broken, refuse
from translators.native import NativeStream, NativeWhole
from translators.notes import Notes
from translators.pair import Asked, Pair, Prepared, TranslatedStream, check_size
from translators.sequencer import Budget
from translators.sse import COMMENT, MAX_FRAMES, Splitter
from translators.traits import Traits

NAMES = ("chat", "messages", "responses")
every_client = pytest.mark.parametrize("client", NAMES)


def pair(client, upstream="chat"):
    return Pair(DIALECTS[client], DIALECTS[upstream])


def prepared(*, stream=True, clean=str, **more):
    reply = Reply("mine", 7, "5eed", "o")
    return Prepared(b"", stream, native=False, reply=reply, source=Source(), notes=Notes(), clean=clean, **more)


def data(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta, reason=None, **more):
    return data(
        {"id": "1", "model": "up-m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}
    )


ROLE, HELLO, STOP = chunk({"role": "assistant", "content": ""}), chunk({"content": "hello"}), chunk({}, "stop")
COUNTS = data({"id": "1", "model": "up-m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
DONE = b"data: [DONE]\n\n"
ERROR = data({"error": {"message": "key sk-secret is over", "type": "rate_limit_error", "code": "rate_limit_exceeded"}})
WHOLE = ROLE + HELLO + STOP + COUNTS + DONE

REQUESTS = {
    "chat": {"model": "mine", "messages": [{"role": "user", "content": "q"}], "stream": True},
    "messages": {"model": "mine", "max_tokens": 100, "messages": [{"role": "user", "content": "q"}], "stream": True},
    "responses": {"model": "mine", "input": "q", "stream": True},
}


def asked(client, upstream, body=None, target=None, amend=None, **more):
    body = json.dumps(REQUESTS[client] if body is None else body).encode()
    target = target or Target("up-m", Traits(), "o")
    return pair(client, upstream).request(body, Peek("mine", stream=True), target, Asked("mine", **more), amend)


# Requests


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("upstream", NAMES)
def test_a_request_is_prepared_for_its_upstream(client, upstream):
    """The body names the upstream's model; only a pair of one dialect keeps the client's bytes."""
    made = asked(client, upstream)
    assert "up-m" == json.loads(made.body)["model"]
    assert (True, client == upstream) == (made.stream, made.native)
    assert (made.conversation is None) == made.native
    assert {**REQUESTS[client], "model": "up-m"} == json.loads(made.body) or not made.native


def test_a_native_pair_may_be_translated():
    """A route that does not trust the bytes of its own dialect asks for a full translation."""
    made = asked("chat", "chat", native=False)
    assert not made.native
    assert isinstance(made.conversation, Conversation)


@pytest.mark.invariant("I31")
@pytest.mark.invariant("I36")
@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("upstream", NAMES)
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model":"mine","messages":7,"input":7}', b"\xff", b"[" * 100_000]
)
def test_bad_requests_are_faults(client, upstream, body):
    """A body that cannot be served is a 400 of the client's making, whoever should have got it."""
    fault = pair(client, upstream).request(body, Peek("mine"), Target("up-m", Traits()), Asked("mine", native=False))
    assert isinstance(fault, Fault)
    assert (400, "client") == (fault.status, fault.cause)


def test_strict_mode_reaches_the_writers():
    """A control that the target lacks is a note in lenient mode and a refusal in strict mode."""
    body = {**REQUESTS["chat"], "seed": 7}
    assert 0 < asked("chat", "messages", body).notes.count
    fault = asked("chat", "messages", body, Target("up-m", Traits(), strict=True))
    assert ("unsupported_parameter", "seed") == (fault.code, fault.param)


def test_amend_stands_between_parse_and_render():
    """What a store adds to the request goes upstream, and what it refuses does not."""

    def add(conversation):
        return msgspec.structs.replace(conversation, turns=(*conversation.turns, Turn("user", (Text("added"),))))

    assert b"added" in asked("chat", "messages", amend=add).body

    def stop(conversation):
        raise refuse("unknown answer", code="previous_response_not_found")

    assert "previous_response_not_found" == asked("chat", "messages", amend=stop).code


def test_results_are_put_behind_their_calls():
    """The history that is rendered is adjacent, whatever the client's order was (I33)."""
    call = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "r"}
    between = {"role": "user", "content": "wait"}
    made = asked("responses", "chat", {"model": "mine", "input": [call, between, result]})
    assert ["assistant", "tool", "user"] == [message["role"] for message in json.loads(made.body)["messages"]]
    assert any(isinstance(part, ToolResult) for turn in made.conversation.turns for part in turn.parts)


@pytest.mark.parametrize("native", [True, False])
def test_the_context_guard_counts_the_upstream_body(native):
    """A prompt that leaves no room in the model's window is refused before any upstream call."""
    target = Target("up-m", Traits(context_guard=1300))
    assert isinstance(asked("chat", "chat", target=target, native=native, count=lambda body: 10), Prepared)
    fault = asked("chat", "chat", target=target, native=native, count=lambda body: 1000)
    assert "context_length" == fault.kind


@pytest.mark.parametrize(
    ("client", "upstream", "traits", "custom", "namespaces"),
    [
        ("responses", "chat", Traits(), False, False),
        ("responses", "chat", Traits(custom_tools=True), True, False),
        ("responses", "messages", Traits(custom_tools=True), False, False),
        ("responses", "responses", Traits(), True, True),
        ("responses", "responses", Traits(namespaces=False, free_text_tools=False), False, False),
    ],
)
def test_tools_take_the_shape_that_the_upstream_knows(client, upstream, traits, custom, namespaces):
    """Custom and namespace tools stay where they are known and become functions elsewhere."""
    child = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}}
    tools = [
        {"type": "custom", "name": "patch"},
        {"type": "namespace", "name": "fs", "description": "files", "tools": [child]},
    ]
    made = asked(client, upstream, {**REQUESTS[client], "tools": tools}, Target("up-m", traits), native=False)
    entries = made.reply.toolbox.entries
    assert [not custom, "read" if namespaces else "fs__read"] == [entries[0].wrapped, entries[1].wire]


@pytest.mark.parametrize(
    ("client", "body", "setting", "expected"),
    [
        ("chat", {}, "requested", (True, True, True)),
        ("chat", {}, "never", (False, True, True)),
        ("chat", {"reasoning_effort": "none"}, "always", (False, True, True)),
        ("messages", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "requested", (True, True, True)),
        ("messages", {"thinking": {"type": "disabled"}}, "always", (False, False, True)),
        ("messages", {}, "requested", (True, True, False)),
    ],
)
def test_what_a_client_sees_of_reasoning(client, body, setting, expected):
    """Shown, carried and bare follow from the client's words and the route's setting (1.6)."""
    made = asked(
        client, "responses" if client != "responses" else "chat", {**REQUESTS[client], **body}, reasoning=setting
    )
    assert expected == (made.shown, made.carried, made.bare)


def test_state_is_not_carried_for_a_model_that_has_none():
    """A model family whose state is of no use to anybody sends none to the client."""
    assert not asked("responses", "chat", target=Target("m", Traits(opaque_state=False))).carried


@pytest.mark.parametrize(
    ("conversation", "what"),
    [
        (lambda n: Conversation("chat", "m", turns=(Turn("user", ()),) * n), "messages"),
        (lambda n: Conversation("chat", "m", turns=(Turn("user", (Text("t"),) * n),)), "content blocks"),
        (lambda n: Conversation("chat", "m", tools=(None,) * n), "tools"),
    ],
)
def test_requests_at_their_bounds_and_beyond(conversation, what):
    """Messages, blocks and tools of a request are bounded, each at its number (section 8)."""
    most = {"messages": 10_000, "content blocks": 50_000, "tools": 2_000}[what]
    check_size(conversation(most))
    with pytest.raises(module.Refused) as refused:
        check_size(conversation(most + 1))
    assert f"the request has {most + 1} {what}; at most {most} are accepted" == refused.value.fault.message


def test_a_request_beyond_its_bounds_is_a_fault():
    """The bound holds for requests, not only for the function that checks it."""
    body = {"model": "mine", "messages": [{"role": "user", "content": "q"}] * 10_001}
    assert 400 == asked("chat", "messages", body).status


# Streams: when an answer begins


@every_client
def test_start_is_held_until_something_is_meant(client):
    """The handshake sends nothing; the first text brings the start with it, under the client's alias."""
    machine = pair(client).stream(prepared())
    assert isinstance(machine, TranslatedStream)
    assert b"" == machine.feed(ROLE)
    assert (False, COMMENT) == (machine.begun, machine.keepalive())
    out = machine.feed(HELLO)
    assert machine.begun
    assert (b"hello" in out, b"mine" in out, b"up-m" in out) == (True, True, False)


@pytest.mark.promise("S35")
@pytest.mark.edge("E26")
@every_client
@pytest.mark.parametrize("before", [b"", ROLE, ROLE + COUNTS])
def test_an_error_before_anything_was_said_sends_nothing(client, before):
    """Identity and counts begin no answer: an error after them can still become an HTTP error or go elsewhere."""
    machine = pair(client).stream(prepared())
    assert b"" == machine.feed(before + ERROR) + machine.finish() + machine.keepalive()
    assert (False, True, "rate_limited") == (machine.begun, machine.done, machine.fault.kind)
    assert b"rate_limit_exceeded" in machine.raw
    assert b"over" in machine.failure(machine.fault)


@pytest.mark.promise("S02")
@pytest.mark.edge("E25")
@every_client
def test_an_error_within_the_answer_takes_its_form(client):
    """Once begun the error is told in the client's protocol, without secrets, and nothing follows it."""
    machine = pair(client).stream(prepared(clean=lambda text: text.replace("sk-secret", "***")))
    out = machine.feed(ROLE + HELLO + ERROR + HELLO + STOP + DONE)
    assert (1, False, True) == (out.count(b"hello"), b"sk-secret" in out, b"key *** is over" in out)
    assert "key *** is over" == machine.fault.message
    assert b"" == machine.feed(HELLO) + machine.finish() + machine.fail(broken("again")) + machine.keepalive()


@every_client
def test_the_gateway_can_end_a_stream(client):
    """A fault of ours is told once if the answer has begun, and kept for an HTTP error if not."""
    fault = Fault(kind="timeout", message="stalled", cause="stall")
    silent, begun = pair(client).stream(prepared()), pair(client).stream(prepared())
    assert b"" == silent.fail(fault)
    begun.feed(ROLE + HELLO)
    assert b"stalled" in begun.fail(fault)
    assert fault == silent.fault == begun.fault


@pytest.mark.edge("E37")
@every_client
def test_keepalive_within_an_answer(client):
    """An answer that pauses is kept alive in its protocol's way."""
    machine = pair(client).stream(prepared())
    machine.feed(ROLE + HELLO)
    assert machine.keepalive() in (COMMENT, b'event: ping\ndata: {"type":"ping"}\n\n')


# Streams: how they end


@every_client
def test_a_whole_stream(client):
    """One text and its end; counts and identity are told, no fault is left."""
    machine = pair(client).stream(prepared())
    out = machine.feed(WHOLE) + machine.finish()
    assert b"hello" in out
    assert (True, True, None, b"") == (machine.begun, machine.done, machine.fault, machine.output)
    assert (Usage(uncached=3, output=2), "end", 5) == (
        machine.tally.usage,
        machine.tally.stop,
        machine.tally.text_bytes,
    )


@pytest.mark.edge("E1")
@every_client
def test_an_answer_without_content_is_one(client):
    """An end without content begins the answer and ends it, with its counts."""
    machine = pair(client).stream(prepared())
    out = machine.feed(ROLE + STOP + COUNTS + DONE)
    assert (True, True, None) == (machine.begun, machine.done, machine.fault)
    assert 1 < len(Splitter().feed(out))
    assert client == "chat" or (b'input_tokens":3' in out and b'output_tokens":2' in out)


@pytest.mark.promise("S37")
@pytest.mark.edge("E23")
@every_client
@pytest.mark.parametrize("raw", [b"", ROLE, ROLE + HELLO, ROLE + HELLO + b"data: {", ROLE + HELLO + DONE])
def test_an_end_without_a_terminal_is_a_fault(client, raw):
    """A stream that breaks off is never a success, in whole frames or in half ones."""
    machine = pair(client).stream(prepared())
    out = machine.feed(raw) + machine.finish()
    assert machine.done
    assert machine.fault.cause in ("eof", "protocol")
    assert (HELLO in raw) == machine.begun == (b"error" in out)


@every_client
def test_a_last_frame_without_its_blank_line_counts(client):
    """A terminal in the last frame ends the answer, with and without its line end."""
    machine = pair(client).stream(prepared())
    machine.feed(WHOLE.removesuffix(b"\n\n"))
    assert not machine.done
    assert machine.finish()
    assert machine.fault is None


def test_a_decoder_that_never_ends_is_an_eof():
    """Even a decoder that forgets its end leaves the client with one."""
    machine = pair("messages").stream(prepared())
    machine._decoder.finish = tuple
    assert b"" == machine.feed(ROLE) + machine.finish()
    assert "eof" == machine.fault.cause


@pytest.mark.invariant("I30")
@every_client
@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_cuts_do_not_matter(client, cuts):
    """The client's bytes depend on the upstream's bytes and not on where they were cut."""
    machine = pair(client).stream(prepared())
    edges = [0, *sorted(cuts), len(WHOLE)]
    out = b"".join(machine.feed(WHOLE[start:end]) for start, end in pairwise(edges))
    one = pair(client).stream(prepared())
    assert one.feed(WHOLE) + one.finish() == out + machine.finish()


def test_bounds_of_a_stream():
    """A frame and an answer have their limits, and the events of an answer a budget (section 8)."""
    frame = TranslatedStream(pair("messages"), prepared(), limit=100)
    frame.feed(b"data: " + b"x" * 95)
    assert ("limit", "an upstream event is too large") == (frame.fault.cause, frame.fault.message)
    events = TranslatedStream(pair("messages"), prepared(), budget=Budget(events=2))
    assert b"" == events.feed(WHOLE)[:0]
    assert "limit" == events.fault.cause


def test_the_answer_limit(monkeypatch):
    """The bytes of one answer are counted over all its chunks."""
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", len(WHOLE))
    within, beyond = pair("chat").stream(prepared()), pair("chat").stream(prepared())
    within.feed(WHOLE)
    beyond.feed(WHOLE[:-2])
    assert within.fault is None
    assert b"too large" in beyond.feed(b"\n\n\n")
    assert "limit" == beyond.fault.cause


def test_an_observer_sees_what_the_client_gets():
    """Every event is shown once, calls under the client's names, hidden reasoning included."""
    tools = [{"type": "namespace", "name": "fs", "description": "d", "tools": [{"type": "function", "name": "read"}]}]
    made = asked("responses", "chat", {**REQUESTS["responses"], "tools": tools}, reasoning="never")
    seen = []
    machine = pair("responses").stream(made, seen.append)
    call = {"index": 0, "id": "c", "function": {"name": "fs__read", "arguments": "{}"}}
    out = machine.feed(ROLE + chunk({"reasoning_content": "R"}) + chunk({"tool_calls": [call]}, "tool_calls") + DONE)
    assert b'"R"' not in out
    assert ["R", "{}"] == [event.text for event in seen if isinstance(event, Delta)]
    assert [("fs", "read")] == [
        (event.namespace, event.name) for event in seen if isinstance(event, BlockStart) and event.name
    ]
    assert (Start, Finish) == (type(seen[0]), type(seen[-1]))
    assert b'"namespace":"fs"' in out


def test_a_native_stream_is_forwarded():
    """Two sides of one dialect are joined by bytes."""
    made = asked("chat", "chat")
    machine = pair("chat").stream(made)
    assert isinstance(machine, NativeStream)
    assert WHOLE.replace(b'"up-m"', b'"mine"') == machine.feed(WHOLE) + machine.finish()


# Clients that want no stream, upstreams that give none

ANSWER = json.dumps(
    {
        "id": "1", "model": "up-m", "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
).encode()  # fmt: skip
BAD_ANSWER = b'{"error":{"message":"key sk-secret is over","code":"rate_limit_exceeded"}}'


@every_client
def test_a_stream_can_become_a_body(client):
    """For a client that wants no stream the answer is gathered; nothing is sent on the way."""
    machine = pair(client).stream(prepared(stream=False))
    assert b"" == machine.feed(WHOLE) + machine.keepalive() + machine.finish()
    assert (False, True, None) == (machine.begun, machine.done, machine.fault)
    assert (True, "mine") == (b"hello" in machine.output, json.loads(machine.output)["model"])


@pytest.mark.invariant("I18")
@every_client
def test_stream_and_body_say_the_same(client):
    """The body of a whole upstream answer is the body of its stream."""
    streamed, whole = pair(client).stream(prepared(stream=False)), pair(client).whole(prepared(stream=False), ANSWER)
    streamed.feed(WHOLE)
    assert json.loads(streamed.output) == json.loads(whole.output)
    assert (streamed.tally.usage, True, None) == (whole.tally.usage, whole.done, whole.fault)


@pytest.mark.edge("E27")
@every_client
def test_a_body_can_become_a_stream(client):
    """An upstream that ignores the wish for a stream is streamed by us."""
    machine = pair(client).whole(prepared(), ANSWER)
    assert (b"hello" in machine.output, machine.done, machine.fault) == (True, True, None)
    assert 2 < len(Splitter().feed(machine.output))


@every_client
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("body", [BAD_ANSWER, b"<html>", b"", b"[]", b'{"choices":[]}'])
def test_a_body_that_is_no_answer_is_a_fault(client, stream, body):
    """Errors with status 200 and bodies that are none leave a cleaned fault and no output."""
    machine = pair(client).whole(prepared(stream=stream, clean=lambda text: text.replace("sk-secret", "***")), body)
    assert (True, False, b"") == (machine.done, machine.begun, machine.output)
    assert "sk-secret" not in machine.fault.message
    assert "html" not in machine.fault.message


def test_a_failed_stream_is_no_body():
    """A stream that breaks off gives a client that wants a body a fault."""
    machine = pair("chat").stream(prepared(stream=False))
    assert b"" == machine.feed(ROLE + HELLO) + machine.finish()
    assert (b"", "eof") == (machine.output, machine.fault.cause)


def test_an_answer_that_cannot_be_told_is_a_fault():
    """A dialect that refuses to write an answer does not raise into the gateway."""

    def refusing(answer, reply):
        raise refuse("cannot be told")

    client = msgspec.structs.replace(DIALECTS["chat"], answer=refusing)
    machine = Pair(client, DIALECTS["chat"]).whole(prepared(stream=False), ANSWER)
    assert ("cannot be told", b"", True) == (machine.fault.message, machine.output, machine.done)


def test_a_native_body_is_forwarded():
    """Two sides of one dialect keep the bytes of a whole answer, save the model."""
    made = asked("chat", "chat")
    made.stream = False
    machine = pair("chat").whole(made, ANSWER)
    assert isinstance(machine, NativeWhole)
    assert ANSWER.replace(b'"up-m"', b'"mine"') == machine.output


def test_a_native_body_can_become_a_stream():
    """The same holds where the client wanted a stream of its own dialect."""
    machine = pair("chat").whole(asked("chat", "chat"), ANSWER)
    assert b"[DONE]" in machine.output


# What an answer loses is noted, in both forms


def replied(client, frames, *, stream):
    made = asked(client, "messages", {**REQUESTS[client], "stream": stream}, native=False)
    made.stream = stream
    machine = TranslatedStream(pair(client, "messages"), made)
    machine.feed(b"".join(data(frame) for frame in frames))
    assert machine.fault is None
    return [note.field for note in made.notes.kept]


@pytest.mark.parametrize("stream", [True, False])
@every_client
def test_state_that_is_too_large_and_pauses_are_noted(client, stream):
    """State beyond what a carrier holds, and a pause where the client knows none, leave a note each."""
    thought = {"type": "thinking", "thinking": "R", "signature": "s" * MAX_CARRIER_BYTES}
    frames = [
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": thought},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "T"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    found = replied(client, frames, stream=stream)
    assert 1 == found.count("reasoning")
    assert (client != "messages") == found.count("stop")


@pytest.mark.slow
@pytest.mark.parametrize("extra", [b": c\n\n", chunk({})])
def test_a_source_of_endless_frames_poisons(extra):
    """Frames without any event count too (section 8, F6)."""
    machine = TranslatedStream(pair("messages"), prepared())
    machine.feed(HELLO)
    machine.feed(extra * (MAX_FRAMES - 1))
    assert machine.fault is None
    assert b"too many" in machine.feed(extra)
    assert "limit" == machine.fault.cause


@pytest.mark.parametrize("name", NAMES)
def test_a_native_stream_knows_that_its_route_is_strict(name):
    """Strictness and the place for notes reach the native machine."""
    made = asked(name, name, target=Target("up-m", Traits(), "o", strict=True))
    machine = pair(name, name).stream(made)
    ends = {"chat": HELLO + STOP, "messages": data({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})}
    machine.feed(ends.get(name, b""))
    machine.finish()
    assert "eof" == machine.fault.cause
