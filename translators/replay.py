"""Tool-call replay for Responses clients that continue by reference (spec/grok.md 11).

Such clients name an earlier answer or item and send the tool's output alone. Given look-up functions, `restore`
puts the calls back where they belong, so that any upstream can go on without state of its own. Pure and
copy-on-write: what needs nothing comes back as the same object. It never invents a call and never hides a loss:
what leans on state that nobody holds stays in the request, and `check_resolved` refuses it.
"""

from collections.abc import Callable, Iterable

import msgspec

from translators.conversation import Conversation, Opaque, Part, Text, Tool, ToolCall, ToolResult, Turn
from translators.fault import refuse
from translators.jsonio import ERRORS

__all__ = ["Memory", "Past", "Restored", "check_resolved", "expand", "insert", "prune", "restore"]

Calls = tuple[ToolCall, ...]
Turns = tuple[Turn, ...]


class Past(msgspec.Struct, frozen=True):
    """A conversation up to and with one answer: what `[state] remember = "responses"` keeps.

    `system` is without the `instructions` of its request, which a client sends anew each time; `tools` are those
    that stood among the input items.
    """

    system: tuple[Text, ...]
    turns: Turns
    tools: tuple[Tool, ...] = ()


def _nothing(_name: str) -> Calls:
    return ()


def _never(_name: str) -> Past | None:
    return None


class Memory(msgspec.Struct, frozen=True):
    """Look-ups into what one client was told under one model name: by item id, response id and session key."""

    item: Callable[[str], Calls] = _nothing
    response: Callable[[str], Calls] = _nothing
    session: Callable[[str], Calls] = _nothing
    whole: Callable[[str], Past | None] = _never


class Restored(msgspec.Struct, frozen=True):
    """The request with its calls put back; counts for the log, which never sees contents."""

    conversation: Conversation
    found: int = 0
    missed: int = 0
    pruned: int = 0


class _Ref(msgspec.Struct):
    id: str | None = None


_decode_ref = msgspec.json.Decoder(_Ref).decode


def restore(conversation: Conversation, memory: Memory, *, strict: bool = False) -> Restored:
    """Return the request resolved as far as the memory reaches (spec/grok.md 11.4).

    What it cannot resolve goes; in strict mode, and where the request has no outputs (spec/translation.md 3.3), it
    stays in place for `check_resolved` and `adjacent` to refuse. Raises Refused when references and orphaned
    outputs were all that the request had.
    """
    if conversation.dialect != "responses":
        return Restored(conversation)
    previous = (conversation.previous_response_id or "").strip()
    past = memory.whole(previous) if previous else None
    if past is not None:
        conversation = _continued(conversation, past)
        previous = ""
    near = memory.response(previous) if previous else ()
    given = conversation.turns
    turns, found, missed = expand(given, lambda name: _named(near, name) or memory.item(name), keep=strict)
    if missed and turns and not previous and not _count(given, ToolResult):
        # With no output to answer, what was named is a part of the conversation: the client has to send it.
        return Restored(conversation, found, missed)
    key = (conversation.controls.prompt_cache_key or "").strip()
    if _waiting(turns):
        inserted = insert(turns, (*near, *(memory.session(key) if key else ())))
        found += _count(inserted, ToolCall) - _count(turns, ToolCall)
        turns = inserted
    leans = bool(previous or missed or turns is not given)
    pruned = 0
    if leans and not strict:
        kept = prune(turns)
        pruned, turns = _count(turns, ToolResult) - _count(kept, ToolResult), kept
    if not turns and given:
        raise refuse(
            "input: nothing is left of it, for the calls that its outputs belong to are not known here; "
            "send the whole conversation",
            param="previous_response_id" if previous else "input",
            code="previous_response_not_found",
        )
    # With outputs or its own history the client holds the conversation itself; else going on would forget it.
    if previous and (found or pruned or any(turn.role == "assistant" for turn in turns)):
        previous = ""
    return Restored(_with(conversation, turns, previous), found, missed, pruned)


def _with(conversation: Conversation, turns: Turns, previous: str) -> Conversation:
    if turns is conversation.turns and (previous or None) == conversation.previous_response_id:
        return conversation
    return msgspec.structs.replace(conversation, turns=turns, previous_response_id=previous or None)


def _continued(conversation: Conversation, past: Past) -> Conversation:
    """Return the request behind the remembered conversation, with this request's own instructions."""
    told = conversation.echo.get("instructions")
    fresh = conversation.system
    own = fresh[:1] if told and fresh and fresh[0].text == told else ()
    added = fresh[len(own) :]
    known = {(tool.namespace, tool.name) for tool in conversation.tools}
    lifted = tuple(tool for tool in past.tools if (tool.namespace, tool.name) not in known)
    return msgspec.structs.replace(
        conversation,
        system=(*own, *past.system, *(text for text in added if text not in past.system)),
        turns=(*past.turns, *conversation.turns),
        tools=(*conversation.tools, *lifted),
        previous_response_id=None,
    )


