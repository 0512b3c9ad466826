"""The lifecycle invariants of spec/translation.md 7, each named by its number, across all pairs.

What single modules, generated scripts or sockets prove is proven there under the same marks; the last test here fails
when a row of the edge matrix or an invariant has no test at all.
"""

import json
import re
from itertools import permutations
from pathlib import Path

import pytest

from tests.translators.readings import ALIAS, forwarded, machine_of, prepare, requested, spelled, translated
from tests.translators.scripts import CANONICAL, DIALECTS, PAIRS, Call, Ran, Refuse, Say, Script, Think
from tests.translators.wires import sse, stream, whole
from translators.carrier import is_carrier, origin_of, seal
from translators.dialects import DIALECTS as RECORDS
from translators.events import Carried
from translators.fault import Fault
from translators.notes import Notes
from translators.pair import Pair, Prepared, TranslatedStream
from translators.sequencer import Budget

TESTS = Path(__file__).resolve().parents[1]
pairs = pytest.mark.parametrize(("client", "upstream"), PAIRS)
RICH = Script(
    (Think("R", "c3RhdGU="), Say("T"), Call("call_1", "look", '{"q":1}'), Say("U"), Call("call_2", "find", "{}")),
    stop="tool",
)


def events_of(raw: bytes) -> list[dict]:
    return [json.loads(line[6:]) for line in raw.decode().split("\n") if line.startswith("data: {")]


# Source side


@pytest.mark.parametrize(
    ("upstream", "quirk"),
    [
        ("chat", "no [DONE]"),
        ("responses", "no created"),
        ("responses", "final only"),
        ("messages", "no message_stop"),
        ("messages", "open blocks"),
    ],
)
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.invariant("I1")
def test_repairs_are_noted_or_refused(client, upstream, quirk):
    """A deviation of the list is mended with a note; strict takes it for what it is."""
    frames = stream(upstream, Script((Say("Hello"),)), quirk)
    got = translated(client, upstream, frames)
    assert ("success", "Hello") == (got.terminal, got.text())
    assert [note for note in got.notes if note.kind == "changed"]
    refused = translated(client, upstream, frames, strict=True)
    assert (refused.terminal in ("error", "http"), True) == (True, refused.fault is not None)


VIOLATIONS = {
    "chat": [sse({"choices": [{"index": 0, "delta": {"content": "more"}, "finish_reason": None}]})],
    "responses": [
        sse({"type": "response.output_item.done", "output_index": 2, "item": {"type": "message", "content": []}})
    ],
    "messages": [sse({"type": "content_block_delta", "index": 77, "delta": {"type": "text_delta", "text": "x"}})],
}


@pairs
@pytest.mark.invariant("I1")
@pytest.mark.invariant("I6")
def test_violations_are_errors(client, upstream):
    """What no repair covers ends the stream, also in lenient mode."""
    frames = stream(upstream, Script((Say("Hello"), Call("call_1", "look", "{}"), Think("R")), stop="tool"))
    at = {"chat": -2, "responses": -1, "messages": -2}[upstream]
    if upstream == "responses":
        frames = [
            frame.replace(b'"call_id":"call_1"', b'"call_id":"call_9"') if b"output_item.done" in frame else frame
            for frame in frames
        ]
    else:
        frames[at:at] = VIOLATIONS[upstream]
    got = translated(client, upstream, frames)
    assert ("error", "protocol") == (got.terminal, got.fault.cause)


