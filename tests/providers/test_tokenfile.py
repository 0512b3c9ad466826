"""Credential files survive crashes, full disks and other writers."""

import stat

import pytest

from providers import tokenfile
from providers.tokenfile import replace, rewrite, stamp


class Torn(Exception):
    pass


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tokenfile, "PAUSE_S", 0)


def test_replacing(tmp_path):
    """A file is replaced whole, for its owner alone, through a link, and leaves no litter."""
    path, link = tmp_path / "auth.json", tmp_path / "link.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    link.symlink_to(path)
    replace(link, b"new")
    assert (b"new", 0o600, True) == (path.read_bytes(), path.stat().st_mode & 0o777, link.is_symlink())
    assert {"auth.json", "link.json"} == {found.name for found in tmp_path.iterdir()}
    with pytest.raises(OSError, match="No such file"):
        replace(tmp_path / "none" / "x", b"")


def test_only_what_was_read_is_replaced(tmp_path):
    """A file that changed since is left, and nothing else stays behind."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    before = stamp(path)
    path.write_bytes(b"theirs")
    assert not replace(path, b"new", only=before)
    assert (b"theirs", [path]) == (path.read_bytes(), list(tmp_path.iterdir()))
    assert replace(path, b"new", only=stamp(path))
    assert (b"new", 0o600) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    assert (0, 0, 0) == stamp(tmp_path / "none")


def test_change_is_made_to_the_latest_content(tmp_path):
    """What somebody writes between the reading and the rename is read again, not overwritten."""
    path = tmp_path / "a"
    path.write_bytes(b"1")
    seen = []

    def change(content):
        seen.append(content)
        if len(seen) == 1:
            path.write_bytes(b"2 by another")
        return content + b"!"

    assert rewrite(path, change, Torn)
    assert ([b"1", b"2 by another"], b"2 by another!") == (seen, path.read_bytes())


def test_endless_writer_does_not_cost_the_token(tmp_path):
    """After some tries the change is written all the same."""
    path = tmp_path / "a"
    path.write_bytes(b"")

    def change(content):
        path.write_bytes(content + b"x")
        return b"token"

    assert rewrite(path, change, Torn)
    assert b"token" == path.read_bytes()


def test_half_a_file_is_read_again(tmp_path):
    """A writer in the middle of the file is waited for, but not for ever."""
    path = tmp_path / "a"
    path.write_bytes(b"whole")
    halves = [Torn(), Torn()]

    def change(content):
        if halves:
            raise halves.pop()
        return content + b"!"

    assert rewrite(path, change, Torn)
    assert b"whole!" == path.read_bytes()
    halves += [Torn()] * 9
    with pytest.raises(Torn):
        rewrite(path, change, Torn)
    assert b"whole!" == path.read_bytes()


def test_nothing_to_change_writes_nothing(tmp_path):
    """None leaves the file; a missing file is an OSError."""
    path = tmp_path / "a"
    path.write_bytes(b"x")
    before = stamp(path)
    assert not rewrite(path, lambda _: None, Torn)
    assert before == stamp(path)
    with pytest.raises(FileNotFoundError):
        rewrite(tmp_path / "none", lambda _: b"", Torn)
