"""What both native protocols and the two seeds ask for beside the edge matrix (issue 3, items 5 and 6), in every pair."""

import json

import pytest

from tests.translators.readings import answered, machine_of, spelled, translated
from tests.translators.scripts import CANONICAL, DIALECTS, Call, Counts, Ran, Say, Script
from tests.translators.wires import chat_usage, messages_usage, stream, whole

TEXT = Script((Say("Hello, world"),))
TWO = Script((Call("call_1", "look", '{"q":1}'), Call("call_2", "find", '{"p":[2]}')), stop="tool")
everywhere = pytest.mark.parametrize(("client", "upstream"), [(c, u) for c in DIALECTS for u in DIALECTS])


@everywhere
@pytest.mark.invariant("I16")
def test_final_counts_win(client, upstream):
    """Early counts never replace final ones, nor stand where final ones are."""
    got = translated(
        client, upstream, stream(upstream, Script(TEXT.blocks, counts=Counts(40, 4, 2, 20, 6), counted="early"))
    )
    assert {"prompt": 40, "cached": 4, "written": 2, "output": 20, "reasoning": 6} == got.usage
    assert (34, 4, 2, 20) == (got.counted.uncached, got.counted.cache_read, got.counted.cache_write, got.counted.output)


@everywhere
@pytest.mark.invariant("I16")
def test_late_service_tier(client, upstream):
    """A tier that is learnt late rewrites nothing that was sent."""
    frames = stream(upstream, TEXT)
    late = [
        frame.replace(b'"usage":{', b'"service_tier":"priority","usage":{"service_tier":"priority",')
        for frame in frames
    ]
    assert frames != late
    assert translated(client, upstream, frames).raw == translated(client, upstream, late).raw


@everywhere
@pytest.mark.invariant("I21")
def test_start_without_an_id(client, upstream):
    """An upstream that gives no id still gives an answer with one."""
    frames = [
        frame.replace(b'"chatcmpl-1"', b'""').replace(b'"resp_1"', b'""').replace(b'"msg_1"', b'""')
        for frame in stream(upstream, TEXT)
    ]
    got = translated(client, upstream, frames)
    assert ("success", "Hello, world") == (got.terminal, got.text())
    assert b"5eed5eed5eed5eed5eed5eed" in got.raw


@everywhere
@pytest.mark.invariant("I13")
def test_call_ids_are_not_item_ids(client, upstream):
    """The id by which a client answers a call is the upstream's call id, never an item's id."""
    got = translated(client, upstream, stream(upstream, TWO))
    assert ["call_1", "call_2"] == [block.id for block in got.blocks]
    if client == "responses":
        ids = [
            json.loads(line[6:])
            for line in got.raw.decode().split("\n")
            if '"response.output_item.done"' in line and line.startswith("data")
        ]
        assert ["fc_call_1", "fc_call_2"] == [event["item"]["id"] for event in ids]


@pytest.mark.parametrize("upstream", DIALECTS)
def test_signature_comes_before_the_stop(upstream):
    """For a Messages client the state is the last delta of its block."""
    raw = translated("messages", upstream, stream(upstream, CANONICAL)).raw
    assert raw.index(b"signature_delta") < raw.index(b"event: content_block_stop")


@pytest.mark.parametrize("upstream", DIALECTS)
def test_argument_fragments_pass_as_they_come(upstream):
    """Arguments are not held back until they are whole."""
    machine = machine_of("messages", upstream)
    frames = stream(upstream, Script((Call("call_1", "look", '{"text":"abcdef"}'),), stop="tool"))
    pieces = [spelled(machine.feed(frame))["tool"] for frame in frames]
    assert ['{"t', "ext", '":"', "abc", "def", '"}'] == [piece for piece in pieces if piece]


# What both native protocols can carry, neither loses (issue 3, item 6)

RECEIPT = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "docs",
    "name": "find",
    "arguments": '{"q":"x"}',
    "output": "found",
    "error": None,
}


@pytest.mark.parametrize(("usage", "counts"), [(chat_usage, (8, 3)), (messages_usage, (8, 3))])
def test_wires_count_the_same(usage, counts):
    """The builders of these tests mean the same counts by their own words."""
    told = usage(CANONICAL)
    prompt = told.get("prompt_tokens", 0) - 3 if "prompt_tokens" in told else told["input_tokens"]
    assert counts == (prompt, told.get("cache_read_input_tokens", 3))


def receipts(client, body):
    """The receipts of a whole answer: (server, name, arguments, output)."""
    if client == "responses":
        found = [item for item in body["output"] if item["type"] == "mcp_call"]
        return [(item["server_label"], item["name"], json.loads(item["arguments"]), item["output"]) for item in found]
    called = {block["id"]: block for block in body["content"] if block["type"] == "mcp_tool_use"}
    results = [block for block in body["content"] if block["type"] == "mcp_tool_result"]
    return [
        (
            called[one["tool_use_id"]]["server_name"],
            called[one["tool_use_id"]]["name"],
            called[one["tool_use_id"]]["input"],
            one["content"][0]["text"],
        )
        for one in results
    ]


@pytest.mark.parametrize(("client", "upstream"), [("responses", "messages"), ("messages", "responses")])
@pytest.mark.parametrize("streamed", [True, False])
def test_mcp_receipts_keep_their_native_shape(client, upstream, streamed):
    """A call that the provider ran arrives with server, name, arguments and outcome, and stops for no tool."""
    script = Script((Ran("mcp_1", "docs", "find", '{"q":"x"}', "found"), Say("T")))
    if streamed:
        got = translated(client, upstream, stream(upstream, script))
        assert (["receipt", "text"], "end") == (got.kinds, got.stop)
        return
    got = answered(client, upstream, whole(upstream, script), stream=False)
    assert [("docs", "find", {"q": "x"}, "found")] == receipts(client, json.loads(got.raw))
    assert "end" == got.stop


@pytest.mark.parametrize("client", ["chat", "messages"])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.invariant("I34")
def test_what_a_client_cannot_be_told_is_noted(client, streamed):
    """Citations that a client's protocol has no place for, and provider-run calls for a Chat client, are one note each."""
    cited = (("https://a.test", "A"), ("https://b.test", "B"))
    script = Script((Ran("mcp_1", "docs", "find", "{}", "found"), Say("T", cited), Say("U", cited)))
    got = answered(client, "responses", whole("responses", script), stream=streamed)
    lost = ["receipts"] * (client == "chat") + ["citations"] * (client == "messages" or streamed)
    assert lost == [note.field for note in got.notes if note.kind == "omitted"]
