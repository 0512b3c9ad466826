"""Responses on both sides: what changes, and that nothing else does."""

import json

import pytest

from tests.translators.grammar_responses import check
from translators.carrier import seal
from translators.dialect import Peek, Reply, Target
from translators.events import Carried, Usage
from translators.fault import Fault, Refused, broken
from translators.notes import Notes
from translators.responses.native import LAST_SEQUENCE, native_answer, native_failure, native_request, watch
from translators.sse import Frame
from translators.traits import Traits

TARGET = Target("up", Traits(), origin="here")
REPLY = Reply("alias")


def sent(body, *, target=TARGET, notes=None, model="m"):
    return native_request(body, Peek(model), target, notes or Notes())


def changed(target=TARGET, notes=None, **body):
    return json.loads(sent(json.dumps({"model": "m", **body}).encode(), target=target, notes=notes))


# ------------------------------------------------------------------ requests


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{ "model" : "m",  "input":"hi\\u00e9" }', b'{ "model" : "up",  "input":"hi\\u00e9" }'),
        (b'{"input":"say \\"model\\": 1","model":"a\\"b"}', b'{"input":"say \\"model\\": 1","model":"up"}'),
    ],
)
def test_model_is_replaced_in_place(body, expected):
    """Every byte but the model's name stays."""
    assert expected == sent(body)


def test_same_model_changes_nothing():
    """A body that needs no change is the very same object."""
    body = b'{"model":"up"}'
    assert body is sent(body, model="up")


def test_model_among_other_models():
    """Where the word occurs more than once, only the top-level member changes, and values keep their bytes."""
    body = b'{"metadata":{"model":"m", "n":1.50},"tools":[{"name":"model"}],"model":"m"}'
    assert b'{"metadata":{"model":"m", "n":1.50},"tools":[{"name":"model"}],"model":"up"}' == sent(body)


def test_body_that_is_no_object_is_refused():
    """A native body is still JSON."""
    with pytest.raises(Refused):
        sent(b'["model","model"]')


def test_nulls_that_upstreams_refuse_are_removed():
    """`status: null` leaves every item, and the nulls of reasoning items go; other bytes stay."""
    items = [
        {"type": "message", "role": "user", "content": "hi", "status": None},
        {"type": "message", "role": "assistant", "content": None, "status": "completed"},
        {"type": "reasoning", "id": "rs", "summary": [], "content": None, "encrypted_content": None, "status": None},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"status":null}'},
    ]
    assert [
        {"type": "message", "role": "user", "content": "hi"},
        items[1],
        {"type": "reasoning", "id": "rs", "summary": []},
        items[3],
    ] == changed(input=items)["input"]


def test_untouched_items_keep_their_bytes():
    """An item that needs no change passes as it is spelled."""
    kept = b'{ "type":"message" , "role":"user","content":"h\\u00e9" }'
    body = b'{"model":"m","input":[%b,{"type":"reasoning","content":null}]}' % kept
    assert kept in sent(body)


@pytest.mark.invariant("I17")
def test_carriers_go_home_or_leave():
    """Our carriers of this origin become native again, those of others leave with their item, native ones stay."""
    notes = Notes()

    def thought(value):
        return {"type": "reasoning", "id": "rs_gw", "summary": [], "encrypted_content": value}

    assert [
        {"type": "reasoning", "id": "rs_up", "summary": [], "encrypted_content": "enc"},
        {"type": "reasoning", "id": "rs_gw", "summary": [], "encrypted_content": "noid"},
        thought("gAAAA-native"),
        {"role": "user", "content": "about gw1.rs"},
    ] == changed(
        input=[
            thought(seal(Carried("rs", "enc", "rs_up"), "here")),
            thought(seal(Carried("rs", "noid"), "here")),
            thought(seal(Carried("rs", "enc", "rs_up"), "elsewhere")),
            thought(seal(Carried("th", "sig"), "here")),
            thought("gw1.broken"),
            thought("gAAAA-native"),
            {"role": "user", "content": "about gw1.rs"},
        ],
        notes=notes,
    )["input"]
    assert 3 == notes.count


