"""Secrets and addresses leave text, ordinary words stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.scrub import MASK, Scrubber
from providers.secret import Secret

PLAIN = Scrubber(())


@pytest.mark.promise("S01", "S02")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-abcdefghijkl is bad", f"key {MASK} is bad"),
        ("Authorization: Bearer abcdef123456", f"Authorization: {MASK}"),
        ("xai-0123456789abc", MASK),
        ("ghp_0123456789abc", MASK),
        ("eyJhbGciOiJI.eyJzdWIi.c2lnbmF0", MASK),
        ('api_key="abcdef123456"', f'{MASK}"'),
        ("password = hunter2hunter2", MASK),
        ("see https://10.0.0.1:8443/v1?key=x for more", "see [address] for more"),
        ("http://user:pass@host/", "[address]"),
        ("the token limit is 4096 tokens", "the token limit is 4096 tokens"),
        ("bearer of bad news", "bearer of bad news"),
        ("", ""),
    ],
)
def test_what_looks_like_a_secret_is_masked(text, clean):
    """Patterns of keys, tokens and addresses go; prose about them stays."""
    assert clean == PLAIN(text)


@pytest.mark.promise("S01")
def test_known_secrets_are_masked_exactly():
    """The longer of two values that begin alike goes whole, and special characters are no patterns."""
    scrub = Scrubber([Secret("abc.def"), Secret("abc.def+ghi"), Secret("short")])
    assert f"<{MASK}> <{MASK}> abcxdef" == scrub("<abc.def+ghi> <abc.def> abcxdef")


@pytest.mark.promise("S01", "S02")
def test_secrets_that_change_are_masked_as_they_are_now():
    """Tokens of logins come and go; each is masked from the moment that it is known."""
    held = [Secret("token-of-old")]
    scrub = Scrubber([Secret("configured")], lambda: held)
    assert f"{MASK} {MASK} token-of-new" == scrub("configured token-of-old token-of-new")
    held.append(Secret("token-of-new"))
    assert f"{MASK} {MASK} {MASK}" == scrub("configured token-of-old token-of-new")
    held.clear()
    assert f"{MASK} token-of-old" == scrub("configured token-of-old")


def test_values_too_short_for_secrets_are_left():
    """Masking them would garble ordinary words."""
    assert "a short text" == Scrubber([Secret("short")])("a short text")


@pytest.mark.promise("S01")
@given(st.text(min_size=6, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_text_keeps_a_known_secret(secret, before, after):
    """Wherever it stands, the value is not in what comes out, unless it is part of the mask."""
    if secret not in MASK and secret not in "[address]":
        assert before + secret + after != Scrubber([Secret(secret)])(before + secret + after)
