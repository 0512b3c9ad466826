"""The edge matrix of spec/translation.md 5.6, each row in every pair where its upstream can bring it about.

E28 and E37 need sockets and a clock too: `tests/gateway/test_exchange.py` has those.
"""

import json

import pytest

from tests.translators.readings import ALIAS, answered, forwarded, machine_of, prepare, read, spelled, translated
from tests.translators.scripts import CANONICAL, DIALECTS, Call, Refuse, Say, Script, Think, expected
from tests.translators.wires import responses_whole, sse, stream, whole

TEXT = Script((Say("Hello, world"),))
TOOL = Script((Call("call_1", "look", '{"q":"x y"}'),), stop="tool")
TWO = Script((Call("call_1", "look", '{"q":1}'), Call("call_2", "find", '{"p":[2]}')), stop="tool")

chat_only, responses_only, messages_only = (
    pytest.mark.parametrize(("client", "upstream"), [(client, name) for client in DIALECTS]) for name in DIALECTS
)
openai_only = pytest.mark.parametrize(("client", "upstream"), [(c, u) for c in DIALECTS for u in ("chat", "responses")])
everywhere = pytest.mark.parametrize(("client", "upstream"), [(c, u) for c in DIALECTS for u in DIALECTS])
native = pytest.mark.parametrize("dialect", DIALECTS)