@pytest.mark.parametrize(
    ("reasoning", "expected"),
    [
        ({}, {"reasoning": {"effort": "high"}}),
        ({"reasoning": None}, {"reasoning": {"effort": "high"}}),
        ({"reasoning": {"summary": "auto"}}, {"reasoning": {"summary": "auto", "effort": "high"}}),
        ({"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "low"}}),
    ],
)
def test_default_effort_fills_an_absent_one(reasoning, expected):
    """The route's default effort counts only where the client named none."""
    target = Target("up", Traits(), default_effort="high")
    assert {"model": "up", "input": "hi", **expected} == changed(target, input="hi", **reasoning)


def test_default_effort_of_a_model_without_efforts():
    """A model that lists no levels gets none."""
    assert "reasoning" not in changed(Target("up", Traits(efforts=()), default_effort="high"), input="gw1.")


# ------------------------------------------------------------------ answers


def test_whole_answer_gets_the_alias():
    """Only the model's name and what strict readers insist on change."""
    body = (
        b'{"id":"resp_1","created_at":1700000000.5,"model":"up","x":1.50,"usage":{"input_tokens":3,"output_tokens":2}}'
    )
    answer = native_answer(body, REPLY)
    assert answer.startswith(b'{"id":"resp_1","created_at":1700000000,"model":"alias","x":1.50,"usage":{')
    assert {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    } == json.loads(answer)["usage"]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"created_at":"x"}', b'{"usage":{"odd":1}}', b'{"usage":null}'])
def test_odd_answers_stay(body):
    """What cannot be improved is forwarded as it came."""
    assert body == native_answer(body, REPLY)


def event(kind, **members):
    return Frame(json.dumps({"type": kind, **members}).encode())


def lifecycle(kind, **response):
    base = {"id": "resp_1", "model": "up", "created_at": 1, "output": []}
    return event(f"response.{kind}", sequence_number=4, response={**base, **response})


def replaced(seen):
    return json.loads(seen.replace.split(b"data: ")[1])


USAGE = {"input_tokens": 3, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}


@pytest.mark.edge("E38")
@pytest.mark.parametrize("kind", ["created", "in_progress", "queued"])
def test_lifecycle_events_get_the_alias(kind):
    """The client sees its own name for the model; the record learns the upstream's."""
    seen = watch(REPLY).look(lifecycle(kind))
    assert ("up", False, None) == (seen.model, seen.terminal, seen.failed)
    assert seen.replace.startswith(f"event: response.{kind}\ndata: ".encode())
    assert {
        "type": f"response.{kind}",
        "sequence_number": 4,
        "response": {"id": "resp_1", "model": "alias", "created_at": 1, "output": []},
    } == replaced(seen)


def test_completed_is_a_terminal_with_usage():
    """The end of a stream tells its counts, which reach the client complete."""
    seen = watch(REPLY).look(lifecycle("completed", usage=USAGE))
    assert (True, "end", Usage(2, 1, None, 2, None)) == (seen.terminal, seen.stop, seen.usage)
    assert {"cached_tokens": 1, "cache_write_tokens": 0} == replaced(seen)["response"]["usage"]["input_tokens_details"]


@pytest.mark.parametrize(
    ("item", "reason", "stop"),
    [
        (None, "max_output_tokens", "length"),
        (None, "content_filter", "refusal"),
        (None, "other", "end"),
        ({"type": "function_call"}, "max_output_tokens", "length"),
        ({"type": "function_call"}, None, "tool"),
        ({"type": "custom_tool_call"}, None, "tool"),
        ({"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}, None, "refusal"),
        ({"type": "message", "content": [{"type": "output_text", "text": "a"}]}, None, "end"),
    ],
)
def test_stops(item, reason, stop):
    """Why an answer stopped follows from its end and its items."""
    watcher = watch(REPLY)
    if item:
        watcher.look(event("response.output_item.done", output_index=0, item=item))
    kind = "incomplete" if reason else "completed"
    assert stop == watcher.look(lifecycle(kind, incomplete_details=reason and {"reason": reason})).stop


def test_empty_final_output_is_filled():
    """An upstream that leaves the output empty loses nothing: strict readers take the answer from there."""
    watcher = watch(REPLY)
    for index in (1, 0, None):
        watcher.look(
            event("response.output_item.done", output_index=index, item={"type": "message", "id": f"i{index}"})
        )
    output = replaced(watcher.look(lifecycle("completed")))["response"]["output"]
    assert ["i0", "i1", "iNone"] == [item["id"] for item in output]
    full = replaced(watcher.look(lifecycle("completed", output=[{"id": "own"}])))["response"]["output"]
    assert [{"id": "own"}] == full


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (lifecycle("failed", error={"code": "rate_limit_exceeded", "message": "slow"}), "rate_limited"),
        (lifecycle("cancelled", error=None), "api"),
        (event("error", code="server_error", message="oops"), "api"),
        (event("error", error={"type": "overloaded_error", "message": "busy"}), "overloaded"),
        (Frame(b'{"error":{"message":"busy","code":"rate_limit_exceeded"}}'), "rate_limited"),
        (Frame(b'{"code":"server_error","error":"text"}'), "api"),
    ],
)
def test_failures_are_seen(frame, kind):
    """Every form of failure is told with the document for the provider to judge."""
    seen = watch(REPLY).look(frame)
    assert kind == seen.failed.fault.kind
    assert "error" in json.loads(seen.failed.raw)
    assert not seen.terminal


@pytest.mark.parametrize("kind", ["keepalive", "ping", "response.doom_loop_check"])
def test_private_events_are_swallowed(kind):
    """Events that would kill a strict reader do not reach it."""
    frame = event(kind)
    assert not watch(REPLY).quiet(frame.data)
    assert b"" == watch(REPLY).look(frame).replace


@pytest.mark.parametrize(
    "frame",
    [
        event("response.output_text.delta", delta="a"),
        event("codex.rate_limits"),
        event("response.output_item.done", item=None),
        event("response.output_item.done", output_index="x", item={}),
        event("response.created", response=None),
        event("response.created", response={"created_at": "x.y"}),
        Frame(b"[DONE]"),
        Frame(b"{}"),
    ],
)
def test_other_frames_pass(frame):
    """What says nothing, or cannot be read, is forwarded as it came."""
    seen = watch(REPLY).look(frame)
    assert (None, False, None) == (seen.replace, seen.terminal, seen.failed)


def test_terminal_without_a_response_is_still_a_terminal():
    """Codex needs no more than the type."""
    assert watch(REPLY).look(event("response.completed")).terminal


@pytest.mark.parametrize(
    ("data", "interesting", "meaningful"),
    [
        (b'{"type":"response.created"}', True, False),
        (b'{"type": "response.completed"}', True, False),
        (b'{"sequence_number":1,"type" : "error"}', True, False),
        (b'{"type":"response.output_item.done"}', True, True),
        (b'{"type":"response.output_text.delta","delta":"{\\"type\\":\\"error\\"}"}', False, True),
        (b'{"type":"response.function_call_arguments.delta"}', False, True),
        (b'{"type":"response.reasoning_summary_text.delta"}', False, True),
        (b'{"type":"response.content_part.added","part":{"type":"output_text"}}', False, False),
    ],
)
def test_patterns(data, interesting, meaningful):
    """Most frames of a stream need no look."""
    watcher = watch(REPLY)
    assert (interesting, meaningful) == (
        not watcher.quiet(data),
        bool(watcher.meaningful.search(data)),
    )


# ------------------------------------------------------------------ failures of ours


def test_failure_before_the_stream():
    """Nothing was sent, so the whole form of a failed response can be."""
    told = check(native_failure(broken("cut", cause="eof")))
    assert ("failed", {"code": "server_error", "message": "cut"}) == (told.terminal, told.error)


def test_failure_of_a_response_that_has_begun():
    """The failed response has the id that the stream began with, the alias, and the items that were done."""
    watcher = watch(REPLY)
    created = {
        "type": "response.created",
        "response": {"id": "resp_9", "object": "response", "model": "up", "output": []},
    }
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": []}
    watcher.look(Frame(json.dumps(created).encode()))
    watcher.look(Frame(json.dumps({"type": "response.output_item.done", "output_index": 0, "item": item}).encode()))
    event = json.loads(watcher.failure(broken("cut", cause="eof")).split(b"data: ")[1])
    assert ("response.failed", "resp_9", "failed") == (
        event["type"],
        event["response"]["id"],
        event["response"]["status"],
    )
    assert ([item], {"code": "server_error", "message": "cut"}) == (
        event["response"]["output"],
        event["response"]["error"],
    )


def test_failure_before_any_response_is_known():
    """Without a response to name, an error event contradicts no id and no number."""
    told = check(watch(REPLY).failure(Fault(kind="timeout", message="slow")))
    assert "error" == told.terminal
    assert {
        "type": "error",
        "sequence_number": LAST_SEQUENCE,
        "code": "server_error",
        "message": "slow",
        "param": None,
    } == told.error


@pytest.mark.parametrize(
    ("wished", "granted", "fields"),
    [(900, 400, ["max_output_tokens"]), (400, 400, []), (None, None, []), ("many", "many", [])],
)
def test_the_output_is_capped(wished, granted, fields):
    """A wish beyond the route's limit is lowered; what is no number is the upstream's to refuse."""
    notes = Notes()
    target = Target("up", Traits(max_output_cap=500), max_output_tokens=400)
    found = changed(target, notes, max_output_tokens=wished)
    assert {"model": "up", "max_output_tokens": granted} == found
    assert fields == [note.field for note in notes.kept]


def test_a_cap_adds_no_limit():
    """A client that names no limit leaves it to the upstream."""
    assert {"model": "up"} == changed(Target("up", Traits(), max_output_tokens=400))


@pytest.mark.edge("E29")
@pytest.mark.parametrize("data", [b"{", b'{"type":"response.created","response":{bad}}'])
def test_malformed_frames_are_failures(data):
    """JSON that cannot be read ends the stream; its text stays out of the message."""
    assert "the upstream sent malformed JSON" == watch(REPLY).look(Frame(data)).failed.fault.message
