"""`dragoman launch CLIENT` and `dragoman env CLIENT`: run an agent through the gateway, or say what that takes."""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec

from gateway import aim as aims
from gateway.aim import Key, Unsuitable
from gateway.cli import EXIT_OK, EXIT_PROBLEM, config_path
from gateway.clients import Aim, Wiring, wire
from gateway.config import Config
from gateway.models import resolve
from gateway.private import Private, Unstarted

__all__ = ["env", "launch"]

INSTALL = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "grok": "npm install -g @xai-official/grok",
    "cline": "npm install -g cline",
    "opencode": "npm install -g opencode-ai",
}
PRIVATE_FOLDER = "PRIVATE_FOLDER"
NO_FOLDER = "/nonexistent/dragoman"
"""Where a login cannot be found, for a client that would prefer it to the key."""
PRIVATE_KEY = "KEY_OF_THE_PRIVATE_GATEWAY"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class Goal(msgspec.Struct, frozen=True):
    """What to aim a client at. `private`: a gateway has to be started for it. `shown` is how a shell writes the key."""

    aim: Aim
    shown: str
    private: bool
    config: Path | None


def launch(options: argparse.Namespace) -> int:
    """Run the client and return its exit code; 1 when it cannot be run, 78 for a wrong configuration."""
    goal = _goal(options)
    if isinstance(goal, int):
        return goal
    if options.print:
        _print(options, goal)
        return EXIT_OK
    program = shutil.which(options.client)
    if program is None:
        return _failed(f"{options.client} is not installed (not on PATH); try: {INSTALL[options.client]}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-", ignore_cleanup_errors=True)))
        aim = msgspec.structs.replace(goal.aim, folder=str(folder))
        if goal.private:
            try:
                private = Private(goal.config, folder)
            except Unstarted as error:
                return _failed(f"the private gateway did not start:\n{error}")
            stack.callback(private.stop)
            aim = msgspec.structs.replace(aim, url=private.url, key=private.key)
        wiring = wire(options.client, aim)
        _write(folder, wiring)
        _say(f"{options.client} asks {aim.url} for {aim.model}" + " (a private gateway)" * goal.private)
        return _run([program, *_argv(wiring, options.rest)], environment(os.environ, wiring))


def env(options: argparse.Namespace) -> int:
    """Print shell lines; flags, where a client needs them, become an alias."""
    goal = _goal(options)
    if isinstance(goal, int):
        return goal
    if options.client == "cline":
        return _failed("cline takes no address from the environment; use `dragoman launch cline`")
    if goal.private:
        _say(f"no gateway answers at {goal.aim.url}; start one with `dragoman serve`")
    wiring = wire(options.client, msgspec.structs.replace(goal.aim, folder=NO_FOLDER))
    if wiring.files and options.client == "grok":
        return _failed(f"{goal.aim.model} is not listed by the gateway, so Grok Build needs a file: use `launch grok`")
    _exports(wiring, goal)
    flags = [flag for flag in wiring.flags if not wiring.files]
    if flags:
        print(f"alias {options.client}={shlex.quote(shlex.join([options.client, *flags]))}")
    return EXIT_OK


def _goal(options: argparse.Namespace) -> Goal | int:
    """Find out where to send the client, or say why that cannot be found out and return the exit code."""
    from gateway.commands import complain, read

    demo = getattr(options, "demo", False)
    try:
        if options.url:
            return _remote(options)
        if demo:
            aim = Aim("http://127.0.0.1:PORT", PRIVATE_KEY, options.model or aims.DEMO_MODEL, PRIVATE_FOLDER)
            return Goal(aim, PRIVATE_KEY, private=True, config=None)
        config = read(options)
        if not isinstance(config, Config):
            return complain(config)
        return _local(options, config)
    except Unsuitable as error:
        return _failed(str(error))


def _remote(options: argparse.Namespace) -> Goal:
    url = options.url.rstrip("/").removesuffix("/v1")
    given = os.environ.get(aims.KEY_NAME, "")
    found = aims.listing(url, given or "local")
    if found.status == 0:
        raise Unsuitable(f"no gateway answers at {url}")
    if found.status != 200:
        what = "refuses the key" if given else "wants a key"
        raise Unsuitable(f"the gateway at {url} {what} (HTTP {found.status}); put a client key into ${aims.KEY_NAME}")
    model = options.model or next(iter(found.models), None)
    if model is None:
        raise Unsuitable("the gateway lists no model; say which one with --model")
    aim = Aim(url, given or "local", model, PRIVATE_FOLDER, found.models.get(model), listed=model in found.models)
    return Goal(aim, f"${aims.KEY_NAME}" if given else "local", private=False, config=None)


