"""The configuration as values: every table and key with its default and range.

These Structs are the one list of keys: reading, unknown-key hints and the test of `config.example.toml` use their
fields. They can be built in code too; ranges are checked only where a file is read (`gateway.configfile`).
"""

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from providers.secret import Secret

__all__ = [
    "Client",
    "Config",
    "Credential",
    "Key",
    "Log",
    "Model",
    "Pool",
    "Provider",
    "Route",
    "Server",
    "State",
    "Timeouts",
    "is_loopback",
]

Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}\Z",
        description="1 to 64 letters, digits or . _ @ + -, and begin with a letter or digit",
    ),
]
"""Of a client, provider, key or credential: it appears in logs and metrics labels, so it is short and plain."""
Filled = Annotated[str, Meta(max_length=256, pattern=r"^\S+\Z", description="a string without spaces, and not empty")]
Alias = Annotated[
    str,
    Meta(
        max_length=256,
        pattern=r"^([^\s*]+\*?|\*)\Z",
        description="a name without spaces; a * may stand at its end only, and matches all that begins so",
    ),
]
Header = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z", description="a header name: letters, digits and hyphens"),
]
Digest = Annotated[str, Meta(pattern=r"^[0-9A-Fa-f]{64}\Z", description="a SHA-256 as 64 hexadecimal digits")]
Host = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]+\])\Z",
        description="a host name or address, without scheme, port or path; IPv6 in brackets",
    ),
]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Server(msgspec.Struct, frozen=True):
    """Where and how to listen. Times of 0 are off; port 0 picks a free one."""

    host: Filled = "127.0.0.1"
    port: Port = 8788
    max_request_bytes: Annotated[int, Meta(ge=1024, le=2**30)] = 33_554_432
    drain_s: Seconds = 30
    keepalive_s: Seconds = 10
    """Silence after which a stream gets a comment line."""
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    allowed_hosts: tuple[Host, ...] = ()
    """Lower-case host names without port, beside loopback names and the bound address."""


class Client(msgspec.Struct, frozen=True):
    """Who may use the gateway, known by the digest of its key alone. Limits of 0 are none."""

    name: Name
    key_sha256: Digest
    models: tuple[Alias, ...] = ("*",)
    """Aliases, or prefixes that end in *."""
    requests_per_minute: Count = 0
    max_concurrent: Count = 0
    tokens_per_day: Count = 0


class Key(msgspec.Struct, frozen=True):
    """One upstream key; `max_in_flight` 0 is no limit."""

    name: Name
    value: Secret
    max_in_flight: Count = 0


class Credential(msgspec.Struct, frozen=True):
    """A login that a plugin keeps in a file; None: where the plugin's own login put it."""

    name: Name
    file: str | None = None


class Timeouts(msgspec.Struct, frozen=True):
    """The longest silences of an upstream, in seconds; 0 is off, save for the connect."""

    connect_s: Annotated[float, Meta(gt=0, le=86_400)] = 20
    first_event_s: Seconds = 180
    first_meaning_s: Seconds = 180
    idle_s: Seconds = 120
    meaning_idle_s: Seconds = 180


class Pool(msgspec.Struct, frozen=True):
    """How requests choose among a provider's keys."""

    strategy: Literal["sticky", "spread"] = "sticky"
    fallback_cooldown_s: Annotated[float, Meta(gt=0, le=86_400)] = 3600
    """How long a limited key rests when the upstream names no time."""
    retire_rejected: bool = True
    """A 401 takes the key out for later requests."""
    retries: Annotated[int, Meta(ge=0, le=5)] = 0
    """How often a 502 or 503 is tried again, with the same key and before anything was sent."""


class Provider(msgspec.Struct, frozen=True):
    """One upstream. None for `base_url` and `dialect` means the plugin's own default."""

    name: Name
    plugin: str
    base_url: str | None = None
    """Up to and including the version path, without a trailing slash."""
    dialect: Literal["chat", "responses"] | None = None
    keys: tuple[Key, ...] = ()
    credentials: tuple[Credential, ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Extra request headers under lower-case names, none of them owned (`providers.headers`)."""
    timeouts: Timeouts = Timeouts()
    pool: Pool = Pool()
    allow_http: bool = False
    trust_env: bool = False
    """Use the proxy that environment variables name."""
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    """The plugin's own keys as they stand in the file, valid for its options Struct."""


class Route(msgspec.Struct, frozen=True):
    """A provider and the model to ask it for; None: the name that the client sent."""

    provider: Filled
    model: Filled | None = None


class Model(msgspec.Struct, frozen=True):
    """What an alias stands for: routes in order of preference, and how to translate for them."""

    routes: tuple[Route, ...]
    reasoning: Literal["requested", "always", "never"] = "requested"
    translation: Literal["lenient", "strict"] = "lenient"
    default_effort: Effort | None = None
    max_output_tokens: Positive | None = None
    context_window: Positive | None = None
    tokenizer: str | None = None
    """A tokenizer.json with which count_tokens counts; needs the extra `tokenizers`."""
    traits: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of `translators.traits.Traits` that differ from the model family's, converted to their types."""
    fallback_on: tuple[Literal["rate_limited", "unavailable"], ...] = ("rate_limited",)


class State(msgspec.Struct, frozen=True):
    """Where cooldowns, affinity and replay live: memory:, file:, file:DIR or valkey://HOST:PORT/DB."""

    url: str = "file:"
    password: Secret | None = None
    """Of the valkey server; an address with a password in it would be printed."""
    remember: Literal["", "responses"] = ""
    """responses: keep whole recent conversations in memory, for clients that send an answer's id and nothing else."""


class Log(msgspec.Struct, frozen=True):
    """What the gateway says about itself; `file` "" is none, else JSON lines go there too."""

    format: Literal["auto", "console", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"
    file: str = ""


class Config(msgspec.Struct, frozen=True):
    """A whole configuration. `secrets` holds every secret that was read, for the log scrubber."""

    server: Server = Server()
    clients: tuple[Client, ...] = ()
    admin: str | None = None
    """SHA-256 of the admin key."""
    providers: dict[str, Provider] = msgspec.field(default_factory=dict)
    models: dict[str, Model] = msgspec.field(default_factory=dict)
    """By alias or prefix pattern, in the order of the file."""
    state: State = State()
    log: Log = Log()
    secrets: tuple[Secret, ...] = ()
    path: Path | None = None
    digest: str = ""
    """SHA-256 of the file's bytes, to tell whether a changed file says something new."""


def is_loopback(host: str) -> bool:
    """Return whether a host name or address (IPv6 with or without brackets) can only mean this machine."""
    bare = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
