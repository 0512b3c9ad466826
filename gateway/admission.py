"""Per-client limits: requests per minute, concurrent requests, tokens per day. Pure; `now` in seconds."""

import msgspec

from gateway.auth import Tenant
from translators.fault import Fault

__all__ = ["Admission"]

DAY_S = 86_400.0
MINUTE_S = 60.0


class _Use(msgspec.Struct):
    level: float = 0.0
    at: float = 0.0
    running: int = 0
    day: int = 0
    tokens: int = 0


class Admission:
    """Count what each configured client uses; one entry a client, so it cannot grow with requests (S24)."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}

    def enter(self, tenant: Tenant, now: float, wall: float) -> Fault | None:
        """Admit a request, or return the 429 that says which limit it met. `leave` must follow an admitted one."""
        use = self._uses.setdefault(tenant.name, _Use(at=now))
        if tenant.max_concurrent and use.running >= tenant.max_concurrent:
            return _limited(f"at most {tenant.max_concurrent} requests of this client run at once", 1.0)
        if tenant.tokens_per_day and self._today(use, wall) >= tenant.tokens_per_day:
            return _limited(f"this client has used its {tenant.tokens_per_day} tokens of today", DAY_S - wall % DAY_S)
        if tenant.requests_per_minute and (wait := self._wait(use, tenant.requests_per_minute, now)) > 0:
            return _limited(f"this client may send {tenant.requests_per_minute} requests a minute", wait)
        use.running += 1
        return None

    def leave(self, tenant: Tenant, tokens: int, wall: float) -> None:
        """Take note of an ended request and the tokens that it used."""
        use = self._uses.setdefault(tenant.name, _Use())
        use.running -= 1
        self._today(use, wall)
        use.tokens += tokens

    def running(self) -> int:
        """Return how many admitted requests run now."""
        return sum(use.running for use in self._uses.values())

    def _today(self, use: _Use, wall: float) -> int:
        day = int(wall // DAY_S)
        if use.day != day:
            use.day, use.tokens = day, 0
        return use.tokens

    def _wait(self, use: _Use, per_minute: int, now: float) -> float:
        """Leak the bucket, pour one request in, and return 0; or the seconds until there is room."""
        rate = per_minute / MINUTE_S
        use.level = max(0.0, use.level - (now - use.at) * rate)
        use.at = now
        if use.level + 1 > per_minute:
            return (use.level + 1 - per_minute) / rate
        use.level += 1
        return 0.0


def _limited(message: str, retry_after_s: float) -> Fault:
    return Fault(
        kind="rate_limited", message=message, cause="client", code="rate_limit_exceeded", retry_after_s=retry_after_s
    )