@pairs
@pytest.mark.invariant("I3")
@pytest.mark.invariant("I4")
def test_a_failed_push_poisons(client, upstream):
    """After a broken frame nothing comes out any more, whatever goes in."""
    frames = stream(upstream, RICH)
    machine = machine_of(client, upstream)
    begun = b"".join(machine.feed(frame) for frame in frames[:4])
    end = machine.feed(b"data: {broken\n\n")
    assert end or not begun
    assert [b""] * len(frames) == [machine.feed(frame) for frame in frames]
    assert (b"", b"", b"") == (machine.finish(), machine.finish(), machine.keepalive())


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.invariant("I5")
def test_changed_identity_is_noted_or_refused(client):
    """A response id that changes in mid-stream is a repair; the client keeps the first one."""
    frames = stream("responses", RICH)
    frames[-1] = frames[-1].replace(b'"resp_1"', b'"resp_2"')
    got = translated(client, "responses", frames)
    assert ("success", True) == (got.terminal, any("id" in note.field for note in got.notes))
    assert b"resp_2" not in got.raw
    assert "error" == translated(client, "responses", frames, strict=True).terminal


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.invariant("I8")
def test_decreasing_counts(client):
    """Responses counts that shrink are noted, in strict mode refused."""
    frames = stream("responses", Script((Say("T"),), counted="early"))
    frames[0] = frames[0].replace(b'"output_tokens":3', b'"output_tokens":300')
    got = translated(client, "responses", frames)
    assert ("success", 7) == (got.terminal, got.usage["output"])
    assert any(note.field == "usage" for note in got.notes)


# Fidelity


@pairs
@pytest.mark.invariant("I9")
def test_final_snapshots_never_replay(client, upstream):
    """Everything is told once, though Responses upstreams repeat it in done events and in the final response."""
    got = translated(client, upstream, stream(upstream, Script((Say("once"), Think("thought once", "c3RhdGU=")))))
    assert {"text": "once", "reasoning": "thought once", "refusal": "", "tool": ""} == spelled(got.raw)


@pairs
@pytest.mark.invariant("I12")
@pytest.mark.invariant("I11")
def test_every_call_arrives_once(client, upstream):
    """As many calls as the upstream made, in its order, by their call ids."""
    calls = tuple(Call(f"call_{n}", f"tool{n % 3}", json.dumps({"n": n})) for n in range(20))
    got = translated(client, upstream, stream(upstream, Script(calls, stop="tool"), "interleaved"))
    assert [(call.id, call.name, {"n": n}) for n, call in enumerate(calls)] == [
        (block.id, block.name, json.loads(block.text)) for block in got.blocks
    ]


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", ["chat", "responses"])
@pytest.mark.invariant("I12")
def test_two_calls_of_one_id_are_an_error(client, upstream):
    """An answer in which an id names two calls cannot be told truly."""
    script = Script((Call("call_1", "look", "{}"), Call("call_1", "look", '{"q":2}')), stop="tool")
    assert translated(client, upstream, stream(upstream, script)).terminal in ("error", "http")


@pairs
@pytest.mark.invariant("I15")
def test_every_text_and_refusal_part_survives(client, upstream):
    """Texts and refusals that alternate are all there."""
    parts = (
        (Say("a"), Refuse("b"), Say("c"), Refuse("d"))
        if upstream != "messages"
        else (Say("a"), Say("b"), Say("c"), Say("d"))
    )
    got = translated(client, upstream, stream(upstream, Script(parts)))
    assert {"a", "b", "c", "d"} == set("".join(block.text for block in got.blocks))


# Opaque state


HISTORIES = {
    "chat": lambda state: {
        "model": ALIAS,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "T", "reasoning_content": "R", "reasoning_details": [{"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "index": 0, "data": state}]},
            {"role": "user", "content": "go on"},
        ],
    },
    "responses": lambda state: {
        "model": ALIAS,
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "R"}], "encrypted_content": state},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "T"}]},
            {"role": "user", "content": "go on"},
        ],
    },
    "messages": lambda state: {
        "model": ALIAS,
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "R", "signature": state}, {"type": "text", "text": "T"}]},
            {"role": "user", "content": "go on"},
        ],
    },
}  # fmt: skip
KINDS = {"chat": "rd", "responses": "rs", "messages": "th"}
SECRET = "b3BhcXVlLXN0YXRl"
HOME, ELSEWHERE = origin_of("p", "https://a.test", "f"), origin_of("p", "https://b.test", "f")


