"""Faults as Chat clients read them: the table of spec/translation.md 1.2."""

import json

import pytest

from tests.translators.grammar_chat import check
from translators.chat.envelope import envelope, error_frame
from translators.fault import Fault


@pytest.mark.parametrize(
    ("kind", "type_", "code"),
    [
        ("invalid_request", "invalid_request_error", None),
        ("context_length", "invalid_request_error", "context_length_exceeded"),
        ("authentication", "invalid_request_error", "invalid_api_key"),
        ("billing", "insufficient_quota", "insufficient_quota"),
        ("permission", "permission_error", None),
        ("not_found", "invalid_request_error", "model_not_found"),
        ("too_large", "invalid_request_error", None),
        ("unsupported_media", "invalid_request_error", None),
        ("rate_limited", "rate_limit_error", "rate_limit_exceeded"),
        ("api", "server_error", None),
        ("overloaded", "server_error", "overloaded"),
        ("timeout", "server_error", "timeout"),
        ("policy", "invalid_request_error", None),
    ],
)
def test_each_kind_has_its_type_and_code(kind, type_, code):
    """Type and default code are OpenAI's."""
    error = {"message": "m", "type": type_, "param": None, "code": code}
    assert {"error": error} == json.loads(envelope(Fault(kind=kind, message="m"), "req_1"))


def test_the_upstreams_code_and_our_param_are_kept():
    """Clients act on the code, and find the field by the param."""
    fault = Fault(kind="rate_limited", message="m", code="insufficient_quota", param="messages.0")
    assert {
        "code": "insufficient_quota",
        "param": "messages.0",
        "message": "m",
        "type": "rate_limit_error",
    } == json.loads(envelope(fault, ""))["error"]


@pytest.mark.edge("E25")
def test_a_failed_stream_ends_in_an_error_object():
    """One frame, no [DONE]; authentication keeps its own type there."""
    summary = check(error_frame(Fault(kind="authentication", message="m")))
    assert ("error", "authentication_error") == (summary.terminal, summary.error["type"])
