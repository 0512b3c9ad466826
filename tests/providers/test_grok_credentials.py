"""Auth files: the official form, the flat ones, and rewriting one entry among others."""

import json
import math
import os

import pytest

from providers.grok_credentials import (
    API_SCOPE,
    CLIENT_ID,
    ISSUER,
    LIFE_S,
    MAX_FILE_BYTES,
    SCOPE,
    Tokens,
    Unusable,
    entry_of,
    parse,
    pinned,
    read,
    updated,
)
from providers.secret import Secret
from tests.grok import login

MADE = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def of(document, scope=""):
    return parse(json.dumps(document).encode(), scope)


def test_official_entry():
    """All that a refresh needs is read from the entry."""
    found = of(login("http://127.0.0.1:9"))
    assert ("FAKE.ACCESS.0", "FAKE-REFRESH-0") == (found.access.reveal(), found.refresh.reveal())
    wanted = ("http://127.0.0.1:9", "test-client", "User", "user-1", 2082758400.0)
    assert wanted == (found.issuer, found.client_id, found.principal_type, found.principal_id, found.expires_at)


def test_choice_of_the_entry():
    """The wanted scope, else the official one, else the first login, else the API key; web logins never."""
    key = {API_SCOPE: {"key": "xai-1", "auth_mode": "api_key"}}
    web = {"https://accounts.x.ai/sign-in": {"key": "w", "auth_mode": "web_login"}}
    other, official = {"https://o.x.ai::c": {"key": "o"}}, {SCOPE: {"key": "s"}}
    assert "s" == of(web | key | other | official).access.reveal()
    assert ("o", "https://o.x.ai", "c") == ((one := of(web | key | other)).access.reveal(), one.issuer, one.client_id)
    assert ("xai-1", True, math.inf) == ((one := of(web | key)).access.reveal(), one.api_key, one.expires_at)
    assert "o" == of(official | other, "https://o.x.ai::c").access.reveal()
    for document, scope in ((web, ""), (official, "x")):
        with pytest.raises(Unusable):
            of(document, scope)


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({"expires_at": "2026-01-01T00:00:00Z"}, MADE),
        ({"expires_at": "2026-01-01T00:00:00"}, MADE),
        ({"expires_at": MADE}, MADE),
        ({"expires_at": MADE * 1000}, MADE),
        ({"expired": "2026-01-01T01:00:00+01:00"}, MADE),
        ({"create_time": "2026-01-01T00:00:00Z"}, MADE + LIFE_S),
        ({"last_refresh": "2026-01-01T00:00:00Z", "expires_in": 60}, MADE + 60),
        ({"expires_at": "soon"}, math.inf),
        ({"expires_at": True}, math.inf),
        ({"expires_at": -1}, math.inf),
    ],
)
@pytest.mark.parametrize("form", ["entry", "flat", "tokens"])
def test_end_of_a_token(times, at, form):
    """Every spelling of the end is read; none means thirty days from the creation, or for ever."""
    flat = {"access_token": "a", **times}
    document = {"entry": {SCOPE: {"key": "a", **times}}, "flat": flat, "tokens": {"tokens": flat}}[form]
    assert at == of(document).expires_at


def test_flat_forms():
    """Other tools' files name the same things at the top or under tokens."""
    members = {"access_token": "a", "refresh_token": "r", "client_id": "c", "token_endpoint": "https://auth.x.ai/t"}
    for document, scope in ((members, ""), ({"tokens": members, "type": "xai"}, "tokens")):
        found = of(document)
        assert (scope, "a", "r", "c") == (found.scope, found.access.reveal(), found.refresh.reveal(), found.client_id)
        assert ("https://auth.x.ai/t", ISSUER) == (found.token_endpoint, found.issuer)


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"access_token":7}', b'{"a":{"key":7}}'])
def test_useless_content(content):
    """What holds no login says so without quoting anything."""
    with pytest.raises(Unusable):
        parse(content)


def test_rewriting_keeps_the_rest():
    """Only the login's own tokens change; other entries and fields stay as they are."""
    other = {"xai::api_key": {"key": "keep", "n": 1.5}}
    document = other | login("http://127.0.0.1:9")
    content = json.dumps(document).encode()
    tokens = Tokens(Secret("new"), Secret("fresh"), MADE)
    (scope,) = login("http://127.0.0.1:9")
    made = json.loads(updated(content, parse(content, scope), tokens))
    changed = {"key": "new", "refresh_token": "fresh", "expires_at": "2026-01-01T00:00:00Z"}
    assert other | {scope: document[scope] | changed} == made
    kept = json.loads(updated(content, parse(content, scope), Tokens(Secret("new"), None, MADE)))
    assert "FAKE-REFRESH-0" == kept[scope]["refresh_token"]
    with pytest.raises(Unusable):
        updated(b"{}", parse(content, scope), tokens)


def test_rewriting_flat_files():
    """A flat file keeps its own names."""
    tokens = Tokens(Secret("new"), None, MADE)
    for document in ({"access_token": "a", "expired": "x"}, {"tokens": {"access_token": "a", "expired": "x"}}):
        content = json.dumps(document).encode()
        made = json.loads(updated(content, parse(content), tokens))
        assert {"access_token": "new", "expired": "2026-01-01T00:00:00Z"} == made.get("tokens", made)


def test_new_entry_is_read_back():
    """What our own login writes is what the reader understands."""
    found = of(entry_of(Tokens(Secret("a"), Secret("r"), MADE + 60), ISSUER, CLIENT_ID, MADE))
    assert (SCOPE, "a", "r", MADE + 60) == (
        found.scope,
        found.access.reveal(),
        found.refresh.reveal(),
        found.expires_at,
    )
    assert of(entry_of(Tokens(Secret("a"), None, MADE), ISSUER, CLIENT_ID, MADE)).refresh is None


def test_unreadable_files(tmp_path):
    """A missing or huge file is unusable, with a reason."""
    with pytest.raises(Unusable, match="cannot be read"):
        read(tmp_path / "none")
    with (tmp_path / "big").open("wb") as file:
        os.truncate(file.fileno(), MAX_FILE_BYTES + 1)
    with pytest.raises(Unusable, match="too large"):
        read(tmp_path / "big")


@pytest.mark.promise("S01")
@pytest.mark.parametrize(
    ("url", "issuer", "fits"),
    [
        ("https://auth.x.ai/oauth2/token", ISSUER, True),
        ("https://x.ai/t", ISSUER, True),
        ("http://auth.x.ai/t", ISSUER, False),
        ("https://evil.example/t", ISSUER, False),
        ("https://x.ai.evil.example/t", ISSUER, False),
        ("https://notx.ai/t", ISSUER, False),
        ("https://auth.x.ai/t", "https://evil.example", False),
        ("https://own.example/t", "https://own.example", True),
        ("https://user@auth.x.ai/t", ISSUER, False),
        ("http://127.0.0.1:9/t", "http://127.0.0.1:9", True),
        ("http://127.0.0.1:9/t", "http://127.0.0.1:8", False),
        ("http://127.0.0.1:9/t", ISSUER, False),
        ("http://evil/", "http://127.0.0.1:9", False),
        ("ftp://127.0.0.1/t", "ftp://127.0.0.1", False),
        ("https://auth.x.ai:x/", ISSUER, False),
        ("", ISSUER, False),
    ],
)
def test_tokens_go_to_their_issuer_alone(url, issuer, fits):
    """A refresh token is sent to x.ai, to a host that the operator allowed, or on loopback; to nobody else."""
    assert fits == pinned(url, issuer, ("own.example",))
