"""The grok-cli provider: its headers, planes and credentials, and what it makes of errors."""

import asyncio
import json
import re

import msgspec
import pytest

from providers.api import Call, Card, Setup, Unreachable
from providers.grok import API_URL, SESSION_URL, GrokCLI, Options, plugin
from providers.secret import Secret
from providers.transport import new_session
from tests.grok import Issuer, Proxy, auth_file, login
from tests.streams import Say, Turn, frame
from tests.upstream import Upstream, closed_port, reply_json, sse
from translators.conversation import Conversation, Opaque, Reasoning, State, Text
from translators.conversation import Turn as Said
from translators.dialect import Target
from translators.traits import EFFORTS

BODY = {"model": "grok-4.5", "input": [{"type": "message", "role": "user", "content": "hi"}], "stream": True}
UUID = "01a3b2c4-0000-7000-8000-00000000000a"
HI = Proxy([Turn([Say("Hi.")])])


@pytest.fixture
async def made():
    """Make providers that are closed at the end."""
    providers = []

    def make(url, *, keys=("k",), files=None, **options) -> GrokCLI:
        setup = Setup(
            "grok",
            url,
            "responses",
            {name: Secret(f"xai-{name}") for name in keys},
            new_session,
            headers={"x-extra": "1"},
            credentials=files or {},
            options=Options(**options),
        )
        provider = plugin.build(setup)
        assert isinstance(provider, GrokCLI)
        providers.append(provider)
        return provider

    yield make
    for provider in providers:
        await provider.close()


def call(session="", **more) -> Call:
    return Call(json.dumps(BODY | more).encode(), True, "grok-4.5", "responses", session=session)


async def sent(provider, upstream, request, key="k"):
    """The upstream's view of one request, whose reply is read to the end."""
    reply = await provider.open(request, key)
    _ = [chunk async for chunk in reply.chunks()]
    await reply.release()
    return [one for one in upstream.requests if one.method == "POST"][-1]


async def test_headers(made):
    """The set of spec/grok.md 3.2 goes out, and nothing of a Grok client's own headers."""
    async with Upstream(HI) as upstream:
        provider = made(upstream.url + "/v1", client_version="9.9.9")
        noisy = msgspec.structs.replace(call(), client_headers={"x-grok-turn-idx": "1", "x-grok-doom-loop-check": "9"})
        found = await sent(provider, upstream, noisy)
    ours = {name.lower(): value for name, value in found.headers}
    assert {
        "authorization": "Bearer xai-k",
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "user-agent": "grok-shell/9.9.9 (linux; x86_64)",
        "x-grok-client-version": "9.9.9",
        "x-grok-client-identifier": "grok-shell",
        "x-grok-model-override": "grok-4.5",
        "x-extra": "1",
    } == {name: value for name, value in ours.items() if name not in ("host", "content-length")}


async def test_conversation_headers(made):
    """A UUID is the key as it is, any other becomes one under the tenant's fingerprint, none stays none."""
    async with Upstream(HI) as upstream:
        provider = made(upstream.url + "/v1")

        async def key(session="", **more):
            found = await sent(provider, upstream, call(session, **more))
            assert found.header("x-grok-conv-id") == found.header("x-grok-session-id")
            assert found.json.get("prompt_cache_key") == found.header("x-grok-conv-id")
            return found.header("x-grok-conv-id")

        assert UUID == await key("a" * 64, prompt_cache_key=UUID)
        first, again, other = await key("a" * 64, prompt_cache_key="t"), await key("a" * 64), await key("b" * 64)
        assert first == again != other
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", first)
        assert await key() is None
        assert await key("a" * 64, prompt_cache_key="") is None


async def test_planes(made, tmp_path):
    """Session tokens go to the proxy with its two headers; keys, also those in files, to the API without them."""
    session = auth_file(tmp_path / "s.json", login("http://127.0.0.1:9"))
    api = auth_file(tmp_path / "a.json", {"xai::api_key": {"key": "xai-1", "auth_mode": "api_key"}})
    provider = made(SESSION_URL, files={"s": str(session), "a": str(api)})
    assert ("s", "a", "k") == provider.key_names
    wanted = [SESSION_URL, API_URL, API_URL]
    assert wanted == [str(provider._url(name, "")) for name in provider.key_names]
    async with Upstream(HI) as upstream:
        provider = made(upstream.url + "/v1", files={"s": str(session), "a": str(api)}, keys=())
        found = await sent(provider, upstream, call(), "s")
        assert "xai-grok-cli" == found.header("x-xai-token-auth")
        assert "authenticate-response" == found.header("x-authenticateresponse")
        assert (await sent(provider, upstream, call(), "a")).header("x-xai-token-auth") is None


