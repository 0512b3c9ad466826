"""A login in use: fresh tokens, one refresh for all, and files that others change."""

import asyncio
import fcntl
import json

import aiohttp
import pytest

from providers import filelock, grok_issuer, grok_refresh
from providers.grok_issuer import Issuer as Source
from providers.grok_refresh import Credential, Token
from tests.grok import Issuer, auth_file, login
from tests.upstream import Upstream, Wait, reply_json
from translators.fault import Fault

NOW = 1_767_225_600.0
LATER = "2036-01-01T00:00:00Z"


def at(seconds: float) -> str:
    import datetime as dt

    return dt.datetime.fromtimestamp(NOW + seconds, dt.UTC).isoformat()


class Play:
    """A login file, its issuer, and the credential over them."""

    def __init__(self, folder, session, script, url, entry):
        self.script, self.url = script, url
        self.path = auth_file(folder / "auth.json", entry)
        self.wall = NOW
        source = lambda found: Source(lambda: session, found, wall=lambda: self.wall)
        self.credential = Credential("me", self.path, source, wall=lambda: self.wall)

    def stored(self):
        return json.loads(self.path.read_text())[f"{self.url}::test-client"]


@pytest.fixture
async def play(tmp_path, monkeypatch):
    monkeypatch.setattr(grok_issuer, "PAUSE_S", (0, 0))
    monkeypatch.setattr(grok_refresh, "LOOK_S", 0)
    script = Issuer()
    async with Upstream(script) as upstream, aiohttp.ClientSession() as session:
        yield lambda **entry: Play(tmp_path, session, script, upstream.url, login(upstream.url, **entry))


async def test_fresh_token_is_used_as_it_is(play):
    """A token with life left costs nothing."""
    played = play()
    token = await played.credential.token()
    assert isinstance(token, Token)
    assert ("FAKE.ACCESS.0", 1) == (token.login.access.reveal(), token.generation)
    assert [] == played.script.forms


async def test_token_near_its_end_is_refreshed_and_written_first(play):
    """The new refresh token is in the file before the new access token is handed out."""
    played = play(expires=at(60))
    token = await played.credential.token()
    assert "FAKE.ACCESS.1" == token.login.access.reveal()
    assert ("FAKE.ACCESS.1", "FAKE-REFRESH-1") == (played.stored()["key"], played.stored()["refresh_token"])
    assert 1 == len(played.script.forms)
    assert "FAKE.ACCESS.1" == (await played.credential.token()).login.access.reveal()


async def test_one_refresh_for_all(play):
    """Twenty that were refused with one token share one refresh; a late one needs none."""
    played = play()
    token = await played.credential.token()
    faults = await asyncio.gather(*(played.credential.renew(token.generation) for _ in range(20)))
    assert [None] * 20 == faults
    assert await played.credential.renew(token.generation) is None
    assert 1 == len(played.script.forms)
    assert played.credential.spent(played.credential.generation)
    assert played.credential.spent(None)
    assert not played.credential.spent(token.generation)


async def test_leaving_does_not_stop_a_refresh(play):
    """A client that goes away while a refresh runs leaves it to the others."""
    played = play()
    token = await played.credential.token()
    task = asyncio.create_task(played.credential.renew(token.generation))
    await asyncio.sleep(0)
    task.cancel()
    assert await played.credential.renew(token.generation) is None
    assert 1 == len(played.script.forms)


async def test_anothers_token_is_taken_over(play):
    """A token that the CLI fetched meanwhile is adopted, for a second refresh would spend it."""
    played = play()
    token = await played.credential.token()
    auth_file(played.path, login(played.url, token="FROM.THE.CLI"))
    assert await played.credential.renew(token.generation) is None
    assert "FROM.THE.CLI" == (await played.credential.token()).login.access.reveal()
    assert [] == played.script.forms


async def test_ended_login_waits_for_a_new_file(play):
    """A login that the issuer ended is out of use, without asking again, until its file changes."""
    played = play(expires=at(60))
    played.script.answers.append(reply_json({"error": "invalid_grant"}, 400))
    for _ in range(2):
        fault = await played.credential.token()
        assert ("authentication", "login_unusable") == (fault.kind, fault.code)
        assert "invalid_grant" in fault.message
    assert 1 == len(played.script.forms)
    auth_file(played.path, login(played.url, token="NEW"))
    assert played.credential.changed()
    assert not played.credential.changed()
    assert "NEW" == (await played.credential.token()).login.access.reveal()


