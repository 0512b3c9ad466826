"""A Fault as Chat clients read it at the end of a stream that failed; the HTTP error body is OpenAI's own."""

from translators.fault import Fault
from translators.jsonio import encode
from translators.openai_error import envelope, error_object
from translators.sse import data_frame

__all__ = ["envelope", "error_frame"]


def error_frame(fault: Fault) -> bytes:
    """Return the frame that ends a failed stream; no [DONE] follows it (spec/translation.md 2.3)."""
    error = error_object(fault)
    if fault.kind == "authentication":
        error["type"] = "authentication_error"
    return data_frame(encode({"error": error}))
