"""Requests that two servers could read differently, and what a malformed one carries."""

from tests.gateway.wire import JSON, KEY, LOCAL, head

CANARY = "sk-canary-malformed-0001"
POST = "POST /v1/messages"
CHUNKED = ("transfer-encoding", "chunked")
END = b"0\r\n\r\n"


def get(*lines: bytes) -> bytes:
    return b"\r\n".join([b"GET /livez HTTP/1.1", *lines, b"", b""])


MALFORMED = {
    "length-and-chunks": head(POST, LOCAL, KEY, ("content-length", "5"), CHUNKED) + END,
    "two-lengths": head(POST, LOCAL, KEY, ("content-length", "5"), ("content-length", "6")) + b"hello",
    "two-equal-lengths": head(POST, LOCAL, KEY, ("content-length", "5"), ("content-length", "5")) + b"hello",
    "list-of-lengths": head(POST, LOCAL, KEY, ("content-length", "5, 5")) + b"hello",
    "signed-length": head(POST, LOCAL, KEY, ("content-length", "+5")) + b"hello",
    "negative-length": head(POST, LOCAL, KEY, ("content-length", "-5")) + b"hello",
    "hexadecimal-length": head(POST, LOCAL, KEY, ("content-length", "0x5")) + b"hello",
    "underscored-length": head(POST, LOCAL, KEY, ("content-length", "1_0")) + b"hello",
    "unknown-encoding": head(POST, LOCAL, KEY, ("transfer-encoding", "xchunked")) + END,
    "chunked-twice": head(POST, LOCAL, KEY, CHUNKED, CHUNKED) + END,
    "chunked-not-last": head(POST, LOCAL, KEY, ("transfer-encoding", "chunked, identity")) + END,
    "signed-chunk": head(POST, LOCAL, KEY, JSON, CHUNKED) + b"+5\r\nhello\r\n" + END,
    "prefixed-chunk": head(POST, LOCAL, KEY, JSON, CHUNKED) + b"0x5\r\nhello\r\n" + END,
    "nonsense-chunk": head(POST, LOCAL, KEY, JSON, CHUNKED) + b"zz\r\nhello\r\n" + END,
    "line-end-in-chunk-extension": head(POST, LOCAL, KEY, JSON, CHUNKED) + b"5;a=b\nc\r\nhello\r\n" + END,
    "bare-line-feeds": b"GET /livez HTTP/1.1\nhost: localhost\n\n",
    "space-before-colon": get(b"host: localhost", f"authorization : Bearer {CANARY}".encode()),
    "space-in-name": get(b"host: localhost", f"x {CANARY}: y".encode()),
    "no-colon": get(b"host: localhost", f"authorization Bearer {CANARY}".encode()),
    "folded": get(b"host: localhost", b"authorization: Bearer", f" {CANARY}".encode()),
    "null-in-value": get(b"host: localhost", f"x-api-key: {CANARY}\0".encode()),
    "return-in-value": get(b"host: localhost", f"x-api-key: {CANARY}\rx: y".encode()),
    "no-host": get(),
    "two-hosts": get(b"host: localhost", b"host: evil.example"),
    "long-header": get(b"host: localhost", b"x: " + CANARY.encode() * 1000),
    "many-headers": get(b"host: localhost", *[b"x: y"] * 5000),
    "long-target": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "no-version": b"GET /livez " + CANARY.encode() + b"\r\nhost: localhost\r\n\r\n",
    "next-version": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + CANARY.encode() + b"\r\n\r\n",
    "bytes-in-name": get(b"host: localhost", b"x-\xff: y"),
}
"""Each is a 400 and the end of its connection (measured with both parsers of aiohttp)."""
