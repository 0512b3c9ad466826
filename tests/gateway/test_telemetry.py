"""The log: bounded, never in the way, and without anything that a request or an exception said."""

import asyncio
import io
import json
import logging
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import telemetry
from gateway.config import Log
from gateway.lines import VALUE_CHARS
from gateway.record import Record
from gateway.telemetry import Telemetry, clean, place_of, quiet_libraries

CANARY = "sk-canary-0123456789"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def logged(*, out=None, **config):
    """A telemetry, the function that ends it, and what it wrote."""
    out = out or io.StringIO()
    log = Telemetry(Log(**config), out)

    def lines():
        log.close()
        return out.getvalue().splitlines()

    return log, lines


def until(true):
    end = time.monotonic() + 5
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_events_are_json_lines():
    """Each event has level and time beside its own fields."""
    log, lines = logged(format="json")
    log.log.info("started", port=8788)
    [event] = [json.loads(line) for line in lines()]
    assert ("started", "info", 8788) == (event["event"], event["level"], event["port"])
    assert event["ts"].endswith("Z")


def test_a_terminal_gets_short_lines(monkeypatch):
    """`auto` is console on a terminal: time, level, event, fields."""
    monkeypatch.setenv("NO_COLOR", "1")
    log, lines = logged(out=Terminal())
    log.log.warning("state_unusable", why="bad")
    log.summary(Record(ts="2026-01-01T10:20:30.000Z", request_id="r1", status=200, outcome="complete"))
    first, second = lines()
    assert "warning state_unusable why=bad" == first[9:]
    assert "10:20:30 ✓ - - → - r1" == second


def test_auto_is_json_elsewhere():
    """A pipe gets JSON."""
    log, lines = logged()
    log.log.error("x")
    assert "x" == json.loads(lines()[0])["event"]


@pytest.mark.parametrize(("level", "events"), [("debug", 4), ("info", 3), ("warning", 1), ("error", 0)])
def test_levels_leave_out_what_is_below(level, events):
    """Summaries are of level info."""
    log, lines = logged(format="json", level=level)
    log.log.debug("d")
    log.log.info("i")
    log.log.warning("w")
    log.summary(Record())
    assert events == len(lines())


@pytest.mark.promise("S15", "S33")
@given(st.text(st.characters(codec=None), max_size=400))
def test_a_value_cannot_break_a_line_or_a_terminal(text):
    """No control characters, no halves of characters, and a bounded length are left."""
    value = clean(text)
    assert len(value) <= VALUE_CHARS
    value.encode()
    assert not [char for char in value if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0]


@pytest.mark.promise("S15", "S33")
@pytest.mark.parametrize("form", ["json", "console"])
def test_names_that_a_client_chose_are_cleaned(form):
    """A model name with escapes and line ends stays in its line and does not drive the terminal."""
    log, lines = logged(format=form)
    log.summary(Record(alias="a\x1b[2J\nevent\x9b", upstream_model="u\r\n", provider="p"))
    [line] = lines()
    assert not [char for char in line if char in "\x1b\x9b\r\n"]
    assert "[2J" in line


def test_other_values_are_left():
    """Numbers and nothing at all are no text."""
    assert [1, None, 2.5] == [clean(1), clean(None), clean(2.5)]


@pytest.mark.promise("S01")
def test_an_exception_is_type_and_place():
    """Its text, which may hold headers and bodies, is nowhere in the log."""
    log, lines = logged(format="json")
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        log.log.error("crash", exc_info=error)
        log.log.exception("crash")
    text = "\n".join(lines())
    assert "ValueError at test_telemetry.py:" in text
    assert CANARY not in text


@pytest.mark.promise("S01")
def test_the_place_is_where_it_was_raised():
    """The innermost frame counts, and an exception never raised has only its type."""

    def inner():
        raise KeyError(CANARY)

    try:
        inner()
    except KeyError as error:
        assert place_of(error).startswith("KeyError at test_telemetry.py:")
        assert place_of(error).endswith(" in inner")
    assert "KeyError" == place_of(KeyError(CANARY))


