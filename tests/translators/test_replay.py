"""Tool-call replay as pure functions: the pipeline of spec/grok.md 11.4 over parsed requests."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Conversation, Opaque, Text, Tool, ToolCall, ToolResult, Turn
from translators.dialects import DIALECTS
from translators.fault import Refused
from translators.notes import Notes
from translators.replay import Memory, Past, check_resolved, expand, insert, prune, restore

A, B = ToolCall("call_a", "lookup", '{"q":"a"}'), ToolCall("call_b", "lookup", '{"q":"b"}')
OUT_A, OUT_B = ({"type": "function_call_output", "call_id": call.id, "output": f"of {call.id}"} for call in (A, B))
SAID = {"type": "message", "role": "user", "content": "go on"}


def ref(name):
    return {"type": "item_reference", "id": name}


def parsed(*items, **more) -> Conversation:
    body = msgspec.json.encode({"model": "m", "input": list(items), **more})
    return DIALECTS["responses"].parse(body, Notes())


def memory(items=(), responses=(), sessions=(), pasts=()) -> Memory:
    look = lambda table: lambda name: dict(table).get(name, ())
    return Memory(look(items), look(responses), look(sessions), lambda name: dict(pasts).get(name))


def shape(conversation) -> list[str]:
    """The parts in order: calls and outputs by their call, texts as they are."""
    found = []
    for turn in conversation.turns:
        for part in turn.parts:
            match part:
                case ToolCall(id=name):
                    found.append(f"call {name}")
                case ToolResult(call_id=name):
                    found.append(f"out {name}")
                case Text(text=text):
                    found.append(text)
                case _:
                    found.append(part.kind)
    return found


def test_call_of_a_response_is_put_back():
    """The call stands directly before its output, and the id of the answer is gone from the request."""
    request = parsed(OUT_A, SAID, previous_response_id="resp_1")
    found = restore(request, memory(responses=[("resp_1", (A,))]))
    assert ["call call_a", "out call_a", "go on"] == shape(found.conversation)
    assert found.conversation.previous_response_id is None
    assert "resp_1" == found.conversation.echo["previous_response_id"]
    assert (1, 0, 0) == (found.found, found.missed, found.pruned)
    check_resolved(found.conversation)


def test_reference_becomes_its_call():
    """A reference is replaced where it stands."""
    found = restore(parsed(SAID, ref("fc_call_a"), OUT_A), memory([("fc_call_a", (A,))]))
    assert ["go on", "call call_a", "out call_a"] == shape(found.conversation)


def test_bare_id_is_a_reference():
    """An object with nothing but an id is taken for a reference."""
    found = restore(parsed({"id": "fc_call_a"}, OUT_A), memory([("fc_call_a", (A,))]))
    assert ["call call_a", "out call_a"] == shape(found.conversation)


@pytest.mark.parametrize("name", ["fc_call_a", "ctc_call_a", "call_a"])
def test_calls_of_the_named_response_come_first(name):
    """Where two answers gave a call the same id, a reference means the one of the answer that is named."""
    other = msgspec.structs.replace(A, arguments="{}")
    request = parsed(ref(name), OUT_A, previous_response_id="resp_1")
    found = restore(request, memory([(name, (other,))], [("resp_1", (A,))]))
    assert A == found.conversation.turns[0].parts[0]


def test_reference_and_response_give_one_call():
    """A call that a reference brought back is not put in a second time."""
    request = parsed(ref("fc_call_a"), OUT_A, previous_response_id="resp_1")
    found = restore(request, memory([("fc_call_a", (A,))], [("resp_1", (A,))]))
    assert ["call call_a", "out call_a"] == shape(found.conversation)


def test_reference_to_a_call_that_stands_there():
    """A client that sends the call and a reference to it means one call."""
    call = {"type": "function_call", "call_id": "call_a", "name": "lookup", "arguments": "{}"}
    found = restore(parsed(call, ref("fc_call_a"), OUT_A), memory([("fc_call_a", (A,))]))
    assert ["call call_a", "out call_a"] == shape(found.conversation)


def test_unknown_references_and_their_outputs_go():
    """What nobody knows is left out, and what is left goes on."""
    found = restore(parsed(ref("missing"), ref(" "), {**OUT_A, "call_id": "orphan"}, SAID), memory())
    assert ["go on"] == shape(found.conversation)
    assert (0, 2, 1) == (found.found, found.missed, found.pruned)


def test_parallel_calls_keep_their_order():
    """Calls come in the order of the answer, contiguous, before outputs in any order."""
    found = restore(parsed(OUT_B, OUT_A, previous_response_id="r"), memory(responses=[("r", (A, B))]))
    assert ["call call_a", "call call_b", "out call_b", "out call_a"] == shape(found.conversation)


def test_partial_match_keeps_what_matches():
    """An output without a call goes, the other one stays."""
    found = restore(parsed(OUT_A, OUT_B, previous_response_id="r"), memory(responses=[("r", (A,))]))
    assert ["call call_a", "out call_a"] == shape(found.conversation)


def test_call_stands_before_the_first_output_that_it_answers():
    """Outputs of calls that stand in the request stay where they are."""
    call = {"type": "function_call", "call_id": "call_b", "name": "lookup", "arguments": "{}"}
    found = restore(parsed(call, OUT_B, OUT_A, previous_response_id="r"), memory(responses=[("r", (A,))]))
    assert ["call call_b", "out call_b", "call call_a", "out call_a"] == shape(found.conversation)


def test_session_key_helps_where_the_response_is_unknown():
    """The session's last tool turn is asked too; a call of both is put in once."""
    request = parsed(OUT_A, OUT_B, previous_response_id="gone", prompt_cache_key="thread")
    found = restore(request, memory(sessions=[("thread", (A, B))]))
    assert ["call call_a", "call call_b", "out call_a", "out call_b"] == shape(found.conversation)
    both = restore(request, memory(responses=[("gone", (A,))], sessions=[("thread", (A, B))]))
    assert shape(found.conversation) == shape(both.conversation)
    alone = restore(parsed(OUT_A, prompt_cache_key="thread"), memory(sessions=[("thread", (A, B))]))
    assert ["call call_a", "out call_a"] == shape(alone.conversation)


