"""Faults as Messages clients know them."""

import json
from typing import get_args

import pytest

from tests.translators.grammar_messages import ERROR_TYPES, check
from translators.fault import Fault, Kind
from translators.messages.envelope import envelope, error_event


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_has_an_official_type(kind):
    """Body and event have one of the vendor's error types, and no member beside type and message."""
    fault = Fault(kind=kind, message="said")
    error = json.loads(envelope(fault, ""))["error"]
    assert {"type", "message"} == set(error)
    assert error["type"] in ERROR_TYPES
    assert error == check(error_event(fault)).error


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("rate_limited", "rate_limit_error"),
        ("overloaded", "overloaded_error"),
        ("too_large", "invalid_request_error"),
        ("policy", "invalid_request_error"),
        ("api", "api_error"),
    ],
)
def test_the_table_of_error_types(kind, word):
    """Spec/translation.md 1.2."""
    assert word == json.loads(envelope(Fault(kind=kind, message="m"), ""))["error"]["type"]


def test_the_request_id_is_told_where_there_is_one():
    """The envelope names the request, and leaves out an empty name."""
    fault = Fault(kind="api", message="m")
    assert {"type": "error", "error": {"type": "api_error", "message": "m"}, "request_id": "req_1"} == json.loads(
        envelope(fault, "req_1")
    )
    assert "request_id" not in json.loads(envelope(fault, ""))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("maximum context length is 8", "prompt is too long: maximum context length is 8"),
        ("Prompt is too long: 9 tokens > 8 maximum", "Prompt is too long: 9 tokens > 8 maximum"),
    ],
)
def test_a_prompt_that_is_too_long_is_told_in_words_that_clients_know(said, shown):
    """Claude Code compacts its history when it reads them (clients.md 1)."""
    fault = Fault(kind="context_length", message=said)
    assert shown == json.loads(envelope(fault, ""))["error"]["message"]
