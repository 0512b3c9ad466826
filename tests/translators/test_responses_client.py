"""Errors in raw pieces of a client's body name their place in the whole body."""

import msgspec
import pytest

from translators.fault import Refused
from translators.responses.client import read_at


class Inner(msgspec.Struct):
    name: str


decode = msgspec.json.Decoder(list[Inner]).decode


def test_piece_is_decoded():
    """A piece that fits is returned."""
    assert [Inner("a")] == read_at(decode, msgspec.Raw(b'[{"name":"a"}]'), "tools")


@pytest.mark.parametrize(
    ("piece", "param"),
    [(b'[{"name":1}]', "tools.0.name"), (b"5", "tools"), (b"[", "tools"), (b"[" * 100_000, "tools.0")],
)
def test_misfit_continues_the_path(piece, param):
    """The path of a wrong member continues the path of the piece."""
    with pytest.raises(Refused) as caught:
        read_at(decode, piece, "tools")
    assert param == caught.value.fault.param
    assert caught.value.fault.message.startswith(f"{param}: ")
    assert "`$" not in caught.value.fault.message
