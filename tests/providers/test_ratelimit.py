"""Tables of what upstreams say about limits, waits, models and refused keys."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.ratelimit import (
    MAX_BODY_BYTES,
    MAX_WAIT_S,
    duration_s,
    effective_429,
    key_rejected,
    limited_model,
    wait_s,
)

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT
WRAPPED = b"upstream returned 429: rate limit exceeded"


def body(**fields):
    return json.dumps(fields).encode()


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("status", "content"),
    [
        (429, b""),
        (429, b"anything"),
        (502, b'{"status":502,"error":{"status":429}}'),
        (502, b'{"error":{"status":"429"}}'),
        (500, b'{"upstream_status":429}'),
        (500, b'{"upstream-status":"429"}'),
        (503, b'{"a":[{"b":{"StatusCode":429}}]}'),
        (500, b'{"HTTP_STATUS":429.0}'),
        (502, WRAPPED),
        (599, b"Upstream Status: HTTP 429 Too Many Requests"),
        (500, b"upstream error=429, try again in 5m"),
        (500, b"upstream response status - http 429; retry-after 3"),
        (502, rb'{"error":{"message":"upstream\u0020returned 429: quota\u0020exceeded"}}'),
        (500, b'{"a":"upstream status 429","b":"daily free limit reached"}'),
    ],
)
def test_effective_429(status, content):
    """A 429 is one whatever it says; a 5xx is one if it names an upstream's 429 and a limit."""
    assert effective_429(status, content, {})


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("status", "content"),
    [
        (502, b"upstream returned 429: proxy operation failed"),
        (502, b"proxy request id 429123 failed"),
        (502, b"upstream returned 429123: rate limit exceeded"),
        (500, b"error 429"),
        (500, b'{"details":{"status":429}}'),
        (500, b'{"status":429}'),
        (500, b'{"error":{"code":429}}'),
        (500, b'{"error":[{"status":429}]}'),
        (500, b'{"error":{"status":{"code":429}}}'),
        (500, b'{"upstream_status":[429]}'),
        (500, b'{"upstream_status":4290}'),
        (500, b"rate limit exceeded"),
        (500, b""),
        (503, b"[" * 60_000),
        (503, b"\xff\xfe"),
        (600, WRAPPED),
        *((status, WRAPPED) for status in (200, 400, 401, 402, 403, 404, 408, 409, 422)),
        *((status, b"Service Unavailable") for status in (500, 502, 503, 504)),
    ],
)
def test_not_an_effective_429(status, content):
    """No other status is one, nor a number without the words, nor the words without the number."""
    assert not effective_429(status, content, {"retry-after": "30"})


