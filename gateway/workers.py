"""`serve --workers N`: processes that share one port, each a whole gateway of its own.

The kernel spreads connections over them (SO_REUSEPORT). The parent serves nothing and restarts none: it passes
signals on, says once that all listen, and ends when they have. Limits, cooldowns, affinity and the status page
count in each process by itself; log files get the worker's number.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from gateway.config import Config

__all__ = ["serve_many"]

Serve = Callable[[Config, socket.socket, int, Callable[[str, Config], None]], int]
"""Serve one configuration on a socket until a signal or the end of the pipe; the last argument is called when ready."""
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve_many(config: Config, held: socket.socket, serve: Serve) -> int:
    """Run the workers and return 0 when all ended well, else 1. `held` is bound, not listening: it keeps the port."""
    from gateway.lifecycle import announce

    server = msgspec.structs.replace(config.server, port=held.getsockname()[1])
    config = msgspec.structs.replace(config, server=server)
    lifeline, end = os.pipe()
    pids: list[int] = []
    url = ""
    for number in range(config.server.workers):
        # One after the other: the first of them owns the state folder, the others find what it made.
        pid, ready = _fork(config, number, serve, (lifeline, end))
        pids.append(pid)
        url = ready or url
        if not ready:
            os.close(end)
            _finish(pids)
            return 1
    os.close(lifeline)
    stopping = _forward_to(pids)
    announce(url, config)
    code = _wait(pids, stopping)
    os.close(end)
    held.close()
    return code


def _fork(config: Config, number: int, serve: Serve, lifeline: tuple[int, int]) -> tuple[int, str]:
    """Start one worker; returns its pid and the address it listens on, "" when it ended before."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        os.close(lifeline[1])
        os._exit(_work(config, number, serve, lifeline[0], tell))
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        return pid, pipe.readline().decode().strip()


def _work(config: Config, number: int, serve: Serve, lifeline: int, tell: int) -> int:
    from gateway.lifecycle import bind

    os.setpgid(0, 0)  # else Ctrl-C would come twice, from the terminal and from the parent; two of them abort
    if config.log.file:
        log = msgspec.structs.replace(config.log, file=f"{config.log.file}.{number}")
        config = msgspec.structs.replace(config, log=log)

    def ready(url: str, config: Config) -> None:
        os.write(tell, url.encode() + b"\n")
        os.close(tell)

    try:
        return serve(config, bind(config.server.host, config.server.port, shared=True), lifeline, ready)
    except OSError as error:
        sys.stderr.write(f"dragoman: worker {number}: {error.strerror}\n")
        return 1


def _forward_to(pids: list[int]) -> list[int]:
    """Pass signals on to the workers; returns a list that holds each one that asks for an end."""
    stopping: list[int] = []

    def forward(number: int, frame: object) -> None:
        if number != signal.SIGHUP:
            stopping.append(number)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    return stopping


def _wait(pids: list[int], stopping: list[int]) -> int:
    code = 0
    while pids:
        pid, status = os.wait()
        if pid not in pids:
            continue
        pids.remove(pid)
        code = code or int(status != 0)
        if pids and not stopping:
            ended = os.waitstatus_to_exitcode(status)
            sys.stderr.write(f"dragoman: a worker ended with {ended}; stopping the others\n")
            stopping.append(signal.SIGTERM)
            code = 1
            for other in pids:
                os.kill(other, signal.SIGTERM)
    return code


def _finish(pids: list[int]) -> None:
    """Wait for workers whose lifeline was cut."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
