"""What a model's traits change in a request whatever the client's dialect: old reasoning, canonical arguments, room.

Pure steps between parse and send, told by `translators.traits` alone (spec/cline.md 8 and 9). Here alone is decided
which traits take the neutral model, so that a client of the upstream's own dialect gets them too.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from translators.conversation import Conversation, DialectName, Part, Reasoning, ToolCall, Turn
from translators.epoch import epoch_start
from translators.fault import refuse
from translators.jsonio import ERRORS, canonical, encode
from translators.notes import Notes
from translators.traits import Traits

__all__ = ["MARGIN_TOKENS", "MIN_OUTPUT_TOKENS", "applied", "guarded", "room", "shaping", "with_foreign"]

MARGIN_TOKENS = 1024
"""Of the context window this much stays free, for what a chat template adds."""
MIN_OUTPUT_TOKENS = 256
"""Less room than this is not worth an answer."""
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")

_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any: Callable[[msgspec.Raw], Any] = msgspec.json.Decoder().decode


def shaping(traits: Traits, upstream: DialectName) -> bool:
    """Tell whether an upstream needs what native bytes cannot be given: policy on history, reasoning put back, memory.

    Such a route is translated also for clients of its own dialect (issues 4.4, 4.6 and 5.3).
    """
    policy = (
        traits.default_effort is not None
        or traits.always_limit
        or traits.canonical_arguments
        or traits.reasoning_replay
        or not traits.history_reasoning
    )
    return policy or (upstream == "responses" and not traits.server_state)


def with_foreign(rendered: bytes, body: bytes, known: frozenset[str]) -> bytes:
    """Return a rendered body with the members of the client's that its protocol does not know, as native bytes keep.

    They belong to the server (`chat_template_kwargs`, `thinking` of some Chat servers), and no policy reads them.
    """
    foreign = {name: raw for name, raw in _members(body).items() if name not in known}
    if not foreign:
        return rendered
    own = _members(rendered)
    return encode(own | {name: raw for name, raw in foreign.items() if name not in own})


def applied(conversation: Conversation, traits: Traits) -> Conversation:
    """Return the request as a model of these traits wants its history; the same value when nothing changes."""
    turns = conversation.turns
    if not traits.history_reasoning:
        turns = _without_old_reasoning(turns)
    if traits.canonical_arguments:
        turns = _canonical(turns)
    return conversation if turns is conversation.turns else msgspec.structs.replace(conversation, turns=turns)


def _without_old_reasoning(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    start = epoch_start(turns)
    if not any(isinstance(part, Reasoning) for turn in turns[:start] for part in turn.parts):
        return turns
    return (*_stripped(turns[:start]), *turns[start:])


def _stripped(turns: tuple[Turn, ...]) -> Iterator[Turn]:
    for turn in turns:
        parts = tuple(part for part in turn.parts if not isinstance(part, Reasoning))
        if parts or not turn.parts:
            yield turn if len(parts) == len(turn.parts) else msgspec.structs.replace(turn, parts=parts)


def _canonical(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return the turns with canonical arguments in all calls that something follows; an answer begun stays."""
    last = max((index for index, turn in enumerate(turns) if turn.role == "user"), default=0)
    out = [_canonical_turn(turn) if turn.role == "assistant" else turn for turn in turns[:last]]
    if all(made is turn for made, turn in zip(out, turns, strict=False)):
        return turns
    return (*out, *turns[last:])


def _canonical_turn(turn: Turn) -> Turn:
    parts = tuple(_canonical_call(part) for part in turn.parts)
    if all(made is part for made, part in zip(parts, turn.parts, strict=True)):
        return turn
    return msgspec.structs.replace(turn, parts=parts)


def _canonical_call(part: Part) -> Part:
    if not isinstance(part, ToolCall) or part.custom:
        return part
    arguments = canonical(part.arguments)
    return part if arguments == part.arguments else msgspec.structs.replace(part, arguments=arguments)


def room(tokens: int, wished: int, window: int) -> int | None:
    """Return the output limit that fits beside a prompt into a context window, None when none that is worth it does."""
    if tokens + wished + MARGIN_TOKENS <= window:
        return wished
    left = window - tokens - MARGIN_TOKENS
    return left if left >= MIN_OUTPUT_TOKENS else None


def guarded(body: bytes, window: int, count: Callable[[bytes], int], notes: Notes) -> bytes:
    """Return the upstream body, its output limit lowered to what the window leaves; raises Refused without room.

    Nothing is ever cut from a prompt. A token has at least a byte, so a small body is not counted at all.
    """
    try:
        members = _members(body)
        name = next((name for name in _LIMITS if name in members), None)
        wished = _any(members[name]) if name else None
    except ERRORS:
        return body
    asked = wished if isinstance(wished, int) else MIN_OUTPUT_TOKENS
    if len(body) + asked + MARGIN_TOKENS <= window:
        return body
    granted = room(count(body), asked, window)
    if granted is None:
        raise refuse(
            f"prompt is too long: the model's context window of {window} tokens leaves no room for an answer",
            code="context_length_exceeded",
            kind="context_length",
        )
    if granted == asked or name is None:
        return body
    notes.changed(name, f"lowered to {granted}, what the context window leaves")
    members[name] = msgspec.Raw(encode(granted))
    return encode(members)
