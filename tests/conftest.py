"""What holds for every test. Fixtures of one folder's tests belong into that folder's conftest.py."""

import os
import tempfile

import pytest
from hypothesis import settings

from tests.canary import Watcher

# No deadlines: two workers share two cores with servers and clients. The same examples in every run: a failure in CI
# can then be seen at home.
settings.register_profile("dragoman", deadline=None, derandomize=True)
settings.load_profile("dragoman")

# A gateway that a test starts keeps its cooldowns there and not with whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="dragoman-state-")


def pytest_configure(config: pytest.Config) -> None:
    """Let the canary watch over every test: no secret and no content leaves by a side door (S01, S32)."""
    config.pluginmanager.register(Watcher(), "dragoman-canary")
