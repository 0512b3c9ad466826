"""The conformance kit for plugin authors: what the gateway relies on in every provider, tried over real sockets.

    async def test_conforms():
        await conform(plugin)

Needs no test framework. `conform` tries every rule and raises one `Nonconforming` that names all that are broken.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from providers.api import Call, Plugin, Provider, Setup, Unreachable, Verdict
from providers.secret import Secret
from providers.transport import new_session
from translators.conversation import Conversation, DialectName
from translators.dialect import Target
from translators.traits import Traits

__all__ = ["Nonconforming", "conform"]

KEYS = {"first": "conformance-key-one-0001", "second": "conformance-key-two-0002"}
CLIENT_SECRET = "conformance-client-secret"  # noqa: S105  no secret of anybody's
STREAM = b'data: {"a":1}\n\n: comment\n\ndata: [DONE]\n\n'
STEP_S = 10.0
DIALECTS = ("chat", "responses", "messages")
BROKEN_BODIES = (b"", b"\xff\xfe", b"[" * 5000, b"null", b'"text"', b'{"error":null}', b'{"error":{"message":5}}')


class Nonconforming(AssertionError):
    """The rules that a plugin breaks, one a line."""


class Seen(msgspec.Struct):
    """One request as the upstream got it; header names in lower case."""

    target: str
    headers: dict[str, str]
    body: bytes


class Script:
    """A loopback upstream that answers everything with `status`, `headers` and `body`, and keeps what it was sent."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.status, self.headers, self.body = 200, {"content-type": "text/event-stream"}, STREAM
        self.url = ""
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        sock = socket.create_server(("127.0.0.1", 0))
        await web.SockSite(self._runner, sock).start()
        self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        # Questions of a plugin's own (lists of models and the like) are none of the kit's business.
        if request.method == "POST":
            self.seen.append(Seen(request.path_qs, headers, await request.read()))
        return web.Response(status=self.status, headers=self.headers, body=self.body)


class Bench:
    """What the rules work with: the plugin, its upstream, and a way to build providers that are closed at the end."""

    def __init__(self, plugin: Plugin, script: Script, options: Any, model: str) -> None:
        self.plugin, self.script, self.options, self.model = plugin, script, options, model
        self.built: list[Provider] = []

    def provider(self, url: str = "", dialect: DialectName | None = None) -> Provider:
        setup = Setup(
            name="conformance",
            base_url=f"{url or self.script.url}/v1",
            dialect=dialect or self.plugin.dialects[0],
            keys={name: Secret(value) for name, value in KEYS.items()},
            session=new_session,
            options=self.options,
            connect_s=2,
        )
        self.built.append(self.plugin.build(setup))
        return self.built[-1]

    def call(self) -> Call:
        """A streamed request of a client that sends more than is anybody's business."""
        headers = {
            "authorization": f"Bearer {CLIENT_SECRET}",
            "x-api-key": CLIENT_SECRET,
            "cookie": f"session={CLIENT_SECRET}",
            "x-forwarded-for": CLIENT_SECRET,
        }
        body = msgspec.json.encode({"model": self.model, "stream": True})
        return Call(body, stream=True, model=self.model, client=self.plugin.dialects[0], client_headers=headers)


Rule = Callable[[Bench], Awaitable[None]]


async def conform(plugin: Plugin, *, options: Any = None, model: str = "some-model", networked: bool = True) -> None:
    """Try every rule. `networked` false leaves out those of a plugin that does not send to its `base_url`."""
    script = Script()
    await script.start()
    broken = []
    try:
        for rule in (*RULES, *(NETWORK_RULES if networked else ())):
            script.seen.clear()
            script.status, script.headers, script.body = 200, {"content-type": "text/event-stream"}, STREAM
            bench = Bench(plugin, script, _options(plugin, options), model)
            try:
                async with asyncio.timeout(STEP_S):
                    await rule(bench)
            except Exception as error:  # noqa: BLE001  a plugin may fail in any way; all of it is shown at the end
                broken.append(f"{rule.__doc__}\n    {type(error).__name__}: {error}")
            for provider in bench.built:
                with suppress(Exception):
                    await provider.close()
    finally:
        await script.stop()
    if broken:
        raise Nonconforming(f"{plugin.name}:\n" + "\n".join(f"- {line}" for line in broken))


