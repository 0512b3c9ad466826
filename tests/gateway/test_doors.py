"""Who gets in: every route, every credential, every Host and Origin, over raw connections."""

import hashlib
from itertools import permutations

import msgspec
import pytest

from gateway.app import ROUTES
from gateway.config import Client, Config
from tests.gateway.live import CLIENT_KEY, config, provider, running
from tests.gateway.wire import JSON, LOCAL, head, talk, whole

ADMIN_KEY = "admin-key-for-tests-0001"
OTHER_KEY = "client-key-for-tests-0002"
CLOSE = ("connection", "close")
BEARER = ("authorization", f"Bearer {CLIENT_KEY}")
DISGUISES = {
    "plain": lambda path: path,
    "encoded": lambda path: path[:-1] + f"%{ord(path[-1]):02x}",
    "doubled": lambda path: "/" + path,
    "trailing": lambda path: path + "/",
    "dotted": lambda path: f"/livez/..{path}",
    "query": lambda path: f"{path}?/livez",
    "fragment": lambda path: f"{path}#/livez",
    "absolute": lambda path: f"http://localhost{path}",
    "parameter": lambda path: f"{path};/livez",
    "null": lambda path: f"{path}%00",
    "backslash": lambda path: f"/livez\\..{path}",
}
HOSTS = ("localhost", "localhost:80", "127.0.0.1", "[::1]")
CLOSED = sorted({path for (_, path), route in ROUTES.items() if route.access != "public"})
PUBLIC = sorted({path for (_, path), route in ROUTES.items() if route.access == "public"})


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def settings(**server) -> Config:
    clients = (Client("alice", digest(CLIENT_KEY)), Client("bob", digest(OTHER_KEY)))
    made = config(provider("http://127.0.0.1:1"), clients=clients, **server)
    return msgspec.structs.replace(made, admin=digest(ADMIN_KEY))


def ask(method, path, *headers, host="localhost"):
    return head(f"{method} {path}", ("host", host), CLOSE, *headers)


@pytest.mark.promise("S05")
def test_public_routes_are_an_explicit_few():
    """Probes and the files of the status page are all that is served without a credential."""
    assert ["/", "/livez", "/readyz"] == [path for path in PUBLIC if not path.startswith("/web/")]


@pytest.mark.slow
@pytest.mark.promise("S05")
@pytest.mark.parametrize("disguise", DISGUISES)
async def test_nothing_else_answers_without_a_key(disguise):
    """Every other route, and what is no route, is a 401 by every method, spelling and Host."""
    async with running(settings()) as live:
        for path in (*CLOSED, "/v1/models/m1", "/nothing", "/admin"):
            target = DISGUISES[disguise](path)
            for number, method in enumerate(("GET", "POST", "HEAD", "OPTIONS", "PUT", "TRACE")):
                answer = await talk(live.url, ask(method, target, host=HOSTS[number % len(HOSTS)]))
                assert 401 == answer.status, (method, target, answer.raw)
                assert "Bearer" == answer.header("www-authenticate")


@pytest.mark.promise("S05")
@pytest.mark.parametrize("host", ["localhost/livez?", "x/livez", "localhost#/livez", "livez", ""])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_an_odd_host_opens_nothing(host, method):
    """What a Host header says never changes which route was met."""
    async with running(settings()) as live:
        for path in ("/v1/models", "/livez", "/admin/status"):
            assert (await talk(live.url, ask(method, path, host=host))).status in (400, 403)


@pytest.mark.promise("S05")
@pytest.mark.parametrize("start", ["OPTIONS *", "CONNECT evil.example:443", "PRI *"])
async def test_targets_that_are_no_paths(start):
    """They are nobody's route."""
    async with running(settings()) as live:
        assert (await talk(live.url, head(start, LOCAL, CLOSE))).status in (400, 401)


@pytest.mark.promise("S05")
async def test_public_routes_have_no_other_method():
    """POST to a probe is not public because the probe is."""
    async with running(settings()) as live:
        for path in PUBLIC:
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                assert 401 == (await talk(live.url, ask(method, path))).status


@pytest.mark.promise("S04")
@pytest.mark.parametrize(
    ("key", "client", "admin"),
    [(None, 401, 401), ("wrong", 401, 401), (CLIENT_KEY, "in", 404), (ADMIN_KEY, 401, "in")],
    ids=["none", "wrong", "client", "admin"],
)
@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_credentials_and_routes(key, client, admin, header):
    """A client's key opens clients' routes and shows no admin's; the admin's is no client."""
    value = f"Bearer {key}" if header == "authorization" else key
    headers = [] if key is None else [(header, value)]
    expected = {"client": client, "admin": admin}
    async with running(settings()) as live:
        for (method, path), route in ROUTES.items():
            if route.access == "public" or path == "/admin/events":
                continue
            answer = await talk(live.url, whole(f"{method} {path}", b"", JSON, *headers))
            wanted = expected[route.access]
            assert (answer.status not in (401, 404)) if wanted == "in" else wanted == answer.status, (path, answer.raw)