def chunk(delta=None, finish=None, **more):
    """One Chat chunk."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up-m"}
    return sse(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more)


def call(index=0, arguments=None, **identity):
    """One fragment of a Chat tool call."""
    function = {"name": identity.pop("name")} if "name" in identity else {}
    return chunk(
        {
            "tool_calls": [
                {
                    "index": index,
                    **identity,
                    "function": function | ({} if arguments is None else {"arguments": arguments}),
                }
            ]
        }
    )


def told(got):
    return [(block.kind, block.text) for block in got.blocks]


def calls(got):
    return [(block.id, block.name, json.loads(block.text or "{}")) for block in got.blocks if block.kind == "tool"]


def noted(got, word):
    return [note for note in got.notes if word in note.field or word in note.message]


ERROR_FRAME = {
    "chat": sse({"error": {"message": "Slow down.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}),
    "responses": sse({"type": "error", "sequence_number": 9, "code": "rate_limit_exceeded", "message": "Slow down."}),
    "messages": sse({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}, "error"),
}
ERROR_WORDS = {"chat": b"rate_limit", "responses": b"rate_limit_exceeded", "messages": b"rate_limit_error"}


@everywhere
@pytest.mark.edge("E1")
def test_finish_without_any_content(client, upstream):
    """An empty answer is an answer: it ends well, with nothing in it."""
    got = translated(client, upstream, stream(upstream, Script(())))
    assert ("success", "end", []) == (got.terminal, got.stop, got.blocks)
    got = answered(client, upstream, whole(upstream, Script(())), stream=False)
    assert ("success", "end", []) == (got.terminal, got.stop, got.blocks)


@everywhere
@pytest.mark.edge("E2")
def test_counts_after_the_stop_reason(client, upstream):
    """Counts that come last stand in the one terminal, which waits for them."""
    got = translated(client, upstream, stream(upstream, TEXT))
    assert (11, 7) == (got.usage["prompt"], got.usage["output"])
    terminals = {
        "chat": b'"finish_reason":"',
        "responses": b"event: response.completed",
        "messages": b"event: message_delta",
    }
    assert 1 == got.raw.count(terminals[client])


@everywhere
@pytest.mark.edge("E3")
def test_counts_never_come(client, upstream):
    """The wire shows zeros, the books say unknown, and a note tells (a Messages upstream always counts)."""
    got = translated(client, upstream, stream(upstream, Script(TEXT.blocks, counted="never")))
    assert (0, 0) == (got.usage["prompt"], got.usage["output"])
    assert (upstream == "messages") == got.counted.known
    assert (upstream != "messages") == bool(noted(got, "usage"))


@chat_only
@pytest.mark.edge("E4")
def test_counts_in_every_chunk(client, upstream):
    """Of cumulative counts the last ones are told."""
    got = translated(client, upstream, stream(upstream, TEXT, "counts everywhere"))
    assert (11, 7) == (got.usage["prompt"], got.usage["output"])


@chat_only
@pytest.mark.edge("E5")
def test_interleaved_fragments(client, upstream):
    """Fragments 0, 1, 0, 1 become two calls one after the other."""
    got = translated(client, upstream, stream(upstream, TWO, "interleaved", size=4))
    assert [("call_1", "look", {"q": 1}), ("call_2", "find", {"p": [2]})] == calls(got)


@chat_only
@pytest.mark.edge("E6")
def test_name_after_arguments(client, upstream):
    """A call opens once its name is known, with what came before."""
    got = translated(client, upstream, stream(upstream, TOOL, "late name"))
    assert [("call_1", "look", {"q": "x y"})] == calls(got)


@chat_only
@pytest.mark.edge("E7")
def test_identity_in_every_fragment(client, upstream):
    """A repeated id and name are told once."""
    got = translated(client, upstream, stream(upstream, TWO, "repeated identity"))
    assert [("call_1", "look"), ("call_2", "find")] == [(one[0], one[1]) for one in calls(got)]
    assert 1 == got.raw.count(b'"look"') or client == "responses"


@chat_only
@pytest.mark.edge("E8")
def test_name_never_comes(client, upstream):
    """A call without a name gets one, and a note."""
    frames = [
        chunk({"role": "assistant"}),
        call(id="call_1", arguments='{"q":1}'),
        chunk({}, "tool_calls"),
        sse("[DONE]"),
    ]
    got = translated(client, upstream, frames)
    assert [("call_1", "tool_0", {"q": 1})] == calls(got)
    assert noted(got, "name")


@everywhere
@pytest.mark.edge("E9")
def test_empty_deltas(client, upstream):
    """Deltas that say nothing become no events and no blocks."""
    frames = stream(upstream, TEXT, "empty deltas")
    if upstream == "responses":
        frames.insert(
            5,
            sse(
                {
                    "type": "response.output_text.delta",
                    "output_index": 0,
                    "content_index": 0,
                    "item_id": "msg_0",
                    "delta": "",
                }
            ),
        )
    plain = translated(client, upstream, stream(upstream, TEXT))
    assert plain.raw == translated(client, upstream, frames).raw


@everywhere
@pytest.mark.edge("E10")
def test_arguments_never_come(client, upstream):
    """A call without arguments says {}."""
    got = translated(client, upstream, stream(upstream, Script((Call("call_1", "look"),), stop="tool")))
    assert [("tool", "{}")] == told(got)


@everywhere
@pytest.mark.edge("E11")
def test_truncated_arguments_at_the_limit(client, upstream):
    """What came of the arguments stays, and the stop says that the answer was cut."""
    script = Script((Say("T"), Call("call_1", "look", '{"q":"x')), stop="length")
    frames = stream(upstream, script) if upstream != "messages" else cut_call(script)
    got = translated(client, upstream, frames)
    assert ("success", "length") == (got.terminal, got.stop)
    assert ("tool", '{"q":"x') in told(got)
    if client == "responses":
        assert b'"status":"incomplete","call_id":"call_1"' in got.raw


def cut_call(script):
    """A Messages stream whose last call ends inside its arguments."""
    frames = stream("messages", Script((*script.blocks[:-1], Call("call_1", "look")), stop="length"))
    at = next(at for at, frame in enumerate(frames) if b"tool_use" in frame)
    delta = {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"q":"x'},
    }
    return [*frames[: at + 1], sse(delta), *frames[at + 1 :]]


@openai_only
@pytest.mark.edge("E11")
def test_truncated_call_in_a_whole_answer(client, upstream):
    """In a Messages body, where input is an object, a call that was cut is left out; nobody runs half a call."""
    script = Script((Say("T"), Call("call_1", "look", '{"q":"x')), stop="length")
    got = answered(client, upstream, whole(upstream, script), stream=False)
    assert ("success", "length") == (got.terminal, got.stop)
    assert (["text"] if client == "messages" else ["text", "tool"]) == got.kinds


@openai_only
@pytest.mark.edge("E12")
def test_arguments_that_are_no_object(client, upstream):
    """A call that cannot be run as it is spelled ends the stream in an error, not in a tool stop."""
    for arguments in ('{"q":', "[1]", "rm -rf"):
        script = Script((Say("T"), Call("call_1", "look", arguments)), stop="tool")
        got = translated(client, upstream, stream(upstream, script))
        assert ("error", "invalid_tool_arguments") == (got.terminal, got.fault.code)
        assert "http" == answered(client, upstream, whole(upstream, script), stream=False).terminal


@everywhere
@pytest.mark.edge("E12")
def test_broken_call_is_never_handed_over(client, upstream):
    """A call that is no object fails before the next block begins, so no client sees it as a finished item."""
    broken, after = Call("call_1", "look", '{"q":'), (Say("U"), Call("call_2", "find", "{}"))
    if upstream == "messages":
        frames = [
            frame.replace(b'"max_tokens"', b'"tool_use"') for frame in cut_call(Script((Say("T"), broken), "length"))
        ]
        tail = [
            frame.replace(b'"index":0', b'"index":2')
            for frame in stream(upstream, Script(after[:1]))
            if b"content_block" in frame
        ]
        frames[-2:-2] = tail
    else:
        frames = stream(upstream, Script((Say("T"), broken, *after), stop="tool"))
    got = translated(client, upstream, frames)
    assert ("error", "invalid_tool_arguments") == (got.terminal, got.fault.code)
    if client == "responses":
        assert ["text"] == got.kinds


@messages_only
@pytest.mark.edge("E12")
def test_streamed_input_that_is_no_object(client, upstream):
    """The same where a Messages upstream streams it."""
    frames = [
        frame.replace(b'"max_tokens"', b'"tool_use"')
        for frame in cut_call(Script((Say("T"), TOOL.blocks[0]), stop="length"))
    ]
    got = translated(client, upstream, frames)
    assert ("error", "invalid_tool_arguments") == (got.terminal, got.fault.code)


@everywhere
@pytest.mark.edge("E13")
def test_reasoning_tool_reasoning_text(client, upstream):
    """Four blocks in that order; a Chat client has no order between kinds."""
    script = Script((Think("R1"), Call("call_1", "look", "{}"), Think("R2"), Say("T")), stop="tool")
    got = translated(client, upstream, stream(upstream, script))
    if client == "chat":
        assert ("R1R2", "T") == (got.text("reasoning"), got.text())
    else:
        assert [("reasoning", "R1"), ("tool", "{}"), ("reasoning", "R2"), ("text", "T")] == told(got)


@everywhere
@pytest.mark.edge("E14")
def test_state_without_text(client, upstream):
    """Opaque state alone is a reasoning block with no text, so that it can come back."""
    got = translated(client, upstream, stream(upstream, Script((Think("", "c3RhdGU="), Say("T")))))
    assert [("reasoning", "", True), ("text", "T", False)] == [
        (block.kind, block.text, block.stateful) for block in in_order(got)
    ]


def in_order(got):
    return sorted(got.blocks, key=lambda block: block.kind)


@everywhere
@pytest.mark.edge("E14")
def test_state_alone_for_a_client_that_never_spoke_of_thinking(client, upstream):
    """A Messages client that did not ask for thinking gets no block that it cannot read."""
    script = Script((Think("", "c3RhdGU="), Say("T")))
    prepared = prepare(client, upstream)
    asked = {"thinking": None} if client == "messages" else {}
    got = translated(
        client, upstream, stream(upstream, script), prepare(client, upstream, **asked) if asked else prepared
    )
    assert (["text"] if client == "messages" else ["reasoning", "text"]) == sorted(got.kinds)


@responses_only
@pytest.mark.edge("E15")
def test_several_summary_parts(client, upstream):
    """The parts of one reasoning item are one block, with a blank line between."""
    item = {
        "id": "rs_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in ("one", "two")],
    }
    place = {"item_id": "rs_0", "output_index": 0}
    frames = stream(upstream, Script(()))
    frames[2:2] = [
        sse({"type": "response.output_item.added", "output_index": 0, "item": item | {"summary": []}}),
        *(sse({"type": "response.reasoning_summary_text.delta", "summary_index": at, "delta": part["text"], **place}) for at, part in enumerate(item["summary"])),
        sse({"type": "response.output_item.done", "output_index": 0, "item": item}),
    ]  # fmt: skip
    assert [("reasoning", "one\n\ntwo")] == told(translated(client, upstream, frames))
    body = responses_whole(Script(())) | {"output": [item]}
    assert [("reasoning", "one\n\ntwo")] == told(answered(client, upstream, json.dumps(body).encode(), stream=False))


@openai_only
@pytest.mark.edge("E16")
def test_refusal_alone(client, upstream):
    """A refusal is shown, in the client's own form, and the stop tells of it."""
    got = translated(client, upstream, stream(upstream, Script((Refuse("I will not."),))))
    assert [("text" if client == "messages" else "refusal", "I will not.")] == told(got)
    assert "refusal" == got.stop or client == "responses"


