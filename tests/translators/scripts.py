"""Neutral scripts of an answer: blocks, counts and why it stopped, with no word of any protocol.

`wires.py` writes a script as an upstream's bytes, `readings.py` reads what a client got, and `expected` says what the
two have to agree on. Strategies for hypothesis make such scripts for what an upstream dialect is able to say.
"""

import json
from dataclasses import dataclass, replace
from typing import TypeAlias

from hypothesis import strategies as st

DIALECTS = ("chat", "responses", "messages")
PAIRS = tuple((client, upstream) for client in DIALECTS for upstream in DIALECTS)


@dataclass(frozen=True, slots=True)
class Say:
    """Visible text; `cites` are (url, title) of pages cited for all of it."""

    text: str
    cites: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning with its opaque state, "" for none."""

    text: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Text in the refusal channel."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` is the JSON text as the model spelled it, "" when it spelled none."""

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """A call that the provider ran itself, with its outcome."""

    id: str
    server: str
    name: str
    arguments: str
    output: str


Block: TypeAlias = Say | Think | Refuse | Call | Ran


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens; `prompt` is all of the input, `cached` and `written` are parts of it, `reasoning` one of `output`."""

    prompt: int = 11
    cached: int = 3
    written: int = 0
    output: int = 7
    reasoning: int = 2


@dataclass(frozen=True, slots=True)
class Script:
    """One answer. `stop` is neutral: end, tool, length, refusal. `counted` says when the counts come: `early` with
    the answer's beginning too, `late` only at its end, `never`.
    """

    blocks: tuple[Block, ...]
    stop: str = "end"
    counts: Counts = Counts()
    counted: str = "late"


CANONICAL = Script(
    (Think("R", "c3RhdGU="), Say("T"), Call("call_a", "a", '{"x":1}'), Call("call_b", "b")),
    stop="tool",
)
"""The scenario of spec/translation.md 5.5."""


def calls_of(script: Script) -> list[Call]:
    return [block for block in script.blocks if isinstance(block, Call)]


@dataclass(frozen=True, slots=True)
class Told:
    """One block as a client may see it; `kind` is text, refusal, reasoning, tool or receipt."""

    kind: str
    text: str
    id: str = ""
    name: str = ""
    stateful: bool = False


def _spoken(block: Block, upstream: str) -> Told:
    match block:
        case Say(text):
            return Told("text", text)
        case Refuse(text):
            return Told("text" if upstream == "messages" else "refusal", text)
        case Think(text, state):
            return Told("reasoning", text, stateful=bool(state))
        case Call(call_id, name, arguments):
            return Told("tool", arguments or "{}", call_id, name)
        case Ran(call_id, _, name, arguments):
            return Told("receipt", arguments, call_id, name)
    raise AssertionError(block)


def merged(blocks: list[Told], kinds: tuple[str, ...]) -> list[Told]:
    """Join neighbours of one kind, for protocols that cannot tell them apart."""
    out: list[Told] = []
    for block in blocks:
        if out and out[-1].kind == block.kind and block.kind in kinds:
            last = out[-1]
            out[-1] = replace(last, text=last.text + block.text, stateful=last.stateful or block.stateful)
        else:
            out.append(block)
    return out


def expected(script: Script, client: str, upstream: str) -> list[Told]:
    """The blocks that a client has to end up with, in order; a Chat client's are joined by kind."""
    told = [_spoken(block, upstream) for block in script.blocks]
    told = [block for block in told if block.text or block.kind == "tool" or block.stateful]
    if upstream == "chat":
        told = merged(told, ("text", "refusal", "reasoning"))
    if client == "messages":
        return [replace(block, kind="text") if block.kind == "refusal" else block for block in told]
    if client == "responses":
        return told
    told = [block for block in told if block.kind != "receipt"]
    joined = [
        Told(
            kind,
            "".join(block.text for block in told if block.kind == kind),
            stateful=kind == "reasoning" and any(block.stateful for block in told),
        )
        for kind in ("reasoning", "text", "refusal")
    ]
    return [block for block in joined if block.text or block.stateful] + [b for b in told if b.kind == "tool"]


def stop_of(script: Script, upstream: str) -> str:
    """The stop that every client has to be told."""
    if script.stop in ("length", "refusal"):
        return script.stop
    if calls_of(script):
        return "tool"
    return "refusal" if any(isinstance(block, Refuse) for block in script.blocks) and upstream != "messages" else "end"


# Strategies

TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12) | st.sampled_from(
    ("\n\n", "data: [DONE]\n\n", "event: x\r\n", '{"a":"\\u00e9"}', "\u2028\u2029", "\x00\x7f", "🦊👩\u200d🚀", " ")
)
IDS = st.text(st.sampled_from("abcXYZ019_-"), min_size=1, max_size=40)
NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,20}", fullmatch=True)
OBJECTS = st.sampled_from(
    (
        {}, {"x": 1}, {"": None}, {"path": "/tmp/a b", "all": True}, {"é": "\u2028 🦊 \x00"}, {"a": {"b": [1.5, -2, [], {}]}},
        {"cmd": 'echo "hi" \\ \n\t'}, {"n": 2**53, "m": 1e-300}, {"input": "raw"}, {"deep": [[[[[0]]]]]}, {"long": "ab" * 40},
    )
)  # fmt: skip


@st.composite
def arguments(draw: st.DrawFn) -> str:
    """JSON text of an object, in one of the spellings that models use; "" for none at all."""
    value = draw(OBJECTS)
    style = draw(st.sampled_from(("compact", "spaced", "escaped", "none")))
    match style:
        case "compact":
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case "spaced":
            return json.dumps(value, ensure_ascii=False, indent=1)
        case "escaped":
            return json.dumps(value)
        case _:
            return ""


@st.composite
def scripts(draw: st.DrawFn, upstream: str) -> Script:
    """A script that this upstream is able to say."""
    kinds = ["say", "think", "call", "call"] + ["refuse"] * (upstream != "messages") + ["ran"] * (upstream != "chat")
    blocks: list[Block] = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=6))):
        match kind:
            case "say":
                blocks.append(Say(draw(TEXT)))
            case "think":
                blocks.append(Think(draw(TEXT), draw(st.sampled_from(("", "c2VhbA==")))))
            case "refuse":
                blocks.append(Refuse(draw(TEXT)))
            case "call":
                blocks.append(Call(f"{draw(IDS)}{number}", draw(NAMES), draw(arguments())))
            case _:
                blocks.append(Ran(f"mcp{number}", "docs", draw(NAMES), json.dumps(draw(OBJECTS)), draw(TEXT)))
    called = any(isinstance(block, Call) for block in blocks)
    stop = draw(st.sampled_from(("tool" if called else "end", "length", "refusal")))
    counts = Counts(
        draw(st.integers(10, 10**6)), draw(st.integers(0, 5)), draw(st.integers(0, 5)), draw(st.integers(9, 999)), 4
    )
    return Script(tuple(blocks), stop, counts, draw(st.sampled_from(("early", "late", "never"))))
