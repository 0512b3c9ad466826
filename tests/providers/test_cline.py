"""Cline on the wire: honest headers, both kinds of credentials, and what its errors mean."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from providers.api import Call, Setup, Unreachable
from providers.cline import BASE_URL, Cline, plugin, task_id
from providers.cline_account import Grant, save
from providers.identity import VERSION
from providers.secret import Secret
from providers.transport import new_session
from tests.upstream import End, Head, Request, Upstream, closed_port, reply_json
from translators.conversation import Conversation
from translators.dialect import Target

NOW = 1_800_000_000.0
FINGERPRINT = "0123456789abcdef" * 4


def call(**changes) -> Call:
    fields = {
        "body": b"{}",
        "stream": True,
        "model": "m",
        "client": "messages",
        "session": FINGERPRINT,
        "request_id": "r1",
    }
    return Call(**(fields | changes))


def provider(url: str, *, credentials=None, headers=None) -> Cline:
    setup = Setup(
        name="cline",
        base_url=url + "/api/v1",
        dialect="chat",
        keys={"main": Secret("key-canary")},
        session=new_session,
        headers=headers or {},
        credentials=credentials or {},
    )
    return Cline(setup, lambda: NOW)


@pytest.fixture
async def served():
    async with Upstream(lambda _: reply_json({"choices": []})) as upstream:
        made: list[Cline] = []

        def make(**changes) -> Cline:
            made.append(provider(upstream.url, **changes))
            return made[-1]

        yield upstream, make
        for cline in made:
            await cline.close()


async def sent(upstream, cline: Cline, key: str = "main", **changes) -> Request:
    reply = await cline.open(call(**changes), key)
    await reply.read(1000)
    await reply.release()
    return upstream.requests[-1]


def test_vectors_of_the_task_id():
    """The ids are those of the specification, so that sessions stay warm for who moves here (section 8)."""
    assert "2508ed18739f5dc7" == task_id(b"gateway-secret", "70b8358fc22b733a", "cline-key-1")
    assert "2b78518945ecb646" == task_id(b"gateway-secret", "70b8358fc22b733a", "cline-key-2")


async def test_headers_are_honest_and_all_our_own(served):
    """We say who we are; nothing of the client's headers goes along, and nothing claims to be the official client."""
    upstream, make = served
    request = await sent(upstream, make(), client_headers={"user-agent": "claude", "x-title": "spy", "cookie": "c"})
    headers = {name.lower(): value for name, value in request.headers if name.lower() not in {"host", "content-length"}}
    task = headers.pop("x-task-id")
    assert {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "user-agent": f"dragoman/{VERSION}",
        "x-request-id": "r1",
        "authorization": "Bearer key-canary",
    } == headers
    assert "/api/v1/chat/completions" == request.path
    assert 16 == len(task)
    assert FINGERPRINT[:16] != task


async def test_extra_headers_by_config(served):
    """The operator may add headers, and name the gateway otherwise."""
    upstream, make = served
    request = await sent(upstream, make(headers={"x-title": "Ours", "user-agent": "ours/1"}))
    assert ("Ours", "ours/1") == (request.header("x-title"), request.header("user-agent"))


async def test_task_id_belongs_to_session_and_key(served):
    """The same session on the same key keeps its id, another key has another, and without a session there is none."""
    upstream, make = served
    cline = make()
    cline._setup.keys["other"] = Secret("key-canary-2")
    ids = [
        (await sent(upstream, cline, key, session=session)).header("x-task-id")
        for key, session in (("main", FINGERPRINT), ("main", FINGERPRINT), ("other", FINGERPRINT), ("main", ""))
    ]
    assert ids[0] == ids[1] != ids[2]
    assert None is ids[3]


async def test_account_token_is_sent_with_its_prefix(served, tmp_path):
    """Account and API key stand in one pool; only the account's token has the prefix."""
    upstream, make = served
    save(tmp_path / "a.json", Grant("WORKOS:tok", "r", NOW + 3600))
    cline = make(credentials={"me": str(tmp_path / "a.json")})
    assert ("main", "me") == cline.key_names
    assert "Bearer workos:tok" == (await sent(upstream, cline, "me")).header("authorization")
    assert "Bearer key-canary" == (await sent(upstream, cline, "main")).header("authorization")


def refreshed(access="new", **data):
    answer = {"success": True, "data": {"accessToken": access, "expiresAt": "2027-01-15T09:00:00Z", **data}}

    def reply(request: Request):
        if request.path == "/api/v1/auth/refresh":
            assert {"refreshToken": "r1", "grantType": "refresh_token"} == request.json
            assert None is request.header("authorization")
            return reply_json(answer)
        return reply_json({})

    return reply