def _local(options: argparse.Namespace, config: Config) -> Goal:
    key = aims.key_of(config, os.environ)
    allowed = key.client.models if key is not None and key.client is not None else ("*",)
    model = aims.choose(options.client, config.models, options.model, allowed)
    url = aims.address(config)
    private = _is_private(url, key)
    known = key or Key(f"${aims.KEY_NAME}", aims.KEY_NAME)
    resolved = resolve(config.models, model)
    assert resolved is not None  # `choose` only takes such names
    aim = Aim(
        url,
        known.value,
        model,
        PRIVATE_FOLDER,
        resolved.settings.context_window,
        resolved.settings.max_output_tokens,
        listed=model in config.models,
    )
    return Goal(aim, known.shown(), private, config_path(options))


def _is_private(url: str, key: Key | None) -> bool:
    """Tell whether a gateway has to be started: none answers, or it wants a key that is not known here."""
    found = aims.listing(url, key.value if key is not None else "unknown")
    if found.status == 401:
        _say(f"the gateway at {url} wants a client key that is not known here; put it into ${aims.KEY_NAME}")
    return found.status != 200


def environment(environ: Mapping[str, str], wiring: Wiring) -> dict[str, str]:
    """Return the client's environment; a proxy must not get what is meant for this machine."""
    made = {name: value for name, value in environ.items() if name not in wiring.unset} | wiring.env
    if any(made.get(name) for name in PROXIES):
        for name in ("NO_PROXY", "no_proxy"):
            made[name] = ",".join(filter(None, (made.get(name), "127.0.0.1,localhost,::1")))
    return made


def _argv(wiring: Wiring, rest: list[str]) -> list[str]:
    if "--settings" in wiring.flags and any(part.partition("=")[0] == "--settings" for part in rest):
        _say("your --settings replace those of `launch`; an `env` in them must not lead elsewhere")
        return rest
    return [*wiring.flags, *rest]


def _write(folder: Path, wiring: Wiring) -> None:
    for name, content in wiring.files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content)


def _run(argv: list[str], environ: dict[str, str]) -> int:
    """Run the client in the foreground. Ctrl-C is its own; other signals are passed on."""
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: object) -> None:
        if child is not None:
            child.send_signal(number)

    signal.signal(signal.SIGINT, lambda number, frame: None)  # the terminal sends it to the client too
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    try:
        child = subprocess.Popen(argv, env=environ)  # noqa: S603  the program that the user named
    except OSError as error:
        return _failed(f"{argv[0]} cannot be run: {error.strerror}")
    code = child.wait()
    return code if code >= 0 else 128 - code


def _print(options: argparse.Namespace, goal: Goal) -> None:
    """Show what a run would set; the key by its name."""
    wiring = wire(options.client, goal.aim)
    if goal.private:
        print(f"# no usable gateway answers at {goal.aim.url}: a private one would be started on a free port")
    _exports(wiring, goal)
    for name, content in wiring.files.items():
        shown = content.replace(goal.aim.key, goal.shown) if goal.aim.key else content
        print(f"# {PRIVATE_FOLDER}/{name}, removed afterwards:")
        print("\n".join(f"#   {line}" for line in shown.splitlines()))
    print(shlex.join([options.client, *wiring.flags, *options.rest]))


def _exports(wiring: Wiring, goal: Goal) -> None:
    for name in wiring.unset:
        print(f"unset {name}")
    for name, value in wiring.env.items():
        print(f"export {name}={_shell(value, goal)}")


def _shell(value: str, goal: Goal) -> str:
    if value == goal.aim.key:
        return f'"{goal.shown}"' if goal.shown.startswith("$") else shlex.quote(goal.shown)
    return shlex.quote(value)


def _say(text: str) -> None:
    print(f"dragoman: {text}", file=sys.stderr, flush=True)


def _failed(why: str) -> int:
    _say(why)
    return EXIT_PROBLEM
