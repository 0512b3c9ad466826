"""Faults as OpenAI's clients read them."""

import json

import pytest

from translators.fault import STATUS, Fault
from translators.responses.envelope import envelope, failed_code


@pytest.mark.parametrize(
    ("kind", "type_", "code", "failed"),
    [
        ("invalid_request", "invalid_request_error", None, "invalid_prompt"),
        ("context_length", "invalid_request_error", "context_length_exceeded", "context_length_exceeded"),
        ("authentication", "invalid_request_error", "invalid_api_key", "server_error"),
        ("billing", "insufficient_quota", "insufficient_quota", "insufficient_quota"),
        ("permission", "permission_error", None, "server_error"),
        ("not_found", "invalid_request_error", "model_not_found", "invalid_prompt"),
        ("too_large", "invalid_request_error", None, "invalid_prompt"),
        ("unsupported_media", "invalid_request_error", None, "invalid_prompt"),
        ("rate_limited", "rate_limit_error", "rate_limit_exceeded", "rate_limit_exceeded"),
        ("api", "server_error", None, "server_error"),
        ("overloaded", "server_error", "overloaded", "server_error"),
        ("timeout", "server_error", "timeout", "server_error"),
        ("policy", "invalid_request_error", None, "invalid_prompt"),
    ],
)
def test_each_kind_has_its_words(kind, type_, code, failed):
    """Every kind of fault has its type and code in a body, and its code in a failed response (1.2)."""
    fault = Fault(kind=kind, message="m", param="p")
    assert {"error": {"message": "m", "type": type_, "param": "p", "code": code}} == json.loads(envelope(fault, "req"))
    assert failed == failed_code(fault)


def test_table_is_complete():
    """No kind of fault lacks its words."""
    for kind in STATUS:
        assert json.loads(envelope(Fault(kind=kind, message="m"), ""))["error"]["type"]


def test_own_codes_are_kept():
    """A fault's own code wins in a body, and a policy's also in a stream."""
    fault = Fault(kind="policy", message="m", code="cyber_policy")
    assert "cyber_policy" == json.loads(envelope(fault, ""))["error"]["code"]
    assert "cyber_policy" == failed_code(fault)
    assert "server_error" == failed_code(Fault(kind="api", message="m", code="invalid_tool_arguments"))
