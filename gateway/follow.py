"""The gateway's feed as an endless iterator over restarts: the only module that touches aiohttp-sse-client.

Here reconnecting is right: the feed is read-only and numbered. What that library leaves to its callers is done
here: a broken read or a refused connection is another try, with the last id and a growing wait, while 401 and 404
end it (design.md 5).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import aiohttp
import msgspec
from aiohttp_sse_client.client import READY_STATE_CONNECTING, EventSource, MessageEvent

from gateway.record import Record
from providers.transport import ERRORS

__all__ = ["Refused", "follow"]

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 5.0
SILENCE_S = 35.0
"""The feed sends a comment more often than that, so a longer silence is a dead connection."""

FINAL = (400, 401, 403, 404, 405)
"""Asking again would not change these answers."""


class Refused(Exception):
    """The gateway does not give us its feed, and asking again would not help."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


async def follow(
    url: str, headers: dict[str, str], *, lost: Callable[[], None], found: Callable[[], None]
) -> AsyncIterator[Record | int]:
    """Yield records as they come, and numbers of those missed; `lost` and `found` tell about the connection.

    Raises Refused for an answer that a retry cannot change.
    """
    last_id, wait_s, known = "", FIRST_WAIT_S, True
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=SILENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            source = _source(url, headers, last_id, session)
            try:
                async with source:
                    async for event in source:
                        if not known:
                            known = True
                            found()
                        wait_s = FIRST_WAIT_S
                        last_id = event.last_event_id or last_id
                        if (item := _item(event)) is not None:
                            yield item
            except (*ERRORS, TimeoutError, _Ended) as error:
                if (status := _status(error)) in FINAL:
                    raise Refused(status) from None
                if known:
                    known = False
                    lost()
            await asyncio.sleep(wait_s)
            wait_s = min(LONGEST_WAIT_S, wait_s * 2)


class _Ended(Exception):
    """The feed ended; the library would wait and connect by itself, without a way to tell why it failed."""


def _source(url: str, headers: dict[str, str], last_id: str, session: aiohttp.ClientSession) -> EventSource:
    def troubled() -> None:
        # It also calls this after a refusal, whose exception names the status.
        if source.ready_state == READY_STATE_CONNECTING:
            raise _Ended

    sent = headers | ({"last-event-id": last_id} if last_id else {})
    source = EventSource(
        url,
        session=session,
        headers=sent,
        max_connect_retry=0,
        reconnection_time=timedelta(seconds=FIRST_WAIT_S),
        on_error=troubled,
    )
    return source


def _status(error: BaseException) -> int:
    """Return the HTTP status of a refusal, 0 for any other error; the library keeps it in the text alone."""
    last = str(error).rpartition(" ")[2]
    return int(last) if type(error).__module__ == "builtins" and last.isascii() and last.isdecimal() else 0


def _item(event: MessageEvent) -> Record | int | None:
    try:
        if event.type == "request":
            return msgspec.json.decode(event.data, type=Record)
        if event.type == "missed":
            return int(msgspec.json.decode(event.data, type=dict[str, int])["count"])
    except (msgspec.MsgspecError, KeyError):
        return None  # a newer gateway may say more than we know
    return None
