"""A secret value that cannot leave through text by accident: no str, repr, format, JSON or pickle of it (S01).

`reveal()` is the only way to the value, so that its uses can be found by searching for that word.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NoReturn, Self

__all__ = ["Held", "Secret"]

SHOWN = "[secret]"
HELD = 32
"""Secrets that one credential is known by, the latest ones; a login has two at a time."""


class Secret:
    """One key, token or password. Raises ValueError when the value is empty.

    Two secrets are compared in constant time; a secret never equals a plain string.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not value:
            raise ValueError("a secret cannot be empty")
        self._value = value

    def reveal(self) -> str:
        """Return the value. Only code that puts it on the wire or scrubs it from text may call this."""
        return self._value

    def sha256(self) -> str:
        """Return the SHA-256 of the value as 64 hexadecimal digits, the form in which client keys are kept (S03)."""
        return hashlib.sha256(self._value.encode("utf-8", "surrogatepass")).hexdigest()

    def __repr__(self) -> str:
        return SHOWN

    def __format__(self, spec: str) -> str:
        return format(SHOWN, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.sha256(), other.sha256())

    def __hash__(self) -> int:
        return hash(self.sha256())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret cannot be pickled")


class Held:
    """The secrets that a changing credential has and lately had, for who has to mask them in text (S01, S02)."""

    def __init__(self) -> None:
        self._secrets: OrderedDict[str, Secret] = OrderedDict()

    def add(self, *found: Secret | None) -> None:
        """Note secrets that are in use from now on; the oldest are forgotten."""
        for secret in found:
            if secret is not None:
                self._secrets[secret.reveal()] = secret
                self._secrets.move_to_end(secret.reveal())
        while len(self._secrets) > HELD:
            self._secrets.popitem(last=False)

    def __iter__(self) -> Iterator[Secret]:
        return iter(self._secrets.values())
