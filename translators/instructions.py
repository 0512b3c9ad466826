"""System text: joined for targets that take one string, without the billing line that only Anthropic may see."""

import re

from translators.conversation import Conversation, Text

__all__ = ["BILLING", "joined", "leading", "without_billing"]

BILLING = "x-anthropic-billing-header:"
"""Claude Code's first system block; its per-request hash would defeat every other upstream's prefix cache."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)?")


def leading(conversation: Conversation) -> tuple[Text, ...]:
    """Return the non-empty system blocks that an upstream other than Anthropic shall see, in order."""
    texts = (without_billing(block.text) for block in conversation.system)
    return tuple(Text(text) for text in texts if text)


def without_billing(text: str) -> str:
    """Return a system text without the billing line at its very beginning (spec/cline.md 8)."""
    if not text.startswith(BILLING):
        return text
    found = _LINE.match(text)
    assert found is not None
    return text[found.end() :]


def joined(conversation: Conversation) -> str:
    """Return the leading system text as one string, "" when there is none."""
    return "\n\n".join(block.text for block in leading(conversation))