# ---------------------------------------------------------------------- step 1


def expand(turns: Turns, look: Callable[[str], Calls], *, keep: bool = False) -> tuple[Turns, int, int]:
    """Replace item references by the calls they name: (turns, resolved, unresolved).

    Unresolved ones go, or stay with `keep`. A call that stands in the request already is not put in again.
    """
    if not any(_is_reference(part) for turn in turns for part in turn.parts):
        return turns, 0, 0
    present = {part.id for turn in turns for part in turn.parts if isinstance(part, ToolCall)}
    out: list[Turn] = []
    found = missed = 0
    for turn in turns:
        parts: list[Part] = []
        for part in turn.parts:
            if not _is_reference(part):
                parts.append(part)
                continue
            name = _name(part)
            calls = look(name) if name else ()
            found, missed = found + bool(calls), missed + (not calls)
            if keep and not calls:
                parts.append(part)
            parts.extend(call for call in calls if call.id not in present)
            present.update(call.id for call in calls)
        out.extend(_kept(turn, tuple(parts)))
    return tuple(out), found, missed


def _is_reference(part: Part) -> bool:
    return isinstance(part, Opaque) and part.kind == "item_reference"


def _name(part: Part) -> str:
    assert isinstance(part, Opaque)
    try:
        return (_decode_ref(part.raw).id or "").strip()
    except ERRORS:
        return ""


def _named(calls: Calls, name: str) -> Calls:
    """Return the call that a name means among those of one answer: our item ids are made from call ids."""
    return tuple(call for call in calls if name in (f"fc_{call.id}", f"ctc_{call.id}", call.id))[:1]


# ---------------------------------------------------------------------- step 2


def insert(turns: Turns, candidates: Iterable[ToolCall]) -> Turns:
    """Put calls that outputs wait for directly before the first of these outputs, in the order of `candidates`."""
    waiting = _waiting(turns)
    taken: dict[str, ToolCall] = {}
    for call in candidates:
        if call.id in waiting:
            taken.setdefault(call.id, call)
    if not taken:
        return turns
    out: list[Turn] = []
    for turn in turns:
        first = next((at for at, part in enumerate(turn.parts) if _answers(part, taken)), None)
        if first is None or not taken:
            out.append(turn)
            continue
        out.extend(_kept(turn, turn.parts[:first]))
        out.append(Turn("assistant", tuple(taken.values()), turn.at))
        out.append(msgspec.structs.replace(turn, parts=turn.parts[first:]) if first else turn)
        taken = {}
    return tuple(out)


def _answers(part: Part, calls: dict[str, ToolCall]) -> bool:
    return isinstance(part, ToolResult) and part.call_id in calls


def _waiting(turns: Turns) -> set[str]:
    """Return the ids of calls that outputs name and no item has."""
    calls = {part.id for turn in turns for part in turn.parts if isinstance(part, ToolCall)}
    return {part.call_id for turn in turns for part in turn.parts if isinstance(part, ToolResult)} - calls


# ---------------------------------------------------------------------- step 4


def prune(turns: Turns) -> Turns:
    """Take out outputs whose call is in no turn; the same object when there are none."""
    orphans = _waiting(turns)
    if not orphans:
        return turns
    out: list[Turn] = []
    for turn in turns:
        parts = tuple(part for part in turn.parts if not (isinstance(part, ToolResult) and part.call_id in orphans))
        out.extend(_kept(turn, parts))
    return tuple(out)


def _kept(turn: Turn, parts: tuple[Part, ...]) -> Turns:
    if not parts:
        return ()
    return (turn if parts == turn.parts else msgspec.structs.replace(turn, parts=parts),)


def _count(turns: Turns, kind: type[ToolCall] | type[ToolResult]) -> int:
    return sum(isinstance(part, kind) for turn in turns for part in turn.parts)


# ---------------------------------------------------------------------- the guard


def check_resolved(conversation: Conversation) -> None:
    """Raise Refused when the request still leans on state that nobody here holds; dropping it would lose turns."""
    if conversation.previous_response_id is not None:
        raise refuse(
            "previous_response_id: of the answer it names nothing is kept here to go on from (of answers only the tool "
            'calls are, unless the gateway has [state] remember = "responses"); send the whole conversation as input',
            param="previous_response_id",
            code="previous_response_not_found",
        )
    for turn in conversation.turns:
        if any(_is_reference(part) for part in turn.parts):
            raise refuse(
                f"{turn.at}: the referenced item is not known here; send the item itself",
                param=turn.at,
                code="missing_state",
            )
