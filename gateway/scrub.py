"""Take secrets out of text that came from elsewhere: exact values first, then patterns, then length (S01, S02)."""

import re
from collections.abc import Callable, Iterable

from providers.secret import Secret

__all__ = ["MASK", "Scrubber"]

MASK = "[redacted]"
MIN_SECRET_CHARS = 6
"""Shorter values are no secrets, and masking them would garble ordinary words."""

_PATTERNS = re.compile(
    r"(?i:bearer\s+[\w.~+/=-]{8,})"
    r"|\b(?:sk|pk|rk|xai|gsk|ghp|gho|glpat|AIza|hf)[-_][\w-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|(?i:\b(?:api[-_ ]?key|token|secret|password)\b\s*[=:]\s*)[\"']?[\w.~+/=-]{8,}"
)
_HOSTS = re.compile(r"\bhttps?://[^\s\"'<>)]+")


class Scrubber:
    """Mask known secrets, things that look like secrets, and addresses, in text for clients."""

    def __init__(self, secrets: Iterable[Secret], changing: Callable[[], Iterable[Secret]] = tuple) -> None:
        self._fixed = _values(secrets)
        self._changing = changing
        self._values = self._fixed
        self._exact = _pattern(self._fixed)

    def __call__(self, text: str) -> str:
        """Return the text with secrets and addresses masked; those of `changing` as they are now."""
        values = self._fixed | _values(self._changing())
        if values != self._values:
            self._values, self._exact = values, _pattern(values)
        if self._exact is not None:
            text = self._exact.sub(MASK, text)
        return _HOSTS.sub("[address]", _PATTERNS.sub(MASK, text))


def _values(secrets: Iterable[Secret]) -> frozenset[str]:
    return frozenset(value for secret in secrets if len(value := secret.reveal()) >= MIN_SECRET_CHARS)


def _pattern(values: frozenset[str]) -> re.Pattern[str] | None:
    """Return what finds any of the values, the longer of two that begin alike first."""
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile("|".join(re.escape(value) for value in longest_first)) if values else None
