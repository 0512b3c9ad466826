"""The status page at `/`: files of ours from this package, under a policy that lets nothing else load or run.

The page itself is public and shows nothing; its data come from the admin routes, with the admin's credential.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from gateway.app import Gateway, Inbound

__all__ = ["FILES", "root", "serve"]

FOLDER = Path(__file__).with_name("web")
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
PLAIN = "Dragoman is running. GET /v1/models lists the models.\n"


def _read() -> dict[str, tuple[bytes, str, str]]:
    """Return content, type and entity tag by file name."""
    files = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in _KINDS:
            content = path.read_bytes()
            files[path.name] = (content, _KINDS[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return files


FILES = _read()
"""All that is served, read once: no request ever names a path."""


async def root(gateway: "Gateway", inbound: "Inbound") -> web.StreamResponse:
    """GET or HEAD /: the page for browsers, one cheap line for clients that probe the address."""
    request = inbound.request
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return _file(request, "index.html")
    return web.Response(text=PLAIN, headers={"vary": "accept"})


async def serve(gateway: "Gateway", inbound: "Inbound") -> web.StreamResponse:
    """GET /web/NAME for the names in FILES; the route table has no others."""
    return _file(inbound.request, inbound.request.path.rpartition("/")[2])


def _file(request: web.BaseRequest, name: str) -> web.Response:
    content, kind, tag = FILES[name]
    headers = HEADERS | {"etag": tag, "vary": "accept"}
    if request.headers.get("if-none-match") == tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=content, content_type=kind, charset="utf-8", headers=headers)