def upstream_body(client: str, upstream: str, state: str, *, native: bool = False) -> str:
    prepared = requested(client, upstream, json.dumps(HISTORIES[client](state)).encode(), native=native, origin=HOME)
    assert isinstance(prepared, Prepared), prepared
    return prepared.body.decode()


def sealed(kind: str, origin: str) -> str:
    data = json.dumps([{"type": "reasoning.encrypted", "data": SECRET, "index": 0}]) if kind == "rd" else SECRET
    return seal(Carried(kind, data, "rs_1"), origin) or ""


@pairs
@pytest.mark.invariant("I17")
def test_state_returns_to_its_origin(client, upstream):
    """What an upstream gave comes back to it in its own form, whichever client kept it."""
    body = upstream_body(client, upstream, sealed(KINDS[upstream], HOME))
    assert SECRET in body
    assert "gw1." not in body


@pairs
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.invariant("I17")
def test_state_of_another_origin_is_left_out(client, upstream, native):
    """Another address, another vendor's kind, or no carrier at all: none of it reaches the upstream."""
    other = next(kind for kind in ("th", "rs", "rd") if kind != KINDS[upstream])
    for state in (sealed(KINDS[upstream], ELSEWHERE), sealed(other, HOME), "gw1.th.broken"):
        body = upstream_body(client, upstream, state, native=native and client == upstream)
        assert SECRET not in body
        assert "gw1." not in body
        assert state not in body


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[0] != pair[1]])
@pytest.mark.invariant("I17")
def test_a_vendors_own_state_never_crosses(client, upstream):
    """A signature of one vendor's is not shown to another."""
    assert SECRET not in upstream_body(client, upstream, SECRET)


@pairs
@pytest.mark.invariant("I17")
def test_state_is_never_invented(client, upstream):
    """An upstream that gives no state leads to none."""
    got = translated(client, upstream, stream(upstream, Script((Think("R"), Say("T")))))
    assert not any(block.stateful for block in got.blocks)
    assert b"gw1." not in got.raw


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[0] != pair[1]])
@pytest.mark.invariant("I17")
def test_state_goes_out_as_a_carrier(client, upstream):
    """A client of another dialect gets state with its origin on it, never the vendor's own value."""
    raw = translated(client, upstream, stream(upstream, Script((Think("R", SECRET), Say("T"))))).raw.decode()
    carriers = re.findall(r"gw1\.[\w.=-]+", raw)
    assert carriers
    assert all(is_carrier(carrier) and "0123456789abcdef" in carrier for carrier in carriers)
    assert SECRET not in raw


# Target side


