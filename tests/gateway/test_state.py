"""The state file survives crashes, bad content and a second process."""

import json
import math
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.keypool import PoolState, Rest
from gateway.stores import state
from gateway.stores.state import Debounce, Loaded, Lock, encode, file_of, load, save

POOLS = {"cline": PoolState("b", (Rest("a", 1800.5), Rest("a", 1900.0, "m")))}


@pytest.fixture
def path(tmp_path):
    """A state file in a directory that does not exist yet."""
    return tmp_path / "made" / "state" / "cooldowns.json"


def written(path, content):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


@pytest.mark.promise("S39b")
def test_what_was_saved_is_loaded(path):
    """Cooldowns come back as they were."""
    save(path, encode(POOLS, 1700.0))
    assert Loaded(POOLS) == load(path)


def test_file_is_small_readable_json(path):
    """The file is plain JSON with names and times, and absent values are absent."""
    save(path, encode({"p": PoolState(rests=(Rest("a", 5.0),))}, 1700.0))
    expected = {"version": 1, "saved": 1700.0, "pools": {"p": {"rests": [{"key": "a", "until": 5.0}]}}}
    assert expected == json.loads(path.read_bytes())


@pytest.mark.promise("S39b")
def test_file_is_its_owners_alone(path):
    """The file has mode 0600 in a directory of mode 0700, also after a crash left a temporary file."""
    save(path, b"1")
    path.with_name("cooldowns.json.tmp").write_bytes(b"left by a crash")
    save(path, b"2")
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)
    assert ["cooldowns.json"] == [entry.name for entry in path.parent.iterdir()]


def test_directory_that_exists_keeps_its_mode(path):
    """An operator's own directory is not changed."""
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o750)
    save(path, b"1")
    assert 0o750 == stat.S_IMODE(path.parent.stat().st_mode)


@pytest.mark.promise("S39b")
def test_content_and_rename_reach_the_disk_in_order(path, monkeypatch):
    """The file is synced before it is renamed, and the directory after."""
    steps = []
    monkeypatch.setattr(os, "fsync", lambda handle: steps.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (steps.append("rename"), replace(self, to)))
    save(path, b"1")
    assert [False, "rename", True] == steps


@pytest.mark.promise("S39b")
def test_failed_write_leaves_the_old_file(path, monkeypatch):
    """When the disk is full the error is raised and the old content is still there."""
    save(path, b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(path, b"new")
    assert b"old" == path.read_bytes()


def test_missing_file_is_an_empty_state(path):
    """The first start has nothing to say."""
    assert Loaded() == load(path)


@pytest.mark.promise("S39b")
@pytest.mark.parametrize(
    ("content", "mark"),
    [
        (b"", "corrupt"),
        (b"{", "corrupt"),
        (encode(POOLS, 1700.0)[:-20], "corrupt"),
        (b"\xff\xfe", "corrupt"),
        (b"[" * 100_000, "corrupt"),
        (b"[]", "corrupt"),
        (b'{"saved":1,"pools":{}}', "corrupt"),
        (b'{"version":0,"saved":1,"pools":{}}', "corrupt"),
        (b'{"version":1,"saved":0,"pools":{}}', "corrupt"),
        (b'{"version":1,"saved":1,"pools":{"p":{"rests":[{"key":7,"until":1}]}}}', "corrupt"),
        (b'{"version":2,"keys":"in a new shape"}', "v2"),
    ],
)
def test_bad_file_is_set_aside(path, content, mark):
    """A corrupt file or one of a newer version is kept beside, with a reason that quotes nothing from it."""
    loaded = load(written(path, content))
    aside = path.with_name(f"cooldowns.json.{mark}")
    assert ({}, aside) == (loaded.pools, loaded.aside)
    assert content == aside.read_bytes()
    assert not path.exists()
    assert "new shape" not in loaded.reason
    assert Loaded() == load(path)


@pytest.mark.promise("S24")
def test_huge_file_is_set_aside_unread(path, monkeypatch):
    """A file that cannot be ours is not read into memory."""
    monkeypatch.setattr(state, "MAX_STATE_BYTES", 10)
    assert "larger than 10 bytes" == load(written(path, b" " * 11)).reason


def test_file_that_cannot_be_read_is_reported(path):
    """An unreadable file is a reason, not a failed start."""
    path.mkdir(parents=True)
    assert Loaded(reason="cannot be read: Is a directory") == load(path)


def test_file_that_cannot_be_set_aside_is_reported(path, monkeypatch):
    """A read-only directory does not stop the start either."""

    def refuse(self, to):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    reason = "not a readable state file; cannot be set aside: Permission denied"
    assert Loaded(reason=reason) == load(written(path, b"{"))


def test_unknown_fields_are_tolerated(path):
    """A file with additions of the same version still counts."""
    content = b'{"version":1,"saved":1,"more":1,"pools":{"p":{"new":1,"active":"a"}}}'
    assert Loaded({"p": PoolState("a")}) == load(written(path, content))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("memory:", None),
        ("valkey://localhost:6379/0", None),
        ("file:", Path("/default/cooldowns.json")),
        ("file:/var/lib/dragoman", Path("/var/lib/dragoman/cooldowns.json")),
        ("file:~/state", Path.home() / "state/cooldowns.json"),
    ],
)
def test_state_url_says_where(url, expected):
    """Only file: has a file; without a directory it is in the default one."""
    assert expected == file_of(url, Path("/default"))