@openai_only
@pytest.mark.edge("E17")
def test_refusal_and_tool_call(client, upstream):
    """Both arrive, the stop is for the tool, and a note keeps what the stop cannot say."""
    got = translated(client, upstream, stream(upstream, Script((Refuse("Not that."), TOOL.blocks[0]), stop="tool")))
    assert ({"tool", "text" if client == "messages" else "refusal"}, "tool") == (set(got.kinds), got.stop)
    assert noted(got, "refusal")


@messages_only
@pytest.mark.edge("E18")
@pytest.mark.invariant("I14")
def test_late_refusal_keeps_the_text(client, upstream):
    """Text that was told stays text; the end says incomplete by a filter."""
    got = translated(client, upstream, stream(upstream, Script((Say("So far so good"),), stop="refusal")))
    assert ([("text", "So far so good")], "refusal") == (told(got), got.stop)
    if client == "responses":
        assert b'"incomplete_details":{"reason":"content_filter"}' in got.raw


@everywhere
@pytest.mark.edge("E19")
@pytest.mark.invariant("I15")
def test_two_text_parts(client, upstream):
    """Neither part is lost; where the client knows parts they stay two."""
    got = translated(client, upstream, stream(upstream, Script((Say("one"), Say("two")))))
    assert "onetwo" == got.text()
    assert (1 if "chat" in (client, upstream) else 2) == len(got.blocks)


