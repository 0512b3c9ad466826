"""Sessions and users are read from the fields that name them, whatever else stands there."""

import json

import msgspec
import pytest

from translators.whose import MAX_SESSION_CHARS, named, within

ABSENT = msgspec.Raw(b"")


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def test_a_cache_key_names_the_session_before_metadata():
    """`prompt_cache_key`, then the session of metadata; `user`, then the user of metadata (cline.md 8, grok.md 10.2)."""
    metadata = raw({"session_id": "s", "user_id": "m"})
    assert ("k", "u") == named("k", metadata, raw("u"))
    assert ("s", "m") == named("", metadata, raw(" "))
    assert (None, "u") == named(None, ABSENT, raw("u"))


@pytest.mark.promise("S31")
@pytest.mark.parametrize("value", [None, "session_", 7, [], {}, {"session_id": 7, "user_id": ["x"]}, {"user_id": ""}])
def test_other_shapes_name_nobody(value):
    """Metadata of another shape and members of another type are no names and no errors."""
    assert (None, None) == within(raw(value))
    assert (None, None) == named(None, raw(value), raw(7))


@pytest.mark.promise("S24")
def test_a_name_without_end_and_broken_text_are_none():
    """An over-long session is passed over, as are texts and objects that do not decode."""
    fits = "x" * MAX_SESSION_CHARS
    assert (fits, None) == within(raw({"session_id": fits}))
    assert (None, None) == within(raw({"session_id": fits + "x"}))
    assert (None, None) == within(msgspec.Raw(b'{"user_id":"\\ud800"}'))
    assert (None, None) == within(msgspec.Raw(b'{"user_id":'))
