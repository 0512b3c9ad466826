"""What an upstream error means for the key and for the client."""

import json

import pytest

from providers.judgement import judged


def body(**error):
    return json.dumps({"error": error}).encode()


LIMIT = body(message="Rate limit reached", type="rate_limit_error")


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("status", "headers", "data", "wait"),
    [
        (429, {}, b"", None),
        (429, {"retry-after": "7"}, b"<html>", 7.0),
        (429, {"retry-after": "-1"}, LIMIT, None),
        (429, {"retry-after": "soon"}, LIMIT, None),
        (502, {}, b'{"error":{"status":"429"}}', None),
    ],
)
def test_only_an_effective_429_is_limited(status, headers, data, wait):
    """The key rests for the time that was named, bounded; nonsense is no time."""
    verdict = judged(status, headers, data)
    assert (True, False, "rate_limited", 429) == (
        verdict.limited,
        verdict.rejected,
        verdict.fault.kind,
        verdict.fault.status,
    )
    assert wait == verdict.wait_s


@pytest.mark.promise("S36")
@pytest.mark.parametrize("status", [400, 402, 403, 404, 409, 413, 422, 500, 502, 503, 504, 529])
def test_other_statuses_blame_no_key(status):
    """Neither a rest nor a rejection, whatever the wait."""
    verdict = judged(status, {"retry-after": "7"}, body(message="no", type="x"))
    assert (False, False, None) == (verdict.limited, verdict.rejected, verdict.amended)
    assert status == verdict.fault.status


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("status", "data"),
    [(401, b""), (401, body(message="expired")), (403, body(message="Invalid API key", code="invalid_api_key"))],
)
def test_a_refused_key_is_rejected(status, data):
    """A 401, and a 403 that speaks of the key."""
    assert judged(status, {}, data).rejected


@pytest.mark.parametrize(
    ("data", "kind", "limited"),
    [
        (LIMIT, "rate_limited", True),
        (body(message="overloaded", type="overloaded_error"), "overloaded", False),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', "overloaded", False),
        (b"not json", "api", False),
        (b"\xff", "api", False),
        (b"[" * 100_000, "api", False),
    ],
)
def test_an_error_inside_a_200_is_judged_by_what_it_says(data, kind, limited):
    """The document is all there is; one that cannot be read is a broken upstream."""
    verdict = judged(200, {}, data)
    assert (kind, limited, False) == (verdict.fault.kind, verdict.limited, verdict.rejected)


def test_a_redirect_is_neither_a_limit_nor_a_refusal():
    """The key stays as it is; the fault says what came."""
    verdict = judged(302, {"location": "https://elsewhere"}, b"")
    assert (False, False, "api") == (verdict.limited, verdict.rejected, verdict.fault.kind)
    assert "redirected" in verdict.fault.message
    assert "elsewhere" not in verdict.fault.message
