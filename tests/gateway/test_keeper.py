"""Cooldowns and the pepper outlive a restart, one process writes, and nothing of it can stop the gateway."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from gateway.config import State
from gateway.keeper import PEPPER_BYTES, Keeper, default_folder
from gateway.keypool import Pool
from gateway.stores.state import encode, load, save
from tests.gateway.cline import GLM, answer, ask, served, stage
from tests.streams import Say
from tests.upstream import Upstream, reply_json


class Log:
    def __init__(self) -> None:
        self.told: list[tuple[str, dict]] = []

    def warning(self, event: str, **fields: object) -> None:
        self.told.append((event, fields))


def keeper(folder: Path, log: Log | None = None) -> Keeper:
    return Keeper(State(f"file:{folder}"), log or Log())


def limited(now: float = 100.0) -> dict[str, Pool]:
    pool = Pool(["k1", "k2"])
    lease = pool.acquire(now, "m", ())
    pool.report(lease, "limited", now, wait_s=600)
    return {"cline": pool}


async def written(path: Path) -> None:
    async with asyncio.timeout(5):
        while not path.exists():
            await asyncio.sleep(0.01)


def test_default_folder():
    """The state lies where the system keeps state, in the user's own place."""
    assert Path("/s/dragoman") == default_folder({"XDG_STATE_HOME": "/s"})
    assert Path("~/.local/state/dragoman").expanduser() == default_folder({})


def test_memory_keeps_nothing(tmp_path, monkeypatch):
    """Without a file there is a fresh pepper for each process, and no folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    peppers = {Keeper(State("memory:"), Log()).pepper for _ in range(2)}
    assert 2 == len(peppers)
    assert [] == list(tmp_path.iterdir())


async def test_pepper_stays(tmp_path):
    """The secret of all fingerprints is made once, for its owner's eyes, and read again."""
    one = keeper(tmp_path / "state")
    await one.close()
    two = keeper(tmp_path / "state")
    assert one.pepper == two.pepper
    assert PEPPER_BYTES == len(one.pepper)
    assert 0o600 == stat.S_IMODE((tmp_path / "state" / "pepper").stat().st_mode)
    assert 0o700 == stat.S_IMODE((tmp_path / "state").stat().st_mode)
    await two.close()


@pytest.mark.promise("S39b")
async def test_changes_are_written_and_restored(tmp_path):
    """A new cooldown is on disk soon after, without any key in the file, and a later process begins with it."""
    kept, pools = keeper(tmp_path), limited()
    kept.start(lambda: pools)
    await written(tmp_path / "cooldowns.json")
    await kept.close()
    assert [("k1", None)] == [(rest.key, rest.model) for rest in load(tmp_path / "cooldowns.json").pools["cline"].rests]
    later = {"cline": Pool(["k1", "k2"]), "other": Pool(["x"])}
    after = keeper(tmp_path)
    after.restore(later)
    assert ["cooling", "healthy"] == [key.phase for key in later["cline"].snapshot(0, 0).keys]
    await after.close()


async def test_the_last_change_is_flushed_at_the_end(tmp_path):
    """What happened just before the shutdown is not lost to the debounce; without a change nothing is written."""
    kept, pools = keeper(tmp_path), {"cline": Pool(["k1"])}
    kept.start(lambda: pools)
    await written(tmp_path / "cooldowns.json")
    pools |= limited()
    await kept.close()
    assert 2 == kept.writes
    assert 1 == len(load(tmp_path / "cooldowns.json").pools["cline"].rests)
    await kept.close()
    assert 2 == kept.writes


async def test_two_processes_do_not_fight(tmp_path):
    """The second one reads, says that it does not write, and takes nothing away."""
    log = Log()
    first = keeper(tmp_path)
    second = keeper(tmp_path, log)
    assert ["state_shared"] == [event for event, _ in log.told]
    assert (first.pepper, False) == (second.pepper, second.healthy)
    second.start(limited)
    await second.close()
    assert not (tmp_path / "cooldowns.json").exists()
    await first.close()


@pytest.mark.parametrize("content", [b"{", b'{"version": 9}', b'{"version": 1, "saved": 0, "pools": {}}'])
async def test_a_bad_file_is_set_aside_with_a_warning(tmp_path, content):
    """An unusable file costs its cooldowns and nothing else, and is kept for whoever wants to look."""
    (tmp_path / "cooldowns.json").write_bytes(content)
    log, pools = Log(), limited()
    kept = keeper(tmp_path, log)
    ((event, fields),) = log.told
    assert "state_unusable" == event
    assert content == Path(fields["set_aside"]).read_bytes()
    kept.start(lambda: pools)
    await written(tmp_path / "cooldowns.json")
    await kept.close()


@pytest.mark.parametrize("content", ["", "zz", "00"])
async def test_a_damaged_pepper_is_a_warning(tmp_path, content):
    """A pepper that cannot be read is not replaced: it is told, and this process has one of its own."""
    (tmp_path / "pepper").write_text(content)
    log = Log()
    kept = keeper(tmp_path, log)
    assert ["state_not_kept"] == [event for event, _ in log.told]
    assert PEPPER_BYTES == len(kept.pepper)
    assert content == (tmp_path / "pepper").read_text()
    await kept.close()


