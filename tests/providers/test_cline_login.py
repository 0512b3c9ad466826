"""A device login ends in an account file, or says in a sentence why it did not."""

import json
import stat
from urllib.parse import parse_qs

import pytest

from providers.cline_login import MAX_WAIT_S, Declined, log_in
from providers.transport import new_session
from tests.upstream import Head, Request, Upstream, closed_port, reply_json

DEVICE = {"device_code": "dev/1", "user_code": "AB-CD", "verification_uri": "https://x.test/go", "interval": 2}
TOKENS = {"access_token": "wos", "refresh_token": "wos-refresh"}
ACCOUNT = {"success": True, "data": {"accessToken": "acc", "refreshToken": "ref", "expiresAt": "2027-01-15T08:00:00Z"}}


async def run(tmp_path, polls, *, device=DEVICE, account=ACCOUNT, status=200):
    answers = iter(polls)
    waits: list[float] = []
    shown: list = []

    def play(request: Request):
        if request.path == "/um/authorize/device":
            return reply_json(device)
        if request.path == "/um/authenticate":
            assert ["dev/1"] == parse_qs(request.body.decode())["device_code"]
            answer = next(answers)
            return reply_json(answer, 200 if "access_token" in answer else 400)
        assert {"accessToken": "wos", "refreshToken": "wos-refresh"} == request.json
        return reply_json(account, status)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with Upstream(play) as upstream, new_session(connect_s=5, trust_env=False) as session:
        made = await log_in(
            session,
            upstream.url + "/api/v1",
            shown.append,
            path=tmp_path / "new" / "me.json",
            issuer=upstream.url + "/um",
            sleep=sleep,
        )
    return made, waits, shown


async def test_a_login_ends_in_a_file(tmp_path):
    """The person is shown where to go; polls keep the asked pace; the file is theirs alone and holds the account."""
    pending, slower = {"error": "authorization_pending"}, {"error": "slow_down"}
    made, waits, (device,) = await run(tmp_path, [pending, slower, TOKENS])
    assert ("https://x.test/go", "AB-CD") == (device.uri, device.code)
    assert [2, 2, 7] == waits
    assert {"version": 1, "accessToken": "workos:acc", "refreshToken": "ref", "expiresAt": 1_800_000_000_000} == (
        json.loads(made.read_text())
    )
    assert 0o600 == stat.S_IMODE(made.stat().st_mode)
    assert 0o700 == stat.S_IMODE(made.parent.stat().st_mode)


async def test_a_registration_without_refresh_token_keeps_the_first(tmp_path):
    """The refresh token of the login stands in where the service gives none."""
    made, _, _ = await run(tmp_path, [TOKENS], account={"data": {"accessToken": "acc"}})
    assert "wos-refresh" == json.loads(made.read_text())["refreshToken"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"polls": [{"error": "access_denied"}]}, "refused"),
        ({"polls": [{}]}, "no answer"),
        (
            {
                "polls": [{"error": "authorization_pending"}] * 1000,
                "device": DEVICE | {"expires_in": 10**9, "interval": 600},
            },
            "in time",
        ),
        ({"polls": [], "device": {}}, "no device code"),
        ({"polls": [], "device": [1]}, "no device code"),
        ({"polls": [], "device": DEVICE | {"verification_uri": "http://evil.test"}}, "not to be trusted"),
        ({"polls": [TOKENS], "account": {"success": False}, "status": 400}, "did not register"),
        ({"polls": [TOKENS], "account": {"success": True}}, "did not register"),
    ],
)
async def test_a_login_that_fails_says_why(tmp_path, changes, why):
    """No file is made, and the text names no token."""
    with pytest.raises(Declined, match=why) as caught:
        await run(tmp_path, **changes)
    assert "wos" not in str(caught.value)
    assert not (tmp_path / "new" / "me.json").exists()
    assert MAX_WAIT_S <= 1800


async def test_an_answer_that_is_no_json(tmp_path):
    """A page in place of an answer is no device code."""
    html = [Head(headers=[("content-length", "6")]), b"<html>"]
    async with Upstream([html]) as upstream, new_session(connect_s=5, trust_env=False) as session:
        with pytest.raises(Declined, match="no device code"):
            await log_in(session, upstream.url, print, path=tmp_path / "x", issuer=upstream.url)


async def test_nobody_there(tmp_path):
    """A service that cannot be reached is said to be so."""
    url = f"http://127.0.0.1:{closed_port()}"
    async with new_session(connect_s=5, trust_env=False) as session:
        with pytest.raises(Declined, match="does not answer"):
            await log_in(session, url, print, path=tmp_path / "x", issuer=url)
