"""What clients of every dialect get from Cline, well and badly, and what Cline gets from them."""

import asyncio
import json

import pytest

from gateway.config import Pool, Timeouts
from tests.gateway.cline import CLIENT_KEY, GLM, answer, ask, chunks, events, served
from tests.gateway.cline import stage as stage_before
from tests.streams import Call, Say, Think, frame
from tests.upstream import Delay, End, Head, closed_port, reply_json, sse
from translators.prefix import kept, prefix_of

DIALECTS = ("chat", "responses", "messages")
every_client = pytest.mark.parametrize("dialect", DIALECTS)


@every_client
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_arrives_clean(dialect, stream):
    """Text arrives once and whole; the service's metadata, its comments and `error: null` do not (spec/cline.md 1.6)."""
    async with served([answer(Think("Hm, well."), Say("Hello there."))]) as (upstream, stage):
        status, text = await stage.ask(dialect, ask(dialect, stream=stream))
        record = await stage.record()
    assert 200 == status
    assert not [
        word for word in ("provider_metadata", "generationId", '"error":null,"choices', "PROCESSING") if word in text
    ]
    if dialect == "chat":
        assert '"error"' not in text
    if not stream:
        assert "Hello there." in text
    assert ("complete", 11, 3, 7, 0.000123) == (
        record.outcome,
        record.input_tokens,
        record.cached_tokens,
        record.output_tokens,
        record.cost_usd,
    )
    assert (12, 9, "high") == (record.text_bytes, record.reasoning_bytes, record.effort)
    body = upstream.requests[0].json
    assert (GLM, True, {"include_usage": True}) == (body["model"], body["stream"], body["stream_options"])
    assert "high" == body["reasoning_effort"]
    assert "text/event-stream" == upstream.requests[0].header("accept")


@every_client
async def test_the_stream_says_the_text(dialect):
    """The deltas of a stream add up to what the model said."""
    async with served([answer(Say("One two three four."))]) as (_, stage):
        _, text = await stage.ask(dialect, ask(dialect))
    said = "".join(
        event.get("delta", "")
        if isinstance(event.get("delta"), str) and "output_text" in event["type"]
        else event["delta"].get("text", "")
        if isinstance(event.get("delta"), dict)
        else "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))
        for event in events(text)
    )
    assert "One two three four." == said


IN_STREAM = {
    "top level": lambda: (
        chunks({"content": ""}, finish=None, done=False)
        + [frame({"error": {"code": "server_error", "message": "the model fell over"}})]
    ),
    "in the choice": lambda: [
        frame(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {},
                        "finish_reason": "error",
                        "error": {"code": "server_error", "message": "the model fell over"},
                    }
                ]
            }
        ),
        frame("[DONE]"),
    ],
}


@every_client
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("shape", IN_STREAM)
async def test_errors_inside_a_stream(dialect, late, shape):
    """Both shapes are errors for every client: a status before anything was sent, else the stream's own form."""
    frames = (chunks({"content": "half"}, finish=None, done=False) if late else []) + IN_STREAM[shape]()
    async with served([sse(frames)], keys=("k1", "k2")) as (upstream, stage):
        status, text = await stage.ask(dialect, ask(dialect))
        record = await stage.record()
    assert (200 if late else 502) == status
    assert "the model fell over" in text
    assert "upstream_error" == record.outcome
    assert 1 == len(upstream.requests)
    if late:
        assert {"chat": '"error"', "responses": "response.failed", "messages": "event: error"}[dialect] in text
        assert "[DONE]" not in text


