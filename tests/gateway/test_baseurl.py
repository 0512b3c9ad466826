"""Upstream addresses are trimmed to the version path, and unsafe ones are refused."""

import pytest

from gateway.baseurl import Unfit, base_url


@pytest.mark.parametrize(
    ("given", "trimmed"),
    [
        ("https://api.example/v1", "https://api.example/v1"),
        ("https://api.example/v1/", "https://api.example/v1"),
        ("https://api.example/v1//", "https://api.example/v1"),
        ("https://api.example/v1/chat/completions", "https://api.example/v1"),
        ("https://api.example/v1/chat/completions/", "https://api.example/v1"),
        ("https://api.example/v1/responses", "https://api.example/v1"),
        ("https://api.example/v1/messages", "https://api.example/v1"),
        ("https://api.example/messages", "https://api.example"),
        ("https://api.example", "https://api.example"),
        ("HTTPS://API.Example:8443/V1", "https://api.example:8443/V1"),
        ("https://api.example/api/v1/proxy", "https://api.example/api/v1/proxy"),
        ("https://resource.example/models", "https://resource.example/models"),
        ("https://api.example/v1/allmessages", "https://api.example/v1/allmessages"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_trimmed_to_the_version_path(given, trimmed):
    """A trailing slash and a copied endpoint path go, all else stays."""
    assert trimmed == base_url(given)


@pytest.mark.promise("S12")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "not an http address"),
        ("api.example/v1", "not an http address"),
        ("localhost:8000", "not an http address"),
        ("ftp://api.example", "not an http address"),
        ("file:///etc/passwd", "not an http address"),
        ("https:///v1", "not an http address"),
        ("https://user:canary@api.example/v1", "user name or password"),
        ("https://canary@api.example/v1", "user name or password"),
        ("https://api.example/v1?key=canary", "query or fragment"),
        ("https://api.example/v1?", "query or fragment"),
        ("https://api.example/v1#canary", "query or fragment"),
        ("https://api.example:99999/v1", "host or port"),
        ("https://api.example:x/v1", "host or port"),
        ("https://[::1/v1", "host or port"),
        ("https://api.example/a b", "characters"),
        ("https://api.example\\@evil.example/", "characters"),
        ("https://api.example/\r\nx", "characters"),
        ("https://bücher.example/v1", "characters"),
        ("http://api.example/v1", "unencrypted"),
        ("http://127.0.0.1.evil.example/v1", "unencrypted"),
        ("http://10.0.0.7/v1", "unencrypted"),
    ],
)
def test_unfit_addresses(given, reason):
    """What could go elsewhere than meant, or unencrypted, is refused without showing the address."""
    found = base_url(given)
    assert isinstance(found, Unfit)
    assert reason in found.what
    assert found.mend
    assert "canary" not in "".join(found)


@pytest.mark.promise("S12")
def test_http_is_allowed_on_request():
    """allow_http permits http to any host, and nothing else."""
    assert "http://vllm.internal:8000/v1" == base_url("http://vllm.internal:8000/v1/", allow_http=True)
    assert isinstance(base_url("ftp://vllm.internal", allow_http=True), Unfit)
