"""Reading upstream errors of every shape into one Fault (spec/translation.md 1.2)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.failure import MAX_READ_BYTES, error_fault, failure, kind_of_status
from translators.fault import MESSAGE_LIMIT_CHARS, Fault


def read(status, body, retry=None):
    return failure(status, body if isinstance(body, bytes) else json.dumps(body).encode(), retry)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request"),
        (401, "authentication"),
        (402, "billing"),
        (403, "permission"),
        (404, "not_found"),
        (408, "timeout"),
        (413, "too_large"),
        (415, "unsupported_media"),
        (418, "invalid_request"),
        (422, "invalid_request"),
        (429, "rate_limited"),
        (500, "api"),
        (502, "api"),
        (503, "overloaded"),
        (504, "timeout"),
        (524, "timeout"),
        (529, "overloaded"),
    ],
)
def test_the_status_is_kept_and_names_the_kind(status, kind):
    """The table, with the upstream's own message."""
    fault = read(status, {"error": {"message": "provider says no", "type": "x", "code": None}})
    assert (kind, status, "provider says no", None) == (fault.kind, fault.status, fault.message, fault.code)


def test_a_redirect_is_called_one():
    """It is never followed, and what it carries is no error text."""
    fault = failure(307, b'{"error":{"message":"moved","code":"rate_limit_exceeded"}}', 3)
    assert ("api", 502, None, 3) == (fault.kind, fault.status, fault.code, fault.retry_after_s)
    assert "the upstream redirected the request (HTTP 307); its base_url may be wrong" == fault.message


@pytest.mark.parametrize("status", [0, 200, 302, 700])
def test_no_error_status_is_a_broken_upstream(status):
    """A reply that is an error without saying so is a 502."""
    assert ("api", 502) == (read(status, {}).kind, read(status, {}).status)
    assert "api" == kind_of_status(status)


@pytest.mark.parametrize(
    "body",
    [
        {"error": "told"},
        {"error": {"message": "told"}},
        {"type": "error", "error": {"type": "x", "message": "told"}},
        {"detail": "told"},
        {"errors": [{"message": "told"}, {"message": "other"}]},
        {"detail": [{"loc": ["body"], "msg": "told", "type": "missing"}]},
        {"message": "told"},
        {"message": "told", "error": "Bad Request", "statusCode": 400},
        {"success": False, "error": "told"},
        {"success": False, "error": '{"code":"x","current_balance":-1,"message":"told"}'},
        {"error": '[{"error":{"message":"told"}}]'},
        {"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"told"}}'}}},
        {"error": {"message": '{"error":{"message":"told"}}'}},
        {"response": {"status": "failed", "error": {"code": "x", "message": "told"}}},
        [{"error": {"message": "told"}}],
        b"told",
        b" told\x00 ",
    ],
)
def test_the_innermost_message_is_told(body):
    """Each envelope that a server is known for, JSON inside strings included."""
    assert "told" == read(400, body).message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<!DOCTYPE html><html><body>secret",
        b"nginx </h1>",
        {"error": {"message": "<html><head>"}},
        {"error": {"message": 'Traceback (most recent call last):\n  File "/srv/app.py", line 1'}},
        {"error": {"message": "boom\n    at Object.<anonymous> (/srv/app.js:1)"}},
        {"error": []},
        {"error": None},
        5,
    ],
)
def test_markup_and_stacks_are_never_told(body):
    """A sentence of ours with the status stands in."""
    assert "the upstream failed (HTTP 500)" == read(500, body).message


def test_text_that_only_looks_like_json_is_text():
    """A message in brackets is told as it is."""
    assert "[busy] try later" == read(503, {"error": "[busy] try later"}).message


def test_a_vague_message_stays_when_nothing_better_is_there():
    """Even a vague word is the upstream's."""
    assert (
        "Provider returned error"
        == read(400, {"error": {"message": "Provider returned error", "metadata": {"raw": "<html>"}}}).message
    )


def test_large_bodies_are_not_read():
    """Beyond the bound the status speaks; the message itself is cut."""
    assert "the upstream failed (HTTP 500)" == read(500, b"x" * (MAX_READ_BYTES + 1)).message
    assert MESSAGE_LIMIT_CHARS == len(read(500, b"x" * 9000).message)


