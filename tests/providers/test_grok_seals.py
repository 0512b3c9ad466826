"""Where encrypted reasoning came from, learned from the bytes of a reply."""

import json

import pytest

from providers import grok_seals
from providers.grok_input import token
from providers.grok_seals import Seals
from tests.streams import frame

SEALED = {"type": "reasoning", "encrypted_content": "x" * 40}


def item(sealed):
    return frame({"type": "response.output_item.done", "item": {"type": "reasoning", "encrypted_content": sealed}})


def learned(*chunks):
    """Whether the value is known after a reply of these chunks, end included."""
    seals = Seals()
    learner = seals.learner("t", "k")
    for chunk in chunks:
        learner.feed(chunk)
    learner.end()
    return token("x" * 40) in seals.of("t", "k")


def test_origin_is_learned_across_chunks():
    """A value is known for the credential that its reply came through, however the bytes were cut."""
    data = item("x" * 40) + frame({"type": "a", "encrypted_content": "y"}) + item(None)
    assert learned(data[:30], data[30:], b'data: {"encrypted_content"\n\n')
    assert not learned(item("y"))
    assert learned(frame({"type": "response.completed", "response": {"output": [SEALED]}}))


@pytest.mark.parametrize("start", [b"", b" \n"])
def test_whole_answers_teach_too(start, monkeypatch):
    """A reply that is one document is read when it is complete; one beyond the limit is not."""
    document = json.dumps({"object": "response", "output": [{"type": "message"}, SEALED]}).encode()
    assert learned(start, document[:20], document[20:])
    monkeypatch.setattr(grok_seals, "MAX_DOCUMENT_BYTES", 30)
    assert not learned(start, document[:20], document[20:])


@pytest.mark.promise("S31")
def test_tenants_are_apart():
    """A value is known to the tenant that got it alone, and for its credential alone (spec/grok.md 10.4)."""
    seals = Seals()
    seals.put("a", "v", "k1")
    seals.put("b", "w", "k1")
    known = [token("v") in seals.of(tenant, key) for tenant, key in (("a", "k1"), ("a", "k2"), ("b", "k1"), ("", "k1"))]
    assert [True, False, False, False] == known
    assert 5 not in seals.of("a", "k1")


def test_memory_is_bounded():
    """The oldest values are forgotten."""
    seals = Seals(limit=2)
    for value in ("a", "b", "a", "c"):
        seals.put("", value, "k")
    assert [True, False, True] == [token(value) in seals.of("", "k") for value in "abc"]


def test_endless_event_is_left_to_the_decoder():
    """An event over the limit teaches nothing and breaks nothing."""
    assert not learned(*[b"data: " + b"x" * 4_000_000] * 20)
