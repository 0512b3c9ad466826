"""Where the present human turn begins in a history: what a model needs of its own reasoning begins there, too.

A run of user turns in which any tool result stands continues the tool loop: the three protocols put results and
the text beside them into one message or into several, and clients add reminders to results. System turns do not
count.
"""

from translators.conversation import ToolResult, Turn

__all__ = ["epoch_start"]


def epoch_start(turns: tuple[Turn, ...]) -> int:
    """Return the index of the first turn after the latest words of a human; 0 when there are none."""
    end: int | None = None
    answered = False
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if turn.role == "user":
            end = index + 1 if end is None else end
            answered = answered or any(isinstance(part, ToolResult) for part in turn.parts)
        elif turn.role == "assistant":
            if end is not None and not answered:
                return end
            end, answered = None, False
    return 0 if end is None or answered else end
