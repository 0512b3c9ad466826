"""Replies that come in odd pieces; what every reply has to keep stands in test_exchange.py."""

import json

import pytest

from gateway import pump
from tests.gateway.live import config, provider, running
from tests.streams import Say, Turn, chat, chat_whole
from tests.upstream import Delay, End, Head, Upstream

TURN = Turn([Say("It is seven degrees in Gent.")])
BODY = json.dumps(chat_whole(TURN)).encode()
JSON = Head(headers=[("content-type", "application/json")])


async def reply_to(steps, *, stream=False, **timeouts):
    """What a Chat client gets from one scripted reply, and the record of it."""
    async with Upstream([steps]) as upstream, running(config(provider(upstream.url, **timeouts))) as live:
        reply = await live.send("chat", stream=stream)
        [record] = await live.records()
        return reply, record


async def test_white_space_before_a_stream_is_no_content():
    """Some servers keep a connection alive with blank lines before the first event."""
    reply, record = await reply_to([Head(), b"\n", Delay(0.02), b" \n", *chat(TURN)], stream=True)
    assert b"[DONE]" in reply.body
    assert "complete" == record["outcome"]


async def test_a_body_may_come_in_pieces():
    """A JSON answer is whole however it is cut."""
    pieces = [step for at in range(0, len(BODY), 40) for step in (BODY[at : at + 40], Delay(0.005))]
    reply, record = await reply_to([JSON, *pieces])
    assert "It is seven degrees in Gent." == reply.json["choices"][0]["message"]["content"]
    assert "complete" == record["outcome"]


async def test_a_body_is_bounded(monkeypatch):
    """A body over the limit is a 502, and nothing of it is kept (promise 7)."""
    monkeypatch.setattr(pump, "MAX_ANSWER_BYTES", len(BODY) - 1)
    reply, record = await reply_to([JSON, BODY[:40], Delay(0.02), BODY[40:]])
    assert (502, "limit") == (reply.status, record["outcome"])


@pytest.mark.promise("S37")
@pytest.mark.parametrize(("end", "status"), [(End.STALL, 504), (End.RESET, 502), (End.CLOSE, 502)])
async def test_half_a_body_is_an_error(end, status):
    """A JSON answer that stalls or breaks off is never given out."""
    reply, record = await reply_to([JSON, BODY[:40], Delay(0.02), end], idle_s=0.2, meaning_idle_s=0.2)
    assert status == reply.status
    assert (1, True) == (record["attempts"], record["outcome"] not in ("complete", "incomplete"))
