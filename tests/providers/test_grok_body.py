"""The strict body: every trigger of spec/grok.md 7.1 has its remedy, and nothing unnamed leaves."""

import json

import pytest

from providers.grok_body import Policy, bare, effort, strict, undressed
from tests.grok import refused

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
BARE = {"model": "grok-4.6", "input": [{"type": "message", "role": "user", "content": "hi"}]}
POLICY = Policy()


def made(policy=POLICY, **more):
    body = strict(json.dumps(BARE | more).encode(), policy)
    assert "" == refused(json.loads(body)), body
    assert body == strict(body, policy)
    return json.loads(body)


def test_smallest_body():
    """Nothing is stored, the summary is asked for as the official client does, and that is all."""
    wanted = BARE | {"reasoning": {"summary": "concise"}, "store": False, "stream": False}
    assert wanted == made()


def test_what_is_not_named_is_left_out():
    """Identity, penalties, stops, ids of stored answers and options of others do not leave."""
    odd = "client_metadata external_web_access prompt_cache_retention safety_identifier stream_options user metadata "
    odd += "presence_penalty frequency_penalty stop previous_response_id store_later service_tier truncation"
    assert made() == made(**dict.fromkeys(odd.split(), "x"), store=True, include=["x"])


def test_what_passes():
    """Limits, sampling, format and the stream flag pass with their values."""
    form = {"type": "json_schema", "name": "n", "schema": {}}
    more = {"max_output_tokens": 9, "temperature": 0.5, "top_p": 1, "stream": True}
    found = made(**more, text={"format": form, "verbosity": "low"})
    assert more | {"text": {"format": form}} == {name: found[name] for name in (*more, "text")}
    assert "text" not in made(text={"verbosity": "low"})
    assert "temperature" not in made(temperature=None)


def test_instructions_become_the_first_message():
    """The upstream refuses instructions beside other fields; the official client has none."""
    found = made(instructions="be kind")
    assert {"type": "message", "role": "system", "content": "be kind"} == found["input"][0]
    assert made() == made(instructions=" ")


@pytest.mark.parametrize(
    ("wanted", "efforts", "sent"),
    [
        ("none", ("low", "high"), "low"),
        ("minimal", ("low",), "low"),
        ("none", ("none", "low"), "none"),
        ("xhigh", ("low", "high"), "high"),
        ("max", ("high", "xhigh"), "xhigh"),
        ("max", ("low",), "low"),
        ("medium", ("low", "high"), "high"),
        ("medium", ("medium",), "medium"),
        ("strange", ("low",), None),
        ("none", ("high",), None),
        ("low", (), None),
    ],
)
def test_effort(wanted, efforts, sent):
    """Each wish goes out at a level that the model lists."""
    assert sent == effort(wanted, efforts)


def test_reasoning_of_a_model_without_efforts():
    """A model that knows no efforts is sent none, nor a summary."""
    assert "reasoning" not in made(Policy(efforts=()), reasoning={"effort": "high"})
    assert {"effort": "high", "summary": "detailed"} == made(reasoning={"effort": "high", "summary": "detailed"})[
        "reasoning"
    ]


def test_state_and_key_by_policy():
    """Encrypted reasoning is asked for only where it may come back; the session's key is the policy's."""
    found = made(Policy(sealed=True, cache_key="k"))
    assert (["reasoning.encrypted_content"], "k") == (found["include"], found["prompt_cache_key"])
    assert {"include", "prompt_cache_key"}.isdisjoint(made(prompt_cache_key="other"))


