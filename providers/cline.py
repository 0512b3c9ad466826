"""Cline's gateway as an upstream: OpenRouter-like Chat Completions with ways of its own (spec/cline.md 1).

`native` is false: its streams carry `error: null`, `provider_metadata` and comments that break the official Cline
and opencode, and the model policy, reasoning shadow and canonical history have to hold for Chat clients as well; so
Chat clients are translated like all others. Upstream it always streams: whole answers have been seen to come without
`choices` after a minute of generation.

The account terms of the service are the operator's business; nothing here pretends to be the official client.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from yarl import URL

from providers.api import Call, Plugin, Provider, Setup, Unreachable, Upstream, Verdict
from providers.client import Client
from providers.cline_account import Account, Expired, Grant, Unavailable, bearer, default_file, expiry_of
from providers.cline_models import MAX_LIST_BYTES, Models
from providers.identity import USER_AGENT
from providers.judgement import judged
from providers.question import status_of
from providers.secret import Secret
from providers.transport import ERRORS, send
from providers.watched import GENERATION, Watched, generation_of
from translators.carrier import origin_of
from translators.conversation import Conversation, DialectName
from translators.dialect import Target
from translators.fault import Fault
from translators.jsonio import ERRORS as JSON_ERRORS
from translators.traits import Traits, traits_for

__all__ = ["Cline", "plugin", "task_id"]

BASE_URL = "https://api.cline.bot/api/v1"
REFRESH_S = 30.0
LIST_S = 5.0
MAX_TOKEN_BYTES = 64 * 1024
TASK_DOMAIN = b"cline-proxy/x-task-id/v2\x00"
FINGERPRINT_CHARS = 16
_MARKED = ("anthropic/", "minimax/")
"""Vendors whose models cache nothing by themselves (section 1.2)."""
_PLANS = ("cline-pass/", "cline-free/")
_GONE = ("invalid_grant", "invalid_token", "unauthorized")
_GONE_WORDS = ("invalid", "expired", "revoked", "unauthorized")


def task_id(secret: bytes, fingerprint: str, key: str) -> str:
    """Return the X-Task-ID of a session on a key: stable for the two, and of no use to find either (section 8)."""
    message = TASK_DOMAIN + fingerprint.encode() + b"\x00" + key.encode()
    return hmac.new(secret, message, hashlib.sha256).hexdigest()[:FINGERPRINT_CHARS]


class Refusal:
    """The 401 of a credential that cannot even be sent; judged like the upstream's own, so that its key retires."""

    status = 401
    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, message: str) -> None:
        self._body = msgspec.json.encode({"error": {"code": "invalid_grant", "message": message}})

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the error document."""
        yield self._body

    async def read(self, limit: int) -> bytes:
        """Return the error document."""
        return self._body[:limit]

    def abort(self) -> None:
        """Do nothing: there is no connection."""

    async def release(self) -> None:
        """Do nothing: there is no connection."""


class Cline:
    """One Cline service with API keys, account logins, or both in one pool."""

    native = False
    dialect: DialectName = "chat"

    def __init__(self, setup: Setup, clock: Callable[[], float] = time.time) -> None:
        self.name = setup.name
        self.key_names = (*setup.keys, *setup.credentials)
        self._setup = setup
        self._clock = clock
        self._url = URL(setup.base_url + "/chat/completions")
        self._client = Client(setup)
        self._accounts = {
            name: Account(Path(file) if file else default_file(name), self._refresh, clock)
            for name, file in setup.credentials.items()
        }
        self._models = Models(self._fetch_models, time.monotonic)

    def origin(self, model: str) -> str:
        """Return the tag of opaque state: this provider, its address, and the model's family."""
        return origin_of(self.name, self._setup.base_url, _family(model))

    def traits(self, model: str) -> Traits:
        """Return the model family's traits with what the service itself adds to them."""
        return msgspec.structs.replace(
            traits_for(_family(model)),
            always_stream=True,
            explicit_stream=True,
            canonical_arguments=True,
            cache_key=False,
            prompt_cache_key=True,
            developer_role=False,
            cache_marks=_family(model).startswith(_MARKED),
        )

    def amend(self, conversation: Conversation, target: Target) -> Conversation:
        """Return the request unchanged: all policy is in the traits."""
        return conversation

    async def open(self, call: Call, key: str) -> Upstream:
        """POST the request with one key or account; an account that needs a new login answers 401 by itself."""
        try:
            authorization = await self._authorization(key)
        except Expired as expired:
            return Refusal(f"{expired}; log in again with `dragoman login cline`")
        except Unavailable:
            message = "the upstream account's token could not be renewed"
            raise Unreachable(Fault(kind="overloaded", message=message)) from None
        account = self._accounts.get(key)
        generation = account.generation if account is not None else -1
        reply = await send(self._client.session, self._url, self._headers(call, key, authorization), call.body)
        return reply if account is None else Watched(reply, {GENERATION: str(generation)})

    async def probe(self, key: str) -> int:
        """Return the status of a question about the account; 401 for a login that is over. Raises Unreachable."""
        try:
            authorization = await self._authorization(key)
        except Expired:
            return 401
        except Unavailable:
            message = "the upstream account's token could not be renewed"
            raise Unreachable(Fault(kind="overloaded", message=message)) from None
        headers = {"accept": "application/json", "user-agent": USER_AGENT, **self._setup.headers}
        url = URL(self._setup.base_url + "/users/me")
        return await status_of(self._client.session, url, headers | {"authorization": authorization})

    def _headers(self, call: Call, key: str, authorization: str) -> dict[str, str]:
        headers = self._client.headers(call, stream=True)
        if call.request_id:
            headers["x-request-id"] = call.request_id
        if call.session:
            # The whole fingerprint never leaves the gateway, which makes it a secret as good as any.
            headers["x-task-id"] = task_id(call.session.encode(), call.session[:FINGERPRINT_CHARS], key)
        headers["authorization"] = authorization
        return headers

    async def _authorization(self, key: str) -> str:
        if key in self._accounts:
            return bearer((await self._accounts[key].token()).reveal())
        return f"Bearer {self._setup.keys[key].reveal()}"

    async def judge(self, status: int, headers: Mapping[str, str], body: bytes, call: Call, key: str) -> Verdict:
        """Apply the shared judgement; an account's 401 renews its token once before it rejects (section 1.4)."""
        verdict = judged(status, headers, body)
        account = self._accounts.get(key)
        if not verdict.rejected or account is None:
            return verdict
        generation = generation_of(headers)
        if account.spent(generation):
            account.refused()
            return verdict
        try:
            await account.renew(generation)
        except Expired:
            return verdict
        except Unavailable:
            return msgspec.structs.replace(verdict, rejected=False)
        return msgspec.structs.replace(verdict, rejected=False, renew=True)

    def readmitted(self) -> tuple[str, ...]:
        """Return the accounts that were out of use and whose file has been replaced since, as by a new login."""
        return tuple(name for name, account in self._accounts.items() if account.mended())

    def secrets(self) -> Iterator[Secret]:
        """Yield the tokens that the accounts have and lately had."""
        for account in self._accounts.values():
            yield from account.secrets

    async def models(self) -> tuple[str, ...]:
        """Return the models that the service recommends, () when it cannot be asked."""
        return await self._models.names()

    async def _fetch_models(self) -> bytes | None:
        url = URL(self._setup.base_url + "/ai/cline/recommended-models")
        headers = {"accept": "application/json", "user-agent": USER_AGENT, **self._setup.headers}
        try:
            async with (
                asyncio.timeout(LIST_S),
                self._client.session.get(url, headers=headers, allow_redirects=False) as reply,
            ):
                body = await reply.content.read(MAX_LIST_BYTES + 1) if reply.status == 200 else b""
                while body and not reply.content.at_eof() and len(body) <= MAX_LIST_BYTES:
                    body += await reply.content.readany()
        except (*ERRORS, TimeoutError):
            return None
        return body if 0 < len(body) <= MAX_LIST_BYTES else None

    async def _refresh(self, token: str) -> Grant:
        """Exchange a refresh token (section 1.4)."""
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": USER_AGENT}
        body = msgspec.json.encode({"refreshToken": token, "grantType": "refresh_token"})
        try:
            async with asyncio.timeout(REFRESH_S):
                url = URL(self._setup.base_url + "/auth/refresh")
                reply = await send(self._client.session, url, headers | self._setup.headers, body)
                try:
                    answer = await reply.read(MAX_TOKEN_BYTES)
                finally:
                    reply.abort()
        except (*ERRORS, TimeoutError, Unreachable):
            raise Unavailable("no answer") from None
        return _granted(reply.status, answer)

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()


