"""A network that holds nothing but its own loopback, so that no client program can reach anything else.

Where the system does not allow one (it takes root), programs run in the ordinary network instead, with every kind of
telemetry and update that they know switched off. Processes started with `sealed()` also get process ids of their own:
whatever they leave running ends with them.
"""

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeVar

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP_RUNNING = 0x41
T = TypeVar("T")


class Offline:
    """A network namespace, kept alive by a process that waits for the end of its input."""

    def __init__(self) -> None:
        self.path = ""  # empty: the ordinary network
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if os.geteuid() == 0 and shutil.which("unshare") and shutil.which("nsenter"):
            holder = self._open.enter_context(
                subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            assert holder.stdin is not None
            assert holder.stdout is not None
            try:
                holder.stdin.write(b"\n")
                holder.stdin.flush()
                if holder.stdout.readline():  # it echoes, so it is in its namespace
                    self.path = f"/proc/{holder.pid}/ns/net"
                    self._inside(raise_loopback)
            except OSError:
                self.path = ""  # a container without the right
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def listener(self) -> socket.socket:
        """A listening socket on a free port of this network's loopback."""
        return self._inside(lambda: socket.create_server(("127.0.0.1", 0), backlog=64))

    def joined(self, argv: list[str]) -> list[str]:
        """The command in this network."""
        return ["nsenter", f"--net={self.path}", "--", *argv] if self.path else argv

    def sealed(self, argv: list[str]) -> list[str]:
        """The command in this network, with all its descendants ending with it."""
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *argv]
        return self.joined(alone) if self.path else argv

    def _inside(self, work: Callable[[], T]) -> T:
        """Run in a thread that has joined the network: a namespace belongs to a thread, a socket keeps its own."""
        if not self.path:
            return work()

        def joined() -> T:
            with Path(self.path).open("rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            return work()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(joined).result()


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP_RUNNING))
