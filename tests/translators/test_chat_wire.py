"""The wire structs: what counts as sent."""

import msgspec
import pytest

from translators.chat.wire import ABSENT, Chunk, present


@pytest.mark.parametrize(("raw", "sent"), [(b"", False), (b"null", False), (b"0", True), (b"{}", True)])
def test_null_is_not_sent(raw, sent):
    """Absent and null members are the same."""
    assert sent is present(msgspec.Raw(raw))


def test_absent_members_share_one_value():
    """The hot path asks for truth instead of reading bytes."""
    chunk = msgspec.json.decode(b'{"id":"x","choices":[]}', type=Chunk)
    assert chunk.usage is ABSENT
    assert not chunk.usage
