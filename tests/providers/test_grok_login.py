"""Device login: what is asked, how it is waited for, and where it is kept."""

import json

import aiohttp
import pytest

from providers.grok_credentials import Tokens
from providers.grok_issuer import Declined, Issuer
from providers.grok_login import Device, finish, log_in, own_file, start, store
from providers.secret import Secret
from tests.upstream import Upstream, reply_json

CODE = {"device_code": "d", "user_code": "ABCD", "verification_uri": "https://x.ai/go", "interval": 1, "expires_in": 60}
NONE = reply_json({}, 404)
PENDING, SLOW = (reply_json({"error": error}, 400) for error in ("authorization_pending", "slow_down"))


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as made:
        yield made


def issuer(session, url):
    return Issuer(lambda: session, url, wall=lambda: 1000.0)


async def test_code_is_asked_for(session):
    """The form is the official client's; the pause is never under five seconds."""
    async with Upstream([NONE, reply_json(CODE)]) as upstream:
        device = await start(issuer(session, upstream.url))
        body = upstream.requests[1].body.decode()
    assert Device("https://x.ai/go", "ABCD", "d", 5, 60) == device
    assert "referrer=grok-build" in body
    assert "offline_access" in body


@pytest.mark.parametrize("told", [{}, CODE | {"user_code": 7}, CODE | {"verification_uri": "javascript:x"}])
async def test_useless_codes(session, told):
    """An answer without a code, or with an address that is none, ends the login."""
    async with Upstream([NONE, reply_json(told)]) as upstream:
        with pytest.raises(Declined):
            await start(issuer(session, upstream.url))


async def test_defaults_of_a_code(session):
    """Missing times have usual values."""
    told = {name: value for name, value in CODE.items() if name not in ("interval", "expires_in")}
    async with Upstream([NONE, reply_json(told)]) as upstream:
        assert (5, 1800) == ((device := await start(issuer(session, upstream.url))).interval_s, device.expires_s)


async def test_waiting(session):
    """Pending goes on, slow_down lengthens the pause, tokens end it."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    async with Upstream([NONE, PENDING, SLOW, PENDING, reply_json({"access_token": "a"})]) as upstream:
        tokens = await finish(issuer(session, upstream.url), Device("u", "c", "d"), sleep=sleep)
    assert ("a", [5, 5, 10, 10]) == (tokens.access.reveal(), pauses)


@pytest.mark.parametrize("error", ["expired_token", "access_denied"])
async def test_refusal(session, error):
    """A person who says no, or comes too late, ends it."""

    async def sleep(seconds):
        pass

    async with Upstream([NONE, reply_json({"error": error}, 400)]) as upstream:
        with pytest.raises(Declined, match=error):
            await finish(issuer(session, upstream.url), Device("u", "c", "d"), sleep=sleep)
    async with Upstream([NONE, PENDING, PENDING]) as upstream:
        with pytest.raises(Declined, match="in time"):
            await finish(issuer(session, upstream.url), Device("u", "c", "d", 5, 10), sleep=sleep)


async def test_store_is_ours_and_private(tmp_path):
    """The file and its folder are for their owner; other entries stay, a broken file is replaced."""
    path = tmp_path / "dragoman" / "grok.json"
    tokens = Tokens(Secret("a"), Secret("r"), 2000.0)
    await store(path, tokens)
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    path.write_text('{"other": {"key": "keep"}}')
    await store(path, tokens)
    assert {"key": "keep"} == json.loads(path.read_text())["other"]
    path.write_text("broken")
    await store(path, tokens)
    assert 1 == len(json.loads(path.read_text()))


async def test_whole_login(session, tmp_path, monkeypatch):
    """The person is shown the code, and the file holds the login."""
    monkeypatch.setattr("providers.grok_login.MIN_INTERVAL_S", 0)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    shown = []
    async with Upstream(
        [NONE, reply_json(CODE | {"interval": 0}), NONE, reply_json({"access_token": "a"})]
    ) as upstream:
        path = await log_in(session, shown.append, issuer=upstream.url)
    assert own_file() == path == tmp_path / "dragoman" / "grok" / "default.json"
    assert ["ABCD"] == [device.code for device in shown]
    assert "a" == next(iter(json.loads(path.read_text()).values()))["key"]