@pytest.mark.promise("S39b")
def test_second_holder_gets_no_lock(path):
    """While one has the file another is refused, and can have it afterwards."""
    with Lock.take(path) as lock:
        assert Lock.take(path) is None
    lock.close()
    second = Lock.take(path)
    assert second is not None
    second.close()


@pytest.mark.promise("S39b")
def test_lock_keeps_another_process_out_and_dies_with_its_own(path):
    """A killed process leaves no lock behind."""
    script = (
        "import sys, time, pathlib; from gateway.stores.state import Lock; "
        "lock = Lock.take(pathlib.Path(sys.argv[1])); print(lock is not None, flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, env=ENVIRONMENT)
    with other:
        assert b"True\n" == other.stdout.readline()
        assert Lock.take(path) is None
        other.kill()
    with Lock.take(path) as lock:
        assert lock is not None


def test_debounce_joins_changes_for_a_fixed_time():
    """The first change sets the time; later ones neither move it nor are lost."""
    debounce = Debounce(0.15)
    debounce.note(1, 10.0)
    debounce.note(2, 10.1)
    assert 10.15 == debounce.deadline()
    assert not debounce.take(10.14)
    assert debounce.take(10.15)
    assert not debounce.take(99.0)
    assert debounce.deadline() is None


def test_debounce_ignores_a_known_revision():
    """Requests that change no cooldown cause no write."""
    debounce = Debounce(0.15)
    debounce.note(1, 10.0)
    assert debounce.take(11.0)
    debounce.note(1, 12.0)
    assert debounce.deadline() is None


def test_debounce_flushes_and_repeats_after_a_failure():
    """The last flush does not wait, and a failed write is asked for again."""
    debounce = Debounce()
    debounce.note(1, 10.0)
    assert debounce.take(math.inf)
    debounce.failed(20.0, retry_s=5.0)
    assert 25.0 == debounce.deadline()
    assert debounce.take(25.0)


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
WRITER = """
import itertools, pathlib, sys
from gateway.keypool import PoolState, Rest
from gateway.stores.state import encode, save
rests = tuple(Rest(f"key-{index}", 1e9) for index in range(500))
for count in itertools.count(1):
    save(pathlib.Path(sys.argv[1]), encode({"p": PoolState(str(count), rests)}, 1.0))
    sys.stdout.write(f"{count}\\n")
    sys.stdout.flush()
"""


@pytest.mark.slow
@pytest.mark.promise("S39b")
def test_finished_write_is_never_lost(path):
    """A process killed at random times during writes leaves a whole file, no older than its last finished write."""
    chance = random.Random(7)
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, env=ENVIRONMENT) as writer:
            first = writer.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
            finished = (first + writer.stdout.read()).decode().rpartition("\n")[0].splitlines()[-1]
        loaded = load(path)
        assert loaded.reason is None
        assert int(finished) <= int(loaded.pools["p"].active) <= int(finished) + 1
        assert 500 == len(loaded.pools["p"].rests)
