"""Where `launch` and `env` send a client: which gateway, which of its models, and with which key.

A key is only ever taken from the environment or from what the configuration itself resolves; it is shown by the
name of its variable, never by value.
"""

import hashlib
import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from gateway.config import Client, Config, Model
from gateway.models import permitted, resolve

__all__ = ["DEMO_MODEL", "KEY_NAME", "Key", "Listing", "Unsuitable", "address", "choose", "key_of", "listing"]

KEY_NAME = "DRAGOMAN_KEY"
"""Variable that holds the client key of whoever runs `launch` and `env`."""
DEMO_MODEL = "demo"
PROBE_S = 3.0
MAX_LISTING_BYTES = 4 << 20
FAMILIES = {"claude": "claude", "codex": "gpt", "grok": "grok"}
"""Begin of the model names that a client is at home with."""


class Unsuitable(Exception):
    """No model, key or gateway for this client; the text says why and what to do."""


class Key(msgspec.Struct, frozen=True):
    """A client key that is known here. `variable` is where it stands in the environment, "" when nowhere."""

    value: str
    variable: str
    client: Client | None = None

    def shown(self) -> str:
        """Return how a shell would write it."""
        return f"${self.variable or KEY_NAME}" if self.client or self.variable else self.value


class Listing(msgspec.Struct, frozen=True):
    """What a gateway answered to GET /v1/models: its models with their windows. `status` 0: no gateway answered."""

    status: int
    models: dict[str, int | None] = {}


def address(config: Config) -> str:
    """Return the URL under which this machine reaches the configured gateway."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.server.host, config.server.host)  # noqa: S104  compared only
    return f"http://[{host}]:{config.server.port}" if ":" in host else f"http://{host}:{config.server.port}"


def key_of(config: Config, environ: Mapping[str, str]) -> Key | None:
    """Return a key that the configured clients include; None when there are clients and none of their keys is known."""
    given = environ.get(KEY_NAME, "")
    if not config.clients:
        return Key(given or "local", KEY_NAME if given else "")
    by_digest = {client.key_sha256: client for client in config.clients}
    found = by_digest.get(hashlib.sha256(given.encode()).hexdigest())
    if found is not None:
        return Key(given, KEY_NAME, found)
    for secret in config.secrets:
        if (client := by_digest.get(secret.sha256())) is not None:
            value = secret.reveal()
            variable = next((name for name, text in environ.items() if text.strip() == value), "")
            return Key(value, variable, client)
    return None


def listing(url: str, key: str) -> Listing:
    """Ask a gateway for its models; status 0 when nothing answers in time, or not in the way of a gateway."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=PROBE_S)
        try:
            path = parts.path.rstrip("/") + "/v1/models"
            connection.request("GET", path, headers={"authorization": f"Bearer {key}", "accept": "application/json"})
            response = connection.getresponse()
            body = response.read(MAX_LISTING_BYTES)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException, ssl.SSLError):
        return Listing(0)
    if response.getheader("x-request-id") is None:
        return Listing(0)  # somebody else's server
    return Listing(response.status, _models(body) if response.status == 200 else {})


def _models(body: bytes) -> dict[str, int | None]:
    try:
        data = msgspec.json.decode(body)["data"]
        return {str(entry["id"]): entry.get("context_window") for entry in data}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def choose(client: str, models: Mapping[str, Model], wanted: str | None, allowed: tuple[str, ...] = ("*",)) -> str:
    """Return the model that a client shall ask for: the wanted one, else one of its family, else the first alias.

    Where only prefixes are configured it is the upstream's own name, if a prefix matches that. Raises Unsuitable.
    """
    names = [name for name in models if not name.endswith("*") and permitted(allowed, name)]
    if wanted is not None:
        if resolve(models, wanted) is None or not permitted(allowed, wanted):
            raise Unsuitable(f"no alias {wanted!r} for this client; configured: {', '.join(models) or 'none'}")
        return wanted
    family = FAMILIES.get(client, "")
    chosen = next((name for name in names if family and name.startswith(family)), None)
    if chosen is None and names:
        chosen = names[0]
    if chosen is None:
        upstream = (route.model for model in models.values() for route in model.routes if route.model)
        fits = (name for name in upstream if resolve(models, name) is not None and permitted(allowed, name))
        chosen = next(fits, None)
    if chosen is None:
        raise Unsuitable("the configuration only has prefixes of model names; say which one with --model")
    return chosen