async def test_own_login_is_used_without_a_file(made, tmp_path, monkeypatch):
    """A credential without a file is the one that our own login keeps."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    provider = made(SESSION_URL, files={"me": ""}, keys=())
    assert tmp_path / "dragoman" / "grok" / "me.json" == provider._logins["me"].path


async def test_unusable_login_is_a_401(made, tmp_path):
    """Without a login nothing is sent; the reply says what is wrong, and judgement takes the login out."""
    provider = made("http://127.0.0.1:9/v1", files={"me": str(tmp_path / "none.json")}, keys=())
    reply = await provider.open(call(), "me")
    body = await reply.read(1000)
    assert (401, [body]) == (reply.status, [chunk async for chunk in reply.chunks()])
    reply.abort()
    await reply.release()
    verdict = await provider.judge(401, reply.headers, body, call(), "me")
    assert (True, 401) == (verdict.rejected, verdict.fault.status)
    assert "none.json" not in verdict.fault.message
    assert () == provider.readmitted()


@pytest.mark.slow
async def test_failing_issuer_is_no_fault_of_the_login(made, tmp_path):
    """A token that cannot be had now is a 503, and the login stays."""
    url = f"http://127.0.0.1:{closed_port()}"
    file = auth_file(tmp_path / "a.json", login(url, expires="2026-01-01T00:00:00Z"))
    provider = made("http://127.0.0.1:9/v1", files={"me": str(file)}, keys=())
    with pytest.raises(Unreachable) as gone:
        await provider.open(call(), "me")
    assert 503 == gone.value.fault.status


@pytest.mark.slow
async def test_refused_token(made, tmp_path):
    """A refused token is renewed once; refused again at once, the login is out until its file changes."""
    async with Upstream(Issuer()) as source:
        file = auth_file(tmp_path / "a.json", login(source.url))
        provider = made("http://127.0.0.1:9/v1", files={"me": str(file)})
        await provider._logins["me"].token()
        headers = {"x-dragoman-generation": "1"}
        first = await provider.judge(401, headers, b"{}", call(), "me")
        late = await provider.judge(401, headers, b"{}", call(), "me")
        assert (True, True) == (first.renew, late.renew)
        second = await provider.judge(401, {"x-dragoman-generation": "2"}, b"{}", call(), "me")
        assert (False, True) == (second.renew, second.rejected)
        assert (await provider.judge(401, {}, b"{}", call(), "k")).rejected
        auth_file(file, login(source.url, token="NEW"))
        async with asyncio.timeout(5):
            while provider.readmitted() != ("me",):
                await asyncio.sleep(0.05)


async def test_refused_token_of_an_ended_login(made, tmp_path):
    """A refresh that the issuer declines for good takes the login out."""
    async with Upstream(Issuer([reply_json({"error": "invalid_grant"}, 400)])) as source:
        file = auth_file(tmp_path / "a.json", login(source.url))
        provider = made("http://127.0.0.1:9/v1", files={"me": str(file)})
        await provider._logins["me"].token()
        verdict = await provider.judge(401, {"x-dragoman-generation": "1"}, b"{}", call(), "me")
    assert (True, False, 401) == (verdict.rejected, verdict.renew, verdict.fault.status)


async def test_refused_token_without_a_generation(made, tmp_path):
    """An error inside a stream has no headers; the newest token is then meant."""
    async with Upstream(Issuer()) as source:
        file = auth_file(tmp_path / "a.json", login(source.url))
        provider = made("http://127.0.0.1:9/v1", files={"me": str(file)})
        await provider._logins["me"].token()
        body = b'{"error":{"code":"unauthorized"}}'
        assert (await provider.judge(200, {}, body, call(), "me")).renew


async def test_state_that_cannot_be_decrypted(made):
    """The request is mended in two steps, then there is nothing left to mend."""
    provider = made("http://127.0.0.1:9/v1")
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 40}
    request = call("a" * 64, input=[*BODY["input"], item])
    body = b'{"error":"Could not decrypt the provided encrypted_content"}'
    for wanted in (b"prompt_cache_key", b'"prompt_cache_key":""'):
        verdict = await provider.judge(400, {}, body, request, "k")
        assert verdict.amended is not None
        assert wanted in verdict.amended
        assert b"xxxx" not in verdict.amended
        request = msgspec.structs.replace(request, body=verdict.amended)
    assert (await provider.judge(400, {}, body, request, "k")).amended is None


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("status", "body", "limited", "wait", "model", "rejected"),
    [
        (429, {"error": {"message": "slow down"}}, True, 60, None, False),
        (402, {}, True, 86_400, None, False),
        (429, {"code": "subscription:free-usage-exhausted"}, True, 86_400, "grok-4.5", False),
        (403, {"code": "permission-denied", "error": "x"}, False, None, None, True),
        (403, {"error": "Content violates usage guidelines"}, False, None, None, False),
        (500, {}, False, None, None, False),
        (404, {"error": {"code": "model-not-found"}}, False, None, None, False),
    ],
)
async def test_verdict(made, status, body, limited, wait, model, rejected):
    """Limits rest the credential, or one model on it; a missing right ends it; the rest passes."""
    provider = made("http://127.0.0.1:9/v1")
    found = await provider.judge(status, {}, json.dumps(body).encode(), call(), "k")
    assert (limited, wait, model, rejected) == (found.limited, found.wait_s, found.limited_model, found.rejected)


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("status", "headers", "body", "again", "limited"),
    [
        (503, {}, {}, True, False),
        (500, {}, {}, True, False),
        (520, {"x-should-retry": "true"}, {}, True, False),
        (503, {"x-should-retry": "false"}, {}, False, False),
        (400, {}, {}, False, False),
        (502, {}, {"error": {"status": 429, "message": "rate limit"}}, False, True),
        (429, {}, {}, False, True),
    ],
)
async def test_passing_errors_may_be_tried_again(made, status, headers, body, again, limited):
    """5xx may, unless the upstream says not to or a limit is wrapped in them; that is the gateway's to do and count."""
    async with Upstream([reply_json(body, status)]) as upstream:
        provider = made(upstream.url + "/v1")
        assert status == (await provider.open(call(), "k")).status
        assert 1 == len(upstream.requests)
    verdict = await provider.judge(status, headers, json.dumps(body).encode(), call(), "k")
    assert (again, limited) == (verdict.again_s is not None, verdict.limited)


