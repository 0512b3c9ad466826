"""The table of spec/grok.md 9: what each status, code and text means for the credential and for the client."""

import json

import pytest

from providers.grok_status import DAY_S, judge, retryable

FREE = {"code": "subscription:free-usage-exhausted", "error": "You used all the included free usage for model x"}


def err(message, code=None):
    return {"error": {"message": message, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "action", "wait", "client"),
    [
        (401, err("no"), "renew", None, 401),
        (403, err("no", "unauthenticated:bad-credentials"), "renew", None, 401),
        (403, {"error": "The access token could not be validated"}, "renew", None, 401),
        (403, {"code": "permission-denied", "error": "Access to the chat endpoint is denied"}, "reject", None, 403),
        (403, err("no", "blocked-user"), "reject", None, 403),
        (403, err("Content violates usage guidelines", "permission-denied"), "pass", None, 403),
        (403, err("SAFETY_CHECK_TYPE_X"), "pass", None, 403),
        (403, err("something else"), "pass", None, 403),
        (402, err("pay"), "quota", DAY_S, 429),
        (403, err("no", "personal-team-blocked:spending-limit"), "quota", DAY_S, 429),
        (429, err("You have run out of credits or need a Grok subscription"), "quota", DAY_S, 429),
        (429, FREE, "model_quota", DAY_S, 429),
        (429, err("slow down"), "rate", 60, 429),
        (400, err("Could not decode the compaction blob"), "unseal", None, 400),
        (400, err("Could not decrypt the provided encrypted_content"), "unseal", None, 400),
        (400, err("bad"), "pass", None, 400),
        (404, err("The model grok-9 does not exist", "model-not-found"), "unknown_model", None, 404),
        (404, err("no such path"), "pass", None, 404),
        (413, err("large"), "pass", None, 413),
        (422, {"error": "did not match any variant"}, "pass", None, 422),
        (426, {"error": "update to 0.1.202 or later"}, "outdated", None, 502),
        (500, err("oops"), "pass", None, 500),
        (503, err("busy"), "pass", None, 503),
        (200, err("slow down", "rate_limit_exceeded"), "rate", 60, 429),
        (200, "no json", "pass", None, 502),
    ],
)
def test_sentence(status, body, action, wait, client):
    """Each condition leads to its action, the credential's rest, and the client's status."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    found = judge(status, {}, data, 0.0)
    assert (action, wait, client) == (found.action, found.wait_s, found.fault.status)
    assert wait == found.fault.retry_after_s


def test_rate_limit_keeps_its_time():
    """A Retry-After counts, up to a quarter of an hour."""
    body = json.dumps(err("slow down")).encode()
    assert [7, 900] == [judge(429, {"retry-after": text}, body, 0.0).wait_s for text in ("7", "86400")]


def test_limit_is_told_as_one():
    """Quotas are told in the code that clients know, with the time to wait."""
    fault = judge(402, {}, b"{}", 0.0).fault
    assert ("rate_limited", "insufficient_quota", DAY_S) == (fault.kind, fault.code, fault.retry_after_s)


def test_old_version_is_the_operators_matter():
    """A 426 names the key of the configuration, for no client can do anything about it."""
    assert "client_version" in judge(426, {}, b"{}", 0.0).fault.message


@pytest.mark.parametrize(
    ("status", "headers", "again"),
    [
        (500, {}, True),
        (520, {}, True),
        (503, {"x-should-retry": "false"}, False),
        (400, {"x-should-retry": "true"}, False),
    ],
)
def test_only_passing_errors_are_tried_again(status, headers, again):
    """5xx are tried again unless the upstream says not to; its wish to repeat a 400 is not followed."""
    assert again == retryable(status, headers)
