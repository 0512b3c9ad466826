"""Opaque reasoning state, tagged with the origin that it may return to (spec/translation.md 1.6, I17).

A carrier is `gw1.` + kind + `.` + origin + `.` + base64url(JSON). It rides where a client keeps such state
untouched: Messages signatures, Responses encrypted_content, Chat reasoning_details.
"""

import base64
import hashlib

import msgspec

from translators.conversation import State
from translators.events import Carried
from translators.jsonio import ERRORS
from translators.notes import Notes

__all__ = ["MARK", "MAX_CARRIER_BYTES", "is_carrier", "origin_of", "seal", "unseal"]

MARK = "gw1."
MAX_CARRIER_BYTES = 256 * 1024
"""Longer state is dropped with a note instead of being carried."""

_KINDS = ("rs", "th", "rt", "rd")


class _Payload(msgspec.Struct, omit_defaults=True):
    data: str
    id: str = ""


_decode = msgspec.json.Decoder(_Payload).decode


def origin_of(provider: str, base_url: str, family: str) -> str:
    """Return the short stable tag of where state comes from: provider name, address and model family."""
    return hashlib.sha256(f"{provider}\x00{base_url}\x00{family}".encode()).hexdigest()[:16]


def seal(carried: Carried, origin: str, notes: Notes | None = None) -> str | None:
    """Return the carrier string, or None (and a note) when it would be too large to carry."""
    payload = base64.urlsafe_b64encode(msgspec.json.encode(_Payload(carried.data, carried.id))).decode()
    text = f"{MARK}{carried.kind}.{origin}.{payload}"
    if len(text) <= MAX_CARRIER_BYTES:
        return text
    if notes is not None:
        notes.once("reasoning", f"opaque state of more than {MAX_CARRIER_BYTES // 1024} KiB is not carried")
    return None


def is_carrier(value: str) -> bool:
    """Tell whether a signature or encrypted_content is one of ours."""
    return value.startswith(MARK)


def unseal(state: State | None, kinds: tuple[str, ...], origin: str) -> Carried | None:
    """Return the state if it is a carrier of one of these kinds from exactly this origin, else None."""
    if state is None or not is_carrier(state.value):
        return None
    parts = state.value.split(".", 3)
    if len(parts) != 4 or parts[1] not in _KINDS or parts[1] not in kinds or parts[2] != origin:
        return None
    try:
        payload = _decode(base64.urlsafe_b64decode(parts[3]))
    except (*ERRORS, ValueError):
        return None
    return Carried(parts[1], payload.data, payload.id)  # type: ignore[arg-type]
