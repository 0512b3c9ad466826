"""Logins of the Grok CLI: its auth file read, one entry of it rewritten, every other entry left as it is.

Pure but for `read`. The file is the official CLI's own, an object keyed by scope, or one of the flat
forms that other tools write (spec/grok.md 6.1). Nothing of ours is ever stored in it, for the CLI would drop it.
"""

import datetime as dt
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from providers.secret import Secret
from providers.tokenfile import MAX_FILE_BYTES

__all__ = [
    "API_SCOPE",
    "CLIENT_ID",
    "ISSUER",
    "SCOPE",
    "Login",
    "Tokens",
    "Unusable",
    "entry_of",
    "parse",
    "pinned",
    "read",
    "updated",
]

ISSUER = "https://auth.x.ai"
CLIENT_ID = "b1a00492-073a-47ea-816f-4c329264a828"
"""Of the official CLI, a public client without a secret."""
SCOPE = f"{ISSUER}::{CLIENT_ID}"
API_SCOPE = "xai::api_key"
LIFE_S = 30 * 86_400.0
"""Assumed life of a token that names no end, from its creation."""
DEFAULT_LIFE_S = 3600.0
"""Of a refreshed token whose reply names no `expires_in`."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Unusable(Exception):
    """A file that holds no login that can be used; the text quotes nothing from it."""


class Login(msgspec.Struct, frozen=True):
    """One login as its file has it; `expires_at` in seconds since the epoch, infinite for API keys."""

    scope: str
    """Key of its entry; "" in a flat file, "tokens" where a flat file nests it."""
    access: Secret
    refresh: Secret | None = None
    expires_at: float = math.inf
    issuer: str = ISSUER
    client_id: str = CLIENT_ID
    token_endpoint: str = ""
    principal_type: str = ""
    principal_id: str = ""
    api_key: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """What the issuer answers to a refresh or a device login; `expires_at` in seconds since the epoch."""

    access: Secret
    refresh: Secret | None
    expires_at: float


def read(path: Path) -> bytes:
    """Return the content of a credential file; raises Unusable saying what is wrong with it."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unusable(f"the file cannot be read ({error.strerror})") from None
    if len(content) > MAX_FILE_BYTES:
        raise Unusable("the file is too large for a login")
    return content


def parse(content: bytes, scope: str = "") -> Login:
    """Return the login of a file: the entry of that scope, else the official one, else the first usable one."""
    document = _document(content)
    entries = {key: value for key, value in document.items() if isinstance(value, dict) and value.get("key")}
    if entries:
        return _from_entry(*_chosen(entries, scope))
    if isinstance(document.get("tokens"), dict):
        return _from_flat("tokens", {**document, **document["tokens"]})
    return _from_flat("", document)


def _document(content: bytes) -> dict[str, Any]:
    try:
        return _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unusable("the file is no JSON object") from None


def _chosen(entries: dict[str, dict[str, Any]], scope: str) -> tuple[str, dict[str, Any]]:
    usable = {key: entry for key, entry in entries.items() if entry.get("auth_mode") != "web_login"}
    for wanted in (scope,) if scope else (SCOPE, *(key for key in usable if key != API_SCOPE), API_SCOPE):
        if wanted in usable:
            return wanted, usable[wanted]
    raise Unusable("the file holds no login of the wanted scope" if scope else "the file holds no usable login")


def _from_entry(scope: str, entry: dict[str, Any]) -> Login:
    access = _secret(entry.get("key"))
    if access is None:
        raise Unusable("the login has no token")
    if scope == API_SCOPE or entry.get("auth_mode") == "api_key":
        return Login(scope, access, api_key=True)
    issuer, _, client = scope.partition("::")
    return Login(
        scope,
        access,
        _secret(entry.get("refresh_token")),
        _expiry(entry),
        _text(entry.get("oidc_issuer")) or issuer or ISSUER,
        _text(entry.get("oidc_client_id")) or client or CLIENT_ID,
        principal_type=_text(entry.get("principal_type")),
        principal_id=_text(entry.get("principal_id")),
    )


