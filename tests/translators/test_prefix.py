"""The prefix of a request is hashed as specified, and two prompts are compared element by element."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.prefix import kept, prefix_of

SYSTEM = {"role": "system", "content": "s"}
HI = {"role": "user", "content": "hi"}
TOOLS = [{"type": "function", "function": {"name": "A"}}]


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def prefix(*messages: object, **more: object):
    found = prefix_of(dump({"messages": list(messages), **more}))
    assert found is not None
    return found


def test_vector_of_the_specification():
    """The hash covers name, length and JSON of each section (spec/cline.md 8)."""
    found = prefix(SYSTEM, HI, tools=[])
    assert "c0c250b16fd431f1c0bcb9d5a10079c833f2e6e6954dbbd7d5720412568b6e73" == found.hash
    assert 66 == found.size


def test_only_the_prompt_counts():
    """Limits, model and stream flag are no part of what a cache recognises."""
    assert prefix(HI) == prefix(HI, model="m", stream=True, max_tokens=5)


def test_no_object_no_prefix():
    """A body that cannot be read has no prefix."""
    for body in (b"", b"[]", b"{"):
        assert prefix_of(body) is None, body


def test_the_dialects_have_the_same_parts():
    """Responses and Messages bodies name their sections otherwise; the elements are the same."""
    chat = prefix(SYSTEM, HI, tools=TOOLS)
    messages = prefix_of(dump({"system": "s", "messages": [HI], "tools": TOOLS}))
    responses = prefix_of(dump({"instructions": "s", "input": [HI], "tools": TOOLS}))
    text = prefix_of(dump({"input": "hi"}))
    names = [[element.name for element in found.elements] for found in (chat, messages, responses)]
    assert 3 * [["tools", "system", "message"]] == names
    assert ["message"] == [element.name for element in text.elements]


CASES = {
    "same": ((SYSTEM, HI), (SYSTEM, HI), {}, {}, None, 1),
    "grown": ((SYSTEM, HI), (SYSTEM, HI, HI), {}, {}, None, 1),
    "other message": ((SYSTEM, HI, HI), (SYSTEM, HI, SYSTEM), {}, {}, "message 2", 1),
    "shrunk": ((SYSTEM, HI, HI), (SYSTEM, HI), {}, {}, "message 2", 1),
    "other system": ((SYSTEM, HI), (SYSTEM, SYSTEM, HI), {}, {}, "system", 0),
    "system went": ((SYSTEM, HI), (HI,), {}, {}, "system", 0),
    "system came": ((HI,), (SYSTEM, HI), {}, {}, "system", 0),
    "tools came": ((SYSTEM, HI), (SYSTEM, HI), {}, {"tools": TOOLS}, "tools", 0),
    "tools went": ((SYSTEM, HI), (SYSTEM, HI), {"tools": TOOLS}, {}, "tools", 0),
    "system behind tools": ((SYSTEM, HI), (HI,), {"tools": TOOLS}, {"tools": TOOLS}, "system", 0),
}


@pytest.mark.parametrize(("before", "after", "had", "has", "broken_at", "messages"), CASES.values(), ids=CASES)
def test_the_first_difference_is_named(before, after, had, has, broken_at, messages):
    """The record names the section at which a session's prefix breaks."""
    found = kept(prefix(*before, **had), prefix(*after, **has))
    assert (broken_at, messages) == (found.broken_at, found.messages)


@given(st.lists(st.text(max_size=5), max_size=6), st.lists(st.text(max_size=5), max_size=6))
def test_kept_bytes_are_a_common_prefix(before, after):
    """What is kept is the size of the equal leading messages, and a prompt keeps all of itself."""
    one, two = prefix(*before), prefix(*after)
    common = 0
    for left, right in zip(before, after, strict=False):
        if left != right:
            break
        common += len(dump(left))
    assert common == kept(one, two).bytes
    assert (None, len(before)) == (kept(one, one).broken_at, kept(one, one).messages)


def test_cache_marks_are_no_part_of_a_prompt():
    """A mark that moved on with the conversation breaks no prefix."""
    plain = {"type": "text", "text": "hi"}
    before = prefix({"role": "user", "content": [plain | {"cache_control": {"type": "ephemeral"}}]})
    assert before == prefix({"role": "user", "content": [plain]})