async def test_a_folder_that_cannot_be_had_is_a_warning(tmp_path):
    """Where no folder can be made the gateway serves from memory."""
    (tmp_path / "file").write_text("")
    log = Log()
    kept = keeper(tmp_path / "file" / "state", log)
    kept.restore(limited())
    kept.start(limited)
    await kept.close()
    assert (["state_not_kept"], False) == ([event for event, _ in log.told], kept.healthy)


async def test_a_failing_disk_is_told_once_and_tried_again(tmp_path, monkeypatch):
    """A write that fails is repeated; the log has one line of it, and health comes back."""
    monkeypatch.setattr("gateway.keeper.RETRY_S", 0.01)
    monkeypatch.setattr("gateway.keeper.LOOK_S", 0.01)
    log, pools, tries = Log(), limited(), 0
    real = __import__("gateway.keeper", fromlist=["save"]).save

    def failing(path: Path, content: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr("gateway.keeper.save", failing)
    kept = keeper(tmp_path, log)
    kept.start(lambda: pools)
    await written(tmp_path / "cooldowns.json")
    async with asyncio.timeout(5):
        while not kept.healthy:
            await asyncio.sleep(0.01)
    await kept.close()
    assert [("state_not_kept", "No space left on device")] == [(event, fields["why"]) for event, fields in log.told]


HOURS = [8.62, 9.5, 10.0, 11.0, 11.88]


async def test_a_restart_remembers_the_limits(tmp_path):
    """Five keys cool for hours, the sixth serves; after a restart the first attempt goes to it (spec/cline.md 12.15)."""
    names = [f"k{n}" for n in range(1, 7)]

    def play(request):
        number = int(request.header("authorization").removesuffix("-canary")[-1])
        if number == 6:
            return answer(Say("ok"))
        wait = str(round(HOURS[number - 1] * 3600))
        return reply_json({"error": {"message": "limit"}}, 429, headers=[("retry-after", wait)])

    async with Upstream(play) as upstream:
        for _ in range(2):
            async with stage(upstream.url, keys=names, state=f"file:{tmp_path}") as made:
                assert 200 == (await made.ask("messages", ask("messages")))[0]
        used = [request.header("authorization")[-8] for request in upstream.requests]
    assert ["1", "2", "3", "4", "5", "6", "6"] == used
    text = (tmp_path / "cooldowns.json").read_text()
    assert "canary" not in text
    assert 5 == len(json.loads(text)["pools"]["cline"]["rests"])


async def test_sessions_keep_their_task_id_over_a_restart(tmp_path):
    """With the pepper kept, a session's X-Task-ID is the same in the next process, so its cache stays warm."""
    async with Upstream(lambda _: answer(Say("ok"))) as upstream:
        for _ in range(2):
            async with stage(upstream.url, state=f"file:{tmp_path}") as made:
                await made.ask("chat", ask("chat", session="s"))
        first, second = (request.header("x-task-id") for request in upstream.requests)
    assert first == second
    assert 16 == len(first)


async def test_many_at_once_stay_together():
    """24 requests at once use one key; 16 limited at once move to the next key only (spec/cline.md 12.14)."""

    def play(request):
        if "k1" in request.header("authorization") and limits:
            return reply_json({"error": {"message": "limit"}}, 429, headers=[("retry-after", "60")])
        return answer(Say("ok"))

    limits = False
    async with served(play, keys=("k1", "k2", "k3")) as (upstream, made):
        statuses = await asyncio.gather(*(made.ask("chat", ask("chat")) for _ in range(24)))
        assert {200} == {status for status, _ in statuses}
        assert {"Bearer k1-canary"} == {request.header("authorization") for request in upstream.requests}
        limits = True
        statuses = await asyncio.gather(*(made.ask("chat", ask("chat")) for _ in range(16)))
        assert {200} == {status for status, _ in statuses}
        assert {"Bearer k1-canary", "Bearer k2-canary"} == {r.header("authorization") for r in upstream.requests}
    assert GLM == upstream.requests[0].json["model"]


async def test_two_first_starts_agree_on_one_pepper(tmp_path, monkeypatch):
    """Of two processes that both find no pepper the later one takes the other's."""
    first = keeper(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda _: False)
    second = keeper(tmp_path)
    assert first.pepper == second.pepper
    assert [] == list(tmp_path.glob("*.tmp"))
    await second.close()
    await first.close()
    monkeypatch.undo()


def test_pools_that_are_gone_are_left_out(tmp_path):
    """A provider that is no longer configured has nothing restored."""
    save(tmp_path / "cooldowns.json", encode({"gone": limited()["cline"].export(100.0, 100.0)}, 100.0))
    kept, pools = keeper(tmp_path), {"cline": Pool(["k1", "k2"])}
    kept.restore(pools)
    assert {"healthy"} == {key.phase for key in pools["cline"].snapshot(0, 0).keys}
