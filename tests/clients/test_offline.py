"""Client programs reach nothing but the stage that they were put on, and leave nothing behind."""

import asyncio
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.clients.offline import Offline


@pytest.fixture
def network():
    with Offline() as network:
        if not network.path:
            pytest.skip("a network namespace takes root and util-linux")
        yield network


def test_network_has_only_a_loopback(network):
    """A command in the network sees no other interface."""
    seen = subprocess.run(network.sealed(["cat", "/proc/net/dev"]), capture_output=True, text=True, check=True).stdout
    assert ["lo"] == [line.partition(":")[0].strip() for line in seen.splitlines()[2:]]


async def test_listener_is_inside(network):
    """A listening socket of the network answers those inside and nobody else."""
    with network.listener() as listener:
        port = str(listener.getsockname()[1])
        probe = ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"]
        inside = await asyncio.create_subprocess_exec(*network.sealed(probe))
        outside = await asyncio.create_subprocess_exec(*probe, stderr=subprocess.DEVNULL)
        assert 0 == await inside.wait()
        assert 0 != await outside.wait()


def test_descendants_end_with_the_command(network):
    """A process that a client leaves running, in a session of its own, does not outlive it."""
    mark = uuid.uuid4().hex
    left = ["bash", "-c", f"setsid bash -c 'sleep 1000; : {mark}' >/dev/null 2>&1 & sleep 0.2; echo started"]
    assert "started\n" == subprocess.run(network.sealed(left), capture_output=True, text=True, check=True).stdout
    assert [] == [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in contents(path)]


def contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
