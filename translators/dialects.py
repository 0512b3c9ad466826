"""The table of dialects: one line per protocol."""

from translators import chat, messages, responses
from translators.conversation import DialectName
from translators.dialect import Dialect

__all__ = ["DIALECTS"]

DIALECTS: dict[DialectName, Dialect] = {
    "chat": chat.DIALECT,
    "responses": responses.DIALECT,
    "messages": messages.DIALECT,
}
