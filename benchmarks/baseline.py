"""The yardstick: a bare aiohttp application and client session that forward bytes, and do nothing else."""

import sys

import aiohttp
from aiohttp import web


async def _forward(request: web.Request) -> web.StreamResponse:
    session: aiohttp.ClientSession = request.app[SESSION]
    body = await request.read()
    headers = {"content-type": "application/json"}
    async with session.post(request.app[UPSTREAM] + request.path, data=body, headers=headers) as upstream:
        response = web.StreamResponse(status=upstream.status, headers={"content-type": upstream.content_type})
        await response.prepare(request)
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


SESSION = web.AppKey("session", aiohttp.ClientSession)
UPSTREAM = web.AppKey("upstream", str)


async def app(upstream: str) -> web.Application:
    """Return the proxy in front of one upstream address."""
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application[UPSTREAM] = upstream
    application[SESSION] = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    )
    application.router.add_post("/{path:.*}", _forward)
    return application


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        pass
    else:
        uvloop.install()
    web.run_app(app(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), access_log=None, print=None)
