"""What the Grok CLI's upstream means by an error (spec/grok.md 9). Pure: status, headers and body in, a Sentence out.

Status and code come first and the wording second, for wordings change. Only what is a limit of the account moves a
request to another credential (promise 1), also where the upstream calls it 402 or 403.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from providers.ratelimit import effective_429, wait_s
from translators.failure import error_fault, failure
from translators.fault import Fault
from translators.jsonio import ERRORS

__all__ = ["DAY_S", "RATE_CAP_S", "RATE_S", "RETRIED", "Action", "Sentence", "judge", "retryable"]

DAY_S = 86_400.0
"""Rest after a used-up quota; it is counted over a rolling day."""
RATE_S = 60.0
RATE_CAP_S = 900.0
RETRIED = (500, 502, 503, 504, 520)

Action = Literal["pass", "renew", "reject", "quota", "model_quota", "rate", "unseal", "outdated", "unknown_model"]


class Sentence(msgspec.Struct, frozen=True):
    """What to do, what the client is told, and how long the credential rests (None: it does not)."""

    action: Action
    fault: Fault
    wait_s: float | None = None


_TOKEN = re.compile(r"bad-credentials|access token could not be validated", re.IGNORECASE)
_BANNED = re.compile(r"blocked-user", re.IGNORECASE)
_NO_CHAT = re.compile(r"access to the chat endpoint is denied", re.IGNORECASE)
_CONTENT = re.compile(r"content violates usage guidelines|SAFETY_CHECK_TYPE_", re.IGNORECASE)
_QUOTA = re.compile(
    r"spending-limit|usage balance exhausted|run out of credits|need a grok subscription", re.IGNORECASE
)
_FREE = re.compile(r"free-usage-exhausted|included free usage", re.IGNORECASE)
_SEALED = re.compile(
    r"could not decode the compaction blob|could not decrypt the provided encrypted_content", re.IGNORECASE
)
_UNKNOWN = re.compile(r"model[-_ ]not[-_ ]found|model .{0,80}(?:not found|does not exist)", re.IGNORECASE)


def retryable(status: int, headers: Mapping[str, str]) -> bool:
    """Tell whether the same request may be sent once more with the same credential."""
    return status in RETRIED and headers.get("x-should-retry", "").strip().lower() != "false"


def judge(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Sentence:
    """Return the sentence on an HTTP error, or on the error inside a stream (status below 400)."""
    text = body[: 64 * 1024].decode("utf-8", "replace")
    wait = wait_s(headers, body, now)
    fault = _inside(body) if status < 400 else failure(status, body, wait)
    status = status if status >= 400 else fault.status
    if status == 402 or (status in (403, 429) and _QUOTA.search(text)):
        return Sentence("quota", _limited(fault, "insufficient_quota", DAY_S), DAY_S)
    if status == 429 and _FREE.search(text):
        return Sentence("model_quota", _limited(fault, "insufficient_quota", DAY_S), DAY_S)
    if effective_429(status, body):
        rest = min(RATE_S if wait is None else wait, RATE_CAP_S)
        return Sentence("rate", _limited(fault, "rate_limit_exceeded", rest), rest)
    if status == 401 or (status == 403 and _TOKEN.search(text)):
        return Sentence("renew", _as(fault, "authentication", 401))
    if status == 403:
        return Sentence(_forbidden(text, fault.code or ""), fault)
    if status == 400 and _SEALED.search(text):
        return Sentence("unseal", fault)
    if status == 426:
        message = (
            "the upstream wants a newer client version: raise client_version of this provider in the configuration"
        )
        return Sentence("outdated", Fault(kind="api", status=502, message=message, cause="gateway"))
    if status == 404 and _UNKNOWN.search(text):
        return Sentence("unknown_model", fault)
    return Sentence("pass", fault)


def _forbidden(text: str, code: str) -> Action:
    """Content is the request's own fault; no right to chat, or a ban, is the account's."""
    if _CONTENT.search(text):
        return "pass"
    denied = _NO_CHAT.search(text) or _BANNED.search(text) or code == "permission-denied"
    return "reject" if denied else "pass"


def _limited(fault: Fault, code: str, wait: float) -> Fault:
    return msgspec.structs.replace(fault, kind="rate_limited", status=429, code=code, retry_after_s=wait)


def _as(fault: Fault, kind: Literal["authentication"], status: int) -> Fault:
    return msgspec.structs.replace(fault, kind=kind, status=status)


def _inside(body: bytes) -> Fault:
    told: Any
    try:
        told = msgspec.json.decode(body)
    except ERRORS:
        told = None
    return error_fault(told)
