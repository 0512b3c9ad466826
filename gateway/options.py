"""The arguments of every command, and the help texts that teach them. Imports nothing that takes time."""

import argparse
from collections.abc import Callable

__all__ = ["CLIENTS", "parser"]

CLIENTS = ("claude", "codex", "grok", "cline", "opencode")
DIALECTS = ("chat", "responses", "messages")

INTRO = """Dragoman lets coding agents keep the protocol they speak and use any provider behind it.

Start with `dragoman demo` (no key, no network), then:
  dragoman init             write a commented configuration
  dragoman check            see whether it is right
  dragoman launch claude    run your agent through it (or codex, grok, cline, opencode)"""

ENDING = """exit codes: 0 fine; 1 a problem was found or the run failed; 2 usage; 69 upstream unreachable;
78 configuration error; 130 Ctrl-C. Every command has its own --help."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = argparse.ArgumentParser(
        prog="dragoman", description=INTRO, epilog=ENDING, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, summary: str, text: str = "") -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=summary,
            description=text or summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    for add in (_running, _configuration, _clients, _watching, _rest):
        add(command)
    return root


Adder = Callable[..., argparse.ArgumentParser]


def _running(command: Adder) -> None:
    serve = command(
        "serve",
        "run the gateway",
        "Run the gateway until it is stopped. SIGTERM and Ctrl-C drain: running requests may end, a second signal\n"
        "aborts. SIGHUP or a change of the config file loads it anew; a broken file changes nothing.",
    )
    _config(serve)
    serve.add_argument("--host", help="address to listen on instead of the configured one")
    serve.add_argument("--port", type=int, help="port to listen on; 0 picks a free one and prints it")
    serve.add_argument("--workers", type=int, help="processes that share the port; limits and cooldowns count in each")

    demo = command(
        "demo",
        "try it: a scripted upstream, no key, no network",
        "Run the whole gateway over a scripted upstream and print commands to paste: curl, Claude Code, Codex,\n"
        "Grok Build. It needs no configuration, no key and no network.",
    )
    demo.add_argument("--port", type=int, default=8788, help="port to listen on (8788); 0 picks a free one")
    demo.add_argument("--once", action="store_true", help="one streamed request per dialect, then exit")


def _configuration(command: Adder) -> None:
    init = command(
        "init",
        "write a commented starter configuration",
        "Write a configuration for the providers you choose, mode 0600, and say what comes next. Asks on a\n"
        "terminal; with --provider it asks nothing. An existing file is never overwritten.\n\n"
        "  dragoman init --provider cline\n"
        "  dragoman init --provider openai --base-url http://127.0.0.1:8000/v1 --model qwen3-coder",
    )
    init.add_argument("--path", metavar="PATH", help="file to write (default: where `serve` looks for it)")
    init.add_argument(
        "--provider",
        action="append",
        choices=("openai", "anthropic", "cline", "grok", "demo"),
        help="provider to configure; repeat it for several, the first serves all model names",
    )
    init.add_argument("--base-url", metavar="URL", help="address of the openai provider, up to and including /v1")
    init.add_argument("--model", metavar="NAME", help="the first provider's model that all names lead to")

    check = command(
        "check",
        "check the configuration, without network",
        "Read the configuration and print every error at once: file and line, key, what is wrong, how to mend it.\n"
        "Never prints a secret's value. Exits 0 or 78.",
    )
    _config(check)
    _json(check)

    doctor = command(
        "doctor",
        "find out what is wrong, with network",
        "Check the configuration, then look further: is each provider reachable and each key accepted (a small\n"
        "GET, nothing is generated), does the clock agree, who may read the files, do our packages belong to us,\n"
        "does a setting in this folder redirect a client elsewhere. Exits 0, 1 for a problem, 69 when a provider\n"
        "cannot be reached, 78 for a wrong configuration.",
    )
    _config(doctor)
    _json(doctor)
    doctor.add_argument("--offline", action="store_true", help="leave out what needs the network")

    models = command("models", "list the aliases and where they lead")
    _config(models)
    _json(models)

    providers = command("providers", "list the provider plugins, with distribution and version")
    _json(providers)


def _clients(command: Adder) -> None:
    launch = command(
        "launch",
        "run a coding agent through the gateway",
        "Run a client against the gateway by environment and flags alone; your own settings stay as they are.\n"
        "Starts a private gateway when none answers, and stops it afterwards. Returns the client's exit code.\n\n"
        "  dragoman launch claude -- -p 'what is this project?'\n"
        "  dragoman launch codex --model my-alias -- exec 'run the tests'\n"
        "  dragoman launch grok --print",
    )
    _aim(launch)
    launch.add_argument("--demo", action="store_true", help="use a private gateway over the scripted demo upstream")
    launch.add_argument("--print", action="store_true", help="show what would be set and run, and do nothing")
    launch.usage = launch.format_usage().removeprefix("usage: ").rstrip() + " [-- ARGS ...]"
    launch.set_defaults(rest=[])  # the client's own arguments, which gateway.cli takes off the line

    env = command(
        "env",
        "print shell lines that point a client at the gateway",
        "Print what `launch` would set, as lines for a POSIX shell. A key is named by its variable, never shown.\n\n"
        '  eval "$(dragoman env claude)"',
    )
    _aim(env)

    keys = command(
        "keys",
        "make, list and revoke client keys",
        "A client key lets one machine or person use the gateway. The configuration keeps its SHA-256 alone, so\n"
        "the key itself is shown once, when it is made.",
    )
    actions = keys.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a key, show it once, add its client to the configuration")
    revoke = actions.add_parser("revoke", help="remove a client from the configuration")
    listing = actions.add_parser("list", help="list the clients")
    for action in (new, revoke):
        action.add_argument("name", help="the client's name: letters, digits and . _ @ + -")
    new.add_argument("--models", action="append", metavar="ALIAS", help="alias it may use; repeatable (all)")
    for action in (new, listing, revoke):
        _config(action)
    _json(listing)

    login = command(
        "login",
        "log in with a provider account in the browser",
        "Show an address and a code; once you have confirmed it in any browser, the login is stored for the\n"
        "gateway, readable by you alone.",
    )
    login.add_argument("provider", choices=("grok", "cline"), help="whose account")
    login.add_argument("--name", default="default", help="name of the credential in the configuration (default)")


def _watching(command: Adder) -> None:
    status = command(
        "status",
        "show keys, routes and streams in flight",
        "Ask the running gateway for a snapshot. The admin key comes from $DRAGOMAN_ADMIN_KEY or from the\n"
        "configuration; a gateway without one answers to its own machine.",
    )
    _config(status)
    _json(status)
    status.add_argument("--url", help="address of the gateway (default: that of the configuration)")

    tail = command(
        "tail",
        "follow the requests as they end, one line each",
        "Follow the summaries of the running gateway until Ctrl-C, over its restarts. Filters may hold * and ?.\n\n"
        "  dragoman tail --outcome failed\n"
        "  dragoman tail --client alice-* --json",
    )
    _config(tail)
    _json(tail)
    tail.add_argument("--url", help="address of the gateway (default: that of the configuration)")
    tail.add_argument("--client", metavar="NAME", help="only requests of this client")
    tail.add_argument("--alias", metavar="NAME", help="only requests for this model name")
    tail.add_argument(
        "--outcome", action="append", metavar="OUTCOME", help="only these outcomes; `failed` is all that are no answer"
    )
    tail.add_argument("--last", type=int, default=10, metavar="N", help="begin with the N latest (10)")

    usage = command(
        "usage",
        "show tokens and costs from the ledger",
        "Sum what the ledger holds. Without a ledger it says so; the log has one record a request all the same.",
    )
    _config(usage)
    _json(usage)
    usage.add_argument("--by", default="client", metavar="FIELDS", help="client, model, day; joined by commas")


def _rest(command: Adder) -> None:
    translate = command(
        "translate",
        "show what a request or a recorded stream becomes",
        "Read a client's request (or, with --stream, an upstream's recorded events) and print what the other side\n"
        "gets; notes on what was changed or dropped go to stderr. No network.",
    )
    translate.add_argument("--from", dest="source", required=True, choices=DIALECTS, help="dialect of the input")
    translate.add_argument("--to", dest="target", required=True, choices=DIALECTS, help="dialect of the output")
    translate.add_argument("--stream", action="store_true", help="the input is an event stream of an upstream")
    translate.add_argument("--model", default="", help="upstream model, which decides what it accepts")
    translate.add_argument("--strict", action="store_true", help="refuse what cannot be kept instead of dropping it")
    translate.add_argument("file", nargs="?", default="-", metavar="FILE", help="input file (default: stdin)")

    completion = command(
        "completion",
        "print a completion script for a shell",
        "Print a completion script.\n\n"
        '  bash: eval "$(dragoman completion bash)"     in ~/.bashrc\n'
        '  zsh:  eval "$(dragoman completion zsh)"      in ~/.zshrc, after compinit\n'
        "  fish: dragoman completion fish | source      in ~/.config/fish/config.fish",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))

    command("version", "print the version")


def _config(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", metavar="PATH", help="config file (default: $DRAGOMAN_CONFIG, XDG, /etc)")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def _aim(command: argparse.ArgumentParser) -> None:
    command.add_argument("client", choices=CLIENTS)
    command.add_argument("--model", metavar="ALIAS", help="alias to ask for (default: one that suits the client)")
    command.add_argument("--url", help="a gateway that runs elsewhere; its key comes from $DRAGOMAN_KEY")
    _config(command)