@responses_only
@pytest.mark.edge("E20")
def test_hosted_items_between(client, upstream):
    """What the client cannot know is left out without a gap, and noted once a type."""
    script = Script((Say("one"), Think("R"), Say("two")))
    got = translated(client, upstream, stream(upstream, script, "hosted item"))
    assert [(block.kind, block.text) for block in expected(script, client, upstream)] == told(got)
    assert (1, 1) == (len(noted(got, "web_search_call")), len(noted(got, "code_interpreter_call")))


@messages_only
@pytest.mark.edge("E20")
def test_server_tool_blocks_between(client, upstream):
    """The same for a Messages upstream's server tools."""
    script = Script((Say("one"), Think("R"), Say("two")))
    got = translated(client, upstream, stream(upstream, script, "unknown blocks"))
    assert [(block.kind, block.text) for block in expected(script, client, upstream)] == told(got)
    assert (1, 1) == (len(noted(got, "server_tool_use")), len(noted(got, "web_search_tool_result")))


@everywhere
@pytest.mark.edge("E21")
@pytest.mark.invariant("I28")
def test_unknown_events(client, upstream):
    """Events that nobody knows change no byte of the answer."""
    frames = stream(upstream, CANONICAL)
    unknown = (
        sse({"object": "chat.surprise", "model": "x"})
        if upstream == "chat"
        else sse({"type": "surprise.happened", "index": 0, "delta": {"x": 1}}, "surprise.happened")
    )
    noisy = [also for frame in frames[:-1] for also in (frame, unknown)] + frames[-1:]
    got = translated(client, upstream, noisy)
    assert translated(client, upstream, frames).raw == got.raw
    assert upstream == "chat" or 1 == len(noted(got, "surprise"))


