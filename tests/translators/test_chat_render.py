"""Writing a request for a Chat upstream: the field tables of spec/translation.md 3.1 and 3.3."""

import hashlib
import json

import msgspec
import pytest

from translators.chat.render import render
from translators.chat.request import parse
from translators.conversation import Controls, Conversation, Schema, Text, Thinking, Tool, Turn
from translators.dialect import Target
from translators.fault import Refused
from translators.notes import Notes
from translators.toolbox import Toolbox, build
from translators.traits import Traits

TURNS = (Turn("user", (Text("hi"),), "messages.0"),)


def body_of(conversation, *, notes=None, toolbox=None, target=None, **traits):
    target = target or Target("up", Traits(**traits))
    return json.loads(render(conversation, toolbox or Toolbox(), target, notes or Notes(strict=target.strict)))


def rendered(dialect="messages", *, stream=False, notes=None, extras=(), target=None, traits=None, **controls):
    conversation = Conversation(dialect, "m", turns=TURNS, controls=Controls(**controls), stream=stream, extras=extras)
    return body_of(conversation, notes=notes, target=target, **(traits or {}))


def refused(**more):
    with pytest.raises(Refused) as caught:
        rendered(target=Target("up", Traits(), strict=True), **more)
    return caught.value.fault


def test_a_small_request_is_small():
    """Nothing is sent that was not asked for."""
    assert {"model": "up", "messages": [{"role": "user", "content": "hi"}]} == rendered()


def test_a_stream_asks_for_usage():
    """Always; obfuscation only from servers that know it."""
    assert {"include_usage": True} == rendered(stream=True, obfuscation=False)["stream_options"]
    options = rendered(stream=True, obfuscation=False, traits={"cache_key": True})["stream_options"]
    assert {"include_usage": True, "include_obfuscation": False} == options


def test_the_output_limit_has_the_models_name_and_cap():
    """The smaller cap counts, with a note."""
    assert 9 == rendered(max_output_tokens=9)["max_tokens"]
    assert (
        9
        == rendered(max_output_tokens=9, traits={"max_tokens_field": "max_completion_tokens"})["max_completion_tokens"]
    )
    notes = Notes()
    target = Target("up", Traits(max_output_cap=7), max_output_tokens=8)
    assert 7 == rendered(max_output_tokens=9, notes=notes, target=target)["max_tokens"]
    assert ["max_tokens"] == [note.field for note in notes.kept]
    assert "max_tokens" not in rendered(target=target)


def test_some_servers_are_told_everything():
    """A stream that nobody asked for, `stream: false`, and the cap as the limit, each by its trait."""
    assert rendered(traits={"always_stream": True})["stream"] is True
    assert rendered(traits={"explicit_stream": True})["stream"] is False
    assert rendered(stream=True, traits={"explicit_stream": True})["stream"] is True
    assert 7 == rendered(traits={"always_limit": True, "max_output_cap": 7})["max_tokens"]
    assert "max_tokens" not in rendered(traits={"always_limit": True})


def test_stop_sequences_are_limited():
    """The first four are sent, strict refuses."""
    stop = tuple("abcde")
    assert list("abcd") == rendered(stop=stop)["stop"]
    assert "stop" == refused(stop=stop).param


def test_sampling_follows_the_model():
    """Temperature and top_p by one trait, top_k by another."""
    notes = Notes()
    assert {"temperature": 0.5, "top_p": 0.9}.items() <= rendered(temperature=0.5, top_p=0.9).items()
    found = rendered(temperature=0.5, top_k=3, notes=notes, traits={"sampling": False})
    assert found.keys().isdisjoint({"temperature", "top_k"})
    assert ["temperature", "top_k"] == [note.field for note in notes.kept]
    assert 3 == rendered(top_k=3, traits={"top_k": True})["top_k"]
    assert "top_k" == refused(top_k=3).param


def test_chats_own_controls_pass():
    """What only OpenAI's protocols know is written as it was."""
    plain = {
        "n": 2,
        "seed": 1,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "logprobs": True,
        "top_logprobs": 2,
        "verbosity": "low",
    }
    found = rendered("chat", **plain, logit_bias=b'{"1": 2}', prediction=b'{"type":"content"}')
    assert {**plain, "logit_bias": {"1": 2}, "prediction": {"type": "content"}}.items() <= found.items()
    assert "n" not in rendered("chat", n=1)


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        (Thinking(), None),
        (Thinking(effort="high"), "high"),
        (Thinking(mode="disabled"), "none"),
        (Thinking(mode="enabled", budget=1024), "low"),
        (Thinking(mode="adaptive"), None),
    ],
)
def test_effort_is_written(thinking, effort):
    """The table of 1.6."""
    assert effort == rendered(thinking=thinking).get("reasoning_effort")


@pytest.mark.parametrize(
    ("dialect", "schema", "wire"),
    [
        ("chat", Schema(), {"type": "json_object"}),
        ("messages", Schema(b"{}"), {"name": "output", "strict": True, "schema": {}}),
        (
            "responses",
            Schema(b"{}", "a b", "d", False),
            {"name": "a_b", "description": "d", "strict": False, "schema": {}},
        ),
        ("responses", Schema(b"{}", "n"), {"name": "n", "schema": {}}),
    ],
)
def test_response_formats_are_written(dialect, schema, wire):
    """A schema has a legal name; from Messages it is strict."""
    found = rendered(dialect, output=schema)["response_format"]
    assert wire == (found if found["type"] == "json_object" else found["json_schema"])