def test_envelopes_are_opened_only_so_deep():
    """A document nested on purpose ends in our own words."""
    body = {"message": "deep"}
    for _ in range(9):
        body = {"error": body}
    assert "the upstream failed (HTTP 500)" == read(500, body).message


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens.",
        "Input is too long for requested model.",
        "The input token count (5) exceeds the maximum number of tokens allowed; reduce the length of the messages",
        "request (9 tokens) exceeds the available context size",
        "Your input exceeds the context window of this model",
        "prompt token count of 5 exceeds the limit: over the token limit",
    ],
)
def test_a_prompt_that_is_too_long_is_told_apart(message):
    """Clients compact their history by this code."""
    fault = read(400, {"error": {"message": message}})
    assert ("context_length", 400, "context_length_exceeded") == (fault.kind, fault.status, fault.code)
    assert "context_length" == error_fault({"message": message}).kind


def test_an_overflow_code_is_enough():
    """Whatever the message says; a 413 keeps its status."""
    fault = read(413, {"error": {"code": "model_max_prompt_tokens_exceeded", "message": "m"}})
    assert ("context_length", 413, "context_length_exceeded") == (fault.kind, fault.status, fault.code)


def test_a_rate_limit_about_tokens_is_a_rate_limit():
    """Only refusals of the request itself are searched for an overflow."""
    assert "rate_limited" == read(429, {"error": {"message": "prompt is too long for your tokens per minute"}}).kind


def test_a_policy_block_is_told_apart():
    """By its code."""
    fault = read(400, {"error": {"code": "cyber_policy", "message": "m"}})
    assert ("policy", "cyber_policy") == (fault.kind, fault.code)


def test_code_param_and_retry_after_are_kept():
    """What a client reacts to."""
    fault = read(429, {"error": {"message": "m", "code": "insufficient_quota", "param": "x", "type": "t"}}, 7.5)
    assert (
        Fault(kind="rate_limited", message="m", status=429, code="insufficient_quota", param="x", retry_after_s=7.5)
        == fault
    )


@pytest.mark.parametrize("code", [None, 400, "400", True, "has space", "x" * 70, {"a": 1}, ""])
def test_odd_codes_are_no_codes(code):
    """A code is a short word."""
    assert read(400, {"error": {"message": "m", "code": code}}).code is None


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"message": "m", "code": 429}, "rate_limited", 429),
        ({"message": "m", "code": "503"}, "overloaded", 503),
        ({"message": "m", "type": "invalid_request_error", "code": 400}, "invalid_request", 400),
        ({"message": "m", "type": "overloaded_error"}, "overloaded", 503),
        ({"message": "m", "code": "insufficient_quota"}, "billing", 402),
        ({"message": "m", "code": "rate_limit_exceeded", "type": "server_error"}, "rate_limited", 429),
        ({"message": "m", "code": "rate_limit"}, "rate_limited", 429),
        ({"choices": [{"error": {"message": "m", "code": "rate_limit"}}]}, "rate_limited", 429),
        ({"message": "m", "code": 7}, "api", 502),
        ("m", "api", 502),
        (None, "api", 502),
    ],
)
def test_errors_inside_streams_name_their_own_kind(error, kind, status):
    """By their status, else by their words."""
    fault = error_fault(error)
    assert (kind, status) == (fault.kind, fault.status)


def test_a_hint_serves_where_the_error_names_no_status():
    """The object's own status wins over it."""
    assert ("overloaded", 529) == (error_fault({}, 529).kind, error_fault({}, 529).status)
    assert 429 == error_fault({"code": 429}, 529).status


@given(st.integers(0, 700), st.binary(max_size=300))
def test_no_body_raises(status, body):
    """Any bytes give a Fault."""
    assert failure(status, body).message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["error", "message", "code", "detail", "metadata", "raw"]), inner)
    ),
)


@given(JSON)
def test_no_error_object_raises(error):
    """Any JSON gives a Fault whose message is fit to show."""
    message = error_fault(error).message
    assert message
    message.encode()


def test_an_error_in_a_choice_is_read():
    """OpenRouter and Cline put the error of a stream into its last choice (spec/cline.md 1.6)."""
    choice = {"index": 0, "finish_reason": "error", "error": {"code": "server_error", "message": "told"}}
    fault = error_fault({"choices": [choice]})
    assert ("told", "server_error", "api") == (fault.message, fault.code, fault.kind)
    assert "told" not in error_fault({"choices": ["told"]}).message