def test_long_body_is_cut():
    """What stands beyond 64 KiB is not read, and a cut body does not fail."""
    filler = b" " * (MAX_BODY_BYTES - len(WRAPPED))
    assert effective_429(502, filler + WRAPPED)
    assert not effective_429(502, filler + b"%30s" % b"" + WRAPPED)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h 30m", 9000),
        ("17h 59m", 64740),
        ("3h", 10800),
        ("45m", 2700),
        ("30s", 30),
        ("30ms", 0.03),
        ("1D 3H 59M 9S", 100749),
        ("23h 17m", 83820),
        ("1d 2h 3m", 93780),
        ("6m0s", 360),
        ("1.5s", 1.5),
        (" 7 days ", 604800),
        ("1 hour and 5 minutes", 3900),
        ("2 hrs, 10 secs", 7210),
        ("250 milliseconds", 0.25),
        ("-1h", None),
        ("999999999999h", None),
        ("nonsense", None),
        ("", None),
        ("30", None),
        ("5 mangos", None),
        ("2h30", None),
        ("2h, or so", None),
        ("367d", None),
        ("٣h", None),
    ],
)
def test_duration(text, seconds):
    """Human durations are read whole or not at all."""
    assert (None if seconds is None else pytest.approx(seconds)) == duration_s(text)


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("headers", "content", "seconds"),
    [
        # Retry-After, in every form, beats all else.
        ({"Retry-After": "30"}, b"", 30),
        ({"Retry-After": " 2.5 "}, b"", 2.5),
        ({"Retry-After": "1500ms"}, b"", 1.5),
        ({"Retry-After": "0"}, b"", 0),
        ({"Retry-After": "Fri, 15 Jan 2027 08:01:00 GMT"}, b"", 60),
        ({"Retry-After": "Fri, 15 Jan 2027 07:00:00 GMT"}, b"", 0),
        ({"Retry-After": "2027-01-15T08:02:00Z"}, b"", 120),
        ({"Retry-After": "1800000090"}, b"", 90),
        ({"retry-after-ms": "1500", "retry-after": "2"}, b"", 1.5),
        ({"retry-after": "5"}, b'{"retry_after":60}', 5),
        # Nonsense is as good as nothing.
        ({"Retry-After": "-5"}, b"", None),
        ({"Retry-After": "soon"}, b'{"retry_after":60}', 60),
        ({"Retry-After": "99999999999999999999"}, b"", None),
        ({"Retry-After": "1e3"}, b"", None),
        ({"Retry-After": "Fri, 99 Foo 2027"}, b"", None),
        ({"Retry-After": "Fri, 15 Jan 99999999999999999999 08:01:00 GMT"}, b"", None),
        ({"Retry-After": "Fri, 15 Jan 2027 08:01:00 +9999"}, b"", None),
        ({"Retry-After": "Fri, 15 Jan 2127 08:01:00 GMT"}, b"", None),
        ({"Retry-After": "0001-01-01T00:00:00+23:59"}, b"", 0),
        ({"Retry-After": ""}, b"", None),
        # Fields of the body, before its text.
        ({}, b'{"retryAfter":60}', 60),
        ({}, b'{"error":{"details":[{"retry-after-seconds":"90"}]}}', 90),
        ({}, b'{"retry_in":"2h 30m"}', 9000),
        ({}, b'{"cooldown":1.5}', 1.5),
        ({}, b'{"retry_after_ms":2500}', 2.5),
        ({}, b'{"retry_in_ms":"2500"}', 2.5),
        ({}, b'{"retryDelay":"34.074824224s"}', 34.074824224),
        ({}, b'{"error":{"resets_in_seconds":40,"resets_at":1800000041}}', 40),
        ({}, b'{"retry_after":true,"cooldown":7}', 7),
        ({}, b'{"retry_after":-1,"cooldown":null,"retry_in":[5]}', None),
        ({}, b'{"retry_after":1e400}', None),
        ({}, b'{"retry_after":' + b"9" * 400 + b"}", None),
        ({}, b'{"resets_at":' + b"9" * 400 + b"}", None),
        ({}, b'{"retry_after":' + b"9" * 9000 + b"}", None),
        ({}, b'{"retry_after":5,"message":"try again in 1h"}', 5),
        # Moments in the body.
        ({}, b'{"error":{"code":"SPEND_LIMIT_EXCEEDED","resets_at":"2027-01-15T09:00:00Z"}}', 3600),
        ({}, b'{"resets_at":"2027-01-15T09:00:00"}', 3600),
        ({}, b'{"resets_at":1800000060}', 60),
        ({}, b'{"resets_at":"1800000060"}', 60),
        ({}, b'{"reset_at":1800000060000}', 60),
        ({}, b'{"resets_at":60}', None),
        ({}, b'{"resets_at":true}', None),
        ({}, b'{"resets_at":null}', None),
        ({}, b'{"resets_at":"tomorrow"}', None),
        # Text.
        ({}, b"Error 429: Daily free limit reached on model X. Try again in 23h 59m", 86340),
        ({}, body(error={"message": "Please try again in 1.898s. Visit"}), 1.898),
        ({}, b"retry after: 30 seconds", 30),
        ({}, b"The limit resets in 5h, please try again later.", 18000),
        ({}, b"Your quota will reset after 3h14m7s.", 11647),
        ({}, b"try again in a while, retry in 20s", 20),
        ({}, b"try again in -5m", None),
        ({}, b"try again later", None),
        # Windows come last; only those that are used up count where that is told.
        ({"x-ratelimit-reset": "12"}, b"", 12),
        ({"ratelimit-reset": "1800000060"}, b"", 60),
        ({"X-RateLimit-Reset": "1800000060000"}, b"", 60),
        ({"anthropic-ratelimit-requests-reset": "2027-01-15T08:00:10Z"}, b"", 10),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, b"", 360),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "149984",
            },
            b"",
            1,
        ),
        ({"x-ratelimit-reset": "nonsense", "x-ratelimit-limit": "5"}, b"", None),
        ({"x-ratelimit-reset": "12"}, b"try again in 1m", 60),
        # Never more than a day.
        ({"Retry-After": "604800"}, b"", MAX_WAIT_S),
        ({}, b"You have reached your weekly Clinepass limit. The limit resets in 7d, please", MAX_WAIT_S),
        ({}, b"", None),
        ({}, b"[" * 60_000, None),
    ],
)
def test_wait(headers, content, seconds):
    """The most specific wait that makes sense counts, and none is longer than a day."""
    assert (None if seconds is None else pytest.approx(seconds)) == wait_s(headers, content, NOW)