async def test_passing_failure_uses_what_life_is_left(play, monkeypatch):
    """While the old token lives a failing issuer is no failure, and is not asked at each request."""
    played = play(expires=at(100))
    played.script.answers += [reply_json({}, 503)] * 3
    for _ in range(2):
        assert "FAKE.ACCESS.0" == (await played.credential.token()).login.access.reveal()
    assert 3 == len(played.script.forms)
    played.wall = NOW + 50
    played.script.answers += [reply_json({}, 503)] * 3
    fault = await played.credential.token()
    assert isinstance(fault, Fault)
    assert (503, 5) == (fault.status, fault.retry_after_s)


async def test_without_a_refresh_token(play):
    """A token that cannot be refreshed serves to its end, and a refusal ends it."""
    played = play(expires=at(10))
    entry = json.loads(played.path.read_text())
    del entry[f"{played.url}::test-client"]["refresh_token"]
    auth_file(played.path, entry)
    assert isinstance(await played.credential.token(), Token)
    assert "authentication" == (await played.credential.renew(1)).kind
    auth_file(played.path, entry | {"x": {}})
    played.wall = NOW + 20
    assert "expired" in (await played.credential.token()).message


async def test_missing_and_broken_files(play):
    """A file that is missing or holds no login says so, also when it went while a refresh was due."""
    played = play()
    token = await played.credential.token()
    played.path.write_text("{}")
    assert "authentication" == (await played.credential.renew(token.generation)).kind
    played.path.unlink()
    fault = await played.credential.token()
    assert "cannot be read" in fault.message
    assert not played.credential.api_plane


