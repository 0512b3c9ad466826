"""An account's token is renewed early, once for all, and what the service rotates is never lost."""

import asyncio
import base64
import fcntl
import json
import stat
from pathlib import Path

import pytest

from providers import cline_account, filelock
from providers.cline_account import Account, Expired, Grant, Unavailable, bearer, default_file, expiry_of, save

NOW = 1_800_000_000.0


def jwt(exp: object) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": exp}).encode()).decode().rstrip("=")
    return f"head.{claims}.sign"


class Service:
    """The refresh endpoint: counts, waits for permission, answers."""

    def __init__(self, *answers: Grant | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, token: str) -> Grant:
        self.asked.append(token)
        await self.open.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def account(tmp_path: Path, service: Service, left_s: float) -> tuple[Account, Path]:
    path = tmp_path / "cline.json"
    save(path, Grant("old", "refresh-1", NOW + left_s))
    return Account(path, service, lambda: NOW), path


def stored(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.mark.parametrize("token", ["abc", "workos:abc", "WORKOS:abc"])
def test_prefix_exactly_once(token):
    """An account token is sent behind `workos:`, whether or not it was stored so."""
    assert "Bearer workos:abc" == bearer(token)


@pytest.mark.parametrize(
    ("told", "token", "end"),
    [
        (1_800_000_000_000, "x", NOW),
        (1_800_000_000, "x", NOW),
        ("2027-01-15T08:00:00Z", "x", NOW),
        ("2027-01-15T08:00:00", "x", NOW),
        (None, jwt(1_800_000_000), NOW),
        (None, "workos:" + jwt(1_800_000_000), NOW),
        ("soon", jwt(1_800_000_000), NOW),
        (0, "x", 0.0),
        (True, "x", 0.0),
        (None, "a.b.c", 0.0),
        (None, jwt(None), 0.0),
    ],
)
def test_expiry(told, token, end):
    """The end of a token is told, else in the token; unknown counts as over."""
    assert end == expiry_of(told, token)


def test_default_file():
    """Our own login writes into our own config folder."""
    assert Path("/s/dragoman/cline/me.json") == default_file("me", {"XDG_CONFIG_HOME": "/s"})
    assert Path("~/.config/dragoman/cline/me.json").expanduser() == default_file("me", {})


async def test_a_good_token_is_used_as_it_is(tmp_path):
    """With five minutes left nothing is renewed."""
    service = Service()
    kept, _ = account(tmp_path, service, 301)
    assert "old" == (await kept.token()).reveal() == (await kept.token()).reveal()
    assert [] == service.asked


async def test_one_refresh_for_all_who_wait(tmp_path):
    """Twenty requests with four minutes left cause one refresh, and all get its token; the file has both new tokens."""
    service = Service(Grant("new", "refresh-2", NOW + 3600))
    service.open.clear()
    kept, path = account(tmp_path, service, 240)
    waiting = [asyncio.create_task(kept.token()) for _ in range(20)]
    while not service.asked:
        await asyncio.sleep(0)
    waiting.pop().cancel()
    service.open.set()
    assert {"new"} == {token.reveal() for token in await asyncio.gather(*waiting)}
    assert ["refresh-1"] == service.asked
    assert {
        "version": 1,
        "accessToken": "workos:new",
        "refreshToken": "refresh-2",
        "expiresAt": (NOW + 3600) * 1000,
    } == (stored(path))
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [] == list(tmp_path.glob("*.tmp"))


async def test_the_old_refresh_token_stays_when_no_new_one_comes(tmp_path):
    """A service that does not rotate leaves the refresh token valid."""
    service = Service(Grant(jwt(NOW + 3600)))
    kept, path = account(tmp_path, service, 0)
    await kept.token()
    assert ("refresh-1", (NOW + 3600) * 1000) == (stored(path)["refreshToken"], stored(path)["expiresAt"])


@pytest.mark.parametrize(("left_s", "served"), [(60, True), (30, False)])
async def test_an_unreachable_service_costs_nothing_while_the_token_lasts(tmp_path, left_s, served):
    """With a minute left the old token serves on; with less the request fails, and the file is left as it is."""
    kept, path = account(tmp_path, Service(Unavailable()), left_s)
    before = path.read_bytes()
    if served:
        assert "old" == (await kept.token()).reveal()
    else:
        with pytest.raises(Unavailable):
            await kept.token()
    assert before == path.read_bytes()


async def test_a_refused_refresh_token_needs_a_login(tmp_path):
    """Nothing is wiped, but the account cannot serve."""
    kept, path = account(tmp_path, Service(Expired("gone")), 100)
    with pytest.raises(Expired):
        await kept.token()
    assert "refresh-1" == stored(path)["refreshToken"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"accessToken":5}', '{"providers":{}}', "\x00"])
async def test_a_file_without_an_account(tmp_path, content):
    """What holds no token is an account that needs a login; so is a missing file."""
    path = tmp_path / "cline.json"
    path.write_text(content)
    with pytest.raises(Expired):
        await Account(path, Service(), lambda: NOW).token()
    path.unlink()
    with pytest.raises(Expired):
        await Account(path, Service(), lambda: NOW).token()


async def test_a_login_without_refresh_token_ends(tmp_path):
    """Without a refresh token an expired account asks for a login."""
    path = tmp_path / "cline.json"
    save(path, Grant("old", None, NOW))
    with pytest.raises(Expired):
        await Account(path, Service(), lambda: NOW).token()


async def test_a_refused_token_is_renewed_once_for_all(tmp_path):
    """A 401 renews a token that has time left, and a second 401 of the same moment finds the new one."""
    service = Service(Grant("new", None, NOW + 3600))
    kept, _ = account(tmp_path, service, 3600)
    assert "old" == (await kept.token()).reveal()
    await kept.renew(1)
    assert kept.spent(None)
    assert kept.spent(2)
    assert not kept.spent(1)
    await kept.renew(1)
    assert "new" == (await kept.token()).reveal()
    assert 1 == len(service.asked)


async def test_another_process_may_have_renewed(tmp_path):
    """The file is read again under the lock: a token that somebody else put there is used, no refresh spent."""
    service = Service()
    kept, path = account(tmp_path, service, 600)
    await kept.token()
    save(path, Grant("theirs", "refresh-9", NOW + 3600))
    await kept.renew(None)
    assert ("theirs", []) == ((await kept.token()).reveal(), service.asked)


async def test_a_file_that_cannot_be_written_loses_no_token(tmp_path, monkeypatch):
    """Rotated tokens live on in memory when the disk is full, and are written with the next renewal."""
    now = NOW
    service = Service(Grant("second", "refresh-2", NOW + 400), Grant("third", "refresh-3", NOW + 9000))
    path = tmp_path / "cline.json"
    save(path, Grant("old", "refresh-1", NOW))
    kept = Account(path, service, lambda: now)

    def full(*_: object) -> None:
        raise OSError(28, "no space")

    with monkeypatch.context() as broken:
        broken.setattr("providers.cline_account.rewrite", full)
        assert "second" == (await kept.token()).reveal()
    assert "refresh-1" == stored(path)["refreshToken"]
    now = NOW + 300
    assert "third" == (await kept.token()).reveal()
    assert ["refresh-1", "refresh-2"] == service.asked
    assert "refresh-3" == stored(path)["refreshToken"]


async def test_no_lock_no_refresh(tmp_path):
    """Where the lock file cannot be made a refresh token is not risked."""
    service = Service()
    kept, path = account(tmp_path, service, 0)
    path.with_name(path.name + ".lock").mkdir()
    with pytest.raises(Unavailable):
        await kept.token()
    assert [] == service.asked


async def test_the_official_file_keeps_everything_else(tmp_path):
    """In the official client's file only the tokens change, in its own units and with its own prefix."""
    auth = {"accessToken": "workos:old", "refreshToken": "r1", "expiresAt": NOW * 1000, "accountId": "a"}
    entry = {"settings": {"provider": "cline", "model": "m", "auth": auth}, "updatedAt": "x", "tokenSource": "oauth"}
    document = {"version": 1, "lastUsedProvider": "cline", "providers": {"other": {"k": 1}, "cline": entry}}
    path = tmp_path / "providers.json"
    path.write_text(json.dumps(document))
    kept = Account(path, Service(Grant("workos:new", "r2", NOW + 3600)), lambda: NOW)
    assert "new" == (await kept.token()).reveal()
    auth |= {"accessToken": "workos:new", "refreshToken": "r2", "expiresAt": (NOW + 3600) * 1000}
    assert document == stored(path)


async def test_a_new_login_is_noticed(tmp_path):
    """An account that was over is told to be mended once its file is another, and then serves from that."""
    kept, path = account(tmp_path, Service(Expired("gone")), 100)
    assert not kept.mended()
    with pytest.raises(Expired):
        await kept.token()
    assert not kept.mended()
    save(path, Grant("fresh-login", "refresh-7", NOW + 3600))
    assert [True, False] == [kept.mended(), kept.mended()]
    assert "fresh-login" == (await kept.token()).reveal()
    kept.refused()
    path.unlink()
    assert kept.mended()


async def test_what_others_write_during_a_renewal_stays(tmp_path):
    """The file is read again just before it is replaced: another entry stays, and so does a new login in our place."""
    service = Service(Grant("new", "refresh-2", NOW + 3600), Grant("newer", "refresh-3", NOW + 3600))
    service.open.clear()
    kept, path = account(tmp_path, service, 0)
    waiting = asyncio.create_task(kept.token())
    while not service.asked:
        await asyncio.sleep(0.01)
    path.write_text(json.dumps(stored(path) | {"theirs": 1}))
    service.open.set()
    await waiting
    assert ("workos:new", 1) == (stored(path)["accessToken"], stored(path)["theirs"])
    service.open.clear()
    waiting = asyncio.create_task(kept.renew(None))
    while len(service.asked) < 2:
        await asyncio.sleep(0.01)
    save(path, Grant("login", "refresh-9", NOW + 3600))
    service.open.set()
    await waiting
    assert "workos:login" == stored(path)["accessToken"]


@pytest.mark.parametrize("left_s", [60, 20])
async def test_a_stuck_lock_is_not_waited_for_for_ever(tmp_path, monkeypatch, left_s):
    """Behind a lock that nobody lets go a token that serves is used at once from then on; without one it is a failure."""
    monkeypatch.setattr(cline_account, "PATIENCE_S", 0.05)
    monkeypatch.setattr(cline_account, "held", lambda path: filelock.held(path, wait_s=0.2))
    service = Service()
    kept, path = account(tmp_path, service, left_s)
    with path.with_name("cline.json.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        if left_s < 30:
            with pytest.raises(Unavailable):
                await kept.token()
            return
        assert "old" == (await kept.token()).reveal()
        monkeypatch.setattr(cline_account, "PATIENCE_S", 600)
        async with asyncio.timeout(0.1):
            assert "old" == (await kept.token()).reveal()


async def test_all_tokens_are_known_for_masking(tmp_path):
    """Those in use and those before them."""
    kept, _ = account(tmp_path, Service(Grant("new", "refresh-2", NOW + 3600)), 0)
    await kept.token()
    assert ["old", "refresh-1", "new", "refresh-2"] == [secret.reveal() for secret in kept.secrets]
