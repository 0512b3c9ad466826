"""Clients over the Grok CLI's upstream, and clients that refer to the past over every upstream without state."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateways import Served, gateway
from tests.grok import Issuer, Proxy, auth_file, kinds, login, pick
from tests.streams import STREAM, Call, Say, Think, Turn
from tests.upstream import Request, Upstream, reply_json, sse

CALL = Call("lookup", '{"q":"weather"}', "call_1")
TOOL = {"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
ASK = {"type": "message", "role": "user", "content": "How is the weather?"}

TABLES = {
    "grok": '[providers.up]\nplugin = "grok-cli"\nbase_url = "{url}/v1"\nkeys = [{{ name = "k", value = "up-key" }}]',
    "chat": '[providers.up]\nplugin = "openai"\nbase_url = "{url}/v1"\ndialect = "chat"\n'
    'keys = [{{ name = "k", value = "up-key" }}]',
    "messages": '[providers.up]\nplugin = "anthropic"\nbase_url = "{url}"\nkeys = [{{ name = "k", value = "up-key" }}]',
}
MODELS = '\n[models."*"]\nprovider = "up"\n'
CLIENTS = '\n[[clients]]\nname = "a"\nkey = "key-of-a"\n[[clients]]\nname = "b"\nkey = "key-of-b"\n'


class Plain:
    """An upstream of a plain dialect that plays turns."""

    def __init__(self, dialect: str, turns: list[Turn]) -> None:
        self.dialect, self.turns = dialect, turns
        self.requests: list[Request] = []
        self.problem = ""

    def __call__(self, request: Request):
        self.requests.append(request)
        turn = self.turns[min(len(self.requests), len(self.turns)) - 1]
        return sse(STREAM[self.dialect](turn))

    @property
    def bodies(self):
        return [request.json for request in self.requests]


def script(kind: str, turns: list[Turn]):
    return Proxy(turns) if kind == "grok" else Plain(kind, turns)


def body(items, **more):
    return {"model": "grok-4.5", "input": items, "tools": [TOOL], "stream": True, **more}


def done(events) -> dict:
    return next(event["response"] for event in events if event["type"] == "response.completed")


async def ask(served: Served, request, **headers):
    status, answer = await served.post("/v1/responses", request, **headers)
    assert 200 == status, answer
    return done(answer)


def called_and_answered(sent: dict) -> bool:
    """Whether an upstream request of any dialect holds the call and its output."""
    text = json.dumps(sent)
    return "lookup" in text and "weather" in text and "sunny" in text and text.count("call_1") == 2


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("style", ["reference", "previous", "both"])
async def test_two_turns_by_reference(tmp_path: Path, kind, style):
    """A client that sends back only references and outputs gets its answer, and is not asked for the tool again."""
    model = script(kind, [Turn([CALL]), Turn([Say("It is sunny.")], tag="2")])
    async with Upstream(model) as upstream, gateway(tmp_path, TABLES[kind].format(url=upstream.url) + MODELS) as served:
        first = await ask(served, body([ASK]))
        (item,) = first["output"]
        reference = [ASK, {"type": "item_reference", "id": item["id"]}]
        items = [*(reference if style != "previous" else []), OUTPUT]
        more = {"previous_response_id": first["id"]} if style != "reference" else {}
        second = await ask(served, body(items, **more))
    assert "" == model.problem
    assert "It is sunny." == second["output"][0]["content"][0]["text"]
    assert 2 == len(model.requests)
    assert called_and_answered(model.bodies[1])
    assert more.get("previous_response_id") == second["previous_response_id"]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("style", ["alma", "ai-sdk"])
async def test_clients_with_a_history_of_their_own(tmp_path: Path, kind, style):
    """One sends texts and references to calls, the other references to all; both with the id of the last answer."""
    model = script(
        kind, [Turn([Say("I look."), CALL]), Turn([Say("It is sunny.")], tag="2"), Turn([Say("Yes.")], tag="3")]
    )
    async with Upstream(model) as upstream, gateway(tmp_path, TABLES[kind].format(url=upstream.url) + MODELS) as served:
        first = await ask(served, body([ASK]))
        said, called = first["output"]
        reference = [{"type": "item_reference", "id": item["id"]} for item in (said, called)]
        history = [ASK, said, reference[1], OUTPUT] if style == "alma" else [ASK, *reference, OUTPUT]
        second = await ask(served, body(history, previous_response_id=first["id"]))
        more = {"type": "message", "role": "user", "content": "Sure?"}
        third = await ask(served, body([*history, second["output"][0], more], previous_response_id=second["id"]))
    assert "" == model.problem
    assert ["It is sunny.", "Yes."] == [answer["output"][0]["content"][0]["text"] for answer in (second, third)]
    assert all(called_and_answered(sent) for sent in model.bodies[1:])
    assert (style == "alma") == ("I look." in json.dumps(model.bodies[2]))


@pytest.mark.parametrize("kind", TABLES)
async def test_text_between_and_other_order(tmp_path: Path, kind):
    """Parallel calls come back before their outputs, in whatever order these are."""
    calls = [Call("lookup", '{"q":"a"}', "call_a"), Call("lookup", '{"q":"b"}', "call_b")]
    model = script(kind, [Turn(calls), Turn([Say("Fine.")], tag="2")])
    outputs = [{"type": "function_call_output", "call_id": name, "output": name} for name in ("call_b", "call_a")]
    async with Upstream(model) as upstream, gateway(tmp_path, TABLES[kind].format(url=upstream.url) + MODELS) as served:
        first = await ask(served, body([ASK]))
        again = [*outputs, {"type": "message", "role": "user", "content": "And?"}]
        await ask(served, body(again, previous_response_id=first["id"]))
    assert "" == model.problem
    if kind == "grok":
        wire = ["function_call", "function_call", "function_call_output", "function_call_output", "user"]
        assert wire == kinds(model.bodies[1])
        assert ["call_a", "call_b"] == [item["call_id"] for item in pick(model.bodies[1]["input"], "function_call")]


@pytest.mark.promise("S30")
@pytest.mark.parametrize("kind", TABLES)
async def test_tenants_are_apart(tmp_path: Path, kind):
    """What one client was told is unknown when another names it, even by the same ids."""
    model = script(kind, [Turn([CALL]), Turn([Say("x")], tag="2")])
    text = TABLES[kind].format(url="{url}") + MODELS + CLIENTS
    async with Upstream(model) as upstream, gateway(tmp_path, text.replace("{url}", upstream.url)) as served:
        first = await ask(served, body([ASK]), authorization="Bearer key-of-a")
        request = body([OUTPUT], previous_response_id=first["id"])
        status, answer = await served.post("/v1/responses", request, authorization="Bearer key-of-b")
        assert (400, "previous_response_not_found") == (status, answer["error"]["code"])
        await ask(served, request, authorization="Bearer key-of-a")
    assert 2 == len(model.requests)


async def test_prompt_cache_key_rescues_an_unknown_response(tmp_path: Path):
    """A response id that is not known is no loss where the session's last tool turn is."""
    model = Proxy([Turn([CALL]), Turn([Say("Fine.")], tag="2")])
    async with Upstream(model) as upstream:
        async with gateway(tmp_path, TABLES["grok"].format(url=upstream.url) + MODELS) as served:
            await ask(served, body([ASK], prompt_cache_key="thread"))
            await ask(served, body([OUTPUT], prompt_cache_key="thread", previous_response_id="resp_other"))
    assert ["function_call", "function_call_output"] == kinds(model.bodies[1])


