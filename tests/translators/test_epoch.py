"""The present human turn begins after the latest words of a human, in every dialect's way to write them."""

import pytest

from translators.conversation import Text, ToolCall, ToolResult, Turn
from translators.epoch import epoch_start

HUMAN = Turn("user", (Text("do it"),))
CALL = Turn("assistant", (ToolCall("c1", "Bash", "{}"),))
RESULT = Turn("user", (ToolResult("c1", (Text("done"),)),))
BOTH = Turn("user", (ToolResult("c1", (Text("done"),)), Text("a reminder")))
SAID = Turn("assistant", (Text("fine"),))
SYSTEM = Turn("system", (Text("note"),))

CASES = {
    "no turns": ((), 0),
    "first words": ((HUMAN,), 1),
    "words in two turns": ((HUMAN, HUMAN), 2),
    "a tool loop": ((HUMAN, CALL, RESULT), 1),
    "text beside a result": ((HUMAN, CALL, BOTH), 1),
    "text behind a result": ((HUMAN, CALL, RESULT, HUMAN), 1),
    "text before a result": ((HUMAN, CALL, HUMAN, RESULT), 1),
    "a long loop": ((HUMAN, CALL, RESULT, CALL, RESULT), 1),
    "system text within": ((HUMAN, CALL, SYSTEM, RESULT, SYSTEM), 1),
    "system text between words": ((HUMAN, SYSTEM, HUMAN, CALL, RESULT), 3),
    "a second human turn": ((HUMAN, CALL, RESULT, SAID, HUMAN), 5),
    "its loop": ((HUMAN, CALL, RESULT, SAID, HUMAN, CALL, RESULT), 5),
    "an answer begun": ((HUMAN, SAID), 1),
    "no human at all": ((CALL, RESULT), 0),
}


@pytest.mark.parametrize(("turns", "start"), CASES.values(), ids=CASES)
def test_epoch_begins_after_the_latest_human_words(turns, start):
    """Results continue the tool loop, whatever stands beside them; only words alone begin a new turn."""
    assert start == epoch_start(turns)
