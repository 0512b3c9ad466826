"""Structured logs through structlog, written by a thread of their own: names, counts and times, never content.

Nothing here slows or fails a request: events go into a bounded queue and are rendered and written elsewhere;
what does not fit is dropped and counted (S24, S32). Exceptions are shown as type and place only, because their
texts and locals carry headers and bodies (S01).
"""

import asyncio
import logging
import logging.handlers
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

import msgspec
import structlog

from gateway.config import Log
from gateway.lines import clean as clean_text
from gateway.lines import request_line
from gateway.record import Record

__all__ = ["Telemetry", "place_of", "quiet_libraries"]

QUEUE_EVENTS = 10_000
FILE_BYTES = 16 * 1024 * 1024
FILES_KEPT = 4
"""Rotated log files beside the current one; with FILE_BYTES this bounds the log's size on disk."""
FLUSH_S = 2.0
BATCH_S = 0.05
"""Waking the writer for each event would cost requests more than the event itself."""

LIBRARIES = ("aiohttp", "asyncio", "aiohttp_sse_client", "opentelemetry", "urllib3")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

EventDict = MutableMapping[str, Any]


def place_of(error: BaseException) -> str:
    """Return an exception's type and the place where it was raised, without its text."""
    frame: TracebackType | None = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return type(error).__name__
    code = frame.tb_frame.f_code
    return f"{type(error).__name__} at {code.co_filename.rsplit('/', 1)[-1]}:{frame.tb_lineno} in {code.co_name}"


def clean(value: Any) -> Any:
    """Return a log value that cannot break a line or a terminal and is bounded in length (S15, S33)."""
    if isinstance(value, str):
        return clean_text(value)
    return value


class _Hand:
    """The end of the structlog chain: hands the event over to the writer thread."""

    def __init__(self, put: Callable[[EventDict], None]) -> None:
        self._put = put

    def msg(self, **event: Any) -> None:
        self._put(event)

    debug = info = warning = error = critical = exception = log = msg


def _stamp(_: Any, method: str, event: EventDict) -> EventDict:
    event["level"] = method
    event["ts"] = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    error = event.pop("exc_info", None)
    if isinstance(error, BaseException):
        event["error"] = place_of(error)
    return {name: clean(value) for name, value in event.items()}


class Telemetry:
    """Own the log: `log` is a structlog logger, `summary` writes the record of one request."""

    def __init__(self, config: Log, out: TextIO | None = None) -> None:
        self.dropped = 0
        self._out = out or sys.stderr
        terminal = self._out.isatty()
        self._console = config.format == "console" or (config.format == "auto" and terminal)
        self._color = terminal and "NO_COLOR" not in os.environ
        self._events: deque[EventDict] = deque()
        self._some = threading.Event()
        self._closing = False
        self._file = _rotating(config.file) if config.file else None
        self._level = _LEVELS[config.level]
        self.log: Any = structlog.wrap_logger(
            _Hand(self._put),
            processors=[_stamp],
            wrapper_class=structlog.make_filtering_bound_logger(self._level),
        )
        self._thread = threading.Thread(target=self._write_all, name="dragoman-log", daemon=True)
        self._thread.start()

    def summary(self, record: Record) -> None:
        """Write one request's record, after cleaning the two names in it that a client may have chosen (S33)."""
        record.alias, record.upstream_model = clean(record.alias), clean(record.upstream_model)
        if self._level <= _LEVELS["info"]:
            self._put({"event": "request", "level": "info", "record": record})

    def close(self) -> None:
        """Write what is queued, within FLUSH_S seconds."""
        self._closing = True
        self._some.set()
        self._thread.join(FLUSH_S)
        if self._file is not None:
            with suppress(OSError):  # of a full disk
                self._file.close()

    def _put(self, event: EventDict) -> None:
        if len(self._events) >= QUEUE_EVENTS:
            self.dropped += 1
            return
        self._events.append(event)
        if not self._some.is_set():
            self._some.set()

    def _write_all(self) -> None:
        """Write in batches: one wake-up and one write for all that came within BATCH_S seconds."""
        while self._events or not self._closing:
            self._some.wait()
            if not self._closing:
                time.sleep(BATCH_S)
            self._some.clear()
            batch = [self._events.popleft() for _ in range(len(self._events))]
            if batch:
                self._write(batch)

    def _write(self, batch: list[EventDict]) -> None:
        try:
            lines = [_json_line(event) for event in batch]
            shown = [_console_line(event, color=self._color) for event in batch] if self._console else lines
        except Exception:  # noqa: BLE001  one event that cannot be shown must not end the log
            self.dropped += len(batch)
            return
        try:
            self._out.write("\n".join(shown) + "\n")
            self._out.flush()
        except (OSError, ValueError):
            self.dropped += len(batch)  # a closed pipe must not stop the gateway (F11)
        if self._file is None:
            return
        self._file.emit(logging.makeLogRecord({"msg": "\n".join(lines)}))


def _rotating(path: str) -> logging.handlers.RotatingFileHandler:
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", delay=True
    )
    handler.handleError = lambda record: None  # type: ignore[method-assign]  # a full disk must not stop the gateway
    return handler


def _json_line(event: EventDict) -> str:
    record = event.get("record")
    if isinstance(record, Record):
        return msgspec.json.encode({"event": "request", **msgspec.to_builtins(record)}).decode()
    return msgspec.json.encode(event, enc_hook=str).decode()


def _console_line(event: EventDict, *, color: bool = False) -> str:
    record = event.get("record")
    if isinstance(record, Record):
        return request_line(record, color=color)
    rest = " ".join(f"{name}={value}" for name, value in event.items() if name not in ("event", "level", "ts"))
    return f"{str(event.get('ts', ''))[11:19]} {event['level']:<7} {event['event']} {rest}".rstrip()


class _Quiet(logging.Handler):
    """Pass on that a library complained, not what it said: its messages echo headers and request lines."""

    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__(logging.WARNING)
        self._telemetry = telemetry

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        what = place_of(error) if error is not None else f"{record.module}:{record.lineno}"
        self._telemetry.log.warning("library", logger=record.name, at=what)


def quiet_libraries(telemetry: Telemetry, loop: asyncio.AbstractEventLoop) -> None:
    """Route what aiohttp and asyncio log, and exceptions that nobody awaited, through the sanitised form."""
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        logger.handlers = [_Quiet(telemetry)]
        logger.propagate = False

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        what = place_of(error) if isinstance(error, BaseException) else "no exception"
        telemetry.log.error("unhandled", at=what)

    loop.set_exception_handler(report)
