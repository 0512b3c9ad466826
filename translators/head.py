"""What a request of any dialect is checked for before it is routed, so that native ones are checked too.

A native body is never decoded as a whole; its encoding and its size in messages are told without a tree.
"""

from collections.abc import Sequence

import msgspec

from translators.fault import refuse
from translators.jsonio import explain

__all__ = ["MAX_MESSAGES", "checked"]

MAX_MESSAGES = 10_000
"""Messages or input items of one request (spec/translation.md 8)."""


def checked(document: bytes, messages: str | Sequence[msgspec.Raw] | None, at: str) -> None:
    """Raise Refused (400) for a body that is no UTF-8, or that has more messages than anyone's agent sends."""
    if not document.isascii():
        try:
            document.decode()
        except UnicodeDecodeError as error:
            raise refuse(explain(error)) from None
    if messages is not None and not isinstance(messages, str) and len(messages) > MAX_MESSAGES:
        raise refuse(f"{at}: {len(messages)} entries; at most {MAX_MESSAGES} are accepted", param=at)