@messages_only
@pytest.mark.edge("E21")
def test_unknown_deltas(client, upstream):
    """So do deltas of unknown types in known blocks."""
    got = translated(client, upstream, stream(upstream, CANONICAL, "unknown deltas"))
    assert translated(client, upstream, stream(upstream, CANONICAL)).raw == got.raw
    assert 1 == len(noted(got, "mood_delta"))


@everywhere
@pytest.mark.edge("E22")
@pytest.mark.invariant("I29")
def test_events_after_the_terminal(client, upstream):
    """The terminal once more, and content after it, reach nobody."""
    frames = stream(upstream, CANONICAL)
    got = translated(client, upstream, frames + frames[-1:] + frames[2:])
    assert translated(client, upstream, frames).raw == got.raw


@native
@pytest.mark.edge("E22")
def test_native_stream_after_its_terminal(dialect):
    """On the native path what follows the terminal cannot turn a success into a failure."""
    frames = stream(dialect, CANONICAL)
    raw, machine = forwarded(dialect, [*frames, ERROR_FRAME[dialect][:20]])
    assert machine.fault is None
    assert forwarded(dialect, frames)[0] == raw


@everywhere
@pytest.mark.edge("E23")
def test_end_in_mid_text(client, upstream):
    """An upstream that just stops gives an error in the client's form after what was told."""
    frames = stream(upstream, TEXT)
    at = next(at for at, frame in enumerate(frames) if b"Hel" in frame)
    got = translated(client, upstream, frames[: at + 1])
    assert ("error", "eof", "Hel") == (got.terminal, got.fault.cause, spelled(got.raw)["text"])