@pairs
@pytest.mark.invariant("I20")
@pytest.mark.invariant("I21")
@pytest.mark.invariant("I22")
@pytest.mark.invariant("I23")
def test_one_beginning_one_end(client, upstream):
    """The grammars check order, indexes and closing; here the counts of beginnings and ends."""
    events = events_of(translated(client, upstream, stream(upstream, RICH)).raw)
    kinds = [event.get("type") or event.get("object") for event in events]
    match client:
        case "messages":
            assert (1, 1, 1) == tuple(kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop"))
            assert kinds.count("content_block_start") == kinds.count("content_block_stop")
        case "responses":
            assert (1, 1) == (kinds.count("response.created"), kinds.count("response.completed"))
            assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done")
        case "chat":
            assert 1 == sum("role" in choice["delta"] for event in events for choice in event["choices"])
            assert 1 == sum(choice["finish_reason"] is not None for event in events for choice in event["choices"])


@pairs
@pytest.mark.invariant("I24")
def test_stop_is_never_null(client, upstream):
    """Whatever the upstream calls its end, the client gets one of its own words, and a tool stop only with calls."""
    words = {
        "chat": b'"finish_reason":"stop"',
        "messages": b'"stop_reason":"end_turn"',
        "responses": b'"reason":"max_output_tokens"',
    }
    script = Script((Say("T"),), stop="length" if upstream == "responses" else "end")
    for strange in (b"whatever", b"tool_calls" if upstream == "chat" else b"tool_use"):
        own = words[upstream].rpartition(b'"')[0].rpartition(b'"')[2]
        frames = [
            frame.replace(words[upstream], words[upstream].replace(own, strange)) for frame in stream(upstream, script)
        ]
        assert frames != stream(upstream, script)
        got = translated(client, upstream, frames)
        assert ("success", "end") == (got.terminal, got.stop)


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.invariant("I25")
def test_chat_chunks(upstream):
    """Ids and names once a tool, indexes by ordinal, one creation time, counts last."""
    events = events_of(translated("chat", upstream, stream(upstream, RICH)).raw)
    fragments = [
        call for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())
    ]
    assert [(0, "call_1"), (1, "call_2")] == [(call["index"], call["id"]) for call in fragments if "id" in call]
    assert 1 == len({event["created"] for event in events})
    assert ([], True) == (events[-1]["choices"], events[-1]["usage"] is not None)


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.invariant("I26")
def test_responses_events(upstream):
    """Numbers without a gap, done items that are the final output, integers in both details."""
    events = events_of(translated("responses", upstream, stream(upstream, RICH)).raw)
    assert list(range(len(events))) == [event["sequence_number"] for event in events]
    final = events[-1]["response"]
    assert final["output"] == [event["item"] for event in events if event["type"] == "response.output_item.done"]
    details = final["usage"]["input_tokens_details"] | final["usage"]["output_tokens_details"]
    assert {"cached_tokens", "cache_write_tokens", "reasoning_tokens"} == details.keys()
    assert all(type(count) is int for count in details.values())


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.invariant("I27")
def test_messages_delta_has_the_counts(upstream):
    """The one message_delta repeats the prompt's count, since message_start could not know it."""
    events = events_of(translated("messages", upstream, stream(upstream, RICH)).raw)
    (delta,) = (event for event in events if event["type"] == "message_delta")
    assert (8, 3, 7) == tuple(
        delta["usage"][name] for name in ("input_tokens", "cache_read_input_tokens", "output_tokens")
    )


@pairs
@pytest.mark.invariant("I29")
def test_nothing_after_the_terminal(client, upstream):
    """Neither content nor a keepalive."""
    machine = machine_of(client, upstream)
    frames = stream(upstream, RICH)
    for frame in frames:
        machine.feed(frame)
    machine.finish()
    assert {b""} == {machine.keepalive(), machine.finish(), *(machine.feed(frame) for frame in frames)}


# Request side


@pairs
@pytest.mark.invariant("I30")
def test_same_request_same_bytes(client, upstream):
    """Twice the same request is twice the same body and the same notes."""
    body = json.dumps(HISTORIES[client](sealed("th", HOME))).encode()
    first, second = (requested(client, upstream, body) for _ in range(2))
    assert (first.body, first.notes.kept) == (second.body, second.notes.kept)


REFUSALS = {
    "chat": ({"n": 2}, {"modalities": ["text", "audio"]}, {"audio": {"voice": "x", "format": "wav"}}, {"messages": []}),
    "responses": (
        {"previous_response_id": "resp_0"},
        {"conversation": "c"},
        {"prompt": {"id": "p"}},
        {"background": True},
    ),
    "messages": (
        {"max_tokens": 0},
        {"messages": []},
        {"output_format": {"type": "other"}},
        {"tool_choice": {"type": "tool"}},
    ),
}


@pairs
@pytest.mark.invariant("I31")
def test_refused_requests_have_no_upstream_body(client, upstream):
    """A REJECT is a Fault of the client's, with the field's path, and nothing to send."""
    for member in REFUSALS[client]:
        if client == upstream == "chat" and "n" in member:
            continue
        got = requested(client, upstream, json.dumps(HISTORIES[client]("x") | member).encode())
        assert isinstance(got, Fault), member
        assert (400, "client") == (got.status, got.cause)
        assert (got.param or "").split(".")[0] in (*member, "messages"), (member, got)


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.invariant("I33")
def test_results_follow_their_calls(upstream):
    """However a Responses client orders its items, calls are answered where the upstream wants it."""
    items = [
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        {"type": "message", "role": "user", "content": "and?"},
    ]
    for order in permutations(items):
        body = {"model": ALIAS, "input": [{"role": "user", "content": "go"}, *order]}
        prepared = requested("responses", upstream, json.dumps(body).encode())
        assert isinstance(prepared, Prepared)
        PAIRED[upstream](json.loads(prepared.body))


