"""Put tool results where the target wants them: right behind their calls, every call answered once.

Works on neutral turns for every writer (spec/translation.md 1.12, I33). What it has to repair it notes, and
strict mode refuses.
"""

from itertools import count

import msgspec

from translators.conversation import Part, Text, ToolCall, ToolResult, Turn, located, place
from translators.fault import refuse
from translators.notes import Notes

__all__ = ["NO_RESULT", "adjacent"]

NO_RESULT = "[no result]"
"""Result text of a call that the client's history never answers."""


def adjacent(turns: tuple[Turn, ...], notes: Notes) -> tuple[Turn, ...]:
    """Return turns in which each assistant turn with calls is followed at once by one turn of all its results.

    Turns between a call and its results move behind them. A duplicate result replaces the earlier one, an
    orphan becomes user text, a missing one (not in the last turn) is made up as an error. Raises Refused for a
    call id that two open calls share, and in strict mode for orphans and for any id used twice. Already adjacent
    turns come back as the same tuple.
    """
    if not notes.strict:
        turns = _distinct(turns, notes)
    answers = _answers(turns, notes)
    if _in_order(turns):
        return turns
    return tuple(_rebuilt(turns, answers, notes))


def _distinct(turns: tuple[Turn, ...], notes: Notes) -> tuple[Turn, ...]:
    """Return turns without ids that come back in a later round, as from servers that count each answer's calls anew.

    Only a call whose id was answered before is a new one; it and its result get an id of their own.
    """
    calls = [part.id for turn in turns for part in turn.parts if isinstance(part, ToolCall)]
    if len(set(calls)) == len(calls):
        return turns
    taken, now, answered = set(calls), dict[str, str](), set[str]()

    def own(part: Part, at: str) -> Part:
        if isinstance(part, ToolResult):
            answered.add(part.call_id)
            name = now.get(part.call_id, part.call_id)
            return part if name == part.call_id else msgspec.structs.replace(part, call_id=name)
        if not isinstance(part, ToolCall):
            return part
        if part.id not in now or part.id not in answered:
            now.setdefault(part.id, part.id)
            answered.discard(part.id)
            return part if now[part.id] == part.id else msgspec.structs.replace(part, id=now[part.id])
        answered.discard(part.id)
        now[part.id] = next(name for n in count(2) if (name := f"{part.id}_{n}") not in taken)
        taken.add(now[part.id])
        notes.changed(at, f"the call id {part.id!r} comes back; its later call gets another one")
        return msgspec.structs.replace(part, id=now[part.id])

    return tuple(
        msgspec.structs.replace(turn, parts=tuple([own(part, place(part, turn.at)) for part in turn.parts]))
        for turn in turns
    )


def _answers(turns: tuple[Turn, ...], notes: Notes) -> dict[str, ToolResult]:
    """Return the result that counts for each call id: the last one."""
    calls: set[str] = set()
    answers: dict[str, ToolResult] = {}
    for turn in turns:
        for part in turn.parts:
            at = place(part, turn.at)
            if isinstance(part, ToolCall):
                if part.id in calls:
                    raise refuse(f"{at}: the tool call id {part.id!r} is used twice", param=at)
                calls.add(part.id)
            elif isinstance(part, ToolResult):
                if part.call_id in answers:
                    notes.changed(at, f"a second result for call {part.call_id!r} replaces the first")
                answers[part.call_id] = part
    return answers


def _in_order(turns: tuple[Turn, ...]) -> bool:
    awaited: set[str] = set()
    for index, turn in enumerate(turns):
        results = [part.call_id for part in turn.parts if isinstance(part, ToolResult)]
        if set(results) != awaited or len(results) != len(awaited):
            return False
        leading = turn.parts[: len(results)]
        if not all(isinstance(part, ToolResult) for part in leading):
            return False
        awaited = {part.id for part in turn.parts if isinstance(part, ToolCall)}
        if awaited and index == len(turns) - 1:
            return True
    return not awaited


def _rebuilt(turns: tuple[Turn, ...], answers: dict[str, ToolResult], notes: Notes) -> list[Turn]:
    calls = {part.id for turn in turns for part in turn.parts if isinstance(part, ToolCall)}
    where = {part.call_id: turn.at for turn in turns for part in turn.parts if isinstance(part, ToolResult)}
    seen: set[str] = set()
    out: list[Turn] = []
    last = len(turns) - 1
    for index, turn in enumerate(turns):
        kept = [part for part in turn.parts if not isinstance(part, ToolResult)]
        orphans = [
            part
            for part in turn.parts
            if isinstance(part, ToolResult) and part.call_id not in calls and part is answers[part.call_id]
        ]
        early = [
            part
            for part in turn.parts
            if isinstance(part, ToolResult) and part.call_id in calls and part.call_id not in seen
        ]
        for result in early:
            at = place(result, turn.at)
            notes.changed(at, f"the result of call {result.call_id!r} stands before its call and moves behind it")
        parts: list[Part] = [part for orphan in orphans for part in _orphan(orphan, place(orphan, turn.at), notes)]
        if parts or kept:
            out.append(msgspec.structs.replace(turn, parts=(*parts, *kept)))
        mine = [part for part in kept if isinstance(part, ToolCall)]
        seen.update(call.id for call in mine)
        if mine and not (index == last and not any(call.id in answers for call in mine)):
            out.append(_answered(mine, turn.at, answers, where, notes))
    return out


def _answered(
    calls: list[ToolCall], at: str, answers: dict[str, ToolResult], where: dict[str, str], notes: Notes
) -> Turn:
    """Return the turn of all results of one turn's calls; they keep their paths."""
    parts: list[Part] = []
    for call in calls:
        result = _result(call.id, answers, place(call, at), notes)
        parts.append(located(result, where.get(call.id, at)) if where.get(call.id, at) != at else result)
    return Turn("user", tuple(parts), at)


def _result(call_id: str, answers: dict[str, ToolResult], at: str, notes: Notes) -> Part:
    found = answers.get(call_id)
    if found is not None:
        return found
    if notes.strict:
        raise refuse(f"{at}: the tool call {call_id!r} has no result", param=at, code="orphan_tool_call")
    notes.changed(at, f"call {call_id!r} has no result; one that says so is added")
    return ToolResult(call_id, (Text(NO_RESULT),), is_error=True)


def _orphan(result: ToolResult, at: str, notes: Notes) -> tuple[Part, ...]:
    if notes.strict:
        raise refuse(f"{at}: no tool call has the id {result.call_id!r}", param=at, code="orphan_tool_result")
    notes.changed(at, f"the result of unknown call {result.call_id!r} becomes text")
    return (Text(f"[result of tool call {result.call_id}]"), *result.parts)