@native
@pytest.mark.edge("E23")
def test_native_end_in_mid_text(dialect):
    """So on the native path: one error event behind the bytes that came."""
    frames = stream(dialect, TEXT)
    raw, machine = forwarded(dialect, frames[: len(frames) // 2])
    assert "eof" == machine.fault.cause
    assert {"chat": b'"error"', "responses": b"response.failed", "messages": b"event: error"}[dialect] in raw


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize(
    ("upstream", "quirk", "word"),
    [("chat", "no [DONE]", "missing_done"), ("messages", "no message_stop", "message_stop")],
)
@pytest.mark.edge("E24")
def test_end_without_the_last_mark(client, upstream, quirk, word):
    """Once the stop reason is known the answer is complete: a success with a note, in strict mode an error."""
    got = translated(client, upstream, stream(upstream, TEXT, quirk))
    assert ("success", "end") == (got.terminal, got.stop)
    assert noted(got, word)
    assert "error" == translated(client, upstream, stream(upstream, TEXT, quirk), strict=True).terminal


@everywhere
@pytest.mark.edge("E25")
def test_error_in_mid_stream(client, upstream):
    """An upstream's error becomes the client's, with its kind."""
    frames = stream(upstream, TEXT)
    at = next(at for at, frame in enumerate(frames) if b"Hel" in frame)
    got = translated(client, upstream, [*frames[: at + 1], ERROR_FRAME[upstream], *frames[at:]])
    assert ("error", "rate_limited") == (got.terminal, got.fault.kind)
    assert ERROR_WORDS[client] in got.raw


@native
@pytest.mark.edge("E25")
def test_native_error_in_mid_stream(dialect):
    """On the native path as well, and nothing follows it."""
    frames = stream(dialect, TEXT)
    raw, machine = forwarded(dialect, [*frames[:5], ERROR_FRAME[dialect], *frames[5:]])
    assert "rate_limited" == machine.fault.kind
    assert raw.rstrip().rpartition(b"\n\n")[2].count(b"Slow down.") == 1


@everywhere
@pytest.mark.edge("E26")
def test_failure_before_any_content(client, upstream):
    """An error right after the handshake is still an HTTP error: nothing was sent to the client."""
    opening = {"chat": 1, "responses": 2, "messages": 1}[upstream]
    got = translated(client, upstream, [*stream(upstream, TEXT)[:opening], ERROR_FRAME[upstream]])
    assert ("http", "rate_limited", 429) == (got.terminal, got.fault.kind, got.fault.status)


@responses_only
@pytest.mark.edge("E26")
def test_failed_response_before_any_content(client, upstream):
    """So with response.failed; where headers are out already, the error form of the client says it."""
    failed = responses_whole(Script(())) | {"status": "failed", "error": {"code": "server_error", "message": "Sorry."}}
    got = translated(
        client, upstream, [stream(upstream, TEXT)[0], sse({"type": "response.failed", "response": failed})]
    )
    assert ("http", "api") == (got.terminal, got.fault.kind)
    assert "error" == read(client, got.raw).terminal


@everywhere
@pytest.mark.edge("E27")
def test_whole_answer_where_a_stream_was_asked_for(client, upstream):
    """It is told as a stream that means the same."""
    got = answered(client, upstream, whole(upstream, CANONICAL))
    assert ("success", "tool") == (got.terminal, got.stop)
    assert told(translated(client, upstream, stream(upstream, CANONICAL))) == told(got)


@everywhere
@pytest.mark.edge("E29")
@pytest.mark.invariant("I3")
def test_malformed_json_in_one_event(client, upstream):
    """It poisons the stream: an error, and nothing of what follows."""
    frames = stream(upstream, TEXT)
    at = next(at for at, frame in enumerate(frames) if b"Hel" in frame)
    got = translated(
        client, upstream, [*frames[: at + 1], b'data: {"type": "response.output_te\n\n', *frames[at + 1 :]]
    )
    assert ("error", "protocol", "Hel") == (got.terminal, got.fault.cause, spelled(got.raw)["text"])


@responses_only
@pytest.mark.edge("E30")
def test_no_created_event(client, upstream):
    """The answer begins by itself; strict refuses."""
    got = translated(client, upstream, stream(upstream, TEXT, "no created"))
    assert ("success", "Hello, world") == (got.terminal, got.text())
    assert noted(got, "response.created")
    assert "http" == translated(client, upstream, stream(upstream, TEXT, "no created"), strict=True).terminal


@responses_only
@pytest.mark.edge("E31")
def test_only_the_final_response(client, upstream):
    """All content is told from the terminal event."""
    got = translated(client, upstream, stream(upstream, CANONICAL, "final only"))
    assert told(translated(client, upstream, stream(upstream, CANONICAL))) == told(got)


@responses_only
@pytest.mark.edge("E32")
@pytest.mark.invariant("I7")
def test_final_text_that_differs(client, upstream):
    """The deltas count; the difference is noted, and in strict mode an error."""
    frames = [frame.replace(b'"Hello, world"', b'"Goodbye"') for frame in stream(upstream, TEXT)]
    got = translated(client, upstream, frames)
    assert ("success", "Hello, world") == (got.terminal, got.text())
    assert noted(got, "done")
    assert "error" == translated(client, upstream, frames, strict=True).terminal


@responses_only
@pytest.mark.edge("E33")
def test_item_ids_that_come_late(client, upstream):
    """Events belong together by output_index when their ids are missing."""
    got = translated(client, upstream, stream(upstream, TWO, "late item ids", "interleaved"))
    assert [("call_1", "look", {"q": 1}), ("call_2", "find", {"p": [2]})] == calls(got)


@everywhere
@pytest.mark.edge("E34")
def test_tool_call_in_a_cut_answer(client, upstream):
    """The limit wins over the call: no client runs what may be half of it."""
    got = translated(client, upstream, stream(upstream, Script((Call("call_1", "look", "{}"),), stop="length")))
    assert ("length", ["tool"]) == (got.stop, got.kinds)


@chat_only
@pytest.mark.edge("E35")
def test_plain_stop_with_tool_calls(client, upstream):
    """Calls that were delivered make it a tool stop."""
    assert "tool" == translated(client, upstream, stream(upstream, TOOL, "plain stop")).stop


@pytest.mark.parametrize(("client", "upstream"), [(c, u) for c in DIALECTS for u in ("chat", "messages")])
@pytest.mark.edge("E36")
def test_tool_stop_without_a_call(client, upstream):
    """A tool stop with nothing to run would make an agent loop: it is the end of the turn."""
    assert "end" == translated(client, upstream, stream(upstream, Script((Say("T"),), stop="tool"))).stop


@everywhere
@pytest.mark.edge("E37")
def test_comments_and_pings_are_not_passed_on(client, upstream):
    """Upstream keepalives become nothing; what keeps a silent client alive is no event of the answer."""
    quirks = ("comments", "pings") if upstream == "messages" else ("comments",)
    got = translated(client, upstream, stream(upstream, TEXT, *quirks))
    assert translated(client, upstream, stream(upstream, TEXT)).raw == got.raw
    machine = machine_of(client, upstream)
    assert machine.keepalive().startswith(b":")
    raw = b"".join(machine.feed(frame) + machine.keepalive() for frame in stream(upstream, TEXT)) + machine.finish()
    assert ("success", "Hello, world", b"") == (
        read(client, raw).terminal,
        read(client, raw).text(),
        machine.keepalive(),
    )


@everywhere
@pytest.mark.edge("E38")
def test_model_name_is_the_clients(client, upstream):
    """No event names the upstream's model."""
    got = translated(client, upstream, stream(upstream, CANONICAL))
    assert ALIAS == got.model
    assert b"up-m" not in got.raw


@native
@pytest.mark.edge("E38")
def test_model_name_is_the_clients_on_the_native_path(dialect):
    """Nor does one of a native stream."""
    raw, _ = forwarded(dialect, stream(dialect, CANONICAL))
    assert b"up-m" not in raw
    assert ALIAS.encode() in raw


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@pytest.mark.edge("E39")
def test_custom_tool_returns_to_a_responses_client(upstream):
    """A call of the function that stands for a custom tool comes back as the custom call, its input unwrapped."""
    patch = "*** Begin Patch\n+é\n"
    tools = [{"type": "custom", "name": "apply_patch", "description": "Edit."}]
    script = Script((Call("call_1", "apply_patch", json.dumps({"input": patch})),), stop="tool")
    for streamed in (True, False):
        got = translated("responses", upstream, stream(upstream, script), stream=streamed, tools=tools)
        assert [("tool", patch)] == told(got)
        assert b'"custom_tool_call"' in got.raw
        assert b"function_call" not in got.raw


@messages_only
@pytest.mark.edge("E40")
def test_citations(client, upstream):
    """A web citation spans the text of its block for clients that know such, and the text is whole for all."""
    script = Script((Say("Before. "), Say("Sunny.", (("https://example.test/w", "Weather"),)), Say(" After.")))
    got = translated(client, upstream, stream(upstream, script))
    assert "Before. Sunny. After." == got.text()
    if client == "responses":
        (cited,) = got.citations
        assert ("https://example.test/w", 0, 6) == (cited["url"], cited["start_index"], cited["end_index"])
    body = json.loads(answered(client, upstream, whole(upstream, script), stream=False).raw)
    if client == "chat":
        cited = body["choices"][0]["message"]["annotations"][0]["url_citation"]
        assert "Sunny." == "Before. Sunny. After."[cited["start_index"] : cited["end_index"]]


@messages_only
@pytest.mark.edge("E40")
def test_citations_of_documents(client, upstream):
    """Citations that only Anthropic's API can make are left out, and the text stays."""
    frames = stream(upstream, TEXT)
    cited = {
        "type": "char_location",
        "cited_text": "x",
        "document_index": 0,
        "start_char_index": 0,
        "end_char_index": 1,
    }
    frames.insert(
        3, sse({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": cited}})
    )
    assert translated(client, upstream, stream(upstream, TEXT)).raw == translated(client, upstream, frames).raw
