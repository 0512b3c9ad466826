"""System text: joined with blank lines, without empty blocks and without the billing line."""

import pytest

from translators.conversation import Conversation, Text
from translators.instructions import BILLING, joined, leading


@pytest.mark.parametrize(
    ("texts", "system"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", "", "b"), "a\n\nb"),
        ((f"{BILLING}: cc_version=1; h=abc", "a"), "a"),
        (("about x-anthropic-billing-header",), "about x-anthropic-billing-header"),
    ],
)
def test_joined(texts, system):
    """Blocks keep their order and stand apart by one blank line (1.11)."""
    assert system == joined(Conversation("messages", "m", tuple(Text(text) for text in texts)))


def test_leading_keeps_blocks():
    """Targets that take blocks get them one by one."""
    blocks = (Text("a"), Text(""), Text("b"))
    assert (blocks[0], blocks[2]) == leading(Conversation("messages", "m", blocks))
