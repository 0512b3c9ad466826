"""The canary of the whole suite: what a gateway was told in confidence must not come out of a side door (S01, S32).

No test has to do anything for it. Every `Secret` that is made, every key that a client sends, and every string of the
requests and answers that pass through a gateway in a test becomes a marker. After each test all that the gateways wrote
is searched for them: log events in both forms, state files, the admin snapshot, the feed, `/metrics`, the test's own
stdout and stderr, and the answers to clients, which may hold content but no secret.

Content is compared by windows of WINDOW characters, so that a part of a prompt in a log line is found too. Names that
belong there, such as those from the configuration, are no markers.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

WINDOW = 16
SHORTEST_SECRET = 8
STRING_CHARS = 4000
WINDOWS = 200_000
SINK_CHARS = 4_000_000
CHUNKS = 5000
DISTINCT = 5
"""A window of fewer different characters, such as a row of x, says nothing."""

STRUCTURE = frozenset(
    {
        "model",
        "role",
        "type",
        "object",
        "status",
        "finish_reason",
        "stop_reason",
        "code",
        "format",
        "media_type",
        "effort",
    }
)
"""Members whose values are words of the protocols."""


class Canary:
    """What was told in confidence during one test, and what came out."""

    def __init__(self) -> None:
        self.installed = False
        self.reset()

    def reset(self) -> None:
        """Begin a test."""
        self.secrets: set[str] = set()
        self.windows: dict[str, str] = {}
        self.known: set[str] = set()
        self.sinks: list[tuple[str, str]] = []
        self.answers: list[str] = []
        self.streams: list[list[bytes]] = []
        """Chunks of upstream answers, put together at the end."""
        self._size = 0

    def secret(self, value: str) -> None:
        if len(value) >= SHORTEST_SECRET:
            self.secrets.add(value)

    def content(self, text: str) -> None:
        text = text[:STRING_CHARS]
        if len(self.windows) < WINDOWS:
            self.windows.update(dict.fromkeys(windows(text), text[:60]))

    def document(self, data: bytes) -> None:
        """Take all strings of a JSON body, or of the events of a stream with their deltas put together."""
        if len(self.windows) >= WINDOWS:
            return
        joined: dict[str, str] = {}
        for text in documents(data[: 256 * 1024]):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                continue
            for name, found in strings(value):
                self.content(found)
                if len(joined.get(name, "")) < STRING_CHARS:
                    joined[name] = joined.get(name, "") + found
        for found in joined.values():
            self.content(found)

    def allow(self, *names: str | None) -> None:
        """Take names that belong into records."""
        self.known.update(name for name in names if name)

    def sink(self, where: str, text: str) -> None:
        self._size += len(text)
        if self._size <= SINK_CHARS:
            self.sinks.append((where, text))

    def leaks(self) -> list[str]:
        """Say what came out where."""
        for parts in self.streams:
            self.document(b"".join(parts))
        found = [
            f"a secret in {where}: {value[:4]}…"
            for where, text in self.all()
            for value in self.secrets
            if value in text
        ]
        known = {window for name in self.known for window in windows(name)}
        for where, text in self.sinks:
            hits = {window for window in windows(values(text)) if window in self.windows} - known
            found += [f"content in {where}: {hit!r} of {self.windows[hit]!r}" for hit in sorted(hits)[:3]]
        return found

    def all(self) -> Iterator[tuple[str, str]]:
        yield from self.sinks
        yield from (("an answer", text) for text in self.answers)


def windows(text: str) -> set[str]:
    parts = {text[start : start + WINDOW] for start in range(len(text) - WINDOW + 1)}
    return {part for part in parts if len(set(part)) >= DISTINCT}


def values(text: str) -> str:
    """The strings of JSON text, or of events, each in a line; other text as it stands.

    The commas and quotes between members are nobody's content, even where a prompt is JSON itself.
    """
    try:
        return "\n".join(
            found for one in documents(text.encode()) for _, found in strings(json.loads(one), skip=frozenset())
        )
    except ValueError:
        return text


def documents(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    events = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
    return events or [text]


def strings(value: Any, name: str = "", *, skip: frozenset[str] = STRUCTURE) -> Iterator[tuple[str, str]]:
    """Every string with the name of the member it stands under."""
    if isinstance(value, str):
        if name not in skip:
            yield name, value
    elif isinstance(value, list):
        for one in value:
            yield from strings(one, name, skip=skip)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from strings(one, key, skip=skip)


CANARY = Canary()


def install(canary: Canary = CANARY) -> None:
    """Listen at every door of the gateway; once a process."""
    if canary.installed or "gateway.app" not in sys.modules:
        return
    canary.installed = True
    _listen_for_secrets(canary)
    _listen_for_content(canary)
    _listen_at_sinks(canary)


def after(owner: Any, name: str, heard: Callable[..., None]) -> None:
    """Have a function tell what it was given and what it returned."""
    original = getattr(owner, name)

    def told(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        heard(result, *args)
        return result

    setattr(owner, name, told)


def after_awaited(owner: Any, name: str, heard: Callable[..., None]) -> None:
    """The same for a coroutine function."""
    original = getattr(owner, name)

    async def told(*args: Any, **kwargs: Any) -> Any:
        result = await original(*args, **kwargs)
        heard(result, *args)
        return result

    setattr(owner, name, told)


def _listen_for_secrets(canary: Canary) -> None:
    from gateway.app import Gateway
    from providers.secret import Secret

    after(Secret, "__init__", lambda _, secret, value: canary.secret(value))

    def keys(self: Any, request: Any) -> None:
        for name in ("authorization", "x-api-key", "cookie", "proxy-authorization"):
            canary.secret(request.headers.get(name, "").rpartition(" ")[2])

    original = Gateway.handle

    async def handle(self: Gateway, request: Any) -> Any:
        keys(self, request)
        canary.allow(request.headers.get("x-request-id"))
        for model in self.runtime.config.models.values():
            canary.allow(*(route.model for route in model.routes))
        canary.allow(*self.runtime.config.models, *self.runtime.config.providers)
        canary.allow(*(client.name for client in self.runtime.config.clients))
        response = await original(self, request)
        body = getattr(response, "body", None)
        canary.answers.append(
            str(dict(response.headers)) + (body.decode("utf-8", "replace") if isinstance(body, bytes) else "")
        )
        return response

    Gateway.handle = handle  # type: ignore[method-assign]


def _listen_for_content(canary: Canary) -> None:
    from gateway import app, exchange, socket
    from providers.transport import Reply

    def body(result: Any, *_: Any) -> None:
        if isinstance(result, bytes):
            canary.document(result)

    for module in (app, exchange):
        after_awaited(module, "read_body", body)
    after(socket, "read", lambda _, text: canary.document(text.encode("utf-8", "replace")))
    after_awaited(Reply, "read", body)
    original = Reply.chunks

    def chunks(self: Reply) -> Any:
        async def heard() -> Any:
            parts: list[bytes] = []
            canary.streams.append(parts)
            async for chunk in original(self):
                if len(parts) < CHUNKS:
                    parts.append(chunk)
                yield chunk

        return heard()

    Reply.chunks = chunks  # type: ignore[method-assign]


def _listen_at_sinks(canary: Canary) -> None:
    from aiohttp import web

    from gateway import keeper, telemetry
    from gateway.downstream import Downstream
    from gateway.lifecycle import Listening
    from gateway.watchers import Watchers

    def written(_: None, self: Any, batch: list[Any]) -> None:
        for event in batch:
            for form in (telemetry._json_line, telemetry._console_line):
                with suppress(Exception):  # an event that cannot be shown is not written either
                    canary.sink("the log", form(event))

    after(telemetry.Telemetry, "_write", written)
    # The model names and the id of a request belong into its record; ids of answers are made from it.
    after(
        Watchers,
        "told",
        lambda _, self, record, pattern: canary.allow(record.alias, record.upstream_model, record.request_id),
    )
    if hasattr(keeper, "save"):
        after(keeper, "save", lambda _, path, content: canary.sink("the state file", content.decode()))
    after_awaited(Downstream, "write", lambda _, self, data: canary.answers.append(data.decode("utf-8", "replace")))
    after_awaited(web.WebSocketResponse, "send_str", lambda _, self, data, *more: canary.answers.append(data))
    original = Listening.close

    async def close(self: Listening, drain_s: float) -> None:
        _look(canary, self.gateway)
        await original(self, drain_s)
        _look(canary, self.gateway)

    Listening.close = close  # type: ignore[method-assign]


def _look(canary: Canary, gateway: Any) -> None:
    """Ask the gateway what it would show to an operator."""
    import msgspec

    from gateway.admin import snapshot

    shown = snapshot(gateway)
    canary.sink("/admin/status", msgspec.json.encode(shown).decode())
    feed = gateway.watchers.feed
    data, at = feed.take(0)
    while data:
        canary.sink("/admin/events", data.decode())
        data, at = feed.take(at)
    if gateway.watchers.metrics is not None:
        canary.sink("/metrics", gateway.watchers.metrics.render(shown)[0].decode())


class Watcher:
    """The pytest side: a fresh canary for each test, and a verdict after its last fixture."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        install()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        CANARY.reset()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        if report.when == "teardown" and CANARY.installed:
            for name, text in report.sections:
                if report.passed and name.startswith("Captured"):
                    CANARY.sink(name.lower(), text)
            if leaks := CANARY.leaks():
                report.outcome = "failed"
                report.longrepr = "the canary: " + "\n".join(leaks)
        return report
