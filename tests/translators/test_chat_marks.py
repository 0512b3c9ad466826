"""Cache marks stand where the service's own client sets them, and never change what is said."""

import json

from hypothesis import given
from hypothesis import strategies as st

from translators.chat.marks import MARK, marked
from translators.dialect import Peek, Target
from translators.dialects import DIALECTS
from translators.pair import Asked, Pair
from translators.traits import Traits

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,xx"}}


def user(content: object = "hi") -> dict:
    return {"role": "user", "content": content}


def said(message: dict) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def has_mark(message: dict) -> bool:
    return isinstance(message["content"], list) and any("cache_control" in part for part in message["content"])


def test_system_and_the_two_latest_user_messages():
    """Three marks at most, on the last text of a message; tool messages stay plain text."""
    system = {"role": "system", "content": "s"}
    tool = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    made = marked([system, user("a"), user("b"), tool, user([{"type": "text", "text": "c"}, IMAGE])])
    assert [True, False, True, False, True] == [has_mark(message) for message in made]
    assert tool == made[3]
    assert [{"type": "text", "text": "a"}] == made[1]["content"]
    assert ({"type": "text", "text": "c", "cache_control": MARK}, IMAGE) == tuple(made[4]["content"])


def test_pictures_alone_and_nothing():
    """A message without text is marked at its end; an empty prompt stays empty."""
    (made,) = marked([user([IMAGE])])
    assert {**IMAGE, "cache_control": MARK} == made["content"][0]
    assert [] == marked([])
    assert [] == marked([user([])])[0]["content"]


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=3))))
def test_what_is_said_stays(prompt):
    """Marks change neither texts nor order, and there are never more than three."""
    messages = [{"role": role, "content": text} for role, text in prompt]
    made = marked(messages)
    assert [(m["role"], said(m)) for m in messages] == [(m["role"], said(m)) for m in made]
    assert sum(map(has_mark, made)) <= 3


def test_only_where_the_traits_say_so():
    """A body has marks for models that need them, and for no others."""
    pair = Pair(DIALECTS["messages"], DIALECTS["chat"])
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": [user()]}).encode()
    for wanted in (True, False):
        target = Target("m", Traits(cache_marks=wanted))
        assert wanted == (b"cache_control" in pair.request(body, Peek("m"), target, Asked("m")).body)
