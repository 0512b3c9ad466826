"""Any server that speaks Anthropic Messages, with an API key or a bearer token."""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec
from yarl import URL

from providers.api import Call, Plugin, Provider, Setup, Upstream, Verdict
from providers.client import Client
from providers.judgement import judged
from translators.carrier import origin_of
from translators.conversation import Conversation, DialectName
from translators.dialect import Target
from translators.traits import Traits, traits_for

__all__ = ["Anthropic", "Options", "plugin"]

VERSION = "2023-06-01"
BETA = "anthropic-beta"
FORWARDED = ("anthropic-version", BETA)
EFFORT_BETA = "effort-2025-11-24"
"""Flag without which an effort is ignored (spec/translation.md 6)."""
MAX_REFUSED = 64
_QUOTED = re.compile(r"[`'\"]([a-z0-9-]+-\d{4}-\d{2}-\d{2})[`'\"]|\b([a-z0-9-]+-\d{4}-\d{2}-\d{2})\b")


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of an `anthropic` provider table beyond the common ones."""

    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    """Header that carries the key."""


class Anthropic:
    """One Messages server. Remembers beta flags that it refused, and leaves them out from then on."""

    dialect: DialectName = "messages"
    native = True

    def __init__(self, setup: Setup) -> None:
        self.name = setup.name
        self.key_names = tuple(setup.keys)
        self._setup = setup
        self._bearer = isinstance(setup.options, Options) and setup.options.auth == "bearer"
        base = setup.base_url if re.search(r"/v\d+\Z", setup.base_url) else f"{setup.base_url}/v1"
        self._url = URL(f"{base}/messages")
        self._client = Client(setup)
        self._refused: set[str] = set()

    def origin(self, model: str) -> str:
        """Return the tag of opaque state; signatures hold across the models of one address."""
        return origin_of(self.name, self._setup.base_url, "claude")

    def traits(self, model: str) -> Traits:
        """Return the traits of the model's family; an unknown name here is a Messages model all the same."""
        traits = traits_for(model)
        return traits if traits is not traits_for("") else traits_for("claude")

    def amend(self, conversation: Conversation, target: Target) -> Conversation:
        """Return the request unchanged."""
        return conversation

    async def open(self, call: Call, key: str) -> Upstream:
        """POST the request with one key."""
        headers = self._client.headers(call, FORWARDED if call.native else ())
        headers.setdefault("anthropic-version", VERSION)
        betas = self._betas(headers.pop(BETA, ""), call)
        if betas:
            headers[BETA] = betas
        secret = self._setup.keys[key].reveal()
        if self._bearer:
            headers["authorization"] = f"Bearer {secret}"
        else:
            headers["x-api-key"] = secret
        return await self._client.post(self._url, headers, call.body)

    def _betas(self, asked: str, call: Call) -> str:
        flags = [flag.strip() for flag in asked.split(",") if flag.strip()]
        if not call.native and b'"output_config":{"effort"' in call.body:
            flags.append(EFFORT_BETA)
        return ",".join(flag for flag in dict.fromkeys(flags) if flag not in self._refused)

    async def judge(self, status: int, headers: Mapping[str, str], body: bytes, call: Call, key: str) -> Verdict:
        """Apply the shared judgement; a 400 that names a beta flag of ours is learnt and tried once without."""
        verdict = judged(status, headers, body)
        if status == 400 and self._learn(verdict.fault.message, call):
            return msgspec.structs.replace(verdict, amended=call.body)
        return verdict

    def _learn(self, message: str, call: Call) -> bool:
        sent = {flag.strip() for flag in call.client_headers.get(BETA, "").split(",")} | {EFFORT_BETA}
        if "beta" not in message.lower() or len(self._refused) >= MAX_REFUSED:
            return False
        named = {a or b for a, b in _QUOTED.findall(message)} & sent - self._refused
        self._refused |= named
        return bool(named)

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()


def build(setup: Setup) -> Provider:
    """Return the provider of one config table."""
    return Anthropic(setup)


plugin = Plugin("anthropic", build, ("messages",), base_url="https://api.anthropic.com", options=Options)