def _options(plugin: Plugin, options: Any) -> Any:
    return options if options is not None or plugin.options is None else msgspec.convert({}, plugin.options)


def _must(fact: object, what: str) -> None:
    if not fact:
        raise AssertionError(what)


# ---------------------------------------------------------------------- rules of every plugin


async def _is_described(bench: Bench) -> None:
    """The Plugin value has a plain name, known dialects, and an options Struct that refuses unknown keys."""
    plugin = bench.plugin
    _must(re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", plugin.name), f"name {plugin.name!r}")
    _must(len(plugin.dialects) > 0 and set(plugin.dialects) <= set(DIALECTS), f"dialects {plugin.dialects!r}")
    if plugin.options is not None:
        _must(plugin.options.__struct_config__.forbid_unknown_fields, "options: set forbid_unknown_fields=True")


async def _builds_without_network(bench: Bench) -> None:
    """`build` connects to nothing and keeps name, dialect and keys of its Setup."""
    for dialect in bench.plugin.dialects:
        provider = bench.provider(dialect=dialect)
        _must(provider.name == "conformance", f"name {provider.name!r}")
        _must(provider.dialect == dialect, f"dialect {provider.dialect!r} for {dialect!r}")
        _must(len(provider.key_names) > 0, "key_names is empty")
        _must(len(set(provider.key_names)) == len(provider.key_names), "key_names repeat")
        if bench.plugin.needs_keys:
            _must(set(KEYS) <= set(provider.key_names), f"key_names {provider.key_names!r} lack a configured key")
    _must(not bench.script.seen, "it sent a request")


async def _names_its_origin(bench: Bench) -> None:
    """`origin` is a stable tag without secrets, so that opaque state returns only to where it came from."""
    one, same = bench.provider(), bench.provider()
    tag = one.origin(bench.model)
    _must(tag, f"origin {tag!r}")
    _must(tag == same.origin(bench.model), "two providers of one configuration differ")
    _must(not any(value in tag for value in KEYS.values()), "the tag holds a key")


async def _knows_traits(bench: Bench) -> None:
    """`traits` answers for any model name, also one that it never heard of."""
    for name in (bench.model, "", "unheard-of/model:free"):
        _must(isinstance(bench.provider().traits(name), Traits), f"traits({name!r}) is no Traits")


async def _amends_purely(bench: Bench) -> None:
    """`amend` gives equal results for equal requests, and leaves its argument as it was."""
    provider = bench.provider()
    target = Target(model=bench.model, traits=provider.traits(bench.model), origin=provider.origin(bench.model))
    conversation = Conversation(bench.plugin.dialects[0], bench.model)
    before = repr(conversation)
    first, second = provider.amend(conversation, target), provider.amend(conversation, target)
    _must(isinstance(first, Conversation), "the result is no Conversation")
    _must(repr(first) == repr(second), "two results differ")
    _must(repr(conversation) == before, "the argument was changed")


async def _closes_twice(bench: Bench) -> None:
    """`close` works before anything was opened, and again."""
    provider = bench.provider()
    await provider.close()
    await provider.close()


async def _judges(bench: Bench) -> None:
    """`judge`: a 429 limits the key, a 401 rejects or renews it, anything else does neither; it never raises."""
    provider = bench.provider()
    key = provider.key_names[0]
    error = b'{"error":{"message":"no","type":"some_error"}}'

    async def verdict(status: int, body: bytes = error, **headers: str) -> Verdict:
        given = {
            "content-type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return await provider.judge(status, given, body, bench.call(), key)

    limited = await verdict(429, retry_after="7")
    _must(limited.limited, "429 does not limit")
    _must(limited.wait_s is None or 6 <= limited.wait_s <= 8, f"Retry-After: 7 became {limited.wait_s}")
    refused = await verdict(401)
    _must((refused.rejected or refused.renew) and not refused.limited, "401 neither rejects nor renews the key")
    for status in (400, 404, 500, 502, 503):
        found = await verdict(status)
        _must(not found.limited and not found.rejected, f"{status} takes the key out of use")
        _must(found.fault.message, f"{status} has no message")
    for body in BROKEN_BODIES:
        for status in (200, 400, 401, 429, 500):
            await verdict(status, body)


RULES: tuple[Rule, ...] = (
    _is_described,
    _builds_without_network,
    _names_its_origin,
    _knows_traits,
    _amends_purely,
    _closes_twice,
    _judges,
)


# ---------------------------------------------------------------------- rules of plugins that send to base_url


async def _sends_once(bench: Bench) -> None:
    """`open` sends one POST of JSON with the key in a header, and nothing that a client may not say."""
    provider = bench.provider()
    for name in provider.key_names[:2]:
        bench.script.seen.clear()
        reply = await provider.open(bench.call(), name)
        reply.abort()
        _must(len(bench.script.seen) == 1, f"{len(bench.script.seen)} requests for one call")
        sent = bench.script.seen[0]
        text = "\n".join(sent.headers.values())
        _must("json" in sent.headers.get("content-type", ""), "content-type is not JSON")
        _must(CLIENT_SECRET not in text + sent.target, "a credential or address of the client's was sent on")
        if name in KEYS:
            _must(KEYS[name] in text, f"the key {name!r} is in no header")
            _must(KEYS[name] not in sent.target, "the key is in the URL")
            others = [value for other, value in KEYS.items() if other != name]
            _must(not any(value in text for value in others), "another key was sent too")


async def _passes_bytes(bench: Bench) -> None:
    """The reply has status, headers and every byte; it can be released and aborted, twice too."""
    reply = await bench.provider().open(bench.call(), _key(bench))
    _must(reply.status == 200, f"status {reply.status}")
    _must("event-stream" in reply.headers.get("content-type", ""), "headers are not found by their lower-case names")
    got = b"".join([chunk async for chunk in reply.chunks()])
    _must(got == STREAM, f"{len(got)} of {len(STREAM)} bytes, or others")
    await reply.release()
    reply.abort()
    reply.abort()


async def _reads_within_limits(bench: Bench) -> None:
    """`read` returns no more bytes than it was told to."""
    bench.script.status, bench.script.body = 400, b"x" * 10_000
    reply = await bench.provider().open(bench.call(), _key(bench))
    got = await reply.read(100)
    _must(len(got) <= 100, f"{len(got)} bytes for a limit of 100")
    reply.abort()


async def _leaves_errors_alone(bench: Bench) -> None:
    """An error reply is returned as it is: not raised, not retried, no redirect followed."""
    for status, headers in ((429, {}), (400, {}), (401, {}), (302, {"location": bench.script.url + "/elsewhere"})):
        bench.script.seen.clear()
        bench.script.status, bench.script.headers, bench.script.body = status, headers, b'{"error":{"message":"no"}}'
        reply = await bench.provider().open(bench.call(), _key(bench))
        reply.abort()
        _must(reply.status == status, f"{status} became {reply.status}")
        _must(len(bench.script.seen) == 1, f"{len(bench.script.seen)} requests at a {status}")


async def _keeps_no_cookies(bench: Bench) -> None:
    """Cookies of an upstream are not kept: requests of different clients share a session."""
    bench.script.headers = {"content-type": "text/event-stream", "set-cookie": "a=b; Path=/"}
    provider = bench.provider()
    for _ in range(2):
        reply = await provider.open(bench.call(), _key(bench))
        reply.abort()
    _must(all("cookie" not in seen.headers for seen in bench.script.seen), "a cookie came back")


async def _says_unreachable(bench: Bench) -> None:
    """A connection that cannot be made is Unreachable, in words without address or key."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    try:
        await bench.provider(f"http://127.0.0.1:{port}").open(bench.call(), _key(bench))
    except Unreachable as error:
        text = error.fault.message
        _must(str(port) not in text, "the message holds the address")
        _must(not any(value in text for value in KEYS.values()), "the message holds a key")
        return
    raise AssertionError("nothing was raised")


def _key(bench: Bench) -> str:
    return bench.built[-1].key_names[0] if bench.built else next(iter(KEYS))


NETWORK_RULES: tuple[Rule, ...] = (
    _sends_once,
    _passes_bytes,
    _reads_within_limits,
    _leaves_errors_alone,
    _keeps_no_cookies,
    _says_unreachable,
)
