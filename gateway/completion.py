"""`dragoman completion SHELL`: scripts made from the argparse tree, so that they know every command and option."""

import argparse
import shlex
import sys
from collections.abc import Iterator

import msgspec

from gateway.cli import EXIT_OK
from gateway.options import parser

__all__ = ["Level", "completion", "levels", "script"]

FILES = frozenset({"PATH", "FILE"})
"""Metavars of arguments for which the shell offers file names."""


class Level(msgspec.Struct, frozen=True):
    """What can follow one chain of command words: further words with their help, and options."""

    path: tuple[str, ...]
    words: dict[str, str]
    options: dict[str, str]
    files: frozenset[str]
    """Options whose value is a file."""


def levels(tree: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Level]:
    """Yield every level of a parser, the top first."""
    words: dict[str, str] = {}
    options: dict[str, str] = {}
    files: set[str] = set()
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in tree._actions:
        if isinstance(action, argparse._SubParsersAction):
            words |= {choice.dest: choice.help or "" for choice in action._choices_actions}
            below += action.choices.items()
        elif action.help == argparse.SUPPRESS:
            continue
        elif action.option_strings:
            options |= dict.fromkeys(action.option_strings, (action.help or "").replace("%%", "%"))
            files |= set(action.option_strings) if action.metavar in FILES else set()
        elif action.choices is not None:
            words |= dict.fromkeys((str(choice) for choice in action.choices), "")
    yield Level(path, words, options, frozenset(files))
    for name, inner in below:
        yield from levels(inner, (*path, name))


def bash(tree: argparse.ArgumentParser) -> str:
    """Return a bash function and its registration."""
    found = list(levels(tree))
    steps = "|".join(f'"{" ".join(level.path)}"' for level in found if level.path)
    files = "|".join(sorted({name for level in found for name in level.files}))
    cases = "\n".join(
        f'        "{" ".join(level.path)}") words="{" ".join([*level.words, *level.options])}" ;;' for level in found
    )
    return f"""\
_dragoman() {{
    local word path="" words="" at="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "${{path:+$path }}$word" in
            {steps}) path="${{path:+$path }}$word" ;;
        esac
    done
    case "$before" in
        {files}) COMPREPLY=($(compgen -f -- "$at")); return ;;
    esac
    case "$path" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$at"))
}}
complete -o bashdefault -F _dragoman dragoman
"""


def zsh(tree: argparse.ArgumentParser) -> str:
    """Return the bash function behind zsh's own layer for such functions."""
    return "autoload -U +X bashcompinit && bashcompinit\n" + bash(tree)


def fish(tree: argparse.ArgumentParser) -> str:
    """Return one `complete` line for each word and option."""
    lines = ["complete -c dragoman -f"]
    for level in levels(tree):
        seen = [f"__fish_seen_subcommand_from {word}" for word in level.path]
        if level.words:
            seen.append(f"not __fish_seen_subcommand_from {' '.join(level.words)}")
        when = shlex.quote("; and ".join(seen)) if seen else "''"
        lines += [f"complete -c dragoman -n {when} -a {word}{_described(text)}" for word, text in level.words.items()]
        for name, text in level.options.items():
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            lines.append(f"complete -c dragoman -n {when} {flag}{' -r -F' * (name in level.files)}{_described(text)}")
    return "\n".join(lines) + "\n"


def _described(text: str) -> str:
    return f" -d {shlex.quote(text)}" if text else ""


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    return {"bash": bash, "zsh": zsh, "fish": fish}[shell](parser())


def completion(options: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(script(options.shell))
    return EXIT_OK
