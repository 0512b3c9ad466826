"""`dragoman keys new|list|revoke`: client keys in the text of the config file, with comments and all kept.

Only the digest of a key is stored (S03); the key itself is printed once, on stdout, and nowhere else.
"""

import argparse
import hashlib
import json
import os
import secrets
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.cli import EXIT_OK, EXIT_PROBLEM, config_path
from gateway.config import Client, Config, Name
from gateway.tomllines import parse

__all__ = ["added", "keys", "removed"]

KEY_BYTES = 32
PREFIX = "dragoman-"


def keys(options: argparse.Namespace) -> int:
    """Run one action; 1 for a name that is taken, unknown or not usable, 78 for a wrong configuration."""
    return {"new": _new, "list": _list, "revoke": _revoke}[options.action](options)


def _new(options: argparse.Namespace) -> int:
    try:
        msgspec.convert(options.name, Name)
    except msgspec.ValidationError:
        return _failed("a name is 1 to 64 letters, digits or . _ @ + -, and begins with a letter or digit")
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    table = _table(options.name, key, options.models or [])
    path = config_path(options)
    if path is None:
        print(key)
        _say(f"no config file was found; add this to yours, and keep the key: it is not shown again\n\n{table}")
        return EXIT_OK
    config = _read(options)
    if not isinstance(config, Config):
        return config
    if any(client.name == options.name for client in config.clients):
        return _failed(f"there is a client {options.name!r} already; revoke it first, or choose another name")
    text = path.read_text(encoding="utf-8-sig")
    code = _rewrite(path, added(text, table))
    if code == EXIT_OK:
        print(key)
        _say(f"{path} has its digest; keep the key, it is not shown again")
    return code


def _list(options: argparse.Namespace) -> int:
    config = _read(options)
    if not isinstance(config, Config):
        return config
    from gateway.commands import table

    if options.json:
        rows = [{"name": client.name, "models": client.models, **_limits(client)} for client in config.clients]
        sys.stdout.write(msgspec.json.encode(rows).decode() + "\n")
        return EXIT_OK
    if not config.clients:
        _say("no clients: everybody on this machine may use the gateway")
        return EXIT_OK
    cells = [
        (client.name, ", ".join(client.models), ", ".join(f"{n} {v}" for n, v in _limits(client).items() if v) or "-")
        for client in config.clients
    ]
    table([("CLIENT", "MODELS", "LIMITS"), *cells])
    return EXIT_OK


def _limits(client: Client) -> dict[str, int]:
    names = ("requests_per_minute", "max_concurrent", "tokens_per_day")
    return {name: getattr(client, name) for name in names}


def _revoke(options: argparse.Namespace) -> int:
    config = _read(options)
    if not isinstance(config, Config):
        return config
    assert config.path is not None  # it was read from there
    names = [client.name for client in config.clients]
    if options.name not in names:
        return _failed(f"there is no client {options.name!r}; configured: {', '.join(names) or 'none'}")
    text = removed(config.path.read_text(encoding="utf-8-sig"), options.name)
    if text is None:
        return _failed(f"{config.path} does not write its clients as [[clients]] tables; remove this one by hand")
    if len(names) == 1:
        _say("that was the last client: everybody on this machine may now use the gateway")
    code = _rewrite(config.path, text)
    if code == EXIT_OK:
        _say(f"revoked {options.name}; a running gateway that watches this file refuses its key within seconds")
    return code


def _read(options: argparse.Namespace) -> Config | int:
    from gateway.commands import complain, read

    config = read(options)
    return config if isinstance(config, Config) else complain(config)


def _table(name: str, key: str, models: list[str]) -> str:
    digest = hashlib.sha256(key.encode()).hexdigest()
    allowed = f"models = {json.dumps(models, ensure_ascii=False)}\n" if models else ""
    return f'[[clients]]\nname = {json.dumps(name)}\nkey_sha256 = "{digest}"\n{allowed}'


def added(text: str, table: str) -> str:
    """Return a file's text with one more table at its end, where it cannot come between a table and its keys."""
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{table}"


def removed(text: str, name: str) -> str | None:
    """Return a file's text without the [[clients]] table of that name, None when it is not written as one.

    Comments directly above the next table are that table's and stay.
    """
    parsed = parse(text)
    clients = (parsed.table or {}).get("clients", [])
    index = next((n for n, client in enumerate(clients) if client.get("name") == name), None)
    if index is None:
        return None
    lines = text.splitlines(keepends=True)
    first = parsed.lines.of(("clients", index))
    if not lines[first - 1].lstrip().startswith("[["):
        return None
    after = next((line for line in parsed.lines.headers if line > first), len(lines) + 1)
    while after - 1 > first and after <= len(lines) and lines[after - 2].lstrip().startswith("#"):
        after -= 1
    return "".join(lines[: first - 1] + lines[after - 1 :])


def _rewrite(path: Path, text: str) -> int:
    """Replace a file at once, with its mode, unless the new text would be a wrong configuration; returns the code."""
    from gateway.commands import complain
    from gateway.configfile import load
    from gateway.plugins import options_type

    try:
        target = path.resolve()
        mode = stat.S_IMODE(target.stat().st_mode)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        draft = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            problems = load(draft, os.environ, options_type=options_type)
            if not isinstance(problems, Config):
                _say("nothing was changed, as this would be wrong then:")
                return complain([msgspec.structs.replace(problem, file=str(path)) for problem in problems])
            draft.chmod(mode)
            draft.replace(target)
        finally:
            with suppress(OSError):
                draft.unlink()
    except OSError as error:
        return _failed(f"{path} cannot be changed: {error.strerror}")
    return EXIT_OK


def _say(text: str) -> None:
    print(f"dragoman: {text}", file=sys.stderr)


def _failed(why: str) -> int:
    _say(why)
    return EXIT_PROBLEM