ENVELOPES = {
    "plain": ({"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}, 200, "yes"),
    "empty choices": ({"choices": []}, 502, "no choices"),
    "data": (
        {"success": True, "data": {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}},
        200,
        "yes",
    ),
    "unknown data": ({"success": True, "data": {"x": 1}}, 502, "no choices"),
    "failure": ({"success": False, "error": "not today"}, 502, "not today"),
    "neither": ({"x": 1}, 502, "no choices"),
    "broken": (None, 502, "malformed"),
}


@every_client
@pytest.mark.parametrize(("document", "status", "words"), ENVELOPES.values(), ids=ENVELOPES)
async def test_whole_answers_instead_of_a_stream(dialect, document, status, words):
    """A JSON body is taken for what it is, in or out of its envelope, and never moves a key (spec/cline.md 4.5)."""
    reply = (
        reply_json(document) if document else [Head(headers=[("content-type", "application/json")]), b'{"choices":[']
    )
    async with served([reply], keys=("k1", "k2")) as (upstream, stage):
        got, text = await stage.ask(dialect, ask(dialect, stream=False))
    assert (status, 1) == (got, len(upstream.requests))
    assert words in text


@pytest.mark.promise("S36")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 422, 500, 502, 503, 504])
async def test_only_a_limit_moves_a_request(status):
    """Every other error is answered at once, from the first key, with its own status (spec/cline.md 2.2)."""
    async with served(lambda _: reply_json({"error": {"message": "no"}}, status), keys=("k1", "k2")) as (
        upstream,
        stage,
    ):
        got, _ = await stage.ask("chat", ask("chat"))
    assert (status, 1) == (got, len(upstream.requests))


async def test_no_credit_is_said_plainly():
    """The JSON in a string of a 402 becomes a sentence, and the status stays."""
    inner = json.dumps({"code": "insufficient_credits", "message": "Not enough credits available"})
    async with served([reply_json({"success": False, "error": inner}, 402)]) as (_, stage):
        status, text = await stage.ask("messages", ask("messages"))
    assert (402, "Not enough credits available") == (status, json.loads(text)["error"]["message"])


LIMITED = reply_json({"error": {"message": "too many requests"}}, 429, headers=[("retry-after", "30")])


async def test_limits_walk_through_the_keys():
    """Three limited keys cost three calls in their order, and the client learns when to come back."""
    async with served(lambda _: LIMITED, keys=("k1", "k2", "k3")) as (upstream, stage):
        async with stage.post("messages", ask("messages")) as reply:
            status, wait = reply.status, int(reply.headers["retry-after"])
        record = await stage.record()
    assert [f"Bearer k{n}-canary" for n in (1, 2, 3)] == [
        request.header("authorization") for request in upstream.requests
    ]
    assert (429, "rate_limited", 3) == (status, record.outcome, record.attempts)
    assert 28 <= wait <= 30
    assert 1 == len({request.body for request in upstream.requests})


async def test_stays_with_the_key_that_works():
    """After a limit the next request starts at the key that served, and a revoked key is left out (401)."""
    replies = [LIMITED, answer(Say("a")), answer(Say("b")), reply_json({"error": "bad key"}, 401), answer(Say("c"))]
    async with served(replies, keys=("k1", "k2", "k3")) as (upstream, stage):
        statuses = [(await stage.ask("chat", ask("chat", session="s")))[0] for _ in range(4)]
    used = [request.header("authorization").removesuffix("-canary")[-2:] for request in upstream.requests]
    assert ["k1", "k2", "k2", "k2", "k3"] == used
    assert [200, 200, 401, 200] == statuses
    tasks = [request.header("x-task-id") for request in upstream.requests]
    assert tasks[0] != tasks[1] == tasks[2] == tasks[3] != tasks[4]


async def test_a_quota_of_one_model_rests_the_key_for_that_alone():
    """A limit that names its model leaves the key free for others."""
    daily = {"error": {"message": f"Daily free limit reached on model {GLM}. Try again in 2h"}}
    async with served([reply_json(daily, 429), answer(Say("a"))]) as (_, stage):
        await stage.ask("chat", ask("chat"))
        (key,) = stage.runtime.pools()["cline"].snapshot(0, 0).keys
    assert ("healthy", [GLM]) == (key.phase, [view.model for view in key.models])


@pytest.mark.slow
async def test_no_retries_unless_configured():
    """A 503 is tried again with the same key only when the operator says so, and never after a beginning."""
    busy = reply_json({"error": {"message": "busy"}}, 503)
    async with served([busy, answer(Say("a"))], keys=("k1", "k2"), pool=Pool(retries=1)) as (upstream, stage):
        status, _ = await stage.ask("chat", ask("chat"))
        record = await stage.record()
        cut = [*sse(chunks({"content": "half"}, finish=None, done=False)), End.RESET]
        upstream.play([cut, answer(Say("b"))])
        await stage.ask("chat", ask("chat"))
        assert 1 == len(upstream.requests)
    assert (200, 2, "k1") == (status, record.attempts, record.key)