HINTS = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"[-+]?[0-9]{1,25}(\.[0-9]+)?( ?(ms|s|m|h|d|days))?", fullmatch=True),
    st.datetimes().map(str),
    st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,3} (Jan|Foo) [0-9]{1,12} [0-9:]{1,9} ([A-Z]{3}|[+-][0-9]{4,9})", fullmatch=True
    ),
)
FIELDS = st.sampled_from(["retry_after", "cooldown", "retry_in_ms", "resets_at", "message", "status", "error", "model"])
DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), HINTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=3)),
    max_leaves=8,
)
NAMES = st.sampled_from(["retry-after", "Retry-After-MS", "x-ratelimit-reset", "anthropic-ratelimit-tokens-reset"])


@pytest.mark.slow
@pytest.mark.promise("S36")
@settings(max_examples=300, deadline=None)
@given(
    headers=st.dictionaries(NAMES, HINTS), document=st.one_of(DOCUMENTS.map(json.dumps), HINTS.map("retry in ".__add__))
)
def test_nothing_that_an_upstream_says_breaks_the_judgement(headers, document):
    """Whatever arrives, there is a verdict, and a wait is within its bounds or absent."""
    content = document.encode("utf-8", "surrogatepass")
    wait = wait_s(headers, content, NOW)
    assert wait is None or 0 <= wait <= MAX_WAIT_S
    assert effective_429(502, content) in {True, False}
    assert key_rejected(403, content) in {True, False}
    assert limited_model(content, KNOWN) in {None, *KNOWN}


KNOWN = ("z-ai/glm-5.3-flash", "gpt-4o", "openai/gpt-4o")


@pytest.mark.parametrize(
    ("content", "model"),
    [
        (body(error={"model": "gpt-4o"}), "gpt-4o"),
        (body(model="zai/GLM-5.3-flash"), "z-ai/glm-5.3-flash"),
        (body(model="unknown", message="reached on model gpt-4o"), "gpt-4o"),
        (b"Error 429: Daily free limit reached on model z-ai/glm-5.3-flash. Try again in 23h", "z-ai/glm-5.3-flash"),
        (body(error={"message": "Rate limit reached for gpt-4o in organization org-1"}), "gpt-4o"),
        (body(error={"message": "Limit for model: `openai/gpt-4o`"}), "openai/gpt-4o"),
        (body(error={"message": "Rate limit reached for requests"}), None),
        (body(model=7), None),
        (body(model="anthropic/gpt-4o"), None),
        (b"", None),
    ],
)
def test_limited_model(content, model):
    """A model counts when the answer names one of ours, in either spelling of its vendor."""
    assert model == limited_model(content, KNOWN)


@pytest.mark.parametrize(
    ("content", "model"),
    [
        (b"included free usage for model grok-4.5-build-free. Rolling", "grok-4.5-build-free"),
        (body(model="", error="limit on model x"), "x"),
        (body(error={"message": "Rate limit reached for requests"}), None),
    ],
)
def test_limited_model_without_a_list(content, model):
    """Where no names are known, only unmistakable places count."""
    assert model == limited_model(content, None)


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("status", "content", "rejected"),
    [
        (401, b"", True),
        (403, body(error={"message": "Incorrect API key provided: sk-1"}), True),
        (403, body(error={"code": "invalid_api_key"}), True),
        (403, b"API key not valid. Please pass a valid API key.", True),
        (403, body(error={"details": [{"reason": "API_KEY_INVALID"}]}), True),
        (403, body(error={"type": "authentication_error", "message": "invalid x-api-key"}), True),
        (403, body(code="unauthenticated:bad-credentials"), True),
        (403, b"The access token could not be validated", True),
        (403, rb'{"error":"api\u0020key has been revoked"}', True),
        (403, b"Your API key is disabled", True),
        (403, b"Content violates usage guidelines", False),
        (403, b"Access to the chat endpoint is denied", False),
        (403, b"Country, region, or territory not supported", False),
        (403, body(code="personal-team-blocked:spending-limit"), False),
        (403, b"", False),
        (400, b"API key not valid", False),
        (402, b"invalid api key", False),
        (500, b"invalid api key", False),
    ],
)
def test_key_rejected(status, content, rejected):
    """A 401 refuses the key, a 403 only when it says that the key is bad."""
    assert rejected is key_rejected(status, content)
