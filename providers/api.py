"""All that a plugin author reads: what a provider is given, what it has to offer, how it is found.

A plugin is a module-level `Plugin` value behind an entry point of the group `dragoman.providers`. Its `build`
gets a `Setup` (one config table, secrets resolved) and returns a `Provider`: a transport and its judgement.
Everything else (pool, retries, translation, timers, telemetry) is the gateway's.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import aiohttp
import msgspec

from providers.secret import Secret
from translators.conversation import Conversation, DialectName
from translators.dialect import Target
from translators.fault import Fault
from translators.traits import Traits

__all__ = ["Call", "Card", "Plugin", "Provider", "Session", "Setup", "Unreachable", "Upstream", "Verdict"]


class Session(Protocol):
    """Make the HTTP client session of a provider, under the transport rules of `providers.transport`."""

    def __call__(self, *, connect_s: float, trust_env: bool) -> aiohttp.ClientSession:
        """Return a new session; its owner closes it."""


class Setup(msgspec.Struct, frozen=True):
    """One provider table of the config, ready to use. `keys` maps key names to their secrets, in order."""

    name: str
    base_url: str
    dialect: DialectName
    keys: dict[str, Secret]
    session: Session
    headers: dict[str, str] = {}
    credentials: dict[str, str] = {}
    """Credential name to file path, for plugins that keep tokens in files."""
    options: Any = None
    """The plugin's own keys, as the Struct that it declares in `Plugin.options`."""
    connect_s: float = 20
    trust_env: bool = False


class Call(msgspec.Struct, frozen=True):
    """One upstream request: body and stream flag, what the client sent in headers, and names for the session.

    `client_headers` are lower-case names; a provider forwards only those on its own allow-list. `session` is
    the gateway's fingerprint of the client's session, "" when it has none.
    """

    body: bytes
    stream: bool
    model: str
    client: DialectName
    native: bool = False
    client_headers: Mapping[str, str] = {}
    session: str = ""
    tenant: str = ""
    """The client's name, by which what providers remember is kept apart; "" where clients need no key."""
    request_id: str = ""
    operation: str = "generate"


class Upstream(Protocol):
    """An open upstream reply: status and lower-case headers are known, the body is still to come."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raises aiohttp.ClientError or OSError when it breaks off."""

    async def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes of the body."""

    def abort(self) -> None:
        """Close the connection at once; safe to call twice and after the end."""

    async def release(self) -> None:
        """Give the connection back after the terminal was read; closes it when the body does not end soon."""


class Unreachable(Exception):
    """No reply began: carries the Fault (502 or 504) that the client gets. Never retried on another key."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.kind)
        self.fault = fault


class Verdict(msgspec.Struct, frozen=True):
    """A provider's judgement of an upstream error.

    `limited`: an effective 429; the pool rests the key (`wait_s`, None when the upstream gave no time) and the
    request may move on. `limited_model` narrows the rest to one model. `rejected`: the key is refused for
    good. `renew`: the credential was renewed, the same key may be tried once more.
    """

    fault: Fault
    limited: bool = False
    wait_s: float | None = None
    limited_model: str | None = None
    rejected: bool = False
    renew: bool = False
    amended: bytes | None = None
    """A body with which the same key may be tried once more (an unsupported field removed)."""
    again_s: float | None = None
    """The failure is a passing one: the same key may be tried again after up to so long, doubled each time; the
    gateway says how often, and counts each as an attempt."""


class Card(msgspec.Struct, frozen=True):
    """What a provider knows of a model beside its name, for the list that clients read."""

    context: int | None = None
    """Its window in tokens, if known."""
    efforts: tuple[str, ...] = ()
    """Levels of reasoning effort that it takes; () for none."""


class Provider(Protocol):
    """An upstream under one config table.

    `dialect` is what it speaks; `native` false means that even clients of the same dialect are translated
    (its streams need mending). `key_names` are the pool's keys in order.

    One that keeps tokens in files also has `secrets() -> Iterable[Secret]`, all that it uses or lately used, to be
    masked in texts for clients, and `readmitted() -> tuple[str, ...]`, the keys whose credential was replaced.
    One that knows its models has `async models() -> tuple[str, ...]`, their names, and `card(model) -> Card`.
    """

    name: str
    dialect: DialectName
    native: bool
    key_names: tuple[str, ...]

    def origin(self, model: str) -> str:
        """Return the tag under which opaque reasoning state of this upstream and model travels."""

    def traits(self, model: str) -> Traits:
        """Return what an upstream model accepts."""

    def amend(self, conversation: Conversation, target: Target) -> Conversation:
        """Return the request with this provider's policy applied; pure."""

    async def open(self, call: Call, key: str) -> Upstream:
        """Send the request with one key and return the reply once its headers are in; raises Unreachable."""

    async def judge(self, status: int, headers: Mapping[str, str], body: bytes, call: Call, key: str) -> Verdict:
        """Say what an error means: an HTTP error reply, or the error document inside a 200 (status 200)."""

    async def close(self) -> None:
        """Release connections."""


class Plugin(msgspec.Struct, frozen=True):
    """What an entry point names: how to build a provider, the dialects it may speak, its own config keys."""

    name: str
    build: Callable[[Setup], Provider]
    dialects: tuple[DialectName, ...]
    base_url: str = ""
    """Default address; "" makes `base_url` required."""
    options: type[msgspec.Struct] | None = None
    needs_keys: bool = True
    login_in_flight: int = 0
    """Requests that one login may have in flight; 0 is no limit."""
