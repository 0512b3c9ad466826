"""The private inference proxy of xAI's Grok CLI, with the operator's own logins or API keys (spec/grok.md, part A).

It speaks Responses in a dialect so strict that every request is written anew (`grok_body`) and every answer decoded;
so `native` is false even for Responses clients. Nothing is stored there: continuity is the gateway's (replay).
"""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Literal

import msgspec
from yarl import URL

from providers import grok_body
from providers.api import Call, Card, Plugin, Provider, Setup, Unreachable, Upstream, Verdict
from providers.client import Client
from providers.grok_catalog import Catalog
from providers.grok_issuer import Issuer
from providers.grok_login import own_file
from providers.grok_refresh import Credential
from providers.grok_seals import Seals
from providers.grok_status import Sentence, judge, retryable
from providers.question import status_of
from providers.secret import Secret
from providers.transport import ERRORS, send
from providers.watched import GENERATION, Watched, generation_of
from translators.carrier import origin_of
from translators.conversation import Conversation, DialectName, Opaque, Part, Reasoning, Turn
from translators.dialect import Target
from translators.fault import Fault
from translators.jsonio import encode
from translators.traits import EFFORTS, Traits, traits_for

__all__ = ["API_URL", "SESSION_URL", "GrokCLI", "Options", "plugin"]

SESSION_URL = "https://cli-chat-proxy.grok.com/v1"
API_URL = "https://api.x.ai/v1"
CLIENT_VERSION = "1.0.41"
VERSION_FLOOR = "0.1.202"
"""An older version is answered with 426."""
PAUSE_S = 0.4
"""Longest pause before a passing error is tried for the second time (spec/grok.md 9)."""
LIST_WAIT_S = 4.0
"""Wait for the model list while a client asks for one."""
REFRESHES = 4
"""Logins that are refreshed at the same time."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.IGNORECASE)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of a `grok-cli` provider table beyond the common ones."""

    client_version: str = CLIENT_VERSION
    """Version of the CLI that requests name; the upstream refuses old ones with 426."""
    encrypted_reasoning: Literal["auto", "strip", "bind", "pass"] = "auto"
    """What becomes of encrypted reasoning, which only the account that made it can read: auto passes it with one
    credential and strips it with several; bind sends it back only to the credential it came from."""
    scope: str = ""
    """Entry of the auth file to use; "" is the official one, else the first."""
    issuer_hosts: tuple[str, ...] = ()
    """Hosts beside x.ai that refresh tokens may be sent to."""


