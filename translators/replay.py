"""Tool-call replay for Responses clients that continue by reference (spec/grok.md 11)."""

from translators.conversation import Conversation, Opaque
from translators.fault import refuse

__all__ = ["check_resolved"]


def check_resolved(conversation: Conversation) -> None:
    """Raise Refused when the request still leans on state that nobody here holds; dropping it would lose turns."""
    if conversation.previous_response_id is not None:
        raise refuse(
            "previous_response_id: the answer it names is not known here; send the whole conversation as input",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    for turn in conversation.turns:
        if any(isinstance(part, Opaque) and part.kind == "item_reference" for part in turn.parts):
            raise refuse(
                f"{turn.at}: the referenced item is not known here; send the item itself", param=turn.at, code="missing_state"
            )
