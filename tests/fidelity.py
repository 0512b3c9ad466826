"""What becomes of every field in every pair, found out by asking the code: the text of docs/fidelity.md.

    python -m tests.fidelity > docs/fidelity.md

A probe is one field with a value. Each goes through the pair twice, lenient and strict, beside the same request without
it: what the upstream body gains, what is noted and what is refused makes the row.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.translators.readings import ALIAS, ORIGIN, answered, prepare, requested
from tests.translators.scripts import DIALECTS, Call, Ran, Refuse, Say, Script, Think
from tests.translators.wires import WHOLE
from translators.carrier import seal
from translators.dialects import DIALECTS as RECORDS
from translators.events import Carried
from translators.fault import Fault
from translators.pair import Pair
from translators.traits import traits_for

Json = dict[str, Any]
MODELS = {"chat": "gpt-5.2", "responses": "gpt-5.2", "messages": "claude-sonnet-5"}
TRAITS = {name: msgspec.structs.replace(traits_for(model), sampling=True) for name, model in MODELS.items()}
"""With sampling controls, which the tables shall show."""
TITLES = {"chat": "Chat Completions", "responses": "Responses", "messages": "Messages"}
PNG, PDF = "iVBORw0KGgo=", "JVBERi0xLjQ="
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


@dataclass(frozen=True)
class Probe:
    """A field by the name that the tables give it, the members that have it, and those that it needs beside it."""

    name: str
    members: Json
    beside: Json = field(default_factory=dict)


def sealed(kind: str) -> str:
    data = json.dumps([{"type": "reasoning.encrypted", "data": "state", "index": 0}]) if kind == "rd" else "state"
    return seal(Carried(kind, data, "rs_1"), ORIGIN) or ""  # type: ignore[arg-type]


# Chat Completions

CHAT_HI: Json = {"role": "user", "content": "hi"}
CHAT_TOOL: Json = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
CHAT_TOOLS: Json = {"tools": [CHAT_TOOL]}
CHAT_CALL: Json = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def chat_user(part: Json) -> Json:
    return {"messages": [CHAT_HI, {"role": "user", "content": [{"type": "text", "text": "hi"}, part]}]}


def chat_history(*messages: Json) -> Json:
    return {"messages": [CHAT_HI, *messages, CHAT_HI]}


CHAT_SPOKEN = chat_history({"role": "assistant", "content": "T"})
CHAT_TWO: Json = {"tools": [CHAT_TOOL, {"type": "function", "function": {"name": "find", "parameters": SCHEMA}}]}
CHAT_NAMED = {"type": "function", "function": {"name": "look"}}
CHAT = [
    Probe("max_completion_tokens", {"max_completion_tokens": 100}),
    Probe("max_tokens", {"max_tokens": 100}),
    Probe("temperature", {"temperature": 0.5}),
    Probe("top_p", {"top_p": 0.9}),
    Probe("top_k", {"top_k": 5}),
    Probe("stop", {"stop": ["END"]}),
    Probe("n above 1", {"n": 2}),
    Probe("seed", {"seed": 7}),
    Probe("presence_penalty", {"presence_penalty": 0.5}),
    Probe("frequency_penalty", {"frequency_penalty": 0.5}),
    Probe("logit_bias", {"logit_bias": {"1": 2}}),
    Probe("logprobs", {"logprobs": True}),
    Probe("top_logprobs", {"top_logprobs": 2}, {"logprobs": True}),
    Probe("prediction", {"prediction": {"type": "content", "content": "x"}}),
    Probe("web_search_options", {"web_search_options": {}}),
    Probe("moderation", {"moderation": {"model": "m"}}),
    Probe("modalities: audio", {"modalities": ["text", "audio"]}),
    Probe("audio", {"audio": {"voice": "x", "format": "wav"}}),
    Probe("reasoning_effort", {"reasoning_effort": "high"}),
    Probe("reasoning_effort: none", {"reasoning_effort": "none"}),
    Probe("reasoning: effort", {"reasoning": {"effort": "high"}}),
    Probe("verbosity", {"verbosity": "low"}),
    Probe("response_format: json_schema", {"response_format": {"type": "json_schema", "json_schema": {"name": "out", "schema": SCHEMA, "strict": True}}}),
    Probe("response_format: json_object", {"response_format": {"type": "json_object"}}),
    Probe("service_tier: default", {"service_tier": "default"}),
    Probe("service_tier: flex", {"service_tier": "flex"}),
    Probe("user", {"user": "u1"}),
    Probe("safety_identifier", {"safety_identifier": "s1"}),
    Probe("metadata", {"metadata": {"k": "v"}}),
    Probe("prompt_cache_key", {"prompt_cache_key": "k"}),
    Probe("prompt_cache_options", {"prompt_cache_options": {"mode": "x"}}),
    Probe("prompt_cache_retention", {"prompt_cache_retention": "24h"}),
    Probe("store: true", {"store": True}),
    Probe("stream", {"stream": True}),
    Probe("stream_options.include_obfuscation", {"stream_options": {"include_obfuscation": False}}, {"stream": True}),
    Probe("tools: function", CHAT_TOOLS),
    Probe("tools: function, strict", {"tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA, "strict": True}}]}),
    Probe("tools: custom", {"tools": [{"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}}}]}),
    Probe("tools: custom, streamed", {"tools": [{"type": "custom", "custom": {"name": "patch"}}]}, {"stream": True}),
    Probe("tools: hosted", {"tools": [CHAT_TOOL, {"type": "web_search"}]}, CHAT_TOOLS),
    Probe("functions (legacy)", {"functions": [{"name": "look", "parameters": SCHEMA}]}),
    Probe("function_call (legacy)", {"function_call": {"name": "look"}}, {"functions": [{"name": "look", "parameters": SCHEMA}]}),
    Probe("tool_choice: none", {"tool_choice": "none"}, CHAT_TOOLS),
    Probe("tool_choice: required", {"tool_choice": "required"}, CHAT_TOOLS),
    Probe("tool_choice: function", {"tool_choice": CHAT_NAMED}, CHAT_TOOLS),
    Probe("tool_choice: allowed_tools", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [CHAT_NAMED]}}}, CHAT_TWO),
    Probe("parallel_tool_calls: false", {"parallel_tool_calls": False}, CHAT_TOOLS),
    Probe("system message", {"messages": [{"role": "system", "content": "Be brief."}, CHAT_HI]}),
    Probe("developer message", {"messages": [{"role": "developer", "content": "Be brief."}, CHAT_HI]}),
    Probe("system message after the first turn", chat_history({"role": "assistant", "content": "T"}, {"role": "system", "content": "Be brief."}), CHAT_SPOKEN),
    Probe("image_url: data", chat_user({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}})),
    Probe("image_url: link", chat_user({"type": "image_url", "image_url": {"url": "https://example.test/a.png", "detail": "high"}})),
    Probe("file: PDF data", chat_user({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}})),
    Probe("file: id", chat_user({"type": "file", "file": {"file_id": "file_1"}})),
    Probe("input_audio", chat_user({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})),
    Probe("assistant tool_calls and tool results", chat_history({"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "one"})),
    Probe("tool result without a call", chat_history({"role": "tool", "tool_call_id": "c9", "content": "one"})),
    Probe("tool call without a result", chat_history({"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]})),
    Probe("tool arguments that are no object", chat_history({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q":'}}]}, {"role": "tool", "tool_call_id": "c1", "content": "one"})),
    Probe("assistant refusal", chat_history({"role": "assistant", "content": None, "refusal": "No."})),
    Probe("reasoning_content", chat_history({"role": "assistant", "content": "T", "reasoning_content": "R"}), CHAT_SPOKEN),
    Probe("reasoning_details of this upstream", chat_history({"role": "assistant", "content": "T", "reasoning_details": [{"type": "reasoning.encrypted", "data": "@state", "index": 0}]}), CHAT_SPOKEN),
    Probe("reasoning_details of another", chat_history({"role": "assistant", "content": "T", "reasoning_details": [{"type": "reasoning.encrypted", "data": "foreign", "index": 0}]}), CHAT_SPOKEN),
    Probe("name", {"messages": [CHAT_HI | {"name": "ann"}]}),
]  # fmt: skip

# Responses

TURN: Json = {"role": "user", "content": "hi"}
RESPONSES_TOOL: Json = {"type": "function", "name": "look", "parameters": SCHEMA}
RESPONSES_TOOLS: Json = {"tools": [RESPONSES_TOOL]}


def items(*more: Json) -> Json:
    return {"input": [TURN, *more, TURN]}


def user_part(part: Json) -> Json:
    return items({"role": "user", "content": [{"type": "input_text", "text": "look"}, part]})


def spoken(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def reasoned(state: str) -> Json:
    return items(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "R"}],
            "encrypted_content": state,
        },
        spoken("T"),
    )


F_CALL: Json = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
F_OUT: Json = {"type": "function_call_output", "call_id": "c1", "output": "one"}
RESPONSES = [
    Probe("instructions", {"instructions": "Be brief."}),
    Probe("max_output_tokens", {"max_output_tokens": 100}),
    Probe("temperature", {"temperature": 0.5}),
    Probe("top_p", {"top_p": 0.9}),
    Probe("top_logprobs", {"top_logprobs": 2}),
    Probe("include: message.output_text.logprobs", {"include": ["message.output_text.logprobs"]}),
    Probe("include: reasoning.encrypted_content", {"include": ["reasoning.encrypted_content"]}),
    Probe("include: others", {"include": ["file_search_call.results"]}),
    Probe("reasoning.effort", {"reasoning": {"effort": "high"}}),
    Probe("reasoning.summary", {"reasoning": {"effort": "high", "summary": "detailed"}}, {"reasoning": {"effort": "high"}}),
    Probe("text.format: json_schema", {"text": {"format": {"type": "json_schema", "name": "out", "schema": SCHEMA, "strict": True}}}),
    Probe("text.format: json_object", {"text": {"format": {"type": "json_object"}}}),
    Probe("text.verbosity", {"text": {"verbosity": "low"}}),
    Probe("service_tier: default", {"service_tier": "default"}),
    Probe("service_tier: flex", {"service_tier": "flex"}),
    Probe("user", {"user": "u1"}),
    Probe("safety_identifier", {"safety_identifier": "s1"}),
    Probe("metadata", {"metadata": {"k": "v"}}),
    Probe("prompt_cache_key", {"prompt_cache_key": "k"}),
    Probe("prompt_cache_options", {"prompt_cache_options": {"mode": "x"}}),
    Probe("prompt_cache_retention", {"prompt_cache_retention": "24h"}),
    Probe("store: true", {"store": True}),
    Probe("stream", {"stream": True}),
    Probe("stream_options.include_obfuscation", {"stream_options": {"include_obfuscation": False}}, {"stream": True}),
    Probe("truncation: auto", {"truncation": "auto"}),
    Probe("max_tool_calls", {"max_tool_calls": 3}),
    Probe("context_management", {"context_management": [{"type": "compaction"}]}),
    Probe("moderation", {"moderation": {"model": "m"}}),
    Probe("background", {"background": True}),
    Probe("previous_response_id", {"previous_response_id": "resp_0"}),
    Probe("conversation", {"conversation": "conv_1"}),
    Probe("prompt", {"prompt": {"id": "pmpt_1"}}),
    Probe("tools: function", RESPONSES_TOOLS),
    Probe("tools: function, strict", {"tools": [RESPONSES_TOOL | {"strict": True}]}),
    Probe("tools: allowed_callers", {"tools": [RESPONSES_TOOL | {"allowed_callers": ["programmatic"]}]}, RESPONSES_TOOLS),
    Probe("tools: output_schema", {"tools": [RESPONSES_TOOL | {"output_schema": SCHEMA}]}, RESPONSES_TOOLS),
    Probe("tools: custom with grammar", {"tools": [{"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}]}),
    Probe("tools: namespace", {"tools": [{"type": "namespace", "name": "docs", "description": "D", "tools": [RESPONSES_TOOL]}]}),
    Probe("tools: web_search", {"tools": [RESPONSES_TOOL, {"type": "web_search"}]}, RESPONSES_TOOLS),
    Probe("tools: mcp", {"tools": [RESPONSES_TOOL, {"type": "mcp", "server_label": "d", "server_url": "https://example.test"}]}, RESPONSES_TOOLS),
    Probe("functions (legacy)", {"functions": [{"name": "look", "parameters": SCHEMA}]}),
    Probe("function_call (legacy)", {"function_call": {"name": "look"}}, {"functions": [{"name": "look", "parameters": SCHEMA}]}),
    Probe("tool_choice: none", {"tool_choice": "none"}, RESPONSES_TOOLS),
    Probe("tool_choice: required", {"tool_choice": "required"}, RESPONSES_TOOLS),
    Probe("tool_choice: function", {"tool_choice": {"type": "function", "name": "look"}}, RESPONSES_TOOLS),
    Probe("tool_choice: allowed_tools", {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}}, {"tools": [RESPONSES_TOOL, RESPONSES_TOOL | {"name": "find"}]}),
    Probe("tool_choice: hosted", {"tool_choice": {"type": "web_search"}}, {"tools": [RESPONSES_TOOL, {"type": "web_search"}]}),
    Probe("parallel_tool_calls: false", {"parallel_tool_calls": False}, RESPONSES_TOOLS),
    Probe("developer message after the first turn", items(spoken("T"), {"role": "developer", "content": "Be brief."}), items(spoken("T"))),
    Probe("input_image: data", user_part({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"})),
    Probe("input_image: link", user_part({"type": "input_image", "image_url": "https://example.test/a.png", "detail": "high"})),
    Probe("input_image: file_id", user_part({"type": "input_image", "file_id": "file_1"})),
    Probe("input_file: PDF data", user_part({"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"})),
    Probe("input_file: link", user_part({"type": "input_file", "file_url": "https://example.test/a.pdf"})),
    Probe("assistant message", items(spoken("T"))),
    Probe("assistant refusal", items({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})),
    Probe("function_call and output", items(F_CALL, F_OUT)),
    Probe("function_call_output: image", items(F_CALL, F_OUT | {"output": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]})),
    Probe("function_call_output without a call", items(F_OUT | {"call_id": "c9"})),
    Probe("custom_tool_call and output", items({"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "x"}, {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"})),
    Probe("reasoning of this upstream", reasoned("@state"), items(spoken("T"))),
    Probe("reasoning of another", reasoned("foreign"), items(spoken("T"))),
    Probe("mcp_call", items({"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "find", "arguments": "{}", "output": "found"}, spoken("T")), items(spoken("T"))),
    Probe("web_search_call", items({"type": "web_search_call", "id": "ws_1", "status": "completed"}, spoken("T")), items(spoken("T"))),
    Probe("item_reference", items({"type": "item_reference", "id": "msg_1"})),
]  # fmt: skip

# Messages

TOOL: Json = {"name": "look", "input_schema": SCHEMA}
TOOLS: Json = {"tools": [TOOL]}


def asked(*blocks: Json) -> Json:
    return {
        "messages": [
            TURN,
            {"role": "assistant", "content": "T"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}, *blocks]},
        ]
    }


def told(*blocks: Json) -> Json:
    return {"messages": [TURN, {"role": "assistant", "content": [*blocks, {"type": "text", "text": "T"}]}, TURN]}


def result(**members: Any) -> Json:
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    return {
        "messages": [
            TURN,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", **members}]},
        ]
    }


def document(source: Json, **members: Any) -> Json:
    return asked({"type": "document", "source": source, **members})


PDF_SOURCE = {"type": "base64", "media_type": "application/pdf", "data": PDF}
MESSAGES = [
    Probe("max_tokens", {"max_tokens": 1000}),
    Probe("system", {"system": "Be brief."}),
    Probe("stop_sequences", {"stop_sequences": ["END"]}),
    Probe("stop_sequences, more than four", {"stop_sequences": ["1", "2", "3", "4", "5"]}),
    Probe("temperature", {"temperature": 0.5}),
    Probe("top_p", {"top_p": 0.96}),
    Probe("top_k", {"top_k": 5}),
    Probe("thinking: enabled with a budget", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
    Probe("thinking: adaptive", {"thinking": {"type": "adaptive"}}),
    Probe("thinking: disabled", {"thinking": {"type": "disabled"}}),
    Probe("output_config.effort", {"output_config": {"effort": "high"}}),
    Probe("output_config.format", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    Probe("output_format (older)", {"output_format": {"type": "json_schema", "schema": SCHEMA}}),
    Probe("output_config.task_budget", {"output_config": {"task_budget": {"tokens": 1}}}),
    Probe("metadata.user_id", {"metadata": {"user_id": "u1"}}),
    Probe("service_tier: standard_only", {"service_tier": "standard_only"}),
    Probe("stream", {"stream": True}),
    Probe("cache_control", {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}]}),
    Probe("context_management", {"context_management": {"edits": []}}),
    Probe("container", {"container": "c1"}),
    Probe("mcp_servers", {"mcp_servers": [{"type": "url", "name": "d", "url": "https://example.test"}]}),
    Probe("speed: fast", {"speed": "fast"}),
    Probe("inference_geo", {"inference_geo": "eu"}),
    Probe("fallbacks", {"fallbacks": [{"model": "x"}]}),
    Probe("compaction", {"compaction": {"enabled": True}}),
    Probe("tools: function", TOOLS),
    Probe("tools: strict", {"tools": [TOOL | {"strict": True}]}),
    Probe("tools: defer_loading", {"tools": [TOOL, {"name": "find", "input_schema": SCHEMA, "defer_loading": True}]}),
    Probe("tools: allowed_callers", {"tools": [TOOL | {"allowed_callers": ["code_execution_20250825"]}]}, TOOLS),
    Probe("tools: input_examples, cache_control", {"tools": [TOOL | {"input_examples": [{"q": "x"}], "cache_control": {"type": "ephemeral"}}]}, TOOLS),
    Probe("tools: server tools", {"tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}]}, TOOLS),
    Probe("tool_choice: none", {"tool_choice": {"type": "none"}}, TOOLS),
    Probe("tool_choice: any", {"tool_choice": {"type": "any"}}, TOOLS),
    Probe("tool_choice: tool", {"tool_choice": {"type": "tool", "name": "look"}}, TOOLS),
    Probe("tool_choice.disable_parallel_tool_use", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, TOOLS | {"tool_choice": {"type": "auto"}}),
    Probe("role system inside messages", {"messages": [TURN, {"role": "system", "content": "Be brief."}]}),
    Probe("image: base64", asked({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})),
    Probe("image: url", asked({"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}})),
    Probe("image: file", asked({"type": "image", "source": {"type": "file", "file_id": "f1"}})),
    Probe("document: PDF", document(PDF_SOURCE, title="a.pdf")),
    Probe("document: PDF by url", document({"type": "url", "url": "https://example.test/a.pdf"})),
    Probe("document: text", document({"type": "text", "media_type": "text/plain", "data": "words"})),
    Probe("document: citations", document(PDF_SOURCE, citations={"enabled": True}), document(PDF_SOURCE)),
    Probe("search_result", asked({"type": "search_result", "source": "https://example.test", "title": "T", "content": [{"type": "text", "text": "words"}]})),
    Probe("tool_use and tool_result", result(content="one")),
    Probe("tool_result: is_error", result(content="no", is_error=True), result(content="no")),
    Probe("tool_result: image", result(content=[{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]), result(content="")),
    Probe("tool_result without a call", asked({"type": "tool_result", "tool_use_id": "c9", "content": "one"})),
    Probe("thinking of this upstream", told({"type": "thinking", "thinking": "R", "signature": "@state"}), told()),
    Probe("thinking of another", told({"type": "thinking", "thinking": "R", "signature": "foreign"}), told()),
    Probe("redacted_thinking of another", told({"type": "redacted_thinking", "data": "foreign"}), told()),
    Probe("mcp_tool_use and mcp_tool_result", told({"type": "mcp_tool_use", "id": "m1", "name": "find", "server_name": "docs", "input": {}}, {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": [{"type": "text", "text": "found"}]}), told()),
    Probe("server_tool_use and its result", told({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}), told()),
    Probe("tool_use in a user turn", asked({"type": "tool_use", "id": "c1", "name": "look", "input": {}})),
]  # fmt: skip

PROBES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
BASES: dict[str, Json] = {
    "chat": {"model": ALIAS, "messages": [CHAT_HI]},
    "responses": {"model": ALIAS, "input": [TURN]},
    "messages": {"model": ALIAS, "max_tokens": 4096, "messages": [TURN]},
}
KINDS = {"chat": "rd", "responses": "rs", "messages": "th"}


@dataclass(frozen=True)
class Judged:
    """What became of a field: kept, changed, dropped, ignored or refused; where it went, and what was said."""

    word: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.detail}" if self.detail else self.word


def judge(client: str, upstream: str, probe: Probe, *, strict: bool) -> Judged:
    def ask(members: Json) -> Any:
        text = json.dumps(BASES[client] | members).replace("@state", sealed(KINDS[upstream]))
        return requested(
            client, upstream, text.encode(), strict=strict, model=MODELS[upstream], traits=TRAITS[upstream]
        )

    plain, got = ask(probe.beside), ask(probe.beside | probe.members)
    if isinstance(got, Fault):
        return Judged("refused", f"`{got.code or got.kind}`")
    assert not isinstance(plain, Fault), (probe, plain)
    notes = [note for note in got.notes.kept if note not in plain.notes.kept]
    gained = list(dict.fromkeys(short(path) for path in differences(json.loads(plain.body), json.loads(got.body))))
    where = ", ".join(f"`{path}`" for path in gained[:3])
    if any(note.kind == "omitted" for note in notes) and not gained:
        return Judged("dropped", notes[0].message)
    if notes:
        return Judged("changed", "; ".join(dict.fromkeys(note.message for note in notes)))
    return Judged("kept", where) if gained else Judged("ignored")


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The paths at which two documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in after | before:
            if before.get(key) != after.get(key):
                yield from differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list):
        for index, value in enumerate(after):
            if index >= len(before) or before[index] != value:
                yield from differences(before[index] if index < len(before) else None, value, path)
    else:
        yield path


def short(path: str) -> str:
    return ".".join(path.split(".")[:3])


# Answers


SENTINEL = "sentinel"
FACTS: dict[str, Script] = {
    "reasoning text": Script((Think(SENTINEL, "c3RhdGU="), Say("T"))),
    "opaque reasoning state": Script((Think("R", "c3RhdGU="), Say("T"))),
    "text": Script((Say(SENTINEL),)),
    "refusal text": Script((Refuse(SENTINEL),)),
    "tool call": Script((Call("call_1", SENTINEL, "{}"),), stop="tool"),
    "provider-run MCP call": Script((Ran("mcp_1", "docs", SENTINEL, "{}", "found"), Say("T"))),
    "web citation": Script((Say("T", ((f"https://{SENTINEL}.test", "title"),)),)),
    "log probabilities": Script((Say("T"),)),
    "service tier": Script((Say("T"),)),
    "hosted tool call": Script((Say("T"),)),
}
LOGPROB: Json = {"token": SENTINEL, "logprob": -0.5, "bytes": None, "top_logprobs": []}


def body_of(upstream: str, fact: str) -> Json:
    """A whole answer with the fact in it, in the upstream's own words."""
    body: Json = WHOLE[upstream](FACTS[fact])
    match fact, upstream:
        case "service tier", "messages":
            body["usage"] |= {"service_tier": SENTINEL}
        case "service tier", _:
            body |= {"service_tier": SENTINEL}
        case "log probabilities", "chat":
            body["choices"][0] |= {"logprobs": {"content": [LOGPROB]}}
        case "log probabilities", "responses":
            body["output"][0]["content"][0] |= {"logprobs": [LOGPROB]}
        case "web citation", "chat":
            cited = {"url": f"https://{SENTINEL}.test", "title": "title", "start_index": 0, "end_index": 1}
            body["choices"][0]["message"] |= {"annotations": [{"type": "url_citation", "url_citation": cited}]}
        case "hosted tool call", "responses":
            body["output"].insert(
                0,
                {
                    "id": "ws_1",
                    "type": "web_search_call",
                    "status": "completed",
                    "action": {"type": "search", "query": SENTINEL},
                },
            )
        case "hosted tool call", "messages":
            body["content"].insert(
                0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": SENTINEL}}
            )
    return body


