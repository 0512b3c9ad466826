"""The judgement that most providers share: what an upstream error means for the key and for the client."""

import time
from collections.abc import Mapping

import msgspec

from providers.api import Verdict
from providers.ratelimit import effective_429, key_rejected, limited_model, wait_s
from translators.failure import error_fault, failure
from translators.fault import Fault
from translators.jsonio import ERRORS

__all__ = ["judged"]


def judged(status: int, headers: Mapping[str, str], body: bytes) -> Verdict:
    """Return the verdict on an HTTP error reply, or on an error document inside a 200 stream (status 200).

    Only an effective 429 is `limited` (promise 1); a 401, or a 403 that says that the key is invalid, rejects.
    """
    if effective_429(status, body, headers):
        wait = wait_s(headers, body, time.time())
        fault = failure(429, body, wait)
        return Verdict(fault, limited=True, wait_s=wait, limited_model=limited_model(body, None))
    wait = wait_s(headers, body, time.time())
    if status < 300:
        fault = _inside(body)
        return Verdict(fault, limited=fault.kind == "rate_limited", wait_s=wait)
    fault = failure(status, body, wait)
    return Verdict(fault, rejected=key_rejected(status, body))


def _inside(body: bytes) -> Fault:
    try:
        return error_fault(msgspec.json.decode(body))
    except ERRORS:
        return error_fault(None)