def _from_flat(scope: str, entry: dict[str, Any]) -> Login:
    access = _secret(entry.get("access_token"))
    if access is None:
        raise Unusable("the file holds no login that is known here")
    return Login(
        scope,
        access,
        _secret(entry.get("refresh_token")),
        _expiry(entry),
        client_id=_text(entry.get("client_id")) or CLIENT_ID,
        token_endpoint=_text(entry.get("token_endpoint")),
    )


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _secret(value: Any) -> Secret | None:
    text = _text(value)
    return Secret(text) if text else None


def _expiry(entry: dict[str, Any]) -> float:
    for name in ("expires_at", "expired"):
        moment = _moment(entry.get(name))
        if moment is not None:
            return moment
    made = _moment(entry.get("create_time")) or _moment(entry.get("last_refresh"))
    if made is None:
        return math.inf
    life = entry.get("expires_in")
    return made + (float(life) if isinstance(life, int | float) and 0 < life < 1e9 else LIFE_S)


def _moment(value: Any) -> float | None:
    """Return seconds since the epoch for RFC 3339, seconds or milliseconds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) / (1000 if value > 1e11 else 1) if value > 0 else None
    try:
        date = dt.datetime.fromisoformat(_text(value))
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=dt.UTC)).timestamp()


# ---------------------------------------------------------------------- writing


def updated(content: bytes, login: Login, tokens: Tokens) -> bytes:
    """Return the file with new tokens in the login's own entry; all else keeps its place and value."""
    document = _document(content)
    entry = document.get(login.scope) if login.scope else document
    if not isinstance(entry, dict):
        raise Unusable("the login's entry has gone from the file")
    at = dt.datetime.fromtimestamp(tokens.expires_at, dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    flat = "access_token" in entry
    entry["access_token" if flat else "key"] = tokens.access.reveal()
    if tokens.refresh is not None:
        entry["refresh_token"] = tokens.refresh.reveal()
    entry["expired" if flat and "expired" in entry else "expires_at"] = at
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def entry_of(tokens: Tokens, issuer: str, client_id: str, now: float) -> dict[str, dict[str, str]]:
    """Return a new auth file's content, in the CLI's own form, for a device login made at `now`."""
    times = (dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="seconds") for at in (now, tokens.expires_at))
    made, end = (time.replace("+00:00", "Z") for time in times)
    entry = {
        "key": tokens.access.reveal(),
        "auth_mode": "oidc",
        "create_time": made,
        "expires_at": end,
        "oidc_issuer": issuer,
        "oidc_client_id": client_id,
    }
    if tokens.refresh is not None:
        entry["refresh_token"] = tokens.refresh.reveal()
    return {f"{issuer}::{client_id}": entry}


# ---------------------------------------------------------------------- trust


def pinned(url: str, issuer: str, allowed: tuple[str, ...] = ()) -> bool:
    """Tell whether a refresh token may be sent to an address that a file or a discovery document names.

    https at x.ai, at the operator's `allowed` hosts, or on loopback when the issuer itself is there: else a poisoned
    import could carry the token away.
    """
    try:
        parts, source = urlsplit(url), urlsplit(issuer)
        host, home = (parts.hostname or "").lower(), (source.hostname or "").lower()
        same_port = parts.port == source.port
    except ValueError:
        return False
    if parts.username or parts.password or not host:
        return False
    if host in ("127.0.0.1", "::1", "localhost"):
        return host == home and same_port and parts.scheme in ("http", "https")
    if parts.scheme != "https" or not _trusted(home, allowed):
        return False
    return _trusted(host, allowed)


def _trusted(host: str, allowed: tuple[str, ...]) -> bool:
    return host == "x.ai" or host.endswith(".x.ai") or host in allowed
