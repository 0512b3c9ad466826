"""Messages on both sides: what changes in a request, and what is seen in an answer."""

import json

import pytest

from tests.translators.grammar_messages import check
from translators.carrier import seal
from translators.dialect import Peek, Reply, Target
from translators.events import Carried, Usage
from translators.fault import Fault, Refused
from translators.messages.native import Watcher, native_answer, native_failure, native_request, watch
from translators.notes import Notes
from translators.sse import Frame, Splitter, event_frame
from translators.traits import Traits

LEVELS = ("low", "medium", "high")
TARGET = Target("up-m", Traits(efforts=LEVELS), origin="here")


def sent(body, target=TARGET, notes=None):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return native_request(raw, Peek("m1"), target, notes or Notes())


def test_every_byte_but_the_models_stays():
    """Spacing, order, numbers and escapes are the client's."""
    body = b'{ "model" : "m1", "x": 1.50,"a":"\\u00fc", "messages":[ ] }'
    assert body.replace(b'"m1"', b'"up-m"') == sent(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m1","tools":[{"input_schema":{"properties":{"model":{"type":"string"}}}}]}',
        b'{"messages":[{"role":"model","content":"m1"}],"model":"m1"}',
        b'{"mod\\u0065l":"m1","x":{"model":"m1"}}',
        b'{"MOD":1,"x":{"model":"other"},"model":"m1"}',
        b'{"model":"m1","model":"m1"}',
        b'{"model":"\\u006d1"}',
    ],
)
def test_only_the_top_model_is_replaced(body):
    """Neither a look-alike further down nor an escaped or doubled key lets a client name the upstream's model."""
    before, after = json.loads(body), json.loads(sent(body))
    assert {**before, "model": "up-m"} == after


def test_a_name_that_is_found_twice_is_not_taken_for_the_key():
    """The value in place has to be the model that was routed."""
    assert {"model": "up-m"} == json.loads(native_request(b'{"model":"odd"}', Peek("m1"), TARGET, Notes()))


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model":"m1","model":"m1"'])
def test_a_body_that_cannot_be_read_is_refused(body):
    """Malformed JSON is the client's fault."""
    with pytest.raises(Refused) as caught:
        sent(body)
    assert "client" == caught.value.fault.cause


def thinking(signature):
    return {"type": "thinking", "thinking": "R", "signature": signature}


def redacted(data):
    return {"type": "redacted_thinking", "data": data}


OWN = seal(Carried("th", "sig"), "here")
OWN_REDACTED = seal(Carried("rt", "D"), "here")
FOREIGN = seal(Carried("th", "sig"), "there")


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        (thinking("native"), [thinking("native")]),
        (thinking(""), [thinking("")]),
        (thinking(OWN), [thinking("sig")]),
        (thinking(OWN_REDACTED), [redacted("D")]),
        (redacted(OWN_REDACTED), [redacted("D")]),
        (redacted(OWN), []),
        (thinking(FOREIGN), []),
        (redacted(seal(Carried("rt", "D"), "there")), []),
        (thinking(seal(Carried("rs", "enc", "rs_1"), "here")), []),
        (thinking("gw1.nonsense"), []),
        (redacted("D"), [redacted("D")]),
        ({"type": "text", "text": "gw1. is our mark"}, [{"type": "text", "text": "gw1. is our mark"}]),
        (
            {"type": "thinking", "thinking": "gw1.", "signature": "s"},
            [{"type": "thinking", "thinking": "gw1.", "signature": "s"}],
        ),
    ],
)
@pytest.mark.invariant("I17")
def test_state_goes_back_to_its_origin_only(block, kept):
    """Our carriers are restored or removed; native values stay untouched (1.6)."""
    said = {"type": "text", "text": "gw1. T"}
    body = {
        "model": "m1",
        "messages": [
            {"role": "user", "content": "gw1. in plain text"},
            {"role": "user", "content": "no mark"},
            {"role": "assistant", "content": [block, said]},
        ],
    }
    notes = Notes()
    after = json.loads(sent(body, notes=notes))
    assert [*kept, said] == after["messages"][2]["content"]
    assert body["messages"][:2] == after["messages"][:2]
    assert (not kept) == (1 == notes.count)


def test_a_message_of_foreign_state_alone_is_left_out():
    """The API takes no empty message."""
    body = {
        "model": "m1",
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [thinking(FOREIGN)]}],
    }
    assert ["user"] == [message["role"] for message in json.loads(sent(body))["messages"]]


