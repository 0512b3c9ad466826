"""TOML with line numbers: `tomllib` decides what a file means, a small scan of its tokens says where each key stands.

The scan trusts nothing: on text that is no TOML it finds fewer keys, and it always ends.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway.problems import Place, dotted

__all__ = ["Flaw", "Lines", "Parsed", "parse"]

MAX_DEPTH = 32
"""Deeper nesting is scanned no further: no key of ours lies there."""

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<text>\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    |(?P<mark>[\[\]{}=,.])
    |(?P<bare>[^\s\[\]{}=,.\#"']+)
    |(?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)
_AT_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)$")
_AT_END = re.compile(r"\s*\(at end of document\)$")


class Token(NamedTuple):
    """A piece of TOML that is neither blank nor comment; `last` is the line it ends on."""

    kind: str
    text: str
    first: int
    last: int


class Entry(NamedTuple):
    """A key with the lines it covers, or a table header, whose `last` is 0: it lasts until the next header.

    A `loose` one stands alone on its lines.
    """

    place: Place
    first: int
    last: int
    loose: bool


class Flaw(NamedTuple):
    """A fault of the TOML itself."""

    line: int
    key: str
    what: str
    mend: str


class Lines:
    """Where keys stand. `repeated` pairs the first definition of a key or table with each later one."""

    def __init__(self) -> None:
        self.repeated: list[tuple[Entry, Entry]] = []
        self.headers: list[int] = []
        self._lines: dict[Place, int] = {}
        self._entries: dict[Place, Entry] = {}

    def of(self, place: Place) -> int:
        """Return the line of a place, or of the nearest table around it; 0 when there is none."""
        for length in range(len(place), 0, -1):
            line = self._lines.get(place[:length])
            if line is not None:
                return line
        return 0

    def note(self, place: Place, line: int) -> None:
        """Remember the first line of a place and of the tables it implies."""
        for length in range(1, len(place) + 1):
            self._lines.setdefault(place[:length], line)

    def define(self, entry: Entry) -> bool:
        """Remember a definition and return whether it is the first of its place."""
        self.note(entry.place, entry.first)
        first = self._entries.setdefault(entry.place, entry)
        if first is not entry:
            self.repeated.append((first, entry))
        return first is entry


class Parsed(NamedTuple):
    """What could be read: `table` is None when the TOML is too broken to go on."""

    table: dict[str, Any] | None
    lines: Lines
    flaws: list[Flaw]


def parse(text: str) -> Parsed:
    """Parse TOML. A key or table that is defined twice is reported with both lines, and the rest is still read."""
    lines = _Scanner(text).run()
    try:
        return Parsed(tomllib.loads(text), lines, [])
    except (ValueError, RecursionError) as error:  # a plain ValueError: a number of over 4,300 digits
        flaw = _syntax(error, text)
    if not lines.repeated:
        return Parsed(None, lines, [flaw])
    flaws = [_twice(first, again) for first, again in lines.repeated]
    if not all(again.loose for _, again in lines.repeated):
        return Parsed(None, lines, flaws)
    try:
        return Parsed(tomllib.loads(_without(text, lines)), lines, flaws)
    except (ValueError, RecursionError) as error:
        return Parsed(None, lines, [*flaws, _syntax(error, text)])


def _twice(first: Entry, again: Entry) -> Flaw:
    what = f"is defined twice: on line {first.first} and again on line {again.first}"
    if first.place[0] == "models" and len(first.place) == 2:
        what = f'two routes under one alias: "{first.place[1]}" {what}'
    return Flaw(again.first, dotted(first.place), what, "keep one of the two; several routes go into routes = [ … ]")


def _syntax(error: Exception, text: str) -> Flaw:
    # Python 3.14 has the line as an attribute; the message carries it in all versions.
    message, count = str(error), text.count("\n") + 1
    if isinstance(error, RecursionError):
        return Flaw(0, "", "is nested too deeply to be read", "")
    found = _AT_LINE.search(message)
    line = int(found[1]) if found else count
    what = _AT_END.sub("", _AT_LINE.sub("", message))
    return Flaw(line, "", f"is not valid TOML: {what}", "quote strings, and write one key = value a line")


def _without(text: str, lines: Lines) -> str:
    kept = text.split("\n")
    for _, again in lines.repeated:
        end = again.last or next((line for line in lines.headers if line > again.first), len(kept) + 1) - 1
        for number in range(again.first, end + 1):
            kept[number - 1] = ""
    return "\n".join(kept)


def _tokens(text: str) -> Iterator[Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup or "odd", match[0]
        last = line + piece.count("\n")
        if kind != "blank":
            yield Token(kind, piece, line, last if kind == "text" else line)
        line = last


class _Scanner:
    """Walks the tokens once, a statement at a time."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._end = Token("newline", "\n", text.count("\n") + 1, text.count("\n") + 1)
        self._at = 0
        self._lines = Lines()
        self._arrays: dict[Place, int] = {}
        self._table: Place = ()
        self._muted = False  # inside the second table of a name, whose keys would all be called repeated

    def run(self) -> Lines:
        while self._at < len(self._tokens):
            token = self._next()
            if token.text == "[":
                self._header(token)
            elif token.kind in {"text", "bare"}:
                self._at -= 1
                self._pair(self._table, loose=True)
        return self._lines

    def _peek(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else self._end

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _skip_lines(self) -> None:
        while self._at < len(self._tokens) and self._peek().kind == "newline":
            self._at += 1

    def _skip_rest(self) -> None:
        while self._peek().kind != "newline":
            self._at += 1

    def _header(self, opened: Token) -> None:
        array = self._peek().text == "["
        if array:
            self._at += 1
        place = self._placed(self._key())
        self._skip_rest()
        self._lines.headers.append(opened.first)
        self._muted = False
        if array:
            self._arrays[place] = count = self._arrays.get(place, -1) + 1
            place = (*place, count)
            self._lines.note(place, opened.first)
        elif place:
            self._muted = not self._lines.define(Entry(place, opened.first, 0, loose=True))
        self._table = place

    def _placed(self, key: tuple[str, ...]) -> Place:
        """A header below an array of tables speaks of the array's last element."""
        place: Place = ()
        for part in key[:-1]:
            place = (*place, part)
            if place in self._arrays:
                place = (*place, self._arrays[place])
        return (*place, *key[-1:])

    def _key(self) -> tuple[str, ...]:
        parts = []
        while self._peek().kind in {"text", "bare"}:
            parts.append(_unquoted(self._next().text))
            if self._peek().text != ".":
                break
            self._at += 1
        return tuple(parts)

    def _pair(self, table: Place, *, loose: bool) -> None:
        first = self._peek().first
        place = (*table, *self._key())
        if self._peek().text != "=":
            self._skip_rest()
            return
        self._at += 1
        self._lines.note(place, first)
        last = self._value(place)
        if not self._muted:
            self._lines.define(Entry(place, first, last, loose))

    def _value(self, place: Place) -> int:
        """Pass over a value and return the line it ends on."""
        token = self._peek()
        if len(place) < MAX_DEPTH and token.text in {"[", "{"}:
            self._at += 1
            return self._list(place) if token.text == "[" else self._inline(place)
        last = token.last
        while self._peek().kind != "newline" and self._peek().text not in {",", "]", "}"}:
            last = self._next().last
        return last

    def _list(self, place: Place) -> int:
        index = 0
        while True:
            self._skip_lines()
            token = self._peek()
            if self._at >= len(self._tokens) or token.text == "]":
                self._at += 1
                return token.last
            if token.text == ",":
                self._at += 1
                index += 1
                continue
            self._lines.note((*place, index), token.first)
            before = self._at
            self._value((*place, index))
            self._at = max(self._at, before + 1)

    def _inline(self, place: Place) -> int:
        while True:
            self._skip_lines()
            token = self._peek()
            if self._at >= len(self._tokens) or token.text == "}":
                self._at += 1
                return token.last
            before = self._at
            if token.kind in {"text", "bare"}:
                self._pair(place, loose=False)
            self._at = max(self._at, before + 1)


def _unquoted(text: str) -> str:
    if text[0] not in "\"'":
        return text
    try:
        return str(tomllib.loads(f"key = {text}")["key"])
    except ValueError:
        return text
