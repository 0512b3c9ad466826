"""Chat to Chat: bytes stay, save the model, foreign state and the route's own limits."""

import json

import pytest

from tests.translators.grammar_chat import check
from translators.carrier import seal
from translators.chat.details import entry_of
from translators.chat.native import native_answer, native_failure, native_request, watch
from translators.dialect import Peek, Reply, Seen, Target
from translators.events import Carried, Failed, Usage
from translators.fault import Refused, broken
from translators.notes import Notes
from translators.sse import Frame
from translators.traits import Traits

REPLY = Reply("m1")


def sent(body, model="m1", *, notes=None, **target):
    traits = Traits(**target.pop("traits", {}))
    return native_request(body, Peek(model), Target("up", traits, origin="o", **target), notes or Notes())


def test_only_the_models_bytes_change():
    """Spacing, order, duplicates of words and unknown fields stay."""
    body = b'{ "z" : 1.0,"model" :  "m\\u0031" , "messages":[{"content":"the \\"model\\": m1"}] }'
    assert body.replace(b'"m\\u0031"', b'"up"') == sent(body)


def test_an_equal_name_changes_nothing():
    """The very same bytes go out."""
    body = b'{"model":"up"}'
    assert body is sent(body, "up")


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m1","metadata":{"model":"m1"}}',
        b'{"mod\\u0065l":"m1","metadata":{"model":"other"}}',
        b'{"mod\\u0065l":"m1","metadata":{"model":5}}',
    ],
)
def test_an_inner_model_is_not_touched(body):
    """Where the name's place is in doubt, the members are written anew."""
    found = json.loads(sent(body))
    assert ("up", json.loads(body)["metadata"]) == (found["model"], found["metadata"])


def test_the_routes_effort_fills_a_gap_only():
    """An effort of the client's own, in either spelling, stays."""
    assert "high" == json.loads(sent(b'{"model":"m1"}', default_effort="high"))["reasoning_effort"]
    assert b'{"model":"up","reasoning_effort":"low"}' == sent(
        b'{"model":"m1","reasoning_effort":"low"}', default_effort="high"
    )
    assert b'{"model":"up","reasoning":{}}' == sent(b'{"model":"m1","reasoning":{}}', default_effort="high")
    capped = sent(b'{"model":"m1","reasoning_effort":"low"}', default_effort="high", max_output_tokens=5)
    assert "low" == json.loads(capped)["reasoning_effort"]
    assert b'{"model":"up"}' == sent(b'{"model":"m1"}', default_effort="high", traits={"efforts": ()})


def test_the_output_is_capped():
    """Both names are lowered, absent and smaller ones stay."""
    notes = Notes()
    found = json.loads(
        sent(b'{"model":"m1","max_tokens":9,"max_completion_tokens":3}', max_output_tokens=5, notes=notes)
    )
    assert {"model": "up", "max_tokens": 5, "max_completion_tokens": 3} == found
    assert ["max_tokens"] == [note.field for note in notes.kept]
    assert (
        4
        == json.loads(sent(b'{"model":"m1","max_tokens":9}', max_output_tokens=5, traits={"max_output_cap": 4}))[
            "max_tokens"
        ]
    )
    assert b'{"model":"up","max_tokens":null}' == sent(b'{"model":"m1","max_tokens":null}', max_output_tokens=5)


def history(*entries):
    message = {"role": "assistant", "content": "x", "reasoning_details": list(entries)}
    return json.dumps({"model": "m1", "messages": [{"role": "user", "content": "hi"}, message]}).encode()


@pytest.mark.invariant("I17")
def test_state_of_other_origins_is_removed():
    """Our carriers are opened for their own origin, removed for others; the vendor's own entries stay."""
    own = entry_of(Carried("rd", '[{"type":"reasoning.encrypted","data":"d"}]'), "o", 0)
    foreign = [entry_of(Carried("rd", "[]"), "other", 0), entry_of(Carried("th", "s"), "o", 0)]
    native = {"type": "reasoning.encrypted", "data": "n"}
    mention = {"type": "reasoning.text", "text": "gw1. is a mark"}
    found = json.loads(sent(history(own, *foreign, native, mention)))
    assert [{"type": "reasoning.encrypted", "data": "d"}, native, mention] == found["messages"][1]["reasoning_details"]
    assert "reasoning_details" not in json.loads(sent(history(*foreign)))["messages"][1]


def test_a_mention_of_our_mark_is_no_carrier():
    """Text about carriers passes."""
    body = json.dumps({"model": "m1", "messages": [{"role": "user", "content": "what is gw1.rd?"}]}).encode()
    assert {**json.loads(body), "model": "up"} == json.loads(sent(body))
    odd = json.dumps({"model": "m1", "x": seal(Carried("rd", "[]"), "o")}).encode()
    assert {**json.loads(odd), "model": "up"} == json.loads(sent(odd))


