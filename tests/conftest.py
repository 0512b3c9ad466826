"""What holds for every test. Fixtures of one folder's tests belong into that folder's conftest.py."""

import os
import tempfile

from hypothesis import settings

# No deadlines: two workers share two cores with servers and clients. The same examples in every run: a failure in CI
# can then be seen at home.
settings.register_profile("dragoman", deadline=None, derandomize=True)
settings.load_profile("dragoman")

# A gateway that a test starts keeps its cooldowns there and not with whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="dragoman-state-")