async def test_refresh_over_the_wire(served, tmp_path):
    """An old token is exchanged before the request goes out."""
    upstream, make = served
    upstream.play(refreshed())
    save(tmp_path / "a.json", Grant("old", "r1", NOW + 100))
    cline = make(credentials={"me": str(tmp_path / "a.json")})
    assert "Bearer workos:new" == (await sent(upstream, cline, "me")).header("authorization")
    assert ["/api/v1/auth/refresh", "/api/v1/chat/completions"] == [request.path for request in upstream.requests]


REFUSALS = {
    "code": reply_json({"error": "invalid_grant"}, 500),
    "words": reply_json({"success": False, "error": "token revoked"}, 400),
    "unauthorized": reply_json({"success": False, "error": "Unauthorized"}, 401),
}
TROUBLES = {
    "server error": reply_json({"error": "boom"}, 500),
    "bad request about something else": reply_json({"error": "boom"}, 400),
    "no token": reply_json({"success": True, "data": {}}),
    "no success": reply_json({"success": False, "data": {"accessToken": "x"}}),
    "no object": reply_json([1]),
    "no json": [Head(headers=[("content-length", "1")]), b"x"],
    "reset": [End.RESET],
}


@pytest.mark.parametrize("reply", REFUSALS.values(), ids=REFUSALS)
async def test_a_dead_login_takes_its_key_out(served, tmp_path, reply):
    """A refused refresh becomes a 401 of that key, without a request for the model, and the key is retired."""
    upstream, make = served
    upstream.play(lambda _: reply)
    save(tmp_path / "a.json", Grant("old", "r1", NOW + 100))
    cline = make(credentials={"me": str(tmp_path / "a.json")})
    answer = await cline.open(call(), "me")
    body = await answer.read(1000)
    assert [body] == [chunk async for chunk in answer.chunks()]
    answer.abort()
    await answer.release()
    verdict = await cline.judge(answer.status, answer.headers, body, call(), "me")
    assert (True, False, 401) == (verdict.rejected, verdict.renew, verdict.fault.status)
    assert "log in again" in verdict.fault.message
    assert {"/api/v1/auth/refresh"} == {request.path for request in upstream.requests}


@pytest.mark.parametrize("reply", TROUBLES.values(), ids=TROUBLES)
async def test_trouble_with_the_refresh_is_not_the_keys_fault(served, tmp_path, reply):
    """When the service cannot be asked, the request fails and the key stays."""
    upstream, make = served
    upstream.play(lambda _: reply)
    save(tmp_path / "a.json", Grant("old", "r1", NOW + 10))
    cline = make(credentials={"me": str(tmp_path / "a.json")})
    with pytest.raises(Unreachable) as caught:
        await cline.open(call(), "me")
    assert ("overloaded", 503) == (caught.value.fault.kind, caught.value.fault.status)


async def test_a_refused_account_token_is_renewed_once(served, tmp_path):
    """The first 401 of a request renews and tries again, the second retires the key; an API key has one chance."""
    upstream, make = served
    upstream.play(refreshed())
    save(tmp_path / "a.json", Grant("old", "r1", NOW + 3600))
    cline = make(credentials={"me": str(tmp_path / "a.json")})
    verdicts = [await cline.judge(401, {}, b"{}", call(), "me") for _ in range(2)]
    assert [(True, False), (False, True)] == [(verdict.renew, verdict.rejected) for verdict in verdicts]
    plain = await cline.judge(401, {}, b"{}", call(), "main")
    assert (False, True) == (plain.renew, plain.rejected)


@pytest.mark.parametrize(("reply", "rejected"), [(REFUSALS["code"], True), (TROUBLES["server error"], False)])
async def test_a_refused_token_that_cannot_be_renewed(served, tmp_path, reply, rejected):
    """A dead login retires the key; a service that cannot be asked leaves it for the next request."""
    upstream, make = served
    upstream.play(lambda _: reply)
    save(tmp_path / "a.json", Grant("old", "r1", NOW + 3600))
    verdict = await make(credentials={"me": str(tmp_path / "a.json")}).judge(401, {}, b"{}", call(), "me")
    assert (False, rejected) == (verdict.renew, verdict.rejected)


async def test_a_renewal_belongs_to_the_token_not_to_the_request(served, tmp_path):
    """A client that repeats its request id has each of its tokens renewed; a late 401 about an old token costs none."""
    upstream, make = served
    renewals = iter(range(1, 9))
    upstream.play(
        lambda request: (
            reply_json({"success": True, "data": {"accessToken": f"t{next(renewals)}"}})
            if request.path.endswith("/refresh")
            else reply_json({})
        )
    )
    save(tmp_path / "a.json", Grant("old", "r1", NOW + 3600))
    cline = make(credentials={"me": str(tmp_path / "a.json")})
    clock = NOW
    account = cline._accounts["me"]
    account._clock = lambda: clock
    replies = [await cline.open(call(), "me") for _ in range(2)]
    found = [await cline.judge(401, reply.headers, b"{}", call(), "me") for reply in replies]
    assert ([True, True], 2) == ([verdict.renew for verdict in found], account.generation)
    clock += 3600
    late = await cline.judge(401, {"x-dragoman-generation": "2"}, b"{}", call(), "me")
    assert (True, False, 3) == (late.renew, late.rejected, account.generation)
    assert ["old", "t1", "t2", "r1"] == [secret.reveal() for secret in cline.secrets()]