def chat_paired(body):
    awaited: set[str] = set()
    for message in body["messages"]:
        assert bool(awaited) == (message["role"] == "tool")
        if awaited:
            awaited.remove(message["tool_call_id"])
        else:
            awaited = {call["id"] for call in message.get("tool_calls", ())}
    assert not awaited


def messages_paired(body):
    awaited: set[str] = set()
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert (awaited, len(awaited)) == (set(results), len(results))
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)])
        awaited = {block["id"] for block in blocks if block["type"] == "tool_use"}
    assert not awaited


def responses_paired(body):
    told: set[str] = set()
    for item in body["input"]:
        if item["type"] == "function_call":
            told.add(item["call_id"])
        elif item["type"] == "function_call_output":
            told.remove(item["call_id"])
    assert not told


PAIRED = {"chat": chat_paired, "messages": messages_paired, "responses": responses_paired}


@pairs
@pytest.mark.invariant("I34")
def test_notes_stay_off_the_wire(client, upstream):
    """One note for each lost field, with its path; neither request nor answer has a word of them."""
    lost = {
        "chat": {"seed": 7, "logit_bias": {"1": 2}},
        "responses": {"truncation": "auto", "max_tool_calls": 3},
        "messages": {"context_management": {"edits": []}, "container": "c"},
    }
    prepared = prepare(client, upstream, **lost[client])
    noted = [note.field for note in prepared.notes.kept]
    if client != upstream:
        assert list(lost[client]) == [field for field in noted if field in lost[client]]
    raw = translated(client, upstream, stream(upstream, RICH), prepared).raw
    for note in prepared.notes.kept:
        assert note.message.encode() not in prepared.body + raw


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[0] != pair[1]])
@pytest.mark.invariant("I35")
def test_unknown_fields_do_not_cross(client, upstream):
    """What nobody knows is neither sent on nor told to the client."""
    prepared = prepare(client, upstream, surprise={"deep": "surprise"}, x_private="surprise")
    assert b"surprise" not in prepared.body
    frames = [frame.replace(b'"model":', b'"x_surprise":{"a":1},"model":') for frame in stream(upstream, RICH)]
    assert b"surprise" not in translated(client, upstream, frames, prepared).raw


# Containment


SECRETIVE = "Traceback (most recent call last): File /srv/app.py, key sk-secret"


@pairs
@pytest.mark.invariant("I36")
def test_broken_upstreams_words_are_not_shown(client, upstream):
    """A frame that cannot be read is an error of the closed set; nothing of its text reaches the client."""
    frames = stream(upstream, RICH)
    got = translated(client, upstream, [*frames[:4], f"data: {SECRETIVE}\n\n".encode()])
    assert got.fault is not None
    assert ("api", 502) == (got.fault.kind, got.fault.status)
    assert b"Traceback" not in got.raw
    assert b"Error" not in got.raw


ODD = (
    ('"output_tokens_details":{"reasoning_tokens":2}', '"output_tokens_details":true'),
    ('"input_tokens_details":{', '"input_tokens_details":[],"x":{'),
    ('"created_at":1767225600', '"created_at":true'),
    ('"created_at":1767225600', '"created_at":1e999'),
    ('"created_at":1767225600', '"created_at":"never"'),
)