class GrokCLI:
    """One upstream with its logins (session plane) and keys (API plane) in one pool."""

    dialect: DialectName = "responses"
    native = False

    def __init__(self, setup: Setup) -> None:
        self.name = setup.name
        self.key_names = (*setup.credentials, *setup.keys)
        self.options: Options = setup.options if isinstance(setup.options, Options) else Options()
        self._setup = setup
        self._client = Client(setup)
        self._issuers: dict[str, Issuer] = {}
        gate = asyncio.Semaphore(REFRESHES)
        self._logins = {
            name: Credential(
                name,
                Path(file).expanduser() if file else own_file(name),
                self._issuer,
                wall=time.time,
                scope=self.options.scope,
                gate=gate,
            )
            for name, file in setup.credentials.items()
        }
        self._catalog = Catalog()
        self._asking: asyncio.Task[None] | None = None
        self._seals = Seals()
        policy = self.options.encrypted_reasoning
        self._policy = policy if policy != "auto" else "pass" if len(self.key_names) == 1 else "strip"

    # ------------------------------------------------------------------ what it is

    def origin(self, model: str) -> str:
        """Return the tag of opaque state; it is bound to the account, which the policy sees to."""
        return origin_of(self.name, self._setup.base_url, "grok")

    def traits(self, model: str) -> Traits:
        """Return what the translators may send here; efforts are fitted to the model when a request goes out."""
        return msgspec.structs.replace(
            traits_for(model),
            efforts=EFFORTS,
            namespaces=False,
            free_text_tools=False,
            tool_name_limit=128,
            opaque_state=self._policy != "strip",
        )

    def amend(self, conversation: Conversation, target: Target) -> Conversation:
        """Keep a Responses client's readable reasoning, which has no neutral way to an upstream without its state."""
        if conversation.dialect != "responses":
            return conversation
        turns = tuple(_readable(turn, sealed=self._policy != "strip") for turn in conversation.turns)
        if all(new is old for new, old in zip(turns, conversation.turns, strict=True)):
            return conversation
        return msgspec.structs.replace(conversation, turns=turns)

    # ------------------------------------------------------------------ requests

    async def open(self, call: Call, key: str) -> Upstream:
        """POST the request with one credential, once. Raises Unreachable."""
        headers = self._headers(call)
        generation = -1
        login = self._logins.get(key)
        if login is None:
            headers["authorization"] = f"Bearer {self._setup.keys[key].reveal()}"
        else:
            token = await login.token()
            if isinstance(token, Fault):
                if token.kind != "authentication":
                    raise Unreachable(token)
                return Refusal(token)
            generation = token.generation
            headers |= _session_headers(token.login.access, api_key=token.login.api_key)
        body = grok_body.strict(call.body, self._body_policy(call, key))
        headers |= _conversation(body)
        reply = await send(self._client.session, self._url(key, "/responses"), headers, body)
        self._look(reply.headers.get("x-models-etag", ""), headers, key)
        learner = self._seals.learner(call.tenant, key) if self._policy == "bind" else None
        return Watched(reply, {GENERATION: str(generation)}, learner)

    async def probe(self, key: str) -> int:
        """Return the status of a question for the models; 401 for a login that is over. Raises Unreachable."""
        login = self._logins.get(key)
        if login is None:
            auth = _session_headers(self._setup.keys[key], api_key=True)
        else:
            token = await login.token()
            if isinstance(token, Fault):
                if token.kind != "authentication":
                    raise Unreachable(token)
                return 401
            auth = _session_headers(token.login.access, api_key=token.login.api_key)
        call = Call(b"", stream=False, model="", client="responses")
        headers = {name: value for name, value in self._headers(call).items() if value and name != "content-type"}
        return await status_of(self._client.session, self._url(key, "/models"), headers | auth)

    def _body_policy(self, call: Call, key: str) -> grok_body.Policy:
        sealed = self._policy != "strip"
        return grok_body.Policy(
            efforts=self._catalog.efforts(call.model),
            sealed=sealed,
            known=self._seals.of(call.tenant, key) if self._policy == "bind" else None,
            cache_key=_cache_key(call),
        )

    def _headers(self, call: Call) -> dict[str, str]:
        version = self.options.client_version
        # None of the client's: its x-grok-* headers name its own session and switch on private events.
        return self._client.headers(
            call,
            user_agent=f"grok-shell/{version} (linux; x86_64)",
            x_grok_client_version=version,
            x_grok_client_identifier="grok-shell",
            x_grok_model_override=call.model,
        )

    def _url(self, key: str, path: str) -> URL:
        base = self._setup.base_url
        login = self._logins.get(key)
        # A credential file may hold an API key too; the proxy takes session tokens only.
        if base == SESSION_URL and (login is None or login.api_plane):
            base = API_URL
        return URL(base + path)

    def _issuer(self, url: str) -> Issuer:
        agent = f"grok-shell/{self.options.client_version} (linux; x86_64)"
        made = Issuer(lambda: self._client.session, url, allowed=self.options.issuer_hosts, agent=agent, wall=time.time)
        return self._issuers.setdefault(url, made)

    # ------------------------------------------------------------------ judgement

    async def judge(self, status: int, headers: Mapping[str, str], body: bytes, call: Call, key: str) -> Verdict:
        """Say what an error means; a refused token is refreshed here, so that the same credential can go on."""
        sentence = judge(status, headers, body, time.time())
        fault = sentence.fault
        match sentence.action:
            case "renew":
                return await self._renewed(sentence, headers, key)
            case "reject":
                return self._rejected(fault, headers, key)
            case "quota" | "rate":
                return Verdict(fault, limited=True, wait_s=sentence.wait_s)
            case "model_quota":
                return Verdict(fault, limited=True, wait_s=sentence.wait_s, limited_model=call.model)
            case "unseal":
                policy = self._body_policy(call, key)
                sent = grok_body.strict(call.body, policy)
                amended = grok_body.bare(sent) or grok_body.undressed(sent)
                return Verdict(fault, amended=amended)
            case "unknown_model":
                self._look("", {}, key, unknown_model=True)
        return Verdict(fault, again_s=PAUSE_S if retryable(status, headers) else None)

    def _rejected(self, fault: Fault, headers: Mapping[str, str], key: str) -> Verdict:
        """Take a login out of use until its file changes; one that changed since the request has its own try."""
        login = self._logins.get(key)
        if login is not None and not login.disabled:
            login.changed()
            if generation_of(headers) not in (None, login.generation):
                return Verdict(fault, renew=True)
            login.disable("the upstream denies its account this service")
        return Verdict(fault, rejected=True)

    async def _renewed(self, sentence: Sentence, headers: Mapping[str, str], key: str) -> Verdict:
        login = self._logins.get(key)
        if login is None or login.disabled:
            return Verdict(sentence.fault, rejected=True)
        generation = generation_of(headers)
        if login.spent(generation):
            login.disable("the upstream refuses its newest token")
            return Verdict(sentence.fault, rejected=True)
        fault = await login.renew(login.generation if generation is None else generation)
        if fault is None:
            return Verdict(sentence.fault, renew=True)
        return Verdict(fault, rejected=fault.kind == "authentication")

    def readmitted(self) -> tuple[str, ...]:
        """Return the logins that were out of use and whose file has changed since."""
        return tuple(name for name, login in self._logins.items() if login.returned())

    def secrets(self) -> Iterator[Secret]:
        """Yield the tokens that the logins have and lately had."""
        for login in self._logins.values():
            yield from login.secrets

    # ------------------------------------------------------------------ the catalogue

    async def models(self) -> tuple[str, ...]:
        """Return the names of the upstream's list; those known beforehand while it cannot be had."""
        self._look("", {}, self.key_names[0], unknown_model=not self._catalog.known)
        if self._asking is not None:
            await asyncio.wait((self._asking,), timeout=LIST_WAIT_S)
        return self._catalog.names()

    def card(self, model: str) -> Card:
        """Return a model's context and efforts."""
        return Card(self._catalog.context(model), self._catalog.efforts(model))

    def _look(self, etag: str, headers: Mapping[str, str], key: str, *, unknown_model: bool = False) -> None:
        """Ask for the model list in the background when there is reason to."""
        now = monotonic()
        if self._asking is None and self._catalog.wanted(etag, now, unknown_model=unknown_model):
            self._catalog.asked(etag, now)
            self._asking = asyncio.get_running_loop().create_task(self._ask(dict(headers), key))
            self._asking.add_done_callback(self._asked)

    def _asked(self, _task: asyncio.Task[None]) -> None:
        self._asking = None

    async def _ask(self, headers: dict[str, str], key: str) -> None:
        if "authorization" not in headers:
            login = self._logins.get(key)
            token = await login.token() if login else None
            if isinstance(token, Fault):
                return
            access = token.login.access if token else self._setup.keys[key]
            headers = _session_headers(access, api_key=token is None or token.login.api_key)
        for name in ("content-type", "x-grok-model-override", "x-grok-conv-id", "x-grok-session-id"):
            headers.pop(name, None)
        headers["accept"] = "application/json"
        if self._catalog.etag:
            headers["if-none-match"] = self._catalog.etag
        try:
            async with asyncio.timeout(10):
                session, url = self._client.session, self._url(key, "/models")
                async with session.get(url, headers=headers, allow_redirects=False) as reply:
                    body = await reply.content.read(4 * 1024 * 1024)
                    self._catalog.heard(reply.status, reply.headers.get("etag", ""), body, monotonic())
        except (*ERRORS, TimeoutError):
            return

    async def close(self) -> None:
        """Stop asking and close the session."""
        if self._asking is not None:
            self._asking.cancel()
        await self._client.close()