def test_a_mark_outside_of_the_messages_changes_nothing():
    """A system prompt may speak of carriers."""
    body = {"model": "m1", "system": "gw1.th.here.x"}
    assert {"model": "up-m", "system": "gw1.th.here.x", "messages": []} == json.loads(sent(body))


@pytest.mark.parametrize(
    ("body", "config"),
    [
        ({}, {"effort": "high"}),
        ({"output_config": {"format": {"a": 1}}}, {"format": {"a": 1}, "effort": "high"}),
        ({"thinking": {"type": "adaptive"}}, {"effort": "high"}),
        ({"output_config": {"effort": "low"}}, {"effort": "low"}),
        ({"thinking": {"type": "disabled"}}, None),
    ],
)
def test_a_default_effort_fills_what_the_client_left_out(body, config):
    """The route's effort counts where the client names none and does not switch thinking off (section 6)."""
    target = Target("up-m", Traits(efforts=LEVELS), default_effort="max")
    assert config == json.loads(sent({"model": "m1", **body}, target)).get("output_config")


@pytest.mark.parametrize(
    "target",
    [
        Target("up-m", Traits(thinking="manual"), default_effort="high"),
        Target("up-m", Traits(efforts=()), default_effort="high"),
        Target("up-m", Traits(efforts=("none",)), default_effort="none"),
    ],
)
def test_a_default_effort_that_the_model_cannot_take_is_not_sent(target):
    """A model without levels keeps its bytes."""
    assert b'{"model":"up-m"}' == sent(b'{"model":"m1"}', target)


def look(watcher, raw):
    (frame,) = Splitter().feed(raw)
    return watcher.look(frame)


def event(kind, **members):
    return event_frame(kind, json.dumps({"type": kind, **members}).encode())


@pytest.mark.edge("E38")
def test_the_start_is_seen_and_renamed():
    """The client sees its alias; the rest of message_start stays."""
    watcher = watch(Reply("m1"))
    message = {"id": "msg_1", "model": "up-m", "usage": {"input_tokens": 3, "output_tokens": 1}, "extra": 1.5}
    seen = look(watcher, event("message_start", message=message))
    assert ("up-m", Usage(uncached=3, output=1), False) == (seen.model, seen.usage, seen.terminal)
    (frame,) = Splitter().feed(seen.replace)
    assert {"type": "message_start", "message": {**message, "model": "m1"}} == json.loads(frame.data)
    assert b"message_start" == frame.event


def test_a_start_without_a_model_stays():
    """There is nothing to rename."""
    seen = look(watch(Reply("m1")), event("message_start", message={}))
    assert (None, None, None) == (seen.model, seen.replace, seen.usage)


@pytest.mark.parametrize(
    ("reason", "stop"), [("end_turn", "end"), ("tool_use", "tool"), ("max_tokens", "length"), ("moonrise", "end")]
)
def test_the_end_is_seen(reason, stop):
    """A stop reason completes the answer, message_stop says so again."""
    watcher = watch(Reply("m1"))
    look(watcher, event("message_start", message={"usage": {"input_tokens": 3}}))
    seen = look(watcher, event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 9}))
    assert (stop, True, Usage(uncached=3, output=9)) == (seen.stop, seen.terminal, seen.usage)
    assert look(watcher, event("message_stop")).terminal
    assert seen.replace is None


def test_counts_alone_end_nothing():
    """message_delta without a stop reason is no terminal, unreadable counts are passed over."""
    seen = look(watch(Reply("m1")), event("message_delta", delta={}, usage={"output_tokens": "x"}))
    assert (None, False, None) == (seen.stop, seen.terminal, seen.usage)


@pytest.mark.parametrize(
    "raw",
    [
        event("error", error={"type": "rate_limit_error", "message": "slow down"}),
        event_frame("error", b'{"error":{"type":"rate_limit_error","message":"slow down"}}'),
        b'data: {"error":{"type":"rate_limit_error","message":"slow down"}}\n\n',
    ],
)
@pytest.mark.edge("E25")
def test_an_error_is_seen(raw):
    """The error is read and its document kept for the provider."""
    assert not watch(Reply("m1")).quiet(raw)
    failed = look(watch(Reply("m1")), raw).failed
    assert "rate_limited" == failed.fault.kind
    assert b"slow down" in failed.raw


