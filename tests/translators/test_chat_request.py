"""Reading a Chat request: routing facts, controls, and refusals that name the field."""

import json

import pytest

from translators.chat.request import parse, peek
from translators.conversation import Choice, Schema, Text, Thinking, Turn
from translators.dialect import Peek
from translators.fault import Refused
from translators.notes import Notes

BASE = {"model": "m1", "messages": [{"role": "user", "content": "hi"}]}


def parsed(**more):
    return parse(json.dumps({**BASE, **more}).encode(), Notes())


def refused(document):
    with pytest.raises(Refused) as caught:
        parse(document if isinstance(document, bytes) else json.dumps(document).encode(), Notes())
    return caught.value.fault


def test_peek_reads_what_routing_needs():
    """Model, stream and the client's own session."""
    assert Peek("m1") == peek(b'{"model":"m1","messages":[5],"stream":null,"prompt_cache_key":""}')
    assert Peek("m1", stream=True, session="s") == peek(b'{"model":"m1","stream":true,"prompt_cache_key":"s"}')


@pytest.mark.parametrize(
    ("document", "param"),
    [
        (b"{}", "model"),
        (b'{"model":""}', "model"),
        (b'{"model":5}', "model"),
        (b'{"model":"m","stream":"yes"}', "stream"),
        (b"[", None),
    ],
)
def test_peek_refuses_what_cannot_be_routed(document, param):
    """The fault is the client's and names the field."""
    with pytest.raises(Refused) as caught:
        peek(document)
    assert (400, "client", param) == (caught.value.fault.status, caught.value.fault.cause, caught.value.fault.param)


def test_a_small_request_is_read():
    """One user turn, nothing else."""
    conversation = parsed()
    assert ("chat", "m1", (), (Turn("user", (Text("hi"),), "messages.0"),)) == (
        conversation.dialect,
        conversation.model,
        conversation.system,
        conversation.turns,
    )
    assert not conversation.stream
    assert not conversation.include_usage


def test_stream_wishes_are_remembered():
    """Usage and obfuscation are the encoder's and the writer's matter."""
    conversation = parsed(stream=True, stream_options={"include_usage": True, "include_obfuscation": False})
    assert (True, True, False) == (conversation.stream, conversation.include_usage, conversation.controls.obfuscation)


def test_all_controls_are_read():
    """Each field has its place."""
    controls = parsed(
        max_tokens=5,
        temperature=0.5,
        top_p=1,
        top_k=3,
        stop="END",
        n=2,
        seed=4,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        logit_bias={"1": 2},
        logprobs=True,
        top_logprobs=3,
        prediction={"type": "content", "content": "x"},
        tool_choice="auto",
        parallel_tool_calls=False,
        reasoning_effort="low",
        verbosity="high",
        service_tier="flex",
        user="u",
        safety_identifier="s",
        metadata={"b": "1", "a": "2"},
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        store=True,
    ).controls
    assert (5, 0.5, 1.0, 3, ("END",), 2, 4) == (
        controls.max_output_tokens,
        controls.temperature,
        controls.top_p,
        controls.top_k,
        controls.stop,
        controls.n,
        controls.seed,
    )
    assert (0.1, 0.2, b'{"1": 2}', True, 3) == (
        controls.presence_penalty,
        controls.frequency_penalty,
        controls.logit_bias,
        controls.logprobs,
        controls.top_logprobs,
    )
    assert (Choice("auto"), False, Thinking(effort="low"), "high", "flex") == (
        controls.choice,
        controls.parallel,
        controls.thinking,
        controls.verbosity,
        controls.service_tier,
    )
    assert ("u", "s", b'{"b": "1", "a": "2"}', "k", "24h", True) == (
        controls.user,
        controls.safety_identifier,
        controls.metadata,
        controls.prompt_cache_key,
        controls.prompt_cache_retention,
        controls.store,
    )
    assert b"content" in controls.prediction


def test_max_completion_tokens_wins():
    """The newer name goes before the older one."""
    assert 7 == parsed(max_completion_tokens=7, max_tokens=5).controls.max_output_tokens


@pytest.mark.parametrize(("stop", "read"), [(None, ()), ("", ()), (["a", "", "b"], ("a", "b"))])
def test_empty_stop_sequences_are_none(stop, read):
    """An empty sequence would stop at once."""
    assert read == parsed(stop=stop).controls.stop


@pytest.mark.parametrize(
    ("wire", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, Schema()),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"b": 1, "a": 2}, "strict": True, "description": "d"},
            },
            Schema(b'{"b": 1, "a": 2}', "n", "d", True),
        ),
    ],
)
def test_response_formats_are_read(wire, schema):
    """The schema keeps its bytes."""
    assert schema == parsed(response_format=wire).controls.output


def test_fields_without_a_place_are_extras():
    """The writer notes or refuses them; unknown fields are ignored."""
    conversation = parsed(web_search_options={}, moderation={"x": 1}, unheard_of=1, audio=None)
    assert ["web_search_options", "moderation"] == [path for path, _ in conversation.extras]


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"messages": []}, "messages", None),
        ({"messages": "x"}, "messages", None),
        ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
        ({"audio": {"voice": "v"}}, "audio", "unsupported_parameter"),
        ({"max_tokens": 0}, "max_tokens", None),
        ({"n": 0}, "n", None),
        ({"temperature": "hot"}, "temperature", None),
        ({"response_format": {"type": "xml"}}, "response_format.type", "unsupported_parameter"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", None),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            "response_format.json_schema.schema",
            None,
        ),
        ({"messages": [{"role": "user", "content": [{"type": 5}]}]}, "messages.0.content.0.type", None),
    ],
)
def test_refusals_name_the_field(more, param, code):
    """A client can mend its request by the param."""
    fault = refused({**BASE, **more})
    assert (400, param, code) == (fault.status, fault.param, code and fault.code)


def test_malformed_and_deep_documents_are_refused():
    """Broken JSON and nesting beyond the bound."""
    assert 400 == refused(b'{"model":').status
    deep = b'{"model":"m","messages":[],"metadata":' + b"[" * 200 + b"]" * 200 + b"}"
    assert "128" in refused(deep).message


def test_peek_reads_who_asks():
    """Metadata name the session where no cache key does; `user` says who asks (spec/grok.md 10.2)."""
    assert Peek("m1", user="u") == peek(b'{"model":"m1","messages":[],"user":"u"}')
    assert Peek("m1", session="s") == peek(b'{"model":"m1","messages":[],"metadata":{"session_id":"s"}}')


@pytest.mark.parametrize(
    ("reasoning", "effort"), [({"effort": "low"}, "low"), ({}, None), ({"effort": 7}, None), (None, None), ("x", None)]
)
def test_the_reasoning_object_of_other_servers_is_read(reasoning, effort):
    """It says the effort where `reasoning_effort` does not."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "reasoning": reasoning}
    assert effort == parse(json.dumps(body).encode(), Notes()).controls.thinking.effort
    both = parse(json.dumps(body | {"reasoning_effort": "high"}).encode(), Notes())
    assert "high" == both.controls.thinking.effort
