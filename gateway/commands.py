"""The commands that need no more than the configuration: serve, check, models, providers."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from socket import socket
from typing import Any

import msgspec

from gateway.cli import EXIT_CONFIG, EXIT_OK, EXIT_PROBLEM, config_path
from gateway.config import Config
from gateway.configfile import load
from gateway.plugins import options_type, requirements
from gateway.problems import Problem, render_problems

__all__ = ["check", "models", "providers", "read", "run_loop", "serve"]


class Alias(msgspec.Struct):
    """One row of `dragoman models`."""

    alias: str
    routes: list[str]
    dialects: list[str]
    context_window: int | None


def read(options: argparse.Namespace) -> Config | list[Problem]:
    """Return the configuration that the options name, or everything that is wrong with it."""
    path = config_path(options)
    if path is None:
        mend = "run `dragoman init`, or name a file with --config"
        return [Problem("config.toml", 0, "", "no config file found", mend)]
    config = load(path, os.environ, options_type=options_type)
    if isinstance(config, Config):
        return requirements(config) or config
    return config


def complain(problems: list[Problem]) -> int:
    """Print problems on stderr; returns the exit code of a configuration error."""
    color = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    print(render_problems(problems, color), file=sys.stderr)
    return EXIT_CONFIG


def run_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on uvloop when that is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def serve(options: argparse.Namespace) -> int:
    """Run the gateway; 78 for a wrong configuration, 1 when the address cannot be had."""
    from gateway import lifecycle

    config = read(options)
    if not isinstance(config, Config):
        return complain(config)
    changes = {name: value for name in ("host", "port", "workers") if (value := getattr(options, name)) is not None}
    config = msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **changes))
    if (problem := lifecycle.unsafe_bind(config)) is not None:
        return complain([problem])
    os.umask(0o077)
    lifecycle.no_core_dumps()
    lifecycle.enough_files()
    try:
        sock = lifecycle.bind(config.server.host, config.server.port, shared=config.server.workers > 1)
    except OSError as error:
        address = f"{config.server.host}:{config.server.port}"
        print(f"dragoman: cannot listen on {address}: {error.strerror}", file=sys.stderr)
        return EXIT_PROBLEM
    if config.server.workers > 1:
        from gateway.workers import serve_many

        return serve_many(config, sock, _serve_one)
    return run_loop(lifecycle.serve(config, sock))


def _serve_one(config: Config, sock: socket, lifeline: int, ready: Callable[[str, Config], None]) -> int:
    from gateway import lifecycle

    return run_loop(lifecycle.serve(config, sock, lifeline=lifeline, ready=ready))


def check(options: argparse.Namespace) -> int:
    """Print every problem of the configuration, or what it configures."""
    config = read(options)
    if not isinstance(config, Config):
        if options.json:
            sys.stdout.write(msgspec.json.encode(config).decode() + "\n")
            return EXIT_CONFIG
        return complain(config)
    if config.state.url.startswith("valkey:"):
        what = "state.url: valkey is not built in yet; cooldowns will live in memory and end with the process"
        print(f"dragoman: {what}", file=sys.stderr)
    summary = f"{len(config.providers)} providers, {len(config.models)} aliases, {len(config.clients)} clients"
    if options.json:
        print("[]")
    else:
        print(f"{config.path}: fine ({summary})")
    return EXIT_OK


def models(options: argparse.Namespace) -> int:
    """Print the aliases with route, dialect and context window."""
    config = read(options)
    if not isinstance(config, Config):
        return complain(config)
    rows = [
        Alias(
            alias,
            [f"{route.provider}/{route.model or alias}" for route in model.routes],
            [dialect_of(config, route.provider) for route in model.routes],
            model.context_window,
        )
        for alias, model in config.models.items()
    ]
    if options.json:
        sys.stdout.write(msgspec.json.encode(rows).decode() + "\n")
        return EXIT_OK
    cells = [
        (row.alias, ", ".join(row.routes), ", ".join(row.dialects), str(row.context_window or "-")) for row in rows
    ]
    table([("ALIAS", "ROUTES", "DIALECT", "CONTEXT"), *cells])
    return EXIT_OK


def dialect_of(config: Config, provider: str) -> str:
    """Return the dialect that a configured provider speaks."""
    from providers.registry import load as load_plugin

    table = config.providers[provider]
    return table.dialect or load_plugin(table.plugin).dialects[0]


def providers(options: argparse.Namespace) -> int:
    """Print the installed plugins with distribution and version; imports none."""
    from providers.registry import entries

    rows = []
    for name, entry in sorted(entries().items()):
        name_of, version = (entry.dist.name, entry.dist.version) if entry.dist else ("dragoman-gateway", "built in")
        rows.append((name, name_of, version, entry.value))
    if options.json:
        keys = ("plugin", "distribution", "version", "entry_point")
        sys.stdout.write(msgspec.json.encode([dict(zip(keys, row, strict=True)) for row in rows]).decode() + "\n")
        return EXIT_OK
    table([("PLUGIN", "DISTRIBUTION", "VERSION", "ENTRY POINT"), *rows])
    return EXIT_OK


def table(rows: list[tuple[str, ...]]) -> None:
    """Print rows in aligned columns."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
