"""The command `dragoman`: parse the line, run one command, give back its exit code.

Each command's work is imported when it runs, so that `--help` stays quick. Data goes to stdout, talk to stderr.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from gateway.options import parser

__all__ = ["main", "parser"]

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_UPSTREAM, EXIT_CONFIG, EXIT_INTERRUPTED = 0, 1, 2, 69, 78, 130

COMMANDS = {
    "serve": "gateway.commands",
    "check": "gateway.commands",
    "models": "gateway.commands",
    "providers": "gateway.commands",
    "translate": "gateway.translate",
    "init": "gateway.init",
    "doctor": "gateway.doctor",
    "launch": "gateway.launch",
    "env": "gateway.launch",
    "keys": "gateway.clientkeys",
    "login": "gateway.login",
    "status": "gateway.status",
    "tail": "gateway.tail",
    "usage": "gateway.usage",
    "completion": "gateway.completion",
}
"""The module of each command; its function has the command's name, takes the options, returns the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; as the entry point, exit with it."""
    options = parse(sys.argv[1:] if argv is None else argv)
    try:
        code = run(options)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = EXIT_PROBLEM
    if argv is None:
        sys.exit(code)
    return code


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of a line. What follows a -- after `launch` is the client's own, options and all."""
    if "--" not in argv or argv[0] != "launch":
        return parser().parse_args(argv)
    at = list(argv).index("--")
    options = parser().parse_args(argv[:at])
    options.rest = list(argv[at + 1 :])
    return options


def run(options: argparse.Namespace) -> int:
    """Dispatch to the command's own module."""
    if options.command == "version":
        from providers.identity import VERSION

        print(VERSION)
        return EXIT_OK
    if options.command == "demo":
        from gateway.demo import demo

        return demo(options.port, once=options.once)
    code: int = getattr(import_module(COMMANDS[options.command]), options.command)(options)
    return code


def config_path(options: argparse.Namespace) -> Path | None:
    """Return the config file that the options and the environment name."""
    import os

    from gateway.configfile import find

    return find(options.config, os.environ)