STOPS: dict[str, tuple[tuple[str, str], ...]] = {
    "chat": (("stop", "end"), ("tool_calls", "tool"), ("length", "length"), ("content_filter", "refusal")),
    "responses": (("completed", "end"), ("completed with calls", "tool"), ("incomplete: max_output_tokens", "length"), ("incomplete: content_filter", "refusal")),
    "messages": (("end_turn", "end"), ("tool_use", "tool"), ("max_tokens", "length"), ("refusal", "refusal"), ("stop_sequence", "stop_sequence"), ("pause_turn", "pause"), ("model_context_window_exceeded", "context")),
}  # fmt: skip


def has(upstream: str, fact: str) -> bool:
    """Tell whether an upstream dialect has such a fact at all."""
    missing = {"chat": ("provider-run MCP call", "hosted tool call"), "messages": ("refusal text", "log probabilities")}
    return fact not in missing.get(upstream, ())


def shown(client: str, upstream: str, fact: str, *, streamed: bool) -> str:
    """Where a fact of an answer stands in what the client gets."""
    got = answered(client, upstream, json.dumps(body_of(upstream, fact)).encode(), stream=streamed)
    lines = got.raw.decode().split("\n")
    documents = (
        [json.loads(line[6:]) for line in lines if line.startswith("data: {")] if streamed else [json.loads(got.raw)]
    )
    wanted = "gw1." if fact == "opaque reasoning state" else SENTINEL
    found = [path for document in documents for path in places(document, wanted)]
    if found:
        return f"`{found[0]}`"
    return "dropped, noted" if any(note.kind == "omitted" for note in got.notes) else "dropped"