async def test_an_unreachable_service_is_not_repeated():
    """A refused connection is one attempt on one key."""
    async with stage_before(f"http://127.0.0.1:{closed_port()}", keys=("k1", "k2"), pool=Pool(retries=2)) as stage:
        status, _ = await stage.ask("messages", ask("messages"))
        record = await stage.record()
    assert (502, 1, "k1") == (status, record.attempts, record.key)


CANARIES = (f"{CLIENT_KEY}-a", "k1-canary")


@pytest.mark.promise("S02")
@every_client
async def test_secrets_do_not_come_back(dialect, capfd):
    """Keys that an upstream echoes, in an error or in a stream's error, reach neither client nor log."""
    echo = {"error": {"message": f"bad {' '.join(CANARIES)}"}}
    late = [*chunks({"content": "x"}, finish=None, done=False), frame(echo)]
    async with served([reply_json(echo, 400), sse([frame(echo)]), sse(late)]) as (upstream, stage):
        texts = [(await stage.ask(dialect, ask(dialect)))[1] for _ in range(3)]
        assert not [canary for canary in CANARIES for request in upstream.requests if canary.encode() in request.body]
    told = "".join(texts) + "".join(capfd.readouterr())
    assert not [canary for canary in CANARIES if canary in told]


TIMERS = {
    "stalled_first_event": (Timeouts(first_event_s=0.3), [Delay(5)]),
    "stalled_first_meaning": (
        Timeouts(first_meaning_s=0.3),
        [*([b": beat\n\n", Delay(0.05)] * 3), *chunks({"role": "assistant"}, finish=None, done=False), Delay(5)],
    ),
    "stalled_idle": (Timeouts(idle_s=0.3), [*chunks({"content": "x"}, finish=None, done=False), Delay(5)]),
    "stalled_meaning_idle": (
        Timeouts(meaning_idle_s=0.4),
        [*chunks({"content": "x"}, finish=None, done=False), *([b": beat\n\n", Delay(0.1)] * 30)],
    ),
}


@pytest.mark.slow
@every_client
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("outcome", TIMERS)
async def test_stalls_end_in_every_dialect(dialect, stream, outcome):
    """Each timer ends the request, names itself in the record, and nothing is asked for twice (spec/cline.md 6)."""
    timeouts, steps = TIMERS[outcome]
    async with served([[Head(), *steps]], timeouts=timeouts, keys=("k1", "k2")) as (upstream, stage):
        status, text = await stage.ask(dialect, ask(dialect, stream=stream))
        record = await stage.record()
        assert 1 == len(upstream.requests)
    begun = stream and outcome in ("stalled_idle", "stalled_meaning_idle")
    assert (outcome, 200 if begun else 504) == (record.outcome, status)
    assert "upstream" in text


@pytest.mark.promise("S25")
@every_client
async def test_a_client_that_leaves_stops_its_upstream(dialect):
    """The upstream's connection is closed within a second of the client's, and the record says who left."""
    endless = [*sse(chunks({"content": "x"}, finish=None, done=False)), End.STALL]
    async with served([endless]) as (upstream, stage):
        before = len(asyncio.all_tasks())
        async with stage.post(dialect, ask(dialect)) as reply:
            await reply.content.readany()
            left = asyncio.get_running_loop().time()
            reply.close()
        hangup = await upstream.requests[0].hung_up(2)
        record = await stage.record()
        async with asyncio.timeout(2):
            while len(asyncio.all_tasks()) > before + 1:
                await asyncio.sleep(0.01)
    assert hangup.at - left < 1
    assert "client_disconnected" == record.outcome