async def test_nothing_left_is_refused(tmp_path: Path):
    """Outputs alone, of calls that nobody knows, are a 400 with the code that clients of OpenAI know."""
    async with gateway(tmp_path, TABLES["grok"].format(url="http://127.0.0.1:9") + MODELS) as served:
        status, answer = await served.post("/v1/responses", body([OUTPUT], previous_response_id="resp_gone"))
    assert 400 == status
    assert ("previous_response_not_found", "previous_response_id") == (
        answer["error"]["code"],
        answer["error"]["param"],
    )


@pytest.mark.parametrize("kind", TABLES)
async def test_whole_conversations_where_configured(tmp_path: Path, kind):
    """With remember = "responses" an answer's id and new input are enough: nothing of the conversation is lost."""
    model = script(kind, [Turn([Say("Hello Ada.")]), Turn([CALL], tag="2"), Turn([Say("Sunny, Ada.")], tag="3")])
    text = TABLES[kind].format(url="{url}") + MODELS + '[state]\nurl = "memory:"\nremember = "responses"\n'
    async with Upstream(model) as upstream, gateway(tmp_path, text.replace("{url}", upstream.url)) as served:
        hello = {"type": "message", "role": "user", "content": "I am Ada."}
        first = await ask(served, body([hello], instructions="Be kind."))
        second = await ask(served, body([ASK], previous_response_id=first["id"], instructions="Be brief."))
        await ask(served, body([OUTPUT], previous_response_id=second["id"]))
    assert "" == model.problem
    last = json.dumps(model.bodies[2])
    for told in ("I am Ada.", "Hello Ada.", "How is the weather?", "lookup", "sunny"):
        assert told in last
    assert "Be kind." not in last
    assert "Be brief." in json.dumps(model.bodies[1])


