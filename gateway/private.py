"""A gateway for one client run: a child process on a free port, with a key that only that run knows.

The child ends when its standard input does, so it cannot outlive whoever started it, even when that is killed.
"""

import hashlib
import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

import msgspec

import gateway
from gateway.config import Client, Config

__all__ = ["Private", "Unstarted", "main"]

START_S = 20.0
STOP_S = 15.0
LOOK_S = 0.02
READY = re.compile(r"listening on (http://\S+)")
DEMO = "demo"


class Unstarted(Exception):
    """The gateway did not start; the text is what it said."""


class Private:
    """The running child: `url` and `key`. Its log is a file in the folder that it was given."""

    def __init__(self, config: Path | None, folder: Path) -> None:
        """Start it over a config file, over the demo upstream without one. Raises Unstarted."""
        self.key = f"dragoman-launch-{secrets.token_urlsafe(24)}"
        digest = hashlib.sha256(self.key.encode()).hexdigest()
        self._log = folder / "gateway.log"
        argv = [sys.executable, "-P", "-m", "gateway.private", str(config.absolute()) if config else DEMO, digest]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter and module
                argv, stdin=subprocess.PIPE, stdout=log, stderr=log, env=_environment(), start_new_session=True
            )
        self.url = self._ready()

    def _ready(self) -> str:
        deadline = time.monotonic() + START_S
        while (found := READY.search(self._said())) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise Unstarted(self._said()[-2000:].strip() or "it said nothing")
            time.sleep(LOOK_S)
        return found[1]

    def _said(self) -> str:
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """End it: a drain first, then by force."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment() -> dict[str, str]:
    # -P keeps packages of the current folder out; a checkout that is not installed needs its own folder instead.
    own = str(Path(gateway.__file__ or "").parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH"))))}


def main(source: str, digest: str) -> int:
    """Run in the child: serve a config file, or the demo, to the one client with that key's digest."""
    from gateway import lifecycle
    from gateway.commands import complain, run_loop
    from gateway.configfile import load
    from gateway.demo import demo_config
    from gateway.plugins import options_type, requirements

    os.umask(0o077)
    lifecycle.no_core_dumps()
    config = demo_config(0) if source == DEMO else load(source, os.environ, options_type=options_type)
    if isinstance(config, Config):
        config = requirements(config) or config
    if not isinstance(config, Config):
        return complain(config)
    server = msgspec.structs.replace(config.server, host="127.0.0.1", port=0, workers=1, drain_s=1.0)
    # Without a path nothing is reloaded: a reload would bring the configured clients back.
    config = msgspec.structs.replace(config, server=server, clients=(Client("launch", digest),), path=None)
    return run_loop(_serve(config))


async def _serve(config: Config) -> int:
    from gateway import lifecycle

    sock = lifecycle.bind("127.0.0.1", 0)
    return await lifecycle.serve(config, sock, lifeline=sys.stdin.fileno())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