@pytest.mark.promise("S01")
async def test_libraries_may_complain_but_not_quote():
    """What aiohttp and asyncio log, and exceptions that nobody awaited, come as logger, type and place."""
    log, lines = logged(format="json")
    loop = asyncio.get_running_loop()
    before = [(logger, logger.handlers, logger.propagate) for logger in map(logging.getLogger, ("aiohttp", "asyncio"))]
    try:
        quiet_libraries(log, loop)
        logging.getLogger("aiohttp.server").error("bad header %s", CANARY)
        try:
            raise OSError(CANARY)
        except OSError:
            logging.getLogger("asyncio").exception(CANARY)
        logging.getLogger("aiohttp.server").info(CANARY)
        loop.call_exception_handler({"message": CANARY, "exception": RuntimeError(CANARY)})
        loop.call_exception_handler({"message": CANARY})
    finally:
        loop.set_exception_handler(None)
        for logger, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
    events = [json.loads(line) for line in lines()]
    assert ["library", "library", "unhandled", "unhandled"] == [event["event"] for event in events]
    assert "aiohttp.server" == events[0]["logger"]
    assert events[1]["at"].startswith("OSError at ")
    assert ["RuntimeError", "no exception"] == [event["at"] for event in events[2:]]
    assert CANARY not in json.dumps(events)


class Blocked(io.StringIO):
    """A pipe that nobody reads."""

    def __init__(self):
        super().__init__()
        self.entered, self.open = threading.Event(), threading.Event()

    def write(self, text):
        self.entered.set()
        self.open.wait(10)
        return super().write(text)


@pytest.mark.promise("S24")
def test_what_does_not_fit_is_dropped_and_counted(monkeypatch):
    """A writer that stands still costs no request any time, and the queue no memory."""
    monkeypatch.setattr(telemetry, "QUEUE_EVENTS", 2)
    monkeypatch.setattr(telemetry, "FLUSH_S", 0.05)
    out = Blocked()
    log, lines = logged(out=out, format="json")
    log.log.info("first")
    assert out.entered.wait(5)
    began = time.monotonic()
    for _ in range(1000):
        log.log.info("more")
    assert time.monotonic() - began < 2
    assert 998 == log.dropped
    log.close()
    out.open.set()
    monkeypatch.setattr(telemetry, "FLUSH_S", 5)
    assert 3 == len(lines())


def test_many_events_are_written_in_order():
    """Batches keep the order, and the end writes what came while a batch was being written."""
    out = Blocked()
    log, lines = logged(out=out, format="json")
    for number in range(1200):
        log.log.info("n", number=number)
        if number == 500:
            assert out.entered.wait(5)
    log._closing = True
    out.open.set()
    assert list(range(1200)) == [json.loads(line)["number"] for line in lines()]


def test_a_closed_pipe_stops_nothing():
    """Events for a closed output are counted as dropped (F11)."""
    out = io.StringIO()
    log = Telemetry(Log(format="json"), out)
    out.close()
    log.log.info("x")
    log.close()
    assert 1 == log.dropped


def test_an_event_that_cannot_be_shown_does_not_end_the_log():
    """The next one is written."""

    class Odd:
        def __str__(self):
            raise RuntimeError

    out = io.StringIO()
    log = Telemetry(Log(format="json"), out)
    log.log.info("odd", value=Odd())
    until(lambda: log.dropped)
    log.log.info("next")
    log.close()
    assert (1, "next") == (log.dropped, json.loads(out.getvalue())["event"])


def test_the_file_gets_json_whatever_the_console(tmp_path, monkeypatch):
    """The file is rotated at its size, keeps a few older ones, and is closed in the end."""
    monkeypatch.setattr(telemetry, "FILE_BYTES", 300)
    monkeypatch.setattr(telemetry, "BATCH_S", 0)
    path = tmp_path / "log.jsonl"
    out = Terminal()
    log, lines = logged(out=out, file=str(path))
    for number in range(50):
        log.log.info("n", number=number)
        until(lambda number=number: f"number={number}\n" in out.getvalue())
    assert 50 == len(lines())
    assert [path, *(tmp_path / f"log.jsonl.{n}" for n in range(1, 5))] == sorted(tmp_path.iterdir())
    assert all(one.stat().st_size <= 300 for one in tmp_path.iterdir())
    assert 49 == json.loads(path.read_text().splitlines()[-1])["number"]


def test_a_full_disk_stops_nothing():
    """What cannot be written to the file is left out without a word (F11)."""
    log, lines = logged(format="json", file="/dev/full")
    log.log.info("x")
    assert 1 == len(lines())


def test_stderr_is_where_logs_go(capsys):
    """Without another output events go to stderr; stdout is for data."""
    log = Telemetry(Log(format="json"))
    log.log.info("x")
    log.close()
    captured = capsys.readouterr()
    assert "" == captured.out
    assert "x" == json.loads(captured.err)["event"]