@pytest.mark.slow
async def test_denied_login_returns_with_a_new_file(made, tmp_path):
    """An account that may not chat is out of use until its file changes; a request with an older token has a new try."""
    denied = b'{"code":"permission-denied","error":"Access to the chat endpoint is denied."}'
    file = auth_file(tmp_path / "a.json", login("http://127.0.0.1:9"))
    provider = made("http://127.0.0.1:9/v1", files={"me": str(file)})
    await provider._logins["me"].token()
    verdict = await provider.judge(403, {"x-dragoman-generation": "1"}, denied, call(), "me")
    assert (True, False) == (verdict.rejected, verdict.renew)
    assert () == provider.readmitted()
    assert 401 == (await provider.open(call(), "me")).status
    auth_file(file, login("http://127.0.0.1:9", token="NEW"))
    async with asyncio.timeout(5):
        while provider.readmitted() != ("me",):
            await asyncio.sleep(0.05)
    late = await provider.judge(403, {"x-dragoman-generation": "1"}, denied, call(), "me")
    assert (False, True) == (late.rejected, late.renew)
    assert not provider._logins["me"].disabled
    assert {"FAKE.ACCESS.0", "FAKE-REFRESH-0", "NEW"} == {secret.reveal() for secret in provider.secrets()}


async def test_catalogue(made, tmp_path):
    """A new ETag in a reply leads to one look at the list; its efforts count from then on."""
    listed = {"data": [{"id": "grok-4.5", "reasoningEfforts": ["xhigh"]}]}
    hi = Proxy([Turn([Say("Hi.")])])

    def script(request):
        if request.method == "GET":
            return reply_json(listed, headers=[("etag", "v2")])
        head, *rest = hi(request)
        head = type(head)(head.status, [*head.headers, ("x-models-etag", "v2")])
        return [head, *rest]

    async with Upstream(script) as upstream:
        provider = made(upstream.url + "/v1")
        first = await sent(provider, upstream, call(reasoning={"effort": "max"}))
        assert "high" == first.json["reasoning"]["effort"]
        await upstream.received(2)
        if provider._asking is not None:
            await provider._asking
        last = await sent(provider, upstream, call(reasoning={"effort": "max"}))
        assert "xhigh" == last.json["reasoning"]["effort"]
        looked = upstream.requests[1]
        assert ("/v1/models", None) == (looked.path, looked.header("x-grok-model-override"))
        assert 3 == len(upstream.requests)


