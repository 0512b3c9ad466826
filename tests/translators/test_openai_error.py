"""One error body for both OpenAI protocols."""

import json

from translators.fault import Fault
from translators.openai_error import envelope, error_object


def test_the_body_holds_the_error_object():
    """Message, type, param and code, and nothing else: the request id travels in a header."""
    fault = Fault(kind="not_found", message="m", param="model")
    assert {"error": error_object(fault)} == json.loads(envelope(fault, "req_1"))
    assert {
        "message": "m",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    } == error_object(fault)


def test_an_empty_code_is_none():
    """For a fault that the kind's own code would describe wrongly."""
    assert error_object(Fault(kind="not_found", message="m", code=""))["code"] is None


def test_the_faults_own_code_goes_first():
    """What the upstream called it says more than our default."""
    assert (
        "insufficient_quota" == error_object(Fault(kind="rate_limited", message="m", code="insufficient_quota"))["code"]
    )
