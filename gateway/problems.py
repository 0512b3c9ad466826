"""What is wrong with a configuration, as values and as text: where, what, how to mend it; never a secret's value."""

import difflib
import json
import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

__all__ = ["Place", "Problem", "did_you_mean", "dotted", "render_problems"]

Place: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the file down to a value."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BOLD, _RED, _GREEN, _RESET = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


class Problem(msgspec.Struct, frozen=True):
    """One error. `line` 0 means the file as a whole; `key` is a path such as `providers.local.timeouts.idle_s`."""

    file: str
    line: int
    key: str
    what: str
    mend: str = ""

    @property
    def where(self) -> str:
        """Return file and line as editors and terminals link them."""
        return f"{self.file}:{self.line}" if self.line else self.file


def dotted(place: Place) -> str:
    """Return a place as TOML would write the key, with list indexes in brackets: `models."gpt-*".routes[0].model`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        shown = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=not part.isprintable())
        text += f".{shown}" if text else shown
    return text


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a hint at the nearest known name, "" when none is near or the word is no text."""
    if not isinstance(word, str):
        return ""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else ""


def render_problems(problems: Iterable[Problem], color: bool) -> str:
    """Return one block of lines for each problem, with an empty line between them."""
    bold, red, green, reset = (_BOLD, _RED, _GREEN, _RESET) if color else ("",) * 4
    blocks = []
    for problem in problems:
        where, key, what, mend = (_plain(part) for part in (problem.where, problem.key, problem.what, problem.mend))
        lines = [f"{bold}{where}{reset}  {key}".rstrip(), f"  {red}{what}{reset}"]
        if mend:
            lines.append(f"  {green}{mend}{reset}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _plain(text: str) -> str:
    # Keys of a broken file could otherwise drive the terminal.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
