"""`dragoman init`: write a commented starter configuration, 0600, and say what comes next. Never overwrites."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gateway.baseurl import Unfit, base_url
from gateway.cli import EXIT_OK, EXIT_PROBLEM, EXIT_USAGE

__all__ = ["Choice", "document", "init"]

LOCAL_URL = "http://127.0.0.1:8000/v1"


class Choice(msgspec.Struct, frozen=True):
    """What the starter configuration is for. The first provider serves every model name, as `model` if that is set."""

    providers: tuple[str, ...]
    base_url: str = LOCAL_URL
    model: str = ""


class Starter(msgspec.Struct, frozen=True):
    """A provider as `init` offers it: its table, the variable of its key, a model to begin with, what it is."""

    about: str
    table: str
    variable: str = ""
    model: str = ""


STARTERS = {
    "openai": Starter(
        "any server that speaks OpenAI's protocols: vLLM, Ollama, llama.cpp, OpenAI, OpenRouter",
        """\
[providers.openai]
base_url = {base_url}  # up to and including the version path
dialect = "chat"                         # chat | responses: what this server speaks
{keys}
""",
        "OPENAI_API_KEY",
        "qwen3-coder",
    ),
    "anthropic": Starter(
        "Anthropic's API, or any server that speaks Messages",
        """\
[providers.anthropic]
base_url = "https://api.anthropic.com"
{keys}
""",
        "ANTHROPIC_API_KEY",
        "claude-sonnet-4-6",
    ),
    "cline": Starter(
        "Cline's API with an API key of your account",
        """\
[providers.cline]
{keys}
""",
        "CLINE_API_KEY",
        "z-ai/glm-5.3-flash",
    ),
    "grok": Starter(
        "the Grok CLI's upstream with your own login",
        """\
[providers.grok]
plugin = "grok-cli"
credentials = [ {{ name = "me" }} ]        # made by `dragoman login grok --name me`
""",
        model="grok-build",
    ),
    "demo": Starter(
        "a scripted upstream, to try things without a key",
        """\
[providers.demo]                         # models demo, demo-tool, demo-429, demo-500, demo-cut, demo-silent
""",
        model="demo",
    ),
}

HEAD = """\
# Dragoman's configuration, begun by `dragoman init`. Unknown keys are errors: run `dragoman check` after a change.
# A running gateway loads this file anew when it is saved. Every key is explained in config.example.toml.

[server]
host = "127.0.0.1"                       # any other than a loopback address needs a [[clients]] table
port = 8788

# Without a client key everybody on this machine may use the gateway. `dragoman keys new NAME` adds one.

"""
ROUTES = """\
[models.{alias}]  # the name that clients ask for; a trailing * matches a prefix
provider = "{provider}"
model = {model}  # the upstream's name of it; without this line: the name that the client sent
#context_window = 200_000                # told to clients, so that they compact in time

[models."*"]                             # and every other name
provider = "{provider}"
model = {model}
"""


def document(choice: Choice) -> str:
    """Return the text of a starter configuration."""
    parts = [HEAD]
    for name in choice.providers:
        starter = STARTERS[name]
        key = f'keys = [ {{ name = "main", value = {{ env = "{starter.variable}" }} }} ]'
        keys = key if _needs_key(name, choice) else f"#{key}  # if it wants a key"
        parts.append(starter.table.format(base_url=_quoted(choice.base_url), keys=keys) + "\n")
    first = choice.providers[0]
    model = choice.model or STARTERS[first].model
    parts.append(ROUTES.format(alias=_quoted(model), provider=first, model=_quoted(model)))
    return "".join(parts)


def _needs_key(name: str, choice: Choice) -> bool:
    """Tell whether a provider's key has to be set; a server of one's own mostly asks for none."""
    own = name == "openai" and choice.base_url.startswith("http://")
    return bool(STARTERS[name].variable) and not own


def init(options: argparse.Namespace) -> int:
    """Write the file; 1 when it exists or cannot be written, 2 when nothing was chosen and nobody can be asked."""
    path = Path(options.path) if options.path else default_path(os.environ)
    if path.exists() or path.is_symlink():
        return _failed(f"{path} exists and is left as it is; name another with --path, or edit it")
    choice = _chosen(options)
    if isinstance(choice, int):
        return choice
    try:
        write_new(path, document(choice))
    except OSError as error:
        return _failed(f"{path} cannot be written: {error.strerror}")
    print(path)
    _next(path, choice, explicit=bool(options.path))
    return EXIT_OK


def default_path(environ: Mapping[str, str]) -> Path:
    """Return where `serve` looks first: $DRAGOMAN_CONFIG, else the user's config folder."""
    if named := environ.get("DRAGOMAN_CONFIG"):
        return Path(named)
    folder = environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if folder.startswith("/") else Path(environ.get("HOME", "~")).expanduser() / ".config"
    return base / "dragoman" / "config.toml"


def write_new(path: Path, text: str) -> None:
    """Create a file that only its owner can read. Raises FileExistsError, and OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _chosen(options: argparse.Namespace) -> Choice | int:
    if options.provider:
        providers = tuple(dict.fromkeys(options.provider))
        if "openai" in providers and not options.base_url:
            _say(f"no --base-url for openai; the file begins with {LOCAL_URL}")
        address = options.base_url or LOCAL_URL
    elif sys.stdin.isatty() and sys.stderr.isatty():
        providers = _asked()
        address = options.base_url or (
            _ask("Address of the openai server", LOCAL_URL) if "openai" in providers else LOCAL_URL
        )
    else:
        _say(f"which provider? Use --provider with one of {', '.join(STARTERS)}")
        return EXIT_USAGE
    found = base_url(address)
    if isinstance(found, Unfit):
        _say(f"the address {found.what}; {found.mend}")
        return EXIT_USAGE
    return Choice(providers, found, options.model or "")


def _asked() -> tuple[str, ...]:
    """Ask for the providers until the answer names some."""
    _say("which providers?\n")
    for name, starter in STARTERS.items():
        print(f"  {name:<10} {starter.about}", file=sys.stderr)
    while True:
        words = _ask("\nProviders, the main one first", "openai").replace(",", " ").split()
        unknown = [word for word in words if word not in STARTERS]
        if words and not unknown:
            return tuple(dict.fromkeys(words))
        print(f"unknown: {' '.join(unknown)}", file=sys.stderr)


def _ask(question: str, default: str) -> str:
    print(f"{question} [{default}]: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip() or default


def _next(path: Path, choice: Choice, *, explicit: bool) -> None:
    """Tell on stderr what to do now."""
    named = f" --config {path}" if explicit else ""
    steps = [f"export {STARTERS[name].variable}=…" for name in choice.providers if _needs_key(name, choice)]
    if "grok" in choice.providers:
        steps.append("dragoman login grok --name me")
    steps += [f"dragoman check{named}", f"dragoman launch claude{named}     # or codex, grok, cline, opencode"]
    print("Next:\n" + "\n".join(f"  {step}" for step in steps), file=sys.stderr)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _say(text: str) -> None:
    print(f"dragoman: {text}", file=sys.stderr)


def _failed(why: str) -> int:
    _say(why)
    return EXIT_PROBLEM