class Refusal:
    """The reply of a login that cannot be used, made here: a 401 that `judge` reads like one of the upstream's."""

    status = 401

    def __init__(self, fault: Fault) -> None:
        self.headers: Mapping[str, str] = {}
        self._body = encode({"error": {"message": fault.message, "code": fault.code}})

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body."""
        yield self._body

    async def read(self, limit: int) -> bytes:
        """Return the body."""
        return self._body[:limit]

    def abort(self) -> None:
        """Nothing is open."""

    async def release(self) -> None:
        """Nothing is open."""


def _session_headers(access: Secret, *, api_key: bool) -> dict[str, str]:
    headers = {"authorization": f"Bearer {access.reveal()}"}
    if not api_key:
        headers |= {"x-xai-token-auth": "xai-grok-cli", "x-authenticateresponse": "authenticate-response"}
    return headers


def _cache_key(call: Call) -> str:
    """Return the session's key for the upstream's prompt cache, "" without a session.

    The client's own key passes if it is a UUID, which nobody guesses. Any other becomes one under the tenant's
    fingerprint, so that two tenants on one account share no cache. A key that was taken out (`undressed`) stays out.
    """
    given = msgspec.json.decode(call.body, type=_Keyed).prompt_cache_key
    if given is not None and _UUID.match(given):
        return given
    if given == "" or not call.session:
        return ""
    digest = hashlib.sha256(call.session.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


class _Keyed(msgspec.Struct):
    prompt_cache_key: str | None = None


def _conversation(body: bytes) -> dict[str, str]:
    key = msgspec.json.decode(body, type=_Keyed).prompt_cache_key
    return {"x-grok-conv-id": key, "x-grok-session-id": key} if key else {}


def _readable(turn: Turn, *, sealed: bool) -> Turn:
    """Return a turn whose reasoning without usable state goes on as text that the upstream takes."""
    if not any(isinstance(part, Reasoning) for part in turn.parts):
        return turn
    parts: list[Part] = []
    for part in turn.parts:
        if not isinstance(part, Reasoning) or (sealed and part.state is not None):
            parts.append(part)
        elif part.text:
            name = hashlib.sha256(part.text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
            summary = [{"type": "summary_text", "text": part.text}]
            item = {"type": "reasoning", "id": f"rs_{name}", "summary": summary}
            parts.append(Opaque("responses", "reasoning", encode(item)))
    return msgspec.structs.replace(turn, parts=tuple(parts))


def build(setup: Setup) -> Provider:
    """Return the provider of one config table."""
    return GrokCLI(setup)


plugin = Plugin(
    "grok-cli",
    build,
    ("responses",),
    base_url=SESSION_URL,
    options=Options,
    login_in_flight=16,  # spec/grok.md 10.1
)
