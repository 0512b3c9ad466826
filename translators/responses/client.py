"""Decode pieces of a client's body that were kept raw, with errors that name their path in the whole body."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from translators.fault import Refused, refuse
from translators.jsonio import ERRORS, explain, path_of

__all__ = ["misfit", "read_at"]

T = TypeVar("T")


def read_at(decode: Callable[[bytes], T], raw: msgspec.Raw | bytes, at: str) -> T:
    """Return a decoded piece; raises Refused whose path continues `at` (such as `input.3`)."""
    try:
        return decode(raw)
    except ERRORS as error:
        raise misfit(error, at) from None


def misfit(error: Exception, at: str) -> Refused:
    """Return the exception for a piece that does not decode."""
    inner = path_of(error)
    path = f"{at}.{inner}" if inner else at
    return refuse(f"{path}: {explain(error).split(' - at `')[0]}", param=path)
