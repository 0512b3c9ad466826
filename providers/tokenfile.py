"""Credential files written so that neither a crash nor another writer loses anything (spec/grok.md 6.2). Blocks."""

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["MAX_FILE_BYTES", "Stamp", "replace", "rewrite", "stamp"]

MAX_FILE_BYTES = 1024 * 1024
TRIES = 5
PAUSE_S = 0.05
"""Wait for a writer that is in the middle of the file."""

Stamp = tuple[int, int, int]
"""What tells one content of a file from another: time of writing in ns, size, inode; zeros where there is no file."""


def stamp(path: Path) -> Stamp:
    """Return the stamp of a file's content."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def replace(path: Path, content: bytes, *, only: Stamp | None = None) -> bool:
    """Write a file of mode 0600 so that a crash leaves the old content or the new; blocks for an fsync.

    False, and nothing written, when the file does not have the stamp `only` any more. Raises OSError.
    """
    target = Path(os.path.realpath(path))  # a link, as dotfile keepers make them, stays a link
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if only is not None and stamp(target) != only:
            return False
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def rewrite(path: Path, change: Callable[[bytes], bytes | None], torn: type[Exception]) -> bool:
    """Replace a file by what `change` makes of its latest content; False where that is None, to leave it.

    Not everybody who writes there takes the lock, so what was read is still there when it is replaced. `torn` is what
    `change` raises over half a file; it is read again, then raised. Raises OSError too.
    """
    for left in reversed(range(TRIES)):
        before = stamp(path)
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES)
        try:
            changed = change(content)
        except torn:
            if not left:
                raise
            time.sleep(PAUSE_S)
            continue
        if changed is None:
            return False
        # Somebody who never stops writing must not cost us the only copy of a new token.
        if replace(path, changed, only=before if left else None):
            return True
    raise AssertionError