def test_a_model_without_schemas_gives_any_object():
    """With a note; strict refuses."""
    notes = Notes()
    assert {"type": "json_object"} == rendered(output=Schema(b"{}"), notes=notes, traits={"json_schema": False})[
        "response_format"
    ]
    assert 1 == notes.count


def test_advisory_fields_are_for_openai_only():
    """Compatible servers refuse what they do not know."""
    advisory = {
        "service_tier": "flex",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "metadata": b'{"a":"b"}',
    }
    assert {"model", "messages"} == rendered(**advisory).keys()
    assert {"model", "messages", "prompt_cache_key"} == rendered(**advisory, traits={"prompt_cache_key": True}).keys()
    found = rendered(**advisory, traits={"cache_key": True})
    assert {**advisory, "metadata": {"a": "b"}, "store": False}.items() <= found.items()


def test_tiers_are_translated():
    """Messages' word for the default; unknown ones go with a note."""
    assert "default" == rendered(service_tier="standard_only", traits={"cache_key": True})["service_tier"]
    notes = Notes()
    assert "service_tier" not in rendered(service_tier="ultrafast", notes=notes, traits={"cache_key": True})
    assert ["service_tier"] == [note.field for note in notes.kept]


def test_storing_is_the_chat_clients_own_wish():
    """Between other protocols nothing is stored."""
    assert rendered("chat", store=True, traits={"cache_key": True})["store"] is True
    notes = Notes()
    assert rendered("responses", store=True, notes=notes, traits={"cache_key": True})["store"] is False
    assert ["store"] == [note.field for note in notes.kept]
    assert "store" == refused(store=True).param


def test_long_user_ids_are_hashed():
    """64 characters pass, one more is a digest."""
    assert "u" * 64 == rendered(user="u" * 64)["user"]
    assert hashlib.sha256(b"u" * 65).hexdigest() == rendered(user="u" * 65)["user"]


def test_extras_are_noted_or_refused():
    """What has no place is dropped in lenient mode and refused in strict mode."""
    notes = Notes()
    rendered(extras=(("speed", "no such thing"),), notes=notes)
    assert ["speed"] == [note.field for note in notes.kept]
    assert "speed" == refused(extras=(("speed", "no such thing"),)).param


def test_a_previous_response_is_refused():
    """Dropping it would silently lose the conversation."""
    with pytest.raises(Refused) as caught:
        body_of(Conversation("responses", "m", turns=TURNS, previous_response_id="resp_1"))
    assert ("missing_state", "previous_response_id") == (caught.value.fault.code, caught.value.fault.param)


PARAMETERS = {"type": "object", "properties": {}}
CHAT = {
    "model": "m1",
    "messages": [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://a.example/x"}},
            ],
        },
        {
            "role": "assistant",
            "content": "b",
            "reasoning_content": "r",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "d"},
        {"role": "user", "content": "e"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "g", "parameters": PARAMETERS, "strict": False},
        }
    ],
    "tool_choice": "auto",
    "temperature": 0.5,
    "reasoning_effort": "low",
}


def round_trip(body):
    notes = Notes()
    conversation = parse(json.dumps(body).encode(), notes)
    return render(conversation, build(conversation, notes, limit=64), Target("up", Traits()), notes)


@pytest.mark.invariant("I32")
def test_a_chat_request_survives_the_neutral_model():
    """Reading and writing gives the same request, save the model."""
    assert {**CHAT, "model": "up"} == json.loads(round_trip(CHAT))


@pytest.mark.invariant("I30")
def test_the_same_body_gives_the_same_bytes():
    """Conversion is pure, so upstream prompt caches keep their prefix."""
    assert round_trip(CHAT) == round_trip(CHAT)


@pytest.mark.invariant("I35")
def test_unknown_fields_do_not_pass():
    """Members that we do not know stay behind."""
    assert b"unheard_of" not in round_trip({**CHAT, "unheard_of": 1})


def test_a_schema_keeps_its_key_order():
    """It is copied as bytes."""
    tool = Tool("function", "f", parameters=b'{"type":"object","properties":{},"z":1,"a":1e3}')
    conversation = Conversation("messages", "m", turns=TURNS, tools=(tool,))
    box = build(conversation, Notes(), limit=64)
    assert b'{"type":"object","properties":{},"z":1,"a":1e3}' in render(
        conversation, box, Target("up", Traits()), Notes()
    )
    assert msgspec.json.decode(render(conversation, box, Target("up", Traits()), Notes()))


def test_tiers_and_metadata_that_a_server_may_not_know_are_noted():
    """A generic server gets no advisory field of OpenAI's; the two that are no mere hints leave a note (1.9)."""
    notes = Notes()
    found = rendered(service_tier="flex", metadata=b"{}", prompt_cache_options=b"{}", notes=notes)
    assert {"service_tier", "metadata", "prompt_cache_options"}.isdisjoint(found)
    assert ["service_tier", "metadata"] == [note.field for note in notes.kept]
    rendered(service_tier="auto", notes=notes)
    assert 2 == notes.count
    traits = {"cache_key": True}
    assert {"mode": "x"} == rendered(prompt_cache_options=b'{"mode":"x"}', traits=traits)["prompt_cache_options"]


def test_sampling_of_a_model_without_it_is_refused_in_strict_mode():
    """As towards the other protocols: a control that changes the answer is no hint (3.1)."""
    conversation = Conversation("messages", "m", turns=TURNS, controls=Controls(temperature=0.5))
    with pytest.raises(Refused) as caught:
        render(conversation, Toolbox(), Target("up", Traits(sampling=False)), Notes(strict=True))
    assert ("unsupported_parameter", "temperature") == (caught.value.fault.code, caught.value.fault.param)