def places(value: Any, wanted: str, path: str = "") -> Iterator[str]:
    """The paths of strings that contain a word; events are named by their type."""
    match value:
        case dict():
            start = (
                f"{value['type']}: "
                if not path and "type" in value and value["type"] not in ("message", "response")
                else ""
            )
            for key, inner in value.items():
                yield from places(inner, wanted, f"{path}.{key}" if path else start + key)
        case list():
            for inner in value:
                yield from places(inner, wanted, path)
        case str() if wanted in value:
            yield path


def stopped(client: str, upstream: str, native: str, neutral: str) -> str:
    blocks = (Say("T"), Call("call_1", "look", "{}")) if neutral == "tool" else (Say("T"),)
    known = neutral if neutral in ("end", "tool", "length", "refusal") else "end"
    body = WHOLE[upstream](Script(blocks, known))
    if upstream == "messages":
        body |= {"stop_reason": native, "stop_sequence": "END" if native == "stop_sequence" else None}
    raw = json.loads(answered_raw(client, upstream, body))
    match client:
        case "chat":
            return f"`{raw['choices'][0]['finish_reason']}`"
        case "messages":
            return f"`{raw['stop_reason']}`"
    return f"`{raw['status']}`" + (f", `{raw['incomplete_details']['reason']}`" if raw["incomplete_details"] else "")


