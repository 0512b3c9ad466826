"""Which gateway `status` and `tail` ask, and with what key: from the options, the environment, the configuration."""

import argparse
import os

import msgspec

from gateway.commands import complain, read
from gateway.config import Config

__all__ = ["Target", "refusal", "target"]

KEY_VARIABLE = "DRAGOMAN_ADMIN_KEY"


class Target(msgspec.Struct, frozen=True):
    """A gateway's address and the headers that open its admin routes."""

    url: str
    headers: dict[str, str]


def target(options: argparse.Namespace) -> Target | int:
    """Return where to ask; the exit code when the configuration that should say so is wrong.

    The admin key comes from $DRAGOMAN_ADMIN_KEY, else from the configuration where that names it in clear: never
    from the command line, which others can read.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    url = (options.url or "").rstrip("/")
    if not url or options.config:
        config = read(options)
        if not isinstance(config, Config):
            return complain(config)
        host = config.server.host if config.server.host not in ("0.0.0.0", "::", "[::]") else "127.0.0.1"  # noqa: S104
        url = url or f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{config.server.port}"
        named = next((secret for secret in config.secrets if secret.sha256() == config.admin), None)
        key = key or (named.reveal() if named is not None else "")
    return Target(url, {"authorization": f"Bearer {key}"} if key else {})


def refusal(status: int, url: str) -> str:
    """Say what an answer of the gateway means and what to do about it."""
    if status == 401:
        return f"{url} wants the admin key: set ${KEY_VARIABLE}, or name the configuration with --config"
    if status == 404:
        return f"{url} does not know this key as its admin's, or is no Dragoman"
    return f"{url} answers with HTTP {status}"