@every_client
async def test_a_reset_after_a_beginning_is_never_repeated(dialect):
    """The client gets the error form of its stream; the upstream was called once."""
    cut = [*sse(chunks({"content": "half"}, finish=None, done=False)), Delay(0.05), End.RESET]
    async with served([cut], keys=("k1", "k2")) as (upstream, stage):
        status, text = await stage.ask(dialect, ask(dialect))
        record = await stage.record()
    assert (200, 1, "upstream_eof") == (status, len(upstream.requests), record.outcome)
    assert {"chat": '"error"', "responses": "response.failed", "messages": "event: error"}[dialect] in text


async def test_an_event_without_end_is_cut():
    """One event that never ends fails at its limit instead of filling the memory."""
    flood = [Head(), b'data: {"x":"', *([b"x" * 1_000_000] * 20)]
    async with served([flood]) as (_, stage):
        status, text = await stage.ask("messages", ask("messages"))
        record = await stage.record()
    assert (502, "limit") == (status, record.outcome)
    assert "too large" in text


async def test_pictures_of_tool_results_move():
    """Cline's tool messages are text: a picture follows in a user message."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "Shot", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [picture]}]},
    ]
    async with served([answer(Say("ok"))]) as (upstream, stage):
        assert 200 == (await stage.ask("messages", ask("messages") | {"messages": messages}))[0]
    tool, user = upstream.requests[0].json["messages"][-2:]
    assert ("tool", str) == (tool["role"], type(tool["content"]))
    assert ("user", "data:image/png;base64,aGk=") == (user["role"], user["content"][0]["image_url"]["url"])


async def test_codex_fields_reach_the_upstream():
    """Instructions, schema, cache key and images of a Responses request are kept (spec/cline.md 13)."""
    schema = {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": True}
    content = [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "data:image/png;base64,aGk="}]
    body = ask("responses", session="cache-1", instructions="be brief", text={"format": schema})
    body["input"] = [{"role": "user", "content": content}]
    async with served([answer(Say("{}"))]) as (upstream, stage):
        await stage.ask("responses", body)
    sent = upstream.requests[0].json
    assert {"role": "system", "content": "be brief"} == sent["messages"][0]
    assert ("cache-1", "json_schema") == (sent["prompt_cache_key"], sent["response_format"]["type"])
    assert "image_url" == sent["messages"][1]["content"][1]["type"]


@every_client
async def test_growing_conversations_keep_their_prefix(dialect):
    """The earlier request's prompt is a byte prefix of the later one's, and the record says so (spec/cline.md 8)."""
    first = ask(dialect, session="s")
    later = json.loads(json.dumps(first))
    more = [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "more"}]
    if dialect == "responses":
        later["input"] = [{"role": "user", "content": "hi"}, *more]
    else:
        later["messages"] += more
    async with served(lambda _: answer(Say("Hello."))) as (upstream, stage):
        await stage.ask(dialect, first)
        await stage.ask(dialect, later)
        record = await stage.record(2)
        changed = json.loads(json.dumps(later).replace('"more"', '"else"'))
        await stage.ask(dialect, changed)
        broken = await stage.record(3)
    before, after = (prefix_of(request.body) for request in upstream.requests[:2])
    assert kept(before, after).broken_at is None
    old, new = (
        request.body.partition(b'"messages":[')[2].partition(b'],"stream"')[0] for request in upstream.requests[:2]
    )
    assert new.startswith(old)
    assert (after.hash, before.size - 2, None) == (
        record.prefix_hash,
        record.prefix_kept_bytes,
        record.prefix_broken_at,
    )
    assert "message 3" == broken.prefix_broken_at


async def test_calls_are_told_in_their_own_ids():
    """A tool call keeps its id through every client's protocol."""
    for dialect in DIALECTS:
        async with served([answer(Call("Bash", '{"a":1}', "call_77"))]) as (_, stage):
            tool = {"name": "Bash", "description": "", "input_schema": {"type": "object"}}
            if dialect != "messages":
                function = {"name": "Bash", "parameters": {"type": "object"}}
                tool = (
                    {"type": "function", **function}
                    if dialect == "responses"
                    else {"type": "function", "function": function}
                )
            _, text = await stage.ask(dialect, ask(dialect, tools=[tool]))
        assert "call_77" in text