async def test_empty_completed_output_is_filled(tmp_path: Path):
    """The client's completed response has what was streamed, and none of the upstream's private events."""
    model = Proxy([Turn([Think("Hm."), Say("Text."), CALL])])
    async with Upstream(model) as upstream:
        async with gateway(tmp_path, TABLES["grok"].format(url=upstream.url) + MODELS) as served:
            status, answer = await served.post("/v1/responses", body([ASK], reasoning={"summary": "auto"}))
    assert 200 == status
    assert ["reasoning", "message", "function_call"] == [item["type"] for item in done(answer)["output"]]
    assert list(range(len(answer))) == [event["sequence_number"] for event in answer]
    assert all(event["type"].startswith("response.") for event in answer)
    assert not [event for event in answer if "doom" in event["type"]]
    assert "grok-4.5" == done(answer)["model"]
    details = ("input_tokens_details", "output_tokens_details")
    assert all(name in done(answer)["usage"] for name in details)


async def test_refresh_happens_once_for_many(tmp_path: Path):
    """Twenty requests that are refused together lead to one refresh, and all succeed with the new token."""
    proxy, issuer = Proxy([Turn([Say("Hi.")])], accepts="FAKE.ACCESS.1"), Issuer()
    async with Upstream(proxy) as upstream, Upstream(issuer) as source:
        path = auth_file(tmp_path / "auth.json", login(source.url), {"xai::other": {"key": "keep", "auth_mode": "x"}})
        table = (
            '[providers.up]\nplugin = "grok-cli"\nbase_url = "{}/v1"\ncredentials = [{{ name = "me", file = "{}" }}]'
        )
        async with gateway(tmp_path, table.format(upstream.url, path) + MODELS) as served:
            asked = [ask(served, body([ASK])) for _ in range(20)]
            answers = await asyncio.gather(*asked)
    assert 20 == len(answers)
    assert [
        {
            "grant_type": "refresh_token",
            "refresh_token": "FAKE-REFRESH-0",
            "client_id": "test-client",
            "principal_type": "User",
            "principal_id": "user-1",
        }
    ] == issuer.forms
    stored = json.loads(path.read_text())
    entry = stored[f"{source.url}::test-client"]
    assert ("FAKE.ACCESS.1", "FAKE-REFRESH-1") == (entry["key"], entry["refresh_token"])
    assert {"key": "keep", "auth_mode": "x"} == stored["xai::other"]
    assert 0o600 == path.stat().st_mode & 0o777
    assert [path.name, "auth.json.lock", "config.toml"] == sorted(found.name for found in tmp_path.iterdir())