@pytest.mark.parametrize(
    ("tool", "wanted"),
    [
        (TOOL | {"strict": False, "defer_loading": True}, TOOL),
        (TOOL | {"strict": True, "description": "d"}, TOOL | {"strict": True, "description": "d"}),
        ({"type": "function", "name": "f"}, TOOL),
        ({"type": "function", "name": "f", "parameters": {"properties": {}}}, TOOL),
        (
            TOOL | {"parameters": {"type": "object", "oneOf": []}},
            TOOL | {"parameters": {"type": "object", "oneOf": []}},
        ),
        (
            TOOL | {"parameters": {"anyOf": []}, "strict": True},
            TOOL | {"parameters": {"type": "object", "properties": {}, "additionalProperties": True}, "strict": False},
        ),
        ({"type": "web_search", "filters": {}}, {"type": "web_search"}),
        ({"type": "web_search_preview", "user_location": {}}, {"type": "web_search"}),
        ({"type": "x_search", "from_date": "x"}, {"type": "x_search"}),
        ({"type": "image_generation", "size": "x"}, {"type": "image_generation"}),
        ({"type": "tool_search", "execution": "client"}, None),
        ({"type": "function"}, None),
        ({"type": 7}, None),
    ],
)
def test_tool(tool, wanted):
    """Functions have an object schema, hosted tools no options, and unknown ones are not offered."""
    body = json.loads(strict(json.dumps(BARE | {"tools": [tool]}).encode(), POLICY))
    assert ([wanted] if wanted else None) == body.get("tools")


@pytest.mark.parametrize(
    ("model", "kept"),
    [("grok-4.5", False), ("grok-4.20-0309-reasoning", True), ("grok-5", True), ("grok-build-0.1", False)],
)
def test_pictures_are_drawn_by_later_models(model, kept):
    """Image generation is offered from grok-4.6 on."""
    body = json.loads(
        strict(json.dumps(BARE | {"model": model, "tools": [{"type": "image_generation"}]}).encode(), POLICY)
    )
    assert kept == ("tools" in body)


def test_names_are_unique():
    """Of two tools with one name the last counts, and a function hides a hosted tool of its name."""
    later = TOOL | {"description": "later"}
    found = made(tools=[TOOL, {"type": "web_search"}, later, TOOL | {"name": "x_search"}, {"type": "x_search"}])
    assert [later, {"type": "web_search"}, TOOL | {"name": "x_search"}] == found["tools"]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("strange", None),
        (None, None),
        (7, None),
        ({"type": "function", "name": "f"}, {"type": "function", "name": "f"}),
        ({"type": "custom", "name": "f"}, {"type": "function", "name": "f"}),
        ({"type": "web_search"}, "required"),
        ({"type": "function", "name": "absent"}, None),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}, "required"),
        ({"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]}, "auto"),
    ],
)
def test_choice(choice, sent):
    """A choice names a function, or is a word."""
    found = made(tools=[TOOL, {"type": "web_search"}], tool_choice=choice, parallel_tool_calls=True)
    assert (sent, True) == (found.get("tool_choice"), found["parallel_tool_calls"])


def test_choice_narrows_the_tools():
    """Allowed tools are the only ones that are offered."""
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
    assert [TOOL] == made(tools=[TOOL, TOOL | {"name": "g"}], tool_choice=choice)["tools"]


def test_choice_without_tools_goes():
    """Without tools neither a choice nor the parallel flag is taken."""
    assert made() == made(tool_choice="auto", parallel_tool_calls=False, tools=[])


def test_tools_of_the_input_are_offered():
    """Tools that stand among the items are declared like the others."""
    found = made(input=[*BARE["input"], {"type": "additional_tools", "tools": [TOOL]}])
    assert [TOOL] == found["tools"]


def test_undecryptable_state_goes_in_two_steps():
    """First the state, then the session's key, which then stays away; then there is nothing left to take out."""
    sealed = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "x" * 40}
    body = strict(json.dumps(BARE | {"input": [*BARE["input"], sealed]}).encode(), Policy(sealed=True, cache_key="k"))
    first = bare(body)
    assert first is not None
    assert b"encrypted_content" not in first.replace(b"reasoning.encrypted_content", b"")
    assert b'"text":"s"' in first
    assert bare(first) is None
    second = undressed(first)
    assert second is not None
    assert "" == json.loads(second)["prompt_cache_key"]
    assert undressed(strict(second, Policy(sealed=True))) is None