@pytest.mark.promise("S04")
async def test_no_route_changes_anything_for_an_admin():
    """Admin routes are read by GET alone."""
    assert {"GET"} == {method for (method, _), route in ROUTES.items() if route.access == "admin"}


@pytest.mark.promise("S03")
async def test_missing_and_wrong_keys_get_the_same_answer():
    """Status, headers and body do not tell them apart, nor the digest of a key or a header of bytes."""
    keys = [(), (("x-api-key", "wrong"),), (("authorization", "Bearer wrong"),), (("x-api-key", digest(CLIENT_KEY)),),
            (("authorization", "Basic eDp5"),), (("x-api-key", "\xe9\xff"),)]  # fmt: skip
    async with running(settings()) as live:
        answers = [await talk(live.url, ask("GET", "/v1/models", *headers, ("x-request-id", "r"))) for headers in keys]
    shapes = {(answer.status, answer.body, tuple(h for h in answer.headers if h[0] != "date")) for answer in answers}
    assert 1 == len(shapes)
    assert 401 == answers[0].status


@pytest.mark.promise("S03")
async def test_either_header_opens_and_two_must_agree():
    """In every order: the same key twice is one key, two keys are none."""
    async with running(settings()) as live:
        for headers in permutations([BEARER, ("x-api-key", CLIENT_KEY)]):
            assert 200 == (await talk(live.url, ask("GET", "/v1/models", *headers))).status
        for headers in permutations([BEARER, ("x-api-key", OTHER_KEY)]):
            assert 401 == (await talk(live.url, ask("GET", "/v1/models", *headers))).status
        for headers in ([("AUTHORIZATION", f"bearer {CLIENT_KEY}")], [("X-Api-Key", CLIENT_KEY)]):
            assert 200 == (await talk(live.url, ask("GET", "/v1/models", *headers))).status


@pytest.mark.promise("S03")
@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
async def test_a_header_sent_twice_must_agree_too(name):
    """The second of two values is not overlooked."""
    values = [f"Bearer {key}" if name == "authorization" else key for key in (CLIENT_KEY, OTHER_KEY)]
    async with running(settings()) as live:
        for pair in permutations(values):
            answer = await talk(live.url, ask("GET", "/v1/models", *((name, value) for value in pair)))
            assert answer.status in (400, 401)


@pytest.mark.promise("S13")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost.:1", 200),
        ("LocalHost", 200),
        ("127.0.0.1:99", 200),
        ("[::1]:8788", 200),
        ("app.localhost", 200),
        ("gateway.lan", 200),
        ("gateway.lan.:443", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("localhost..", 403),
        ("127.0.0.1.evil.example", 403),
        ("0.0.0.0", 403),
        ("169.254.169.254", 403),
        ("2130706433", 403),
        ("", 403),
    ],
)
async def test_a_rebound_name_is_not_served(host, status):
    """A page that points its own name at this machine gets nothing, not even a probe, with or without the key."""
    async with running(settings(allowed_hosts=("gateway.lan",))) as live:
        for path, headers in (("/livez", ()), ("/v1/models", (BEARER,))):
            assert status == (await talk(live.url, ask("GET", path, *headers, host=host))).status


@pytest.mark.promise("S13")
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("https://gateway.lan", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
        ("http://localhost@evil.example", 403),
        ("http://localhost.evil.example", 403),
    ],
)
async def test_a_foreign_page_is_not_served(origin, status):
    """Whatever it asks, and no header ever lets its script read an answer."""
    async with running(settings(allowed_hosts=("gateway.lan",))) as live:
        for path in ("/livez", "/v1/models"):
            answer = await talk(live.url, ask("GET", path, BEARER, ("origin", origin)))
            assert status == answer.status
            assert [] == [name for name, _ in answer.headers if name.startswith("access-control-")]


@pytest.mark.promise("S13")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/livez"])
async def test_a_preflight_is_refused(path):
    """A browser asks first before it sends JSON or a key; from a foreign page the answer is no."""
    wants = (("access-control-request-method", "POST"), ("access-control-request-headers", "x-api-key, content-type"))
    async with running(config(provider("http://127.0.0.1:1"))) as live:
        answer = await talk(live.url, ask("OPTIONS", path, ("origin", "https://evil.example"), *wants))
    assert 403 == answer.status
    assert [] == [name for name, _ in answer.headers if name.startswith("access-control-")]


@pytest.mark.promise("S13")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("origin", [(), (("origin", "https://evil.example"),)])
async def test_a_simple_post_cannot_spend_money(path, origin):
    """A form or text of a page needs no preflight, and is not JSON; nor is a POST without any type."""
    open_to_all = msgspec.structs.replace(settings(), clients=())
    async with running(open_to_all) as live:
        for kind in ((("content-type", "text/plain"),), ()):
            answer = await talk(live.url, whole(f"POST {path}", b'{"model":"m1"}', *kind, *origin))
            assert (403 if origin else 415) == answer.status