@pytest.mark.slow
async def test_declined_refresh_disables_until_the_file_changes(tmp_path: Path):
    """A login that the issuer ends for good is a 401; a new file brings it back without a restart."""
    proxy, issuer = Proxy([Turn([Say("Hi.")])], accepts="NEW"), Issuer([reply_json({"error": "invalid_grant"}, 400)])
    async with Upstream(proxy) as upstream, Upstream(issuer) as source:
        path = auth_file(tmp_path / "auth.json", login(source.url))
        table = (
            '[providers.up]\nplugin = "grok-cli"\nbase_url = "{}/v1"\ncredentials = [{{ name = "me", file = "{}" }}]'
        )
        async with gateway(tmp_path, table.format(upstream.url, path) + MODELS) as served:
            status, answer = await served.post("/v1/responses", body([ASK]))
            assert 401 == status, answer
            assert (await served.post("/v1/responses", body([ASK])))[0] >= 400
            assert 1 == len(issuer.forms)
            auth_file(path, login(source.url, token="NEW"))
            async with asyncio.timeout(5):
                while (await served.post("/v1/responses", body([ASK])))[0] != 200:
                    await asyncio.sleep(0.1)
    assert 1 == len(issuer.forms)


@pytest.mark.promise("S36")
async def test_free_quota_moves_one_model_to_another_account(tmp_path: Path):
    """A used-up free quota rests that model on that account; its other models go on."""
    free = {"code": "subscription:free-usage-exhausted", "error": "included free usage for model grok-4.5-build-free"}
    model = Proxy([reply_json(free, 429), Turn([Say("Hi.")])])
    async with Upstream(model) as upstream:
        text = (
            TABLES["grok"]
            .format(url=upstream.url)
            .replace(
                'keys = [{ name = "k", value = "up-key" }]',
                'keys = [{ name = "k1", value = "key-1" }, { name = "k2", value = "key-2" }]',
            )
        )
        async with gateway(tmp_path, text + MODELS) as served:
            await ask(served, body([ASK]))
            await ask(served, body([ASK]))
            await ask(served, body([ASK]) | {"model": "grok-4.6"})
    used = [request.header("authorization") for request in model.requests]
    assert ["Bearer key-1", "Bearer key-2", "Bearer key-2", "Bearer key-1"] == used


GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
CODEX = {
    "model": "m",
    "instructions": "Be kind.",
    "input": [
        {"type": "message", "id": "m1", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "late", "strict": False}]},
        ASK | {"id": "m2", "content": [{"type": "input_text", "text": "Go."}]},
        {"type": "reasoning", "id": "rs", "summary": [], "content": None, "encrypted_content": "gAAAAx"},
        {"type": "message", "role": "assistant", "id": "m3", "status": "completed", "phase": "commentary",
         "content": [{"type": "output_text", "text": "Look.", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "id": "fc", "status": "completed", "call_id": "c1", "namespace": "multi", "name": "spawn",
         "arguments": "{}"},
        {"type": "custom_tool_call", "id": "ctc", "status": "completed", "call_id": "c2", "name": "patch", "input": "x"},
        {"type": "function_call_output", "id": "o1", "call_id": "c1", "output": [{"text": "a"}, {"text": "b"}]},
        {"type": "custom_tool_call_output", "id": "o2", "call_id": "c2", "name": "patch", "output": "done"},
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "tool_search_call", "id": "ts", "call_id": "c3", "arguments": {}},
        {"type": "local_shell_call", "id": "ls", "call_id": "c4", "status": "completed", "action": {"command": ["ls"]}},
        {"type": "compaction_trigger"},
        ASK,
    ],
    "tools": [
        {"type": "custom", "name": "patch", "description": "Patches.", "format": GRAMMAR},
        {"type": "namespace", "name": "multi", "tools": [{"type": "function", "name": "spawn", "parameters": {"anyOf": []}}]},
        {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}},
        {"type": "web_search", "external_web_access": True},
        TOOL,
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "xhigh", "summary": "auto", "context": "all_turns"},
    "text": {"verbosity": "low"},
    "include": ["reasoning.encrypted_content"],
    "client_metadata": {"a": "b"},
    "service_tier": "auto",
    "store": False,
    "stream": True,
}  # fmt: skip
CLAUDE = {
    "model": "m",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}],
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "metadata": {"user_id": "u"},
    "stream": True,
    "stop_sequences": ["X"],
    "top_k": 3,
    "tools": [{"name": "lookup", "input_schema": {"type": "object"}}, {"type": "web_search_20250305", "name": "web_search"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Go."}, {"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "foreign"},
                                          {"type": "tool_use", "id": "t1", "name": "lookup", "input": {"q": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": [
            {"type": "text", "text": "a"}, {"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": "AAAA"}}]}]},
    ],
}  # fmt: skip
CHAT = {
    "model": "m",
    "stream": True,
    "presence_penalty": 1,
    "stop": ["X"],
    "user": "u",
    "reasoning_effort": "none",
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "lookup"}}],
    "tool_choice": {"type": "function", "function": {"name": "lookup"}},
    "messages": [
        {"role": "developer", "content": "Rules."},
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "model_id": "x",
         "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "request_body"),
    [("/v1/responses", CODEX), ("/v1/messages", CLAUDE), ("/v1/chat/completions", CHAT)],
    ids=["codex", "claude", "chat"],
)
@pytest.mark.parametrize("policy", ["strip", "pass"])
async def test_strict_upstream_takes_every_client(tmp_path: Path, path, request_body, policy):
    """Whatever the agents send, the upstream that fails on one odd item takes it."""
    model = Proxy([Turn([Say("Fine.")])])
    text = TABLES["grok"].format(url="{url}") + f'\nencrypted_reasoning = "{policy}"' + MODELS
    async with Upstream(model) as upstream, gateway(tmp_path, text.replace("{url}", upstream.url)) as served:
        status, answer = await served.post(path, request_body)
    assert (200, "") == (status, model.problem), answer


async def test_tools_of_codex_come_back_as_declared(tmp_path: Path):
    """A namespaced tool has its two names again, a custom tool its free text."""
    turn = Turn([Call("multi__spawn", "{}", "c8"), Call("patch", '{"input":"*** x"}', "c9")])
    model = Proxy([turn])
    async with Upstream(model) as upstream:
        async with gateway(tmp_path, TABLES["grok"].format(url=upstream.url) + MODELS) as served:
            spawn, patch = (await ask(served, CODEX))["output"]
            again = [{"type": "custom_tool_call_output", "call_id": "c9", "output": "ok"}]
            more = {"input": [{"type": "item_reference", "id": patch["id"]}, *again]}
            await ask(served, CODEX | more)
    assert ("function_call", "multi", "spawn") == (spawn["type"], spawn["namespace"], spawn["name"])
    assert ("custom_tool_call", "patch", "*** x") == (patch["type"], patch["name"], patch["input"])
    call, output = model.bodies[1]["input"][-2:]
    assert ("patch", '{"input":"*** x"}') == (call["name"], call["arguments"])
    assert {"type": "function_call_output", "call_id": "c9", "output": "ok"} == output


async def test_undecryptable_state_is_taken_out_step_by_step(tmp_path: Path):
    """First the encrypted reasoning goes, then the session key; then the client gets the 400."""
    wrong = reply_json({"error": {"message": "Could not decrypt the provided encrypted_content"}}, 400)
    model = Proxy([wrong])
    items = [ASK, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 40}, CALLED, OUTPUT]
    async with Upstream(model) as upstream:
        async with gateway(tmp_path, TABLES["grok"].format(url=upstream.url) + MODELS) as served:
            status, _ = await served.post("/v1/responses", body(items, prompt_cache_key="thread"))
    assert 400 == status
    assert ["prompt_cache_key" in sent for sent in model.bodies] == [True, True, False]
    assert ["encrypted_content" in json.dumps(sent["input"]) for sent in model.bodies] == [True, False, False]
    assert [request.header("x-grok-conv-id") is not None for request in model.requests] == [True, True, False]


CALLED = {"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": '{"q":"weather"}'}
