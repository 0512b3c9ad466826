"""The command `dragoman`: parse the line, run one command, give back its exit code.

Each command's work is imported when it runs, so that `--help` stays quick. Data goes to stdout, talk to stderr.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_UPSTREAM, EXIT_CONFIG, EXIT_INTERRUPTED = 0, 1, 2, 69, 78, 130

INTRO = """Dragoman lets coding agents keep the protocol they speak and use any provider behind it.

Start with `dragoman demo` (no key, no network), then `dragoman init` and `dragoman serve`."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = argparse.ArgumentParser(
        prog="dragoman", description=INTRO, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)

    serve = commands.add_parser("serve", help="run the gateway", description="Run the gateway until it is stopped.")
    _config(serve)
    serve.add_argument("--host", help="address to listen on instead of the configured one")
    serve.add_argument("--port", type=int, help="port to listen on; 0 picks a free one and prints it")
    serve.add_argument("--workers", type=int, help="processes that share the port")

    demo = commands.add_parser("demo", help="try it: a scripted upstream, no key, no network")
    demo.add_argument("--port", type=int, default=8788, help="port to listen on (8788); 0 picks a free one")
    demo.add_argument("--once", action="store_true", help="one streamed request per dialect, then exit")

    check = commands.add_parser("check", help="check the configuration, without network")
    _config(check)
    _json(check)

    models = commands.add_parser("models", help="list the aliases and where they lead")
    _config(models)
    _json(models)

    providers = commands.add_parser("providers", help="list the provider plugins")
    _json(providers)

    translate = commands.add_parser(
        "translate",
        help="show what a request or a recorded stream becomes",
        description="Read a client's request (or, with --stream, an upstream's recorded events) and print what the "
        "other side gets; notes on what was changed or dropped go to stderr. No network.",
    )
    dialects = ("chat", "responses", "messages")
    translate.add_argument("--from", dest="source", required=True, choices=dialects, help="dialect of the input")
    translate.add_argument("--to", dest="target", required=True, choices=dialects, help="dialect of the output")
    translate.add_argument("--stream", action="store_true", help="the input is an event stream of an upstream")
    translate.add_argument("--model", default="", help="upstream model, which decides what it accepts")
    translate.add_argument("--strict", action="store_true", help="refuse what cannot be kept instead of dropping it")
    translate.add_argument("file", nargs="?", default="-", metavar="FILE", help="input file (default: stdin)")

    commands.add_parser("version", help="print the version")
    return root


def _config(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", metavar="PATH", help="config file (default: $DRAGOMAN_CONFIG, XDG, /etc)")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; as the entry point, exit with it."""
    options = parser().parse_args(argv)
    try:
        code = run(options)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = EXIT_PROBLEM
    if argv is None:
        sys.exit(code)
    return code


def run(options: argparse.Namespace) -> int:
    """Dispatch to the command's own module."""
    match options.command:
        case "serve":
            from gateway.commands import serve

            return serve(options)
        case "demo":
            from gateway.demo import demo

            return demo(options.port, once=options.once)
        case "translate":
            from gateway.translate import translate

            return translate(options)
        case "version":
            from providers.identity import VERSION

            print(VERSION)
            return EXIT_OK
        case "check":
            from gateway.commands import check

            return check(options)
        case "models":
            from gateway.commands import models

            return models(options)
        case _:
            from gateway.commands import providers

            return providers(options)


def config_path(options: argparse.Namespace) -> Path | None:
    """Return the config file that the options and the environment name."""
    import os

    from gateway.configfile import find

    return find(options.config, os.environ)
