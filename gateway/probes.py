"""`doctor`'s questions to providers: does the address answer, and does it take each key? Nothing is generated.

A provider may have `async def probe(key) -> int`, the HTTP status of a request that is free and needs the key. All
others are asked for their list of models, which the protocols' servers give away for the key alone.
"""

import asyncio
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import aiohttp
import msgspec

from gateway.config import Provider
from gateway.runtime import build_provider
from providers.api import Unreachable
from providers.identity import USER_AGENT
from providers.registry import load
from providers.transport import ERRORS, explain, new_session
from translators.fault import Fault

__all__ = ["Answer", "ask", "effective_url"]

ASK_S = 15.0
DIALECT_PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}


class Answer(msgspec.Struct, frozen=True):
    """What came back for one key. `status` 0: nothing did, `why` says so. `skew_s`: their clock minus ours."""

    provider: str
    key: str
    status: int
    why: str = ""
    skew_s: float | None = None


def effective_url(table: Provider) -> str:
    """Return the address that a provider's requests go to."""
    plugin = load(table.plugin)
    base = table.base_url or plugin.base_url
    dialect = table.dialect or plugin.dialects[0]
    return (versioned(base) if table.plugin == "anthropic" else base) + DIALECT_PATHS[dialect]


def versioned(base: str) -> str:
    """Return a Messages address with its version path."""
    return base if base.rsplit("/", 1)[-1].startswith("v") else f"{base}/v1"


async def ask(table: Provider) -> list[Answer]:
    """Ask one provider, once for each of its keys, or once without a key when it has none."""
    provider = build_provider(table)
    probe = getattr(provider, "probe", None)
    try:
        if probe is not None:
            return [await _probed(table.name, name, probe(name)) for name in provider.key_names]
        async with new_session(connect_s=min(table.timeouts.connect_s, ASK_S), trust_env=table.trust_env) as session:
            if not table.keys:
                return [await _get(session, table, "", {})]
            keys = ((key.name, key.value.reveal()) for key in table.keys)
            return [await _get(session, table, name, _credentials(table, value)) for name, value in keys]
    finally:
        await provider.close()


async def _probed(provider: str, key: str, asked: asyncio.Future[int]) -> Answer:
    try:
        async with asyncio.timeout(ASK_S):
            return Answer(provider, key, await asked)
    except Unreachable as error:
        return Answer(provider, key, 0, error.fault.message)
    except TimeoutError:
        return Answer(provider, key, 0, "no answer in time")


def _credentials(table: Provider, value: str) -> dict[str, str]:
    if table.plugin == "anthropic" and table.options.get("auth", "x-api-key") == "x-api-key":
        return {"x-api-key": value}
    return {"authorization": f"Bearer {value}"}


def _url(table: Provider) -> str:
    base = table.base_url or load(table.plugin).base_url
    if table.plugin == "anthropic":
        base = versioned(base)
    return f"{base}/models"


async def _get(session: aiohttp.ClientSession, table: Provider, key: str, auth: Mapping[str, str]) -> Answer:
    headers = {"accept": "application/json", "user-agent": USER_AGENT, **table.headers, **auth}
    if table.plugin == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    try:
        async with (
            asyncio.timeout(ASK_S),
            session.get(_url(table), headers=headers, allow_redirects=False) as reply,
        ):
            return Answer(table.name, key, reply.status, skew_s=_skew(reply.headers.get("date", "")))
    except TimeoutError:
        fault: Fault | None = None
    except ERRORS as error:
        fault = explain(error)
    return Answer(table.name, key, 0, fault.message if fault is not None else "no answer in time")


def _skew(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError):
        return None
