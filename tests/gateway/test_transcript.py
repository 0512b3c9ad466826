"""What a WebSocket keeps of its conversation, frame by frame."""

import json

import msgspec

from gateway.transcript import Frame, Transcript, read
from translators.fault import Fault


def frame(**more) -> Frame:
    found = read(json.dumps({"type": "response.create", "model": "m", **more}))
    assert isinstance(found, Frame), found
    return found


def test_members_pass_and_input_becomes_items():
    """What is not about the socket goes on as it came; a text is one user message."""
    found = frame(input="hi", tools=[{"a": 1.0}], generate=None, background=True, previous_response_id=None)
    body = json.loads(Transcript().body(found))
    message = {"type": "message", "role": "user", "content": "hi"}
    assert {"model": "m", "tools": [{"a": 1.0}], "input": [message], "stream": True} == body


def test_frames_follow_complete_answers():
    """Items told in between are part of the conversation once the answer is complete."""
    transcript = Transcript()
    transcript.body(frame(input=[{"n": 1}]))
    transcript.told(b'{"type":"response.output_text.delta","delta":"x"}')
    transcript.told(b'{"type":"response.output_item.done","item":{"n":2}}')
    transcript.told(b'{"type":"response.completed","response":{"id":"r1"}}')
    body = json.loads(transcript.body(frame(input=[{"n": 3}], previous_response_id="r1")))
    assert [{"n": 1}, {"n": 2}, {"n": 3}] == body["input"]
    assert "previous_response_id" not in body
    again = json.loads(transcript.body(frame(input=[{"n": 4}], previous_response_id="r1")))
    assert [{"n": 1}, {"n": 2}, {"n": 4}] == again["input"]


def test_foreign_answer_is_named_on():
    """An id that is not this socket's last answer is left to the gateway's memory."""
    transcript = Transcript()
    body = json.loads(transcript.body(frame(input=[{"n": 1}], previous_response_id="r9")))
    assert ("r9", [{"n": 1}]) == (body["previous_response_id"], body["input"])


def test_marks_in_other_events_change_nothing():
    """A text that speaks of events is no event."""
    transcript = Transcript()
    transcript.told(b'{"type":"response.output_text.delta","delta":"response.completed"}')
    transcript.told(b'{"type":"response.completed"}')
    assert "" == transcript.response


def test_what_is_no_frame_is_refused():
    """Broken JSON, lone surrogates, other types and wrong members each get a reason."""
    for text in ("{", '"\ud800"', '{"type":"x","model":"m"}', '{"type":"response.create"}', "[]"):
        found = read(text)
        assert isinstance(found, Fault)
        assert 400 == found.status
    wrong = read('{"type":"response.create","model":"m","input":7}')
    assert isinstance(wrong, Fault)


def test_items_do_not_hold_their_frame():
    """Items are copies, so that a frame's other members can be freed."""
    (item,) = frame(input=[{"n": 1}]).items
    assert isinstance(item, msgspec.Raw)
    assert b'{"n": 1}' == bytes(item)


def test_a_cut_answer_is_followed_too():
    """An answer that met its limit was given: what was said of it stays, a call that was cut in its middle does not."""
    transcript = Transcript()
    transcript.body(frame(input=[{"n": 1}]))
    transcript.told(b'{"type":"response.output_item.done","item":{"type":"message","status":"incomplete"}}')
    transcript.told(b'{"type":"response.output_item.done","item":{"type":"function_call","status":"incomplete"}}')
    transcript.told(b'{"type":"response.output_item.done"}')
    transcript.told(b'{"type":"response.incomplete","response":{"id":"r1"}}')
    body = json.loads(transcript.body(frame(input=[{"n": 3}], previous_response_id="r1")))
    assert [{"n": 1}, {"type": "message", "status": "incomplete"}, {"n": 3}] == body["input"]
