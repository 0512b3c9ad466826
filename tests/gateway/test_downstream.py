"""The client's side: headers once, bytes in order, nothing after the end."""

from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from gateway.downstream import Downstream, error_response, id_headers
from translators.dialects import DIALECTS
from translators.fault import Fault
from translators.notes import Notes

CHAT, MESSAGES = DIALECTS["chat"], DIALECTS["messages"]


def noted(count):
    notes = Notes()
    for n in range(count):
        notes.omitted(f"f{n}", "is gone")
    return notes


@pytest.fixture
async def answered():
    """Let a handler answer one real request; returns what the client got."""
    runners = []

    async def answer(handler):
        runner = web.ServerRunner(web.Server(handler))
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/") as response:
            return response.status, response.headers, await response.read()

    yield answer
    for runner in runners:
        await runner.cleanup()


async def test_a_stream_has_its_headers_once(answered):
    """They go out with the first bytes; sizes and times are kept."""
    seen = []

    async def handler(request):
        down = Downstream(request, MESSAGES, "r1")
        down.notes = noted(2)
        seen.append((down.started, down.first_write, down.sent_bytes))
        await down.write(b"data: 1\n\n")
        first = down.first_write
        await down.write(b"data: 2\n\n")
        seen.append((down.started, down.first_write == first, down.sent_bytes, down.writing_since))
        return await down.end()

    status, headers, body = await answered(handler)
    assert (200, b"data: 1\n\ndata: 2\n\n") == (status, body)
    assert ("text/event-stream; charset=utf-8", "no-cache", "no") == (
        headers["content-type"],
        headers["cache-control"],
        headers["x-accel-buffering"],
    )
    assert ("r1", "r1", "2", "dragoman") == (
        headers["x-request-id"],
        headers["request-id"],
        headers["x-dragoman-notes"],
        headers["server"],
    )
    assert [(False, None, 0), (True, True, 18, None)] == seen


@pytest.mark.parametrize(("notes", "told"), [(0, None), (3, "3")])
async def test_a_whole_answer(answered, notes, told):
    """One JSON body with the same ids; notes are told when there are any."""

    async def handler(request):
        down = Downstream(request, CHAT, "r1")
        down.notes = noted(notes)
        response = down.whole(b"{}")
        assert down.started
        return response

    status, headers, body = await answered(handler)
    assert (200, b"{}", "application/json", "r1") == (status, body, headers["content-type"], headers["x-request-id"])
    assert told == headers.get("x-dragoman-notes")
    assert "request-id" not in headers


async def test_an_aborted_client_gets_no_more(answered):
    """Its connection is gone at once."""

    async def handler(request):
        down = Downstream(request, CHAT, "r1")
        await down.write(b"data: 1\n\n")
        down.abort()
        return await down.end()

    with pytest.raises(aiohttp.ClientError):
        await answered(handler)


async def test_aborting_a_client_that_left_does_nothing():
    """There is no connection any more."""
    Downstream(SimpleNamespace(transport=None), CHAT, "r").abort()


def test_ids_without_a_dialect():
    """Probes have no protocol."""
    assert {"server": "dragoman", "x-request-id": "r"} == id_headers(None, "r")


@pytest.mark.parametrize(
    ("kind", "wait", "header"),
    [
        ("rate_limited", 7.0, "7"),
        ("rate_limited", 7.8, "8"),
        ("rate_limited", 7.2, "7"),
        ("rate_limited", 0.0, "1"),
        ("overloaded", 5, "5"),
        ("rate_limited", None, None),
        ("api", 5, "5"),
        ("timeout", 3, "3"),
        ("invalid_request", None, None),
    ],
)
def test_the_time_to_wait_is_told_in_whole_seconds(kind, wait, header):
    """The nearest one, so that it counts down with the clock; at least one; whatever the fault, if it names a time."""
    response = error_response(CHAT, Fault(kind=kind, message="x", retry_after_s=wait), "r")
    assert header == response.headers.get("retry-after")


@pytest.mark.parametrize("name", DIALECTS)
def test_an_error_has_its_dialects_envelope(name):
    """Status, type and id."""
    response = error_response(DIALECTS[name], Fault(kind="not_found", message="gone"), "r")
    assert (404, "application/json", "r") == (response.status, response.content_type, response.headers["x-request-id"])
    assert DIALECTS[name].envelope(Fault(kind="not_found", message="gone"), "r") == response.body