@pytest.mark.parametrize(("right", "odd"), ODD)
@pytest.mark.invariant("I36")
def test_odd_values_of_a_native_response_raise_nothing(right, odd):
    """What only the upstream got wrong passes to its client, streamed or not."""
    frames = [frame.replace(right.encode(), odd.encode()) for frame in stream("responses", RICH)]
    assert frames != stream("responses", RICH)
    raw, machine = forwarded("responses", frames)
    assert (True, True) == (machine.done, odd.encode() in raw or b"_details" in odd.encode())
    body = json.dumps(json.loads(whole("responses", RICH)), separators=(",", ":")).replace(right, odd).encode()
    native = Pair(RECORDS["responses"], RECORDS["responses"]).whole(
        prepare("responses", "responses", stream=False, native=True), body
    )
    assert native.output or native.fault


@pairs
@pytest.mark.invariant("I37")
def test_an_answer_that_has_begun_says_so(client, upstream):
    """`begun` is what forbids another attempt: false through the handshake, true from the first byte on."""
    machine, sent = machine_of(client, upstream), False
    for frame in stream(upstream, RICH):
        sent = bool(machine.feed(frame)) or sent
        assert sent == machine.begun
    assert machine.begun


@pairs
def test_bounds_poison_and_are_charged_once(client, upstream):
    """At its limit an answer passes, one event or byte beyond it ends in an error of cause limit."""
    frames = stream(upstream, Script(tuple(Call(f"c{n}", "look", '{"q":"xxxx"}') for n in range(4)), stop="tool"))
    prepared = prepare(client, upstream)

    def outcome(budget: Budget, limit: int = 1 << 20) -> str | None:
        machine = TranslatedStream(Pair(RECORDS[client], RECORDS[upstream]), prepared, limit=limit, budget=budget)
        for frame in frames:
            machine.feed(frame)
        machine.finish()
        return machine.fault.cause if machine.fault else None

    events = next(size for size in range(10, 200) if outcome(Budget(events=size)) is None)
    assert "limit" == outcome(Budget(events=events - 1))
    assert (None, "limit") == (outcome(Budget(blocks=4)), outcome(Budget(blocks=3)))
    assert (None, "limit") == (outcome(Budget(tools=4)), outcome(Budget(tools=3)))
    assert (None, "limit") == (outcome(Budget(argument_bytes=12)), outcome(Budget(argument_bytes=11)))
    largest = max(len(frame) for frame in frames) - 2
    assert (None, "limit") == (outcome(Budget(), largest), outcome(Budget(), largest - 1))


@pytest.mark.parametrize("dialect", ["responses", "messages"])
def test_receipts_survive_the_native_path(dialect):
    """Provider-run calls pass between equal dialects as they are."""
    frames = stream(dialect, Script((Ran("mcp_1", "docs", "find", '{"q":"x"}', "found"), Say("T"))))
    raw, machine = forwarded(dialect, frames)
    assert (None, True) == (machine.fault, b"found" in raw)


def test_notes_are_bounded():
    """Beyond 200 notes only their number grows."""
    notes = Notes()
    for number in range(500):
        notes.omitted(f"field.{number}", "gone")
    assert (200, 500) == (len(notes.kept), notes.count)


# The list of lists


def marked(kind: str) -> set[str]:
    """The numbers that a mark of this kind names anywhere in the tests."""
    found: set[str] = set()
    for path in TESTS.rglob("*.py"):
        for arguments in re.findall(rf"mark\.{kind}\(([^)]*)\)", path.read_text()):
            found.update(re.findall(r'"([EI]\d+)"', arguments))
    return found


@pytest.mark.parametrize(("kind", "letter", "last"), [("edge", "E", 40), ("invariant", "I", 37)])
def test_every_row_has_a_test(kind, letter, last):
    """E1 to E40 and I1 to I37 each have at least one marked test, and no mark names a row that does not exist."""
    rows = {f"{letter}{number}" for number in range(1, last + 1)}
    assert (set(), set()) == (rows - marked(kind), marked(kind) - rows)


def test_canonical_scenario_is_the_specifications():
    """The scenario that all golden orders follow: R, T, a, b, stop tool."""
    assert (["R", "T"], ["a", "b"]) == ([b.text for b in CANONICAL.blocks[:2]], [b.name for b in CANONICAL.blocks[2:]])