async def test_model_list_for_clients(made):
    """The upstream's own names and limits, asked for once; what is known beforehand while it has no list."""
    listed = {"data": [{"id": "grok-9", "contextWindow": 7, "reasoningEfforts": ["max"]}]}
    async with Upstream([reply_json(listed)]) as upstream:
        provider = made(upstream.url + "/v1")
        assert [("grok-9",)] * 2 == [await provider.models() for _ in range(2)]
        assert (Card(7, ("max",)), 1) == (provider.card("grok-9"), len(upstream.requests))
    provider = made("http://127.0.0.1:9/v1")
    assert "grok-4.6" in await provider.models()
    assert Card(500_000, ("low", "medium", "high", "xhigh")) == provider.card("grok-4.6")


async def test_catalogue_of_an_unknown_model(made, tmp_path):
    """A model that the upstream does not find asks for the list too, with the credential's own headers."""
    missing = b'{"error":{"code":"model-not-found"}}'
    async with Upstream([reply_json({}, 304)] * 3) as upstream:
        file = auth_file(tmp_path / "a.json", login("http://127.0.0.1:9"))
        provider = made(upstream.url + "/v1", files={"me": str(file)})
        provider._catalog.etag = "v1"
        await provider.judge(404, {}, missing, call(), "me")
        await provider._asking
        assert ("Bearer FAKE.ACCESS.0", "v1") == (
            upstream.requests[0].header("authorization"),
            upstream.requests[0].header("if-none-match"),
        )
    for key, files in (("me", {"me": str(tmp_path / "none")}), ("k", {})):
        provider = made("http://127.0.0.1:9/v1", files=files)
        await provider.judge(404, {}, missing, call(), key)
        await provider._asking
        assert "" == provider._catalog.etag


async def test_close_ends_what_runs(made):
    """A look at the list that still runs ends with the provider."""
    provider = made("http://127.0.0.1:9/v1")
    await provider.judge(404, {}, b'{"error":{"code":"model-not-found"}}', call(), "k")
    running = provider._asking
    await provider.close()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(
    ("keys", "policy", "state"),
    [(("a",), "auto", True), (("a", "b"), "auto", False), (("a", "b"), "bind", True), (("a",), "strip", False)],
)
def test_traits(keys, policy, state):
    """State passes by policy; custom tools and namespaces are the translators' to change."""
    secrets = {name: Secret(name) for name in keys}
    setup = Setup("g", SESSION_URL, "responses", secrets, new_session, options=Options(encrypted_reasoning=policy))
    found = GrokCLI(setup).traits("grok-4.5")
    assert (EFFORTS, False, False, state, 128) == (
        found.efforts,
        found.namespaces,
        found.free_text_tools,
        found.opaque_state,
        found.tool_name_limit,
    )


async def test_bound_state_returns_to_its_credential(made):
    """With `bind`, encrypted reasoning goes back only over the credential that it came through."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 40}
    event = {"type": "response.output_item.done", "item": item}
    reply = sse([frame(event)])
    async with Upstream([reply] * 4) as upstream:
        provider = made(upstream.url + "/v1", keys=("a", "b"), encrypted_reasoning="bind")
        request = call(input=[*BODY["input"], item])
        kinds = []
        for key in ("a", "a", "b"):
            found = await sent(provider, upstream, request, key)
            kinds.append([one["type"] for one in found.json["input"]])
        assert [["message"], ["message", "reasoning"], ["message"]] == kinds


def test_readable_reasoning_of_responses_clients():
    """A summary goes on as an item of its own, state by policy; other clients' requests are not touched."""
    setup = Setup("g", SESSION_URL, "responses", {"a": Secret("a")}, new_session)
    strip = GrokCLI(msgspec.structs.replace(setup, options=Options(encrypted_reasoning="strip")))
    passing = GrokCLI(setup)
    target = Target("grok-4.5", strip.traits("grok-4.5"))
    plain, sealed, bare = Reasoning("thought"), Reasoning("deep", State("gw1.x")), Reasoning("", State("gw1.x"))
    turns = (Said("user", (Text("hi"),)), Said("assistant", (plain, sealed, bare)))
    request = Conversation("responses", "m", turns=turns)
    kept = strip.amend(request, target).turns[1].parts
    assert [Opaque, Opaque] == [type(part) for part in kept]
    item = json.loads(kept[0].raw)
    assert ({"type", "id", "summary"}, "thought") == (set(item), item["summary"][0]["text"])
    assert [Opaque, Reasoning, Reasoning] == [type(part) for part in passing.amend(request, target).turns[1].parts]
    for same in (msgspec.structs.replace(request, dialect="chat"), msgspec.structs.replace(request, turns=turns[:1])):
        assert same is strip.amend(same, target)
    assert strip.origin("grok-4.5") == strip.origin("grok-4.6") != ""