def test_nothing_left_is_refused():
    """A request of which nothing remains is a 400 that tells the client to send everything."""
    for more, param in (({"previous_response_id": "gone"}, "previous_response_id"), ({}, "input")):
        items = [OUT_A] if more else [ref("gone")]
        with pytest.raises(Refused) as refused:
            restore(parsed(*items, **more), memory())
        fault = refused.value.fault
        assert (400, "previous_response_not_found", param) == (fault.status, fault.code, fault.param)


def test_unknown_answer_without_history_stays():
    """A request that leans on an unknown answer alone is left for the guard: going on would forget it all."""
    found = restore(parsed(SAID, previous_response_id="gone"), memory())
    assert "gone" == found.conversation.previous_response_id
    with pytest.raises(Refused) as refused:
        check_resolved(found.conversation)
    assert "previous_response_not_found" == refused.value.fault.code


def test_client_with_its_own_history_goes_on():
    """An unknown answer is no loss for a client that sends what was said."""
    told = {"type": "message", "role": "assistant", "content": "hello"}
    found = restore(parsed(SAID, told, SAID, previous_response_id="gone"), memory())
    assert found.conversation.previous_response_id is None
    assert ["go on", "hello", "go on"] == shape(found.conversation)


def test_a_lost_reference_without_outputs_is_refused():
    """It named a part of the conversation, which going on would forget (spec/translation.md 3.3)."""
    found = restore(parsed(SAID, ref("msg_1"), SAID), memory())
    assert ["go on", "item_reference", "go on"] == shape(found.conversation)
    with pytest.raises(Refused) as refused:
        check_resolved(found.conversation)
    assert (400, "missing_state") == (refused.value.fault.status, refused.value.fault.code)


def test_empty_memory_knows_nothing():
    """Without a store nothing is resolved, and nothing breaks."""
    found = restore(parsed(SAID, ref("fc_call_a"), previous_response_id="r", prompt_cache_key="k"), Memory())
    assert ["go on"] == shape(found.conversation)
    assert 1 == restore(parsed(SAID, OUT_A, prompt_cache_key="k", previous_response_id="r"), Memory()).pruned


