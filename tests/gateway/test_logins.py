"""Logins as upstream credentials, seen from a client: what they tell, how they end and how they come back."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.test_grok_flow import ASK, CLIENTS, MODELS, TABLES, body
from tests.gateways import gateway
from tests.grok import Issuer, Proxy, auth_file, login
from tests.streams import Say, Turn, frame, responses, responses_whole
from tests.upstream import Upstream, reply_json, sse

LOGIN = '[providers.up]\nplugin = "grok-cli"\nbase_url = "{}/v1"\ncredentials = [{{ name = "me", file = "{}" }}]'
OPAQUE = "opaqueTOKENvalue1234567890"
TWO_KEYS = 'keys = [{ name = "k1", value = "key-1" }, { name = "k2", value = "key-2" }]'
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "A" * 44}
WISH = {"include": ["reasoning.encrypted_content"]}


def two_keys(url: str) -> str:
    return TABLES["grok"].format(url=url).replace('keys = [{ name = "k", value = "up-key" }]', TWO_KEYS)


@pytest.mark.promise("S01", "S02")
@pytest.mark.parametrize("late", [False, True])
async def test_an_upstream_that_quotes_tokens_tells_none(tmp_path: Path, late: bool):
    """The login's tokens are masked in errors, also before a stream's first event, and also those of a renewal."""

    def script(request):
        told = f"your token {request.header('authorization')[7:]} or {OPAQUE} or FAKE.ACCESS.1 or FAKE-REFRESH-1"
        if request.header("authorization") == f"Bearer {OPAQUE}":
            return reply_json({"error": {"message": told}}, 401)
        error = {"type": "error", "code": "server_error", "message": told}
        return sse([frame(error)]) if late else reply_json({"error": {"message": told}}, 400)

    async with Upstream(script) as upstream, Upstream(Issuer()) as source:
        file = auth_file(tmp_path / "auth.json", login(source.url, token=OPAQUE))
        async with gateway(tmp_path, LOGIN.format(upstream.url, file) + MODELS) as served:
            status, answer = await served.post("/v1/responses", body([ASK]))
            text = f"{answer}{served.out.getvalue()}"
    assert status >= 400
    assert "your token [redacted] or [redacted]" in text
    assert [] == [token for token in (OPAQUE, "FAKE.ACCESS", "FAKE-REFRESH") if token in text]


async def test_a_denied_login_serves_again_with_a_new_file(tmp_path: Path):
    """A login that the upstream denies is not asked again, until its file is another one."""

    def script(request):
        if request.header("authorization") == "Bearer NEW":
            return sse(responses(Turn([Say("ok")])))
        return reply_json({"code": "permission-denied", "error": "Access to the chat endpoint is denied."}, 403)

    async with Upstream(script) as upstream, Upstream(Issuer()) as source:
        file = auth_file(tmp_path / "auth.json", login(source.url))
        async with gateway(tmp_path, LOGIN.format(upstream.url, file) + MODELS) as served:
            found = [(await served.post("/v1/responses", body([ASK])))[0] for _ in range(2)]
            assert ([403, 403], 1) == (found, len([one for one in upstream.requests if one.method == "POST"]))
            auth_file(file, login(source.url, token="NEW"))
            async with asyncio.timeout(5):
                while (await served.post("/v1/responses", body([ASK])))[0] != 200:
                    await asyncio.sleep(0.05)


@pytest.mark.promise("S36")
async def test_a_wrapped_limit_is_asked_once(tmp_path: Path):
    """A 429 inside a 502 goes to the next key at once."""
    limited = reply_json({"error": {"status": 429, "message": "rate limit"}}, 502)
    proxy = Proxy([limited, Turn([Say("ok")])])
    async with Upstream(proxy) as upstream, gateway(tmp_path, two_keys(upstream.url) + MODELS) as served:
        assert 200 == (await served.post("/v1/responses", body([ASK])))[0]
        (record,) = await served.records()
    assert ["Bearer key-1", "Bearer key-2"] == [request.header("authorization") for request in proxy.requests]
    assert 2 == record["attempts"]


@pytest.mark.parametrize(("headers", "tries"), [([], 3), ([("x-should-retry", "false")], 1)])
async def test_passing_errors_are_tried_three_times_and_counted(tmp_path: Path, headers, tries):
    """5xx are repeated with the same key, each try is an attempt of the record, and the upstream may forbid it."""
    proxy = Proxy([reply_json({"error": {"message": "boom"}}, 500, headers=headers)])
    async with Upstream(proxy) as upstream, gateway(tmp_path, two_keys(upstream.url) + MODELS) as served:
        assert 500 == (await served.post("/v1/responses", body([ASK])))[0]
        (record,) = await served.records()
    assert ["Bearer key-1"] * tries == [request.header("authorization") for request in proxy.requests]
    assert tries == record["attempts"]


def sealed(stream: bool):
    whole = responses_whole(Turn([Say("ok")]))
    whole["output"].insert(0, SEALED)
    if not stream:
        return reply_json(whole)
    events = [{"type": "response.created", "response": whole | {"output": [], "status": "in_progress"}}]
    events += [
        {"type": f"response.output_item.{kind}", "output_index": index, "item": item}
        for index, item in enumerate(whole["output"])
        for kind in ("added", "done")
    ]
    events.append({"type": "response.completed", "response": whole})
    return sse([frame(event | {"sequence_number": number}) for number, event in enumerate(events)])


@pytest.mark.promise("S31")
@pytest.mark.parametrize("stream", [True, False])
async def test_bound_reasoning_is_its_tenants_own(tmp_path: Path, stream: bool):
    """With `bind` encrypted reasoning goes back for who got it, streamed or whole, and for no other tenant."""
    bodies = []

    def script(request):
        if request.method == "GET":
            return reply_json({"data": []})
        bodies.append(request.json)
        return sealed(stream)

    async with Upstream(script) as upstream:
        table = TABLES["grok"].format(url=upstream.url).replace("keys = [{", 'encrypted_reasoning = "bind"\nkeys = [{')
        async with gateway(tmp_path, table + MODELS + CLIENTS) as served:

            async def ask(items, client):
                headers = {"authorization": f"Bearer key-of-{client}"}
                return (await served.post("/v1/responses", body(items, stream=stream, **WISH), **headers))[1]

            answer = await ask([ASK], "a")
            output = (answer[-1]["response"] if stream else answer)["output"]
            for client in "ab":
                await ask([ASK, *output, ASK], client)
    found = [["encrypted_content" in item for item in sent["input"]].count(True) for sent in bodies]
    assert [0, 1, 0] == found