def test_an_error_without_details_is_seen():
    """Even an empty error fails the stream."""
    assert "api" == look(watch(Reply("m1")), event("error")).failed.fault.kind


def test_unreadable_frames_fail_and_markers_do_not():
    """Nothing is raised for upstream data."""
    watcher = watch(Reply("m1"))
    assert watcher.look(Frame(b"{")).failed is not None
    assert watcher.look(Frame(b"[DONE]")).failed is None
    assert watcher.look(Frame(b'{"type":"ping"}')).failed is None


TEXT = event("content_block_delta", index=0, delta={"type": "text_delta", "text": '"message_stop" and "error"'})


@pytest.mark.parametrize(
    ("raw", "interesting", "meaningful"),
    [
        (event("message_start", message={}), True, False),
        (event("message_delta", delta={}), True, False),
        (event("message_stop"), True, False),
        (event("error", error={}), True, False),
        (TEXT, False, True),
        (event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "R"}), False, True),
        (event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "s"}), False, True),
        (event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{"}), False, True),
        (event("content_block_start", index=0, content_block={"type": "tool_use"}), False, True),
        (event("content_block_start", index=0, content_block={"type": "web_search_tool_result"}), False, True),
        (event("content_block_start", index=0, content_block={"type": "text", "text": ""}), False, False),
        (event("content_block_stop", index=0), False, False),
        (event("ping"), False, False),
    ],
)
def test_what_is_looked_at_and_what_means_something(raw, interesting, meaningful):
    """Content passes unread, whatever words it has; only it counts for the stall timers."""
    assert (interesting, meaningful) == (not watch(Reply("m1")).quiet(raw), bool(Watcher.meaningful.search(raw)))


@pytest.mark.edge("E38")
@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"msg_1", "model":"up-m","content":[{"type":"text","text":"m"}]}',
        b'{"model":"up-m","content":[{"type":"tool_use","input":{"model":"up-m"}}]}',
    ],
)
def test_a_whole_answer_has_the_alias(body):
    """Only the answer's own model is renamed."""
    assert {**json.loads(body), "model": "m1"} == json.loads(native_answer(body, Reply("m1")))


def test_a_whole_answer_without_a_model_stays():
    """There is nothing to rename."""
    assert b'{"id":"msg_1"}' == native_answer(b'{"id":"msg_1"}', Reply("m1"))


def test_a_whole_answer_that_cannot_be_read_is_the_upstreams_fault():
    """A body that is no JSON is HTTP 502."""
    with pytest.raises(Refused) as caught:
        native_answer(b"<html>", Reply("m1"))
    assert 502 == caught.value.fault.status


@pytest.mark.parametrize("form", [native_failure, watch(Reply("m1")).failure])
def test_a_failure_is_one_error_event(form):
    """The error form is the same at any place of the stream (2.1)."""
    assert "overloaded_error" == check(form(Fault(kind="overloaded", message="m"))).error["type"]


@pytest.mark.parametrize(
    ("body", "members", "fields"),
    [
        ({"max_tokens": 9000}, {"max_tokens": 5000}, ["max_tokens"]),
        ({"max_tokens": 5000}, {"max_tokens": 5000}, []),
        ({"max_tokens": None}, {"max_tokens": None}, []),
        ({}, {}, []),
        (
            {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8000, "display": "omitted"}},
            {"max_tokens": 5000, "thinking": {"type": "enabled", "budget_tokens": 4999, "display": "omitted"}},
            ["max_tokens", "thinking.budget_tokens"],
        ),
        (
            {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
            {"max_tokens": 5000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
            ["max_tokens"],
        ),
    ],
)
def test_the_output_is_capped_and_the_budget_with_it(body, members, fields):
    """A wish beyond the route's limit is lowered; a thinking budget stays below the limit (1.6)."""
    notes = Notes()
    target = Target("up-m", Traits(max_output_cap=6000), max_output_tokens=5000)
    assert {"model": "up-m", **members} == json.loads(sent({"model": "m1", **body}, target, notes))
    assert fields == [note.field for note in notes.kept]


def test_a_cap_without_room_for_thinking_ends_it():
    """A budget has 1,024 tokens at least, and less than the limit."""
    notes = Notes()
    body = {"model": "m1", "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    found = sent(body, Target("up-m", Traits(), max_output_tokens=1024), notes)
    assert {"model": "up-m", "max_tokens": 1024} == json.loads(found)
    assert ["max_tokens", "thinking"] == [note.field for note in notes.kept]
