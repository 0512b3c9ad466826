"""Call ids, response ids and item ids: pure functions of their input, so that a replayed history agrees."""

import hashlib
import re

__all__ = ["CALL_ID_LIMIT", "call_id_for_messages", "call_id_for_openai", "item_id", "made_call_id", "response_id"]

CALL_ID_LIMIT = 64
"""Characters that OpenAI targets accept in a call id."""

_LEGAL = re.compile(r"[a-zA-Z0-9_-]+\Z")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_KNOWN = ("msg_", "resp_", "chatcmpl-", "gen-")


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def call_id_for_messages(call_id: str) -> str:
    """Return the id as Messages accepts it: unchanged when legal, else cleaned and marked with a digest."""
    if _LEGAL.match(call_id):
        return call_id
    return f"{_ILLEGAL.sub('_', call_id)}_{_digest(call_id, 8)}"


def call_id_for_openai(call_id: str) -> str:
    """Return the id as OpenAI targets accept it: unchanged up to 64 characters, else 47 and a digest."""
    if len(call_id) <= CALL_ID_LIMIT:
        return call_id
    return f"{call_id[:47]}_{_digest(call_id, 16)}"


def response_id(upstream: str, family: str, seed: str) -> str:
    """Return the answer's id with the client family's prefix (`msg_`, `resp_`, `chatcmpl-`); else the seed."""
    if not upstream:
        return family + seed
    if upstream.startswith(family):
        return upstream
    for prefix in _KNOWN:
        if upstream.startswith(prefix):
            return family + upstream.removeprefix(prefix)
    return family + upstream


def made_call_id(family: str, seed: str, ordinal: int) -> str:
    """Return an id for a call that came without one; `family` is `call_` or `toolu_`."""
    return f"{family}{seed}_{ordinal}"


def item_id(prefix: str, response: str, index: int) -> str:
    """Return a Responses item id (`msg`, `rs`) for an output index; calls use `fc_` or `ctc_` and their call id."""
    return f"{prefix}_{response.removeprefix('resp_')}_{index}"