@pytest.mark.parametrize("body", [b"[1]", b'{"model":"m1","messages":"gw1."}', b"{"])
def test_unreadable_bodies_are_refused(body):
    """They are the client's fault."""
    with pytest.raises(Refused) as caught:
        sent(body, max_output_tokens=5)
    assert 400 == caught.value.fault.status


@pytest.mark.edge("E38")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"id":"x", "model": "up","choices":[]}', b'{"id":"x", "model": "m1","choices":[]}'),
        (b'{"model":"m1","choices":[]}', b'{"model":"m1","choices":[]}'),
        (b'{"success":true,"data":{"model":"up", "choices":[]}}', b'{"model":"m1", "choices":[]}'),
        (b'{"model":"up","choices":[],"x":{"model":"up"}}', b'{"model":"m1","choices":[],"x":{"model":"up"}}'),
        (b'{"choices":[]}', b'{"choices":[]}'),
        (b'{"data":{"x":1}}', b'{"data":{"x":1}}'),
        (b'{"data":null}', b'{"data":null}'),
        (b"<html>", b"<html>"),
    ],
)
def test_whole_answers_name_the_alias(body, expected):
    """Nothing else changes, and an envelope is opened."""
    assert expected == native_answer(body, REPLY)


@pytest.mark.parametrize("form", [native_failure, watch(REPLY).failure])
def test_a_native_failure_is_an_error_object(form):
    """The same form at any point."""
    assert "gone" == check(form(broken("gone"))).error["message"]


def look(data, event=b""):
    return watch(REPLY).look(Frame(data if isinstance(data, bytes) else json.dumps(data).encode(), event))


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", Seen()),
        ({"model": "up", "choices": [{"delta": {"content": "x"}, "finish_reason": None}]}, Seen(model="up")),
        ({"model": "m1", "choices": []}, Seen()),
        ({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}, Seen(stop="tool", terminal=True)),
        ({"choices": [{"delta": {}, "finish_reason": "odd"}]}, Seen(stop="end", terminal=True)),
        (
            {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 1}},
            Seen(usage=Usage(uncached=2, output=1)),
        ),
        ({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}, Seen()),
        ({"choices": [], "usage": None}, Seen()),
    ],
)
def test_the_watcher_reads_counts_ends_and_the_model(data, seen):
    """Everything else is forwarded unread."""
    assert seen == look(data)


@pytest.mark.invariant("I2")
def test_the_end_marker_ends_only_what_has_finished():
    """[DONE] behind a finish_reason is the last frame; without one the answer was cut."""
    watcher = watch(Reply("m1"))
    assert "eof" == watcher.look(Frame(b"[DONE]")).failed.fault.cause
    watcher.look(Frame(b'{"choices":[{"delta":{},"finish_reason":"stop"}]}'))
    assert Seen(terminal=True, last=True) == watcher.look(Frame(b"[DONE]"))


@pytest.mark.parametrize(
    ("data", "event", "kind"),
    [
        ({"error": {"message": "m", "code": 429}}, b"", "rate_limited"),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, b"", "api"),
        ({"message": "m", "status": 503}, b"error", "overloaded"),
        (b"{", b"", "api"),
    ],
)
def test_the_watcher_reports_failures(data, event, kind):
    """Errors in either shape, and what cannot be read."""
    found = look(data, event).failed
    assert isinstance(found, Failed)
    assert kind == found.fault.kind


@pytest.mark.parametrize(
    ("region", "interesting", "meaningful"),
    [
        (b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":null}],"usage":null}\n\n', False, True),
        (b'data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null}]}\n\n', False, False),
        (b'data: {"choices":[{"delta":{"content":"\\"usage\\": {"},"finish_reason":null}]}\n\n', False, True),
        (b'data: {"choices":[{"delta":{"reasoning":"x"}}]}\n\n', False, True),
        (b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments": "{"}}]}}]}\n\n', False, True),
        (b'data: {"choices":[{"delta":{},"finish_reason": "stop"}]}\n\n', True, False),
        (b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n', True, False),
        (b'data: {"error": {"message":""}}\n\n', True, False),
        (b'data: {"error":null}\n\n', False, False),
        (b'data: {"success": false}\n\n', True, False),
        (b"event: error\ndata: {}\n\n", True, False),
        (b"data: [DONE]\n\n", True, False),
    ],
)
def test_regions_are_told_apart(region, interesting, meaningful):
    """Only what may hold counts, an end or an error is looked at; empty deltas are no progress."""
    machine = watch(REPLY)
    assert interesting == (not machine.quiet(region))
    assert meaningful == bool(machine.meaningful.search(region))


@pytest.mark.invariant("I2")
def test_spaces_before_colons_hide_no_end():
    """A source of another style has shown it in its first frames, which are always looked at."""
    watcher = watch(Reply("m1"))
    end = b'data: {"choices" :[{"finish_reason" :"stop"}]}\n\n'
    watcher.look(Frame(b'{"choices" :[{"delta" :{"content" :"x"}}]}'))
    assert not watcher.quiet(end)
