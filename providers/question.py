"""A question that costs nothing and needs the key: how `dragoman doctor` finds out whether one is accepted."""

from collections.abc import Mapping

import aiohttp
from yarl import URL

from providers.api import Unreachable
from providers.transport import ERRORS, explain, timed_out

__all__ = ["status_of"]


async def status_of(session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str]) -> int:
    """Return the status of a GET, whose body is not read; raises Unreachable."""
    try:
        async with session.get(url, headers=headers, allow_redirects=False) as reply:
            return reply.status
    except TimeoutError:
        raise Unreachable(timed_out("the upstream did not answer in time")) from None
    except ERRORS as error:
        raise Unreachable(explain(error)) from None