def answered_raw(client: str, upstream: str, body: Json) -> bytes:
    machine = Pair(RECORDS[client], RECORDS[upstream]).whole(
        prepare(client, upstream, stream=False), json.dumps(body).encode()
    )
    assert machine.fault is None, machine.fault
    return machine.output


# The document

INTRO = """# What is mapped, changed, dropped, refused

Made by `python -m tests.fidelity` from the code itself; a test fails when the two differ. Each row is one field with one
value, sent through the pair beside the same request without it.

- **kept**: the upstream's body has it, at the path that is named.
- **changed**: kept in another form; a note says how.
- **dropped**: left out with a note. Where the strict column says refused, `translation = "strict"` refuses it instead.
- **ignored**: advisory or transport only; left out without a note, or what the upstream does anyway.
- **refused**: HTTP 400 before any upstream call, with the field's path and the code.

Notes are counted in the record of a request and in `x-dragoman-notes`; `dragoman translate` shows them. The models of
these tables are {models}, as if all took sampling controls. `translators/traits.py` says what
other families accept; a generic Chat server gets none of OpenAI's advisory fields. Where client and upstream speak the
same protocol nothing is translated: the bytes pass, save for the model's name, opaque state of another origin, and
`status: null` on Responses items; save, too, where the model's traits ask for policy or memory (docs/providers.md):
such a route is translated for every client.
"""