def test_strict_leaves_what_it_cannot_resolve():
    """Strict routes drop nothing: the guard refuses the reference."""
    found = restore(parsed(SAID, ref("missing"), OUT_A), memory(), strict=True)
    assert ["go on", "item_reference", "out call_a"] == shape(found.conversation)
    with pytest.raises(Refused) as refused:
        check_resolved(found.conversation)
    assert "missing_state" == refused.value.fault.code


def test_orphans_of_others_are_not_ours():
    """A request that refers to nothing keeps its orphaned outputs; adjacency tells of them."""
    request = parsed(OUT_A, SAID)
    assert request is restore(request, memory()).conversation


def test_other_dialects_pass():
    """Clients of other protocols have no references."""
    request = Conversation("chat", "m", turns=(Turn("user", (ToolResult("call_a"),)),))
    assert request is restore(request, memory(items=[("call_a", (A,))])).conversation


def test_unchanged_is_the_same_object():
    """What needs nothing is not copied."""
    call = {"type": "function_call", "call_id": "call_a", "name": "lookup", "arguments": "{}"}
    request = parsed(SAID, call, OUT_A)
    assert request is restore(request, memory([("x", (B,))])).conversation
    turns = request.turns
    assert turns is expand(turns, lambda _: ())[0]
    assert turns is insert(turns, (A, B))
    assert turns is prune(turns)


def test_whole_conversation_goes_before():
    """A remembered conversation stands before the new input; instructions are the new request's own."""
    past = Past((Text("dev note"),), (Turn("user", (Text("hello"),)), Turn("assistant", (A,))), (Tool("custom", "x"),))
    request = parsed(
        {"type": "message", "role": "developer", "content": "dev note"},
        OUT_A,
        ref("fc_call_a"),
        previous_response_id="r",
        instructions="be brief",
        tools=[{"type": "function", "name": "lookup"}],
    )
    found = restore(request, memory(items=[("fc_call_a", (A,))], pasts=[("r", past)])).conversation
    assert ["be brief", "dev note"] == [text.text for text in found.system]
    assert ["hello", "call call_a", "out call_a"] == shape(found)
    assert ["lookup", "x"] == [tool.name for tool in found.tools]
    assert found.previous_response_id is None


def test_odd_reference_is_unknown():
    """A reference whose id is no text refers to nothing."""
    turns = (Turn("assistant", (Opaque("responses", "item_reference", b'{"id":7}'), Text("kept"))),)
    assert ((Turn("assistant", (Text("kept"),)),), 0, 1) == expand(turns, lambda _: (A,))


@given(st.lists(st.sampled_from(["a", "b", "ref a", "ref x", "out a", "out b", "out x", "say"]), max_size=12))
def test_no_output_is_left_alone(plan):
    """Whatever leaning requests hold: afterwards every output has its call, no call stands twice, texts are kept."""
    calls = {"a": A, "b": B}
    items = []
    for step in plan:
        kind, _, name = step.rpartition(" ")
        if kind == "ref":
            items.append(ref(f"fc_call_{name}"))
        elif kind == "out":
            items.append({"type": "function_call_output", "call_id": f"call_{name}", "output": "x"})
        elif step == "say":
            items.append(SAID)
        elif not any(item.get("name") == step for item in items):
            items.append({"type": "function_call", "call_id": f"call_{step}", "name": step, "arguments": "{}"})
    known = memory([(f"fc_call_{name}", (call,)) for name, call in calls.items()], [("r", (A, B))])
    try:
        found = restore(parsed(*items, previous_response_id="r"), known).conversation
    except Refused:
        return
    told = shape(found)
    ids = [line.split()[1] for line in told if line.startswith("call ")]
    assert plan.count("say") == told.count("go on")
    assert {line.split()[1] for line in told if line.startswith("out ")} <= set(ids)
    if not any(step.startswith("ref") for step in plan) or len({*ids}) == len(ids):
        assert len(ids) == len(set(ids))
