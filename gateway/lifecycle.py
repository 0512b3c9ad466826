"""The life of a serving process: listen, say so, reload, drain, stop (S38, S39).

SIGTERM and SIGINT drain; a second one aborts. SIGHUP, or a change of the config file, builds a whole new
configuration and swaps it in; a broken file changes nothing and is logged with file and line.
"""

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from aiohttp import web

from gateway.app import Gateway, Server
from gateway.config import Config, is_loopback
from gateway.configfile import load
from gateway.keeper import Keeper
from gateway.keypool import Pool
from gateway.peers import TOTAL
from gateway.plugins import options_type, requirements
from gateway.problems import Problem
from gateway.telemetry import Telemetry, place_of, quiet_libraries

__all__ = ["Listening", "announce", "bind", "listen", "serve"]

IDLE_CONNECTION_S = 15.0
LINGER_S = 2.0
"""How long the rest of a refused body is read away, so that its client gets the answer and not a reset."""
POLL_S = 1.0
"""How often the config file is looked at for a change."""
BACKLOG = 512
FILES = 3 * TOTAL
"""Open files of a process: each connection, one to its upstream, and as many again for all else."""


class Listening:
    """A gateway behind a socket: what `serve`, the demo and tests start and stop."""

    def __init__(self, gateway: Gateway, runner: web.ServerRunner, url: str, keeper: Keeper) -> None:
        self.gateway = gateway
        self.url = url
        self.keeper = keeper
        self._runner = runner

    async def close(self, drain_s: float) -> None:
        """Stop listening, let running requests end within `drain_s` seconds, release everything."""
        for site in list(self._runner.sites):
            await site.stop()
        await self.gateway.drain(drain_s)
        await self._runner.cleanup()
        await self.keeper.close()
        await self.gateway.close()


async def listen(config: Config, telemetry: Telemetry, sock: socket.socket | None = None) -> Listening:
    """Serve a configuration on its address, or on a socket that is already bound."""
    gateway = Gateway(config, telemetry)
    keeper = gateway.keeper = keep(gateway, config, telemetry)
    server = Server(
        gateway.handle,
        handler_cancellation=True,  # a client that leaves must stop its upstream call (S25)
        access_log=None,
        keepalive_timeout=IDLE_CONNECTION_S,
        auto_decompress=False,  # gateway.body decompresses under its own limits
        lingering_time=LINGER_S,
    )
    server.malformed, server.crowded = gateway.malformed, gateway.crowded
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    if sock is None:
        sock = bind(config.server.host, config.server.port)
    site = web.SockSite(runner, sock, backlog=BACKLOG)
    await site.start()
    host, port = sock.getsockname()[:2]
    gateway.bound = (config.server.host, host)
    shown = f"[{host}]" if ":" in host else host
    return Listening(gateway, runner, f"http://{shown}:{port}", keeper)


def keep(gateway: Gateway, config: Config, telemetry: Telemetry) -> Keeper:
    """Give a new gateway what an earlier process left, and keep its state from now on."""
    keeper = Keeper(config.state, telemetry.log)
    gateway.runtime.pepper = keeper.pepper
    keeper.restore(gateway.runtime.pools())

    def pools() -> dict[str, Pool]:
        return gateway.runtime.pools()  # of whatever configuration runs by then

    keeper.start(pools)
    return keeper


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a listening TCP socket; `shared` lets several processes listen on the port. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def unsafe_bind(config: Config) -> Problem | None:
    """Return the problem of a gateway without client keys on an address that others reach (S06)."""
    if config.clients or is_loopback(config.server.host):
        return None
    return Problem(
        str(config.path or "config"),
        0,
        "server.host",
        f"{config.server.host} is no loopback address and there is no [[clients]] table: anyone could use your keys",
        "add a client (`dragoman keys new NAME` makes a key), or bind 127.0.0.1",
    )


