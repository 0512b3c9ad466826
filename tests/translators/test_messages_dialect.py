"""The record of the Messages dialect."""

import json

import pytest

from translators.dialect import Peek, Reply, Source, Target
from translators.events import Failed, Finish, Start
from translators.fault import Fault
from translators.fold import Answer
from translators.messages import DIALECT
from translators.notes import Notes
from translators.sse import Frame
from translators.toolbox import Toolbox
from translators.traits import Traits

BODY = b'{"model":"m1","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}'
TARGET = Target("up-m", Traits())
REPLY = Reply("m1", seed="5eed")


def test_the_record_is_whole():
    """Every function of the dialect does its work through the record."""
    notes = Notes()
    assert ("messages", Peek("m1")) == (DIALECT.name, DIALECT.peek(BODY))
    rendered = DIALECT.render(DIALECT.parse(BODY, notes), Toolbox(), TARGET, notes)
    assert rendered == DIALECT.native_request(BODY, Peek("m1"), TARGET, notes)
    assert () == tuple(DIALECT.decoder(Source()).push(Frame(b'{"type":"ping"}')))
    assert DIALECT.encoder(REPLY).push(Start()).startswith(b"event: message_start\n")
    whole = DIALECT.answer(Answer(), REPLY)
    assert Finish("end") == DIALECT.read_answer(whole, Source())[-1]
    assert whole == DIALECT.native_answer(whole, REPLY)
    ended = Frame(b'{"type":"message_delta","delta":{"stop_reason":"end_turn"}}')
    assert DIALECT.watch(REPLY).look(ended).terminal
    fault = Fault(kind="api", message="m")
    assert "m" == json.loads(DIALECT.envelope(fault, ""))["error"]["message"]
    assert DIALECT.encoder(REPLY).push(Failed(fault)) == DIALECT.native_failure(fault)


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_the_package_says_what_it_is(name):
    """One record is all that the table of dialects needs."""
    assert (name == "messages") == (DIALECT.name == name)