def _family(model: str) -> str:
    """Return a model's own name, without the plan's prefix and the suffix of a free or otherwise routed variant."""
    for plan in _PLANS:
        model = model.removeprefix(plan)
    return model.partition(":")[0]


def _granted(status: int, answer: bytes) -> Grant:
    """Read the answer to a refresh; raises Expired where only a new login helps, Unavailable for anything else."""
    try:
        document: Any = msgspec.json.decode(answer)
    except JSON_ERRORS:
        document = {}
    if not isinstance(document, dict):
        document = {}
    data = document.get("data")
    if status < 400 and document.get("success") is not False and isinstance(data, dict):
        access, refresh = data.get("accessToken"), data.get("refreshToken")
        if isinstance(access, str) and access:
            kept = refresh if isinstance(refresh, str) and refresh else None
            return Grant(access, kept, expiry_of(data.get("expiresAt"), access))
    text = answer.decode("utf-8", "replace").lower()
    refused = status in (400, 401, 403) and any(word in text for word in _GONE_WORDS)
    if refused or any(f'"{code}"' in text for code in _GONE):
        raise Expired("the account's login is no longer valid")
    raise Unavailable("no token")


def build(setup: Setup) -> Provider:
    """Return the provider of one config table."""
    return Cline(setup)


plugin = Plugin("cline", build, ("chat",), base_url=BASE_URL)
