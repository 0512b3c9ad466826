"""What holds for every test. Fixtures of one folder's tests belong into that folder's conftest.py."""

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.canary import Watcher

# No deadlines: two workers share two cores with servers and clients. The same examples in every run: a failure in CI
# can then be seen at home.
settings.register_profile("dragoman", deadline=None, derandomize=True)
settings.register_profile("fast", settings.get_profile("dragoman"), max_examples=20)
settings.load_profile("dragoman")

SLOW_FILE = re.compile(r"^pytestmark = \[?pytest\.mark\.slow", re.MULTILINE)

# A gateway that a test starts keeps its cooldowns there and not with whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="dragoman-state-")


def pytest_configure(config: pytest.Config) -> None:
    """Let the canary watch over every test: no secret and no content leaves by a side door (S01, S32)."""
    if fast(config):
        settings.load_profile("fast")
    config.pluginmanager.register(Watcher(), "dragoman-canary")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files that are slow as a whole unread in a fast run: what they import takes seconds too."""
    if collection_path.suffix == ".py" and fast(config) and SLOW_FILE.search(collection_path.read_text()):
        return True
    return None


def fast(config: pytest.Config) -> bool:
    """Tell whether a run leaves slow tests out, as `make test-fast` does."""
    return "not slow" in config.getoption("markexpr", "")
