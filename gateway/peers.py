"""Open connections by peer address and in all, so that nobody takes the descriptors of everybody (S22). Pure."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

__all__ = ["PER_ADDRESS", "TOTAL", "Full", "Peers", "network"]

PER_ADDRESS = 1024
"""Connections of one address: many, for all users of a reverse proxy have its address."""
TOTAL = 4096
"""Connections of a process; most of them hold one to an upstream too."""

Full = Literal["address", "total"]
"""What has no room left."""


class Peers:
    """Count open connections; an entry goes with its last connection, so there are at most `total` (S24)."""

    def __init__(self, per_address: int = PER_ADDRESS, total: int = TOTAL) -> None:
        self._per_address = per_address
        self._total = total
        self._counts: dict[str, int] = {}
        self.open = 0

    def enter(self, peer: str) -> Full | None:
        """Let a connection in, or say what is full. `leave` must follow for one that was let in."""
        count = self._counts.get(peer, 0)
        if self.open >= self._total:
            return "total"
        if count >= self._per_address:
            return "address"
        self._counts[peer] = count + 1
        self.open += 1
        return None

    def leave(self, peer: str) -> None:
        """Take note that a connection is closed."""
        self.open -= 1
        left = self._counts.pop(peer) - 1
        if left:
            self._counts[peer] = left


def network(address: str) -> str:
    """Return what stands for one peer: an IPv4 address, or the /64 out of which an IPv6 host picks any address."""
    if ":" not in address:
        return address
    try:
        found: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped) if mapped is not None else str(IPv6Address(int(found) >> 64 << 64))
