"""The response object that lifecycle events and whole answers carry (spec/translation.md 2.2).

It repeats the client's own request, has the client's alias as its model, and is the same in all events of an
answer save status, output and usage.
"""

from typing import Any

from translators.dialect import Reply
from translators.events import Start, Usage
from translators.fault import Fault
from translators.identifiers import response_id
from translators.jsonio import encode
from translators.responses.counts import spent
from translators.responses.envelope import failed_code

__all__ = ["Lifecycle"]

_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "model": "",
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}
"""What a client reads when its request did not say; nothing is stored here, whatever it asked."""

_REASONS = {"length": "max_output_tokens", "context": "max_output_tokens", "refusal": "content_filter"}


class Lifecycle:
    """Write the response objects of one answer."""

    def __init__(self, reply: Reply, start: Start) -> None:
        self.id = response_id(start.id, "resp_", reply.seed)
        created = start.created or reply.created
        told = {**_ECHOED, **reply.echo, "model": reply.alias, "store": False}
        self._head = b'{"id":%b,"object":"response","created_at":%d,"status":' % (encode(self.id), created)
        self._echo = encode(told)[1:-1]

    def begun(self) -> bytes:
        """Return the object of created and in_progress."""
        return self._object(b'"in_progress"', b"null", b"null", [], b"null")

    def ended(self, stop: str, items: list[bytes], usage: Usage) -> tuple[str, bytes]:
        """Return status and object of an answer that ended well, `completed` or `incomplete` (1.8)."""
        counts = encode(spent(usage))
        reason = _REASONS.get(stop)
        if reason is None:
            return "completed", self._object(b'"completed"', b"null", b"null", items, counts)
        details = encode({"reason": reason})
        return "incomplete", self._object(b'"incomplete"', b"null", details, items, counts)

    def failed(self, fault: Fault, items: list[bytes], usage: Usage) -> bytes:
        """Return the object of an answer that failed, with the items that were done before."""
        error = encode({"code": failed_code(fault), "message": fault.message})
        counts = encode(spent(usage)) if usage.known else b"null"
        return self._object(b'"failed"', error, b"null", items, counts)

    def _object(self, status: bytes, error: bytes, details: bytes, items: list[bytes], usage: bytes) -> bytes:
        return b'%b%b,"error":%b,"incomplete_details":%b,%b,"output":[%b],"usage":%b}' % (
            self._head,
            status,
            error,
            details,
            self._echo,
            b",".join(items),
            usage,
        )