async def serve(
    config: Config,
    sock: socket.socket,
    *,
    lifeline: int | None = None,
    ready: Callable[[str, Config], None] | None = None,
) -> int:
    """Run until a signal ends it, or the end of the file `lifeline`; returns the exit code.

    `ready` is called when it listens; without it that is announced on stderr.
    """
    loop = asyncio.get_running_loop()
    telemetry = Telemetry(config.log)
    quiet_libraries(telemetry, loop)
    listening = await listen(config, telemetry, sock)
    stop = asyncio.Event()
    hurry = asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    if lifeline is not None:
        _at_end(loop, lifeline, stop.set)
    reloads = Reloads(listening.gateway)
    loop.add_signal_handler(signal.SIGHUP, reloads.now)
    watcher = loop.create_task(reloads.watch())
    gc.collect()
    gc.freeze()
    (ready or announce)(listening.url, config)
    await stop.wait()
    watcher.cancel()
    closing = loop.create_task(listening.close(config.server.drain_s))
    impatient = loop.create_task(hurry.wait())
    await asyncio.wait({closing, impatient}, return_when=asyncio.FIRST_COMPLETED)
    impatient.cancel()
    closing.cancel()
    await asyncio.gather(closing, impatient, return_exceptions=True)
    telemetry.close()
    return 0


def _at_end(loop: asyncio.AbstractEventLoop, file: int, act: Callable[[], None]) -> None:
    """Call `act` once a pipe is closed at its other end."""

    def look() -> None:
        if not os.read(file, 4096):
            loop.remove_reader(file)
            act()

    loop.add_reader(file, look)


def announce(url: str, config: Config) -> None:
    """Say on stderr that we listen, in the one line that scripts wait for."""
    print(f"dragoman: listening on {url}", file=sys.stderr, flush=True)
    if not config.clients:
        print("dragoman: no [[clients]] configured, so only this machine is served", file=sys.stderr, flush=True)


class Reloads:
    """Reload the configuration of a running gateway, by signal or when its file changes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._path = gateway.runtime.config.path
        self._seen = self._stamp()

    def now(self, *, changed: bool = False) -> None:
        """Load the file and swap the configuration, or log why not and change nothing.

        A signal reloads the same file too, since key files may have changed; `changed` asks for new content.
        """
        self._seen = self._stamp()
        if self._path is None:
            return
        log = self._gateway.telemetry.log
        try:
            config = load(self._path, os.environ, options_type=options_type)
            if isinstance(config, Config):
                config = requirements(config) or config
            if isinstance(config, Config):
                config = self._kept(config)
            if isinstance(config, Config):
                self._gateway.reload_problems = ()
                if not changed or config.digest != self._gateway.runtime.config.digest:
                    self._gateway.reload(config)
                    log.info("reloaded", file=str(self._path))
                return
        except Exception as error:  # noqa: BLE001  whatever a half-written file provokes, the old configuration stays
            log.error("reload_failed", file=str(self._path), at=place_of(error))  # noqa: TRY400  texts may hold secrets
            what = f"cannot be loaded: {place_of(error)}"
            self._gateway.reload_problems = (Problem(str(self._path), 0, "", what, "run `dragoman check`"),)
            return
        self._gateway.reload_problems = tuple(config)
        for problem in config:
            log.error("reload_refused", where=problem.where, key=problem.key, what=problem.what, mend=problem.mend)

    async def watch(self) -> None:
        """Look for a changed file until cancelled; one that is still being written is left until it rests."""
        last = self._seen
        while True:
            await asyncio.sleep(POLL_S)
            stamp = self._stamp()
            if stamp not in (self._seen, None) and stamp == last:
                self.now(changed=True)
            last = stamp

    def _kept(self, config: Config) -> Config | list[Problem]:
        """Return a configuration with the address that we listen on, which only a restart changes (S06)."""
        before = self._gateway.runtime.config
        if before.models and not config.models:  # a file that was cut while it was written may be valid
            what, mend = "has no [models] any more", "write the whole file, or stop the gateway"
            return [Problem(str(self._path), 0, "models", what, mend)]
        running = before.server
        here = msgspec.structs.replace(config.server, host=running.host, port=running.port, workers=running.workers)
        kept = msgspec.structs.replace(config, server=here)
        problem = unsafe_bind(config) or unsafe_bind(kept)
        return kept if problem is None else [problem]

    def _stamp(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = Path(self._path).stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


def enough_files() -> None:
    """Raise the limit of open files to what the allowed connections take, as far as we may (S22)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def no_core_dumps() -> None:
    """Keep keys in memory out of core files (S08)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
