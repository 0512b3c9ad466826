"""System text: joined for targets that take one string, without the billing line that only Anthropic may see."""

from translators.conversation import Conversation, Text

__all__ = ["BILLING", "joined", "leading"]

BILLING = "x-anthropic-billing-header"
"""Claude Code's first system block; its per-request hash would defeat every other upstream's prefix cache."""


def leading(conversation: Conversation) -> tuple[Text, ...]:
    """Return the non-empty system blocks that an upstream other than Anthropic shall see, in order."""
    return tuple(block for block in conversation.system if block.text and not block.text.startswith(BILLING))


def joined(conversation: Conversation) -> str:
    """Return the leading system text as one string, "" when there is none."""
    return "\n\n".join(block.text for block in leading(conversation))