async def test_file_that_cannot_be_written(play, monkeypatch):
    """New tokens that cannot be stored still serve, for the old ones are spent; the next refresh stores them."""
    played = play(expires=at(60))

    def full(*_):
        raise OSError(28, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(grok_refresh, "rewrite", full)
        token = await played.credential.token()
    assert "FAKE.ACCESS.1" == token.login.access.reveal()
    assert "FAKE.ACCESS.0" == played.stored()["key"]
    assert await played.credential.renew(token.generation) is None
    assert ("FAKE-REFRESH-1", "FAKE.ACCESS.2") == (played.script.forms[1]["refresh_token"], played.stored()["key"])


async def test_lock_of_another(play, monkeypatch):
    """While another process holds the lock its result is waited for; without one it is a passing failure."""
    monkeypatch.setattr(filelock, "WAIT_S", 0.1)
    monkeypatch.setattr(grok_refresh, "held", lambda path: filelock.held(path, wait_s=0.1))
    played = play()
    token = await played.credential.token()
    with (played.path.with_name("auth.json.lock")).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert 503 == (await played.credential.renew(token.generation)).status
        assert played.credential._retry_at > 0
        auth_file(played.path, login(played.url, token="FROM.THE.CLI"))
        assert await played.credential.renew(token.generation) is None
    assert [] == played.script.forms


async def test_folder_without_a_place_for_the_lock(play):
    """A lock that cannot be made is a failure that names its reason."""
    played = play()
    token = await played.credential.token()
    played.path.with_name("auth.json.lock").mkdir()
    assert "cannot be written" in (await played.credential.renew(token.generation)).message


async def test_api_key_in_a_file(play):
    """A file may hold an API key, which belongs to the other address and never ends."""
    played = play()
    auth_file(played.path, {"xai::api_key": {"key": "xai-1", "auth_mode": "api_key"}})
    assert played.credential.api_plane
    assert "xai-1" == (await played.credential.token()).login.access.reveal()


async def test_disabled_by_the_upstream(play):
    """A login that the upstream refuses in spite of a fresh token is out of use."""
    played = play()
    await played.credential.token()
    played.credential.disable("refused")
    assert "refused" in (await played.credential.token()).message


async def test_principal_is_left_out_where_unknown(play):
    """The form has what the login has."""
    played = play(expires=at(60))
    entry = json.loads(played.path.read_text())
    for name in ("principal_type", "principal_id"):
        del entry[f"{played.url}::test-client"][name]
    auth_file(played.path, entry)
    await played.credential.token()
    assert {"grant_type", "refresh_token", "client_id"} == set(played.script.forms[0])


async def test_files_are_looked_at_once_in_a_while(play, monkeypatch):
    """Within a second of a look the file is not looked at again."""
    played = play()
    await played.credential.token()
    monkeypatch.setattr(grok_refresh, "LOOK_S", 60)
    auth_file(played.path, login(played.url, token="NEW"))
    assert not played.credential.changed()


async def waited(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_lock_of_another_costs_no_time_while_the_token_lives(play, monkeypatch):
    """A request does not wait out a refresh that takes long, and the next ones do not wait at all."""
    monkeypatch.setattr(grok_refresh, "PATIENCE_S", 0.05)
    monkeypatch.setattr(grok_refresh, "held", lambda path: filelock.held(path, wait_s=0.3))
    played = play(expires=at(100))
    with (played.path.with_name("auth.json.lock")).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "FAKE.ACCESS.0" == (await played.credential.token()).login.access.reveal()
        monkeypatch.setattr(grok_refresh, "PATIENCE_S", 600)
        async with asyncio.timeout(0.1):
            assert "FAKE.ACCESS.0" == (await played.credential.token()).login.access.reveal()
        await waited(lambda: played.credential._running is None)
    assert [] == played.script.forms


async def test_contended_refresh_is_not_tried_at_each_request(play, monkeypatch):
    """After a lock that could not be had the old token is used at once for a while."""
    monkeypatch.setattr(grok_refresh, "held", lambda path: filelock.held(path, wait_s=0.1))
    played = play(expires=at(100))
    with (played.path.with_name("auth.json.lock")).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for _ in range(2):
            assert isinstance(await played.credential.token(), Token)
            assert played.credential._running is None
        monkeypatch.setattr(grok_refresh, "held", None)
        assert isinstance(await played.credential.token(), Token)


@pytest.mark.parametrize("own", [False, True])
async def test_what_others_write_during_a_refresh_stays(play, own):
    """The file is read again just before it is replaced: other scopes stay, and so does a new login in our place."""
    played, go = play(expires=at(60)), asyncio.Event()
    answer = reply_json({"access_token": "OURS", "refresh_token": "R", "expires_in": 21_600})
    played.script.answers.append([Wait(go), *answer])
    waiting = asyncio.create_task(played.credential.token())
    await waited(lambda: played.script.forms)
    entries = login(played.url, **({"token": "LOGIN"} if own else {"expires": at(60)}))
    auth_file(played.path, entries, {"xai::api_key": {"key": "xai-new", "auth_mode": "api_key"}})
    go.set()
    assert "OURS" == (await waiting).login.access.reveal()
    assert ("LOGIN" if own else "OURS") == played.stored()["key"]
    assert "xai-new" == json.loads(played.path.read_text())["xai::api_key"]["key"]
    assert played.stored()["key"] == (await played.credential.token()).login.access.reveal()


async def test_logout_during_a_refresh_is_respected(play):
    """A file that has gone is not written again; the login is out of use."""
    played, go = play(expires=at(60)), asyncio.Event()
    played.script.answers.append([Wait(go), *reply_json({"access_token": "OURS", "expires_in": 21_600})])
    waiting = asyncio.create_task(played.credential.token())
    await waited(lambda: played.script.forms)
    played.path.unlink()
    go.set()
    await waiting
    assert not played.path.exists()
    assert "authentication" == (await played.credential.token()).kind


async def test_tokens_that_could_not_be_written_outlive_other_changes(play, monkeypatch):
    """A file that changes but still holds the spent token does not bring it back."""
    played = play(expires=at(60))
    monkeypatch.setattr(grok_refresh, "rewrite", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
    await played.credential.token()
    auth_file(played.path, login(played.url, expires=at(60)), {"other": {"key": "x"}})
    assert "FAKE.ACCESS.1" == (await played.credential.token()).login.access.reveal()
    assert ["FAKE.ACCESS.0", "FAKE-REFRESH-0", "FAKE.ACCESS.1", "FAKE-REFRESH-1"] == [
        secret.reveal() for secret in played.credential.secrets
    ]


async def test_return_is_told_once(play):
    """Whoever noticed the new file, the pool hears of it."""
    played = play()
    await played.credential.token()
    assert not played.credential.returned()
    played.credential.disable("refused")
    assert not played.credential.returned()
    auth_file(played.path, login(played.url, token="NEW"))
    assert isinstance(await played.credential.token(), Token)
    assert [True, False] == [played.credential.returned() for _ in range(2)]
