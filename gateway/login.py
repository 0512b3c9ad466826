"""`dragoman login grok|cline`: show where to confirm, wait, say where the login was stored and how to use it."""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import aiohttp

from gateway.cli import EXIT_OK, EXIT_PROBLEM
from providers.registry import load
from providers.transport import new_session

__all__ = ["login"]


class Device(Protocol):
    """What the person has to do."""

    @property
    def uri(self) -> str:
        """Address to open."""

    @property
    def code(self) -> str:
        """Code to confirm there."""


Show = Callable[[Device], None]


def login(options: argparse.Namespace) -> int:
    """Run a device login; 1 when it was refused, not confirmed in time, or could not be stored."""
    from gateway.commands import run_loop
    from gateway.config import Name

    if not _fits(options.name, Name):
        sys.stderr.write("dragoman: a name is 1 to 64 letters, digits or . _ @ + -\n")
        return EXIT_PROBLEM
    os.umask(0o077)
    return run_loop(_login(options.provider, options.name))


async def _login(provider: str, name: str) -> int:
    from providers import cline_login, grok_issuer

    declined = (cline_login.Declined, grok_issuer.Declined)
    run = {"grok": _grok, "cline": _cline}[provider]
    try:
        async with new_session(connect_s=20, trust_env=True) as session:
            path = await run(session, name, _show)
    except declined as error:
        return _failed(str(error))
    except aiohttp.ClientError as error:
        return _failed(f"the login service cannot be reached ({type(error).__name__})")
    except OSError as error:
        return _failed(f"the login cannot be stored: {error.strerror or type(error).__name__}")
    plugin = {"grok": "grok-cli", "cline": "cline"}[provider]
    sys.stdout.write(f"{path}\n")
    told = f'\n[providers.{provider}]\nplugin = "{plugin}"\ncredentials = [ {{ name = "{name}", file = "{path}" }} ]\n'
    sys.stderr.write(f"Logged in; the file is readable by you alone. In the configuration:\n{told}")
    return EXIT_OK


def _grok(session: aiohttp.ClientSession, name: str, show: Show) -> Awaitable[Path]:
    from providers import grok_login

    return grok_login.log_in(session, show, path=grok_login.own_file(name))


def _cline(session: aiohttp.ClientSession, name: str, show: Show) -> Awaitable[Path]:
    from providers import cline_login
    from providers.cline_account import default_file

    return cline_login.log_in(session, load("cline").base_url, show, path=default_file(name))


def _show(device: Device) -> None:
    sys.stderr.write(f"Open   {device.uri}\nCode   {device.code}\nWaiting until you confirm it (Ctrl-C gives up) …\n")
    sys.stderr.flush()


def _failed(why: str) -> int:
    sys.stderr.write(f"dragoman: not logged in: {why}\n")
    return EXIT_PROBLEM


def _fits(text: str, annotation: object) -> bool:
    import msgspec

    try:
        msgspec.convert(text, annotation)
    except msgspec.ValidationError:
        return False
    return True
