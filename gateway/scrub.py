"""Take secrets out of text that came from elsewhere: exact values first, then patterns, then length (S01, S02)."""

import re
from collections.abc import Iterable

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

    def __init__(self, secrets: Iterable[Secret]) -> None:
        values = sorted({value for secret in secrets if len(value := secret.reveal()) >= MIN_SECRET_CHARS}, key=len)
        self._exact = re.compile("|".join(re.escape(value) for value in reversed(values))) if values else None

    def __call__(self, text: str) -> str:
        """Return the text with secrets and addresses masked."""
        if self._exact is not None:
            text = self._exact.sub(MASK, text)
        return _HOSTS.sub("[address]", _PATTERNS.sub(MASK, text))
