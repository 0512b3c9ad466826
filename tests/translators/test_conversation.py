"""The neutral request: a frozen value with a way to look at its tools."""

import pytest

from translators.conversation import Conversation, Tool, tools_of


def test_tools_of_one_kind_keep_their_order():
    """Only tools of the kind come back, as they were declared."""
    tools = (Tool("function", "a"), Tool("hosted", "search"), Tool("function", "b"), Tool("custom", "c"))
    conversation = Conversation("chat", "m", tools=tools)
    assert (tools[0], tools[2]) == tools_of(conversation, "function")
    assert (tools[1],) == tools_of(conversation, "hosted")
    assert () == tools_of(Conversation("chat", "m"), "custom")


@pytest.mark.invariant("I30")
def test_a_conversation_is_a_value():
    """Two equal requests are equal, and no step can change one in place."""
    assert Conversation("chat", "m") == Conversation("chat", "m")
    with pytest.raises(AttributeError):
        Conversation("chat", "m").model = "other"