def document_text() -> str:
    models = ", ".join(f"`{MODELS[name]}` for {TITLES[name]}" for name in DIALECTS)
    parts = [INTRO.format(models=models)]
    parts += [request_table(client, upstream) for client in DIALECTS for upstream in DIALECTS if client != upstream]
    parts.append("# Answers\n\nWhere each fact of an answer stands for the client: in a whole answer / in a stream.\n")
    parts += [answer_table(upstream) for upstream in DIALECTS]
    return "\n".join(parts)


def request_table(client: str, upstream: str) -> str:
    lines = [
        f"## {TITLES[client]} client, {TITLES[upstream]} upstream\n",
        "| field | lenient | strict |",
        "|---|---|---|",
    ]
    for probe in PROBES[client]:
        lenient, strict = (judge(client, upstream, probe, strict=strict) for strict in (False, True))
        lines.append(f"| {probe.name} | {cell(lenient)} | {'same' if lenient == strict else cell(strict)} |")
    return "\n".join([*lines, ""])


def cell(judged: Judged) -> str:
    return str(judged).replace("|", "\\|").replace("\n", " ")


def answer_table(upstream: str) -> str:
    clients = [name for name in DIALECTS if name != upstream]
    head = [
        f"## {TITLES[upstream]} upstream\n",
        f"| answer | {' | '.join(f'{TITLES[name]} client' for name in clients)} |",
        "|---|---|---|",
    ]
    for fact in FACTS:
        if has(upstream, fact):
            cells = [
                " / ".join(shown(client, upstream, fact, streamed=streamed) for streamed in (False, True))
                for client in clients
            ]
            head.append(f"| {fact} | {' | '.join(cells)} |")
    for native, neutral in STOPS[upstream]:
        head.append(
            f"| stop: {native} | {' | '.join(stopped(client, upstream, native, neutral) for client in clients)} |"
        )
    return "\n".join([*head, ""])


if __name__ == "__main__":
    sys.stdout.write(document_text())