INSUFFICIENT = {
    "success": False,
    "error": json.dumps(
        {"code": "insufficient_credits", "current_balance": -0.14, "message": "Not enough credits available"}
    ),
}
SOON = (datetime.now(UTC) + timedelta(days=5)).isoformat()
SPENT = {"error": {"code": "SPEND_LIMIT_EXCEEDED", "resets_at": SOON, "message": "spent"}}
DAILY = {"error": {"message": "Error 429: Daily free limit reached on model z-ai/glm. Try again in 2h 30m"}}
WEEKLY = {
    "error": {"message": "You have reached your weekly Clinepass limit. The limit resets in 7d, please try again"}
}
PLAN = {"error": {"message": "not subscribed to required model plan"}}
ERRORS = {
    "no credit": (402, INSUFFICIENT, "billing", 402, False, None, "Not enough credits available"),
    "spend limit": (429, SPENT, "rate_limited", 429, True, 86_400.0, "spent"),
    "daily quota": (429, DAILY, "rate_limited", 429, True, 9000.0, "Daily free limit"),
    "weekly plan": (429, WEEKLY, "rate_limited", 429, True, 86_400.0, "weekly"),
    "wrong plan": (403, PLAN, "permission", 403, False, None, "not subscribed"),
    "retired model": (404, {"error": {"message": "model not found"}}, "not_found", 404, False, None, "model not found"),
    "wrapped": (502, {"status": 502, "error": {"status": 429}}, "rate_limited", 429, True, None, ""),
}


@pytest.mark.parametrize(("status", "body", "kind", "shown", "limited", "wait_s", "words"), ERRORS.values(), ids=ERRORS)
async def test_errors_are_read(status, body, kind, shown, limited, wait_s, words):
    """Each shape of the service's errors keeps its status, its words, and moves a key only for a limit (section 1.8)."""
    verdict = await provider("http://127.0.0.1:9").judge(status, {}, json.dumps(body).encode(), call(), "main")
    assert (kind, shown, limited, wait_s) == (verdict.fault.kind, verdict.fault.status, verdict.limited, verdict.wait_s)
    assert words in verdict.fault.message
    assert not verdict.rejected


async def test_a_limit_names_its_model():
    """A free quota is one model's, so only that rests."""
    verdict = await provider("http://127.0.0.1:9").judge(429, {}, json.dumps(DAILY).encode(), call(), "main")
    assert "z-ai/glm" == verdict.limited_model


async def test_models_are_recommended(served):
    """The list is fetched without a key; no list is no error."""
    upstream, make = served
    upstream.play([reply_json({"free": [{"id": "f"}], "recommended": [{"id": "r"}]})])
    assert ("r", "f") == await make().models()
    assert "/api/v1/ai/cline/recommended-models" == upstream.requests[0].path
    assert None is upstream.requests[0].header("authorization")
    assert () == await make().models()
    lost = provider(f"http://127.0.0.1:{closed_port()}")
    assert () == await lost.models()
    await lost.close()


def test_traits_of_the_service():
    """Family traits come from the model's own name, whatever plan or variant it is asked under."""
    cline = provider("http://127.0.0.1:9")
    for model in ("z-ai/glm-5.3-flash", "cline-pass/glm-5.3", "cline-free/glm-5.3:free"):
        traits = cline.traits(model)
        assert (16_384, "high", True, True) == (
            traits.max_output_cap,
            traits.default_effort,
            traits.always_stream,
            traits.prompt_cache_key,
        )
    assert cline.origin("z-ai/glm:free") == cline.origin("z-ai/glm") != cline.origin("z-ai/glm2")
    assert "max_completion_tokens" == cline.traits("openai/gpt-5.1").max_tokens_field
    marks = {model: cline.traits(model).cache_marks for model in ("anthropic/claude-x", "minimax/m", "z-ai/glm-5")}
    assert [True, True, False] == list(marks.values())
    asked = Conversation("chat", "m")
    assert asked is cline.amend(asked, Target("m", traits))


def test_plugin():
    """The plugin has the service's address and needs credentials."""
    made = plugin.build(Setup("c", plugin.base_url, "chat", {"k": Secret("x")}, new_session))
    assert (BASE_URL, ("chat",), True, False) == (plugin.base_url, plugin.dialects, plugin.needs_keys, made.native)
