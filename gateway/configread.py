"""Reads parts of a parsed file into values and collects everything that is wrong on the way.

It never stops at the first error, and none of its messages holds a value: a secret may stand in any wrong place.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from gateway.problems import Place, Problem, did_you_mean, dotted
from gateway.tomllines import Lines
from providers.secret import Secret

__all__ = ["PLACEHOLDERS", "Reader", "Source"]

MAX_SECRET_BYTES = 65_536

_AT = re.compile(r" - at `\$(.*)`$")
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "object": "a table",
    "str": "a string",
}
PLACEHOLDERS = frozenset({"changeme", "change-me", "replace-me", "your-api-key", "your-key-here", "..."})
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}|[a-z_]{1,64}")
"""A name that may be shown: a key that was pasted in its place has digits or both cases."""
_PATH = re.compile(r"[/~.].*|[\w/-]+\.[a-z]{2,5}")
_FORMS = '{ env = "NAME" } or { file = "PATH" }'


class Source(msgspec.Struct, frozen=True):
    """The file that is read: `folder` is where relative paths begin, `private` that only its owner can read it."""

    file: str
    folder: Path
    private: bool
    environ: Mapping[str, str]


class Reader:
    """Collects `problems` and `secrets`; every method returns None, or leaves a field out, where it found a problem."""

    def __init__(self, source: Source, lines: Lines) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.secrets: list[Secret] = []
        self._lines = lines

    def flaw(self, at: Place, what: str, mend: str = "") -> None:
        """Add a problem at a place."""
        self.problems.append(Problem(self.source.file, self.line(at), dotted(at), what, mend))

    def line(self, at: Place) -> int:
        """Return the line of a place."""
        return self._lines.of(at)

    def table(self, at: Place, value: object) -> dict[str, Any] | None:
        """Return the value when it is a table."""
        if isinstance(value, dict):
            return value
        self.flaw(at, "must be a table", f"write [{dotted(at)}]")
        return None

    def named(self, at: Place, value: object) -> Iterator[tuple[Place, str, dict[str, Any]]]:
        """Yield place, name and table of each entry of a table of tables."""
        for name, inner in (self.table(at, value) or {}).items():
            if (table := self.table((*at, name), inner)) is not None:
                yield (*at, name), name, table

    def tables(self, at: Place, value: object, form: str) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Yield place and table of each element of a list of tables; `form` shows how such a list is written."""
        if not isinstance(value, list):
            self.flaw(at, "must be a list of tables", f"write {form}")
            return
        for index, inner in enumerate(value):
            if isinstance(inner, dict):
                yield (*at, index), inner
            else:
                self.flaw((*at, index), "must be a table", f"write {form}")

    def fields(
        self,
        at: Place,
        table: Mapping[str, Any],
        struct: type[msgspec.Struct],
        *,
        own: Collection[str] = (),
        hidden: Collection[str] = (),
    ) -> dict[str, Any]:
        """Return the converted fields of a Struct, for its constructor; unknown keys are problems.

        `own` are keys that the caller reads itself, `hidden` fields that no key sets.
        """
        fields = {field.encode_name: field for field in msgspec.structs.fields(struct) if field.name not in hidden}
        known = [*fields, *(key for key in own if key not in fields)]
        self.unknown(at, table, known)
        read: dict[str, Any] = {}
        for key, field in fields.items():
            if key in own:
                continue
            if key in table:
                self._field((*at, key), table[key], field, read)
            elif field.required:
                self.flaw((*at, key), "is missing", f"add {key} to {_title(at)}")
        return read

    def unknown(self, at: Place, table: Mapping[str, Any], known: Collection[str]) -> None:
        """Report each key of a table that is not known."""
        for key in table:
            if key not in known:
                hint = did_you_mean(key, known) or f"known here: {', '.join(known)}"
                self.flaw((*at, key), "is not a known key", hint)

    def record(self, at: Place, value: object, struct: type[msgspec.Struct]) -> Any:
        """Return a Struct made of a table, with its default for each field that could not be read."""
        table = self.table(at, value)
        if table is None:
            return None
        read = self.fields(at, table, struct)
        whole = all(field.name in read for field in msgspec.structs.fields(struct) if field.required)
        return struct(**read) if whole else None

    def fits(self, at: Place, value: object, annotation: Any) -> bool:
        """Return whether a value is of a type whose description says what to write instead."""
        try:
            msgspec.convert(value, annotation)
        except msgspec.ValidationError:
            self.flaw(at, f"must be {_described(annotation)}")
            return False
        return True

    def secret(self, at: Place, value: object) -> Secret | None:
        """Return a secret given as { env = … }, { file = … } or, in a file for its owner's eyes, as plain text."""
        text = self._secret_text(at, value)
        if text is None:
            return None
        if not text:
            self.flaw(at, "is empty", f"write {_FORMS}")
            return None
        if not re.fullmatch(r"[\x21-\x7e]+", text):
            self.flaw(at, "holds characters that no header can carry", "use the key alone: one line, no spaces")
            return None
        if text.lower() in PLACEHOLDERS:
            self.flaw(at, "is the placeholder of an example", "put the real key there")
            return None
        secret = Secret(text)
        self.secrets.append(secret)
        return secret

    def path(self, text: str) -> Path:
        """Return a path of the file: ~ is the home folder, a relative one begins beside the config file."""
        home = self.source.environ.get("HOME")
        if home and (text == "~" or text.startswith("~/")):
            return Path(home, text[2:].lstrip("/"))
        with suppress(RuntimeError):  # the ~ of nobody: then it is a name like any other
            return self.source.folder / Path(text).expanduser()
        return self.source.folder / text

    def _field(self, at: Place, value: object, field: msgspec.structs.FieldInfo, read: dict[str, Any]) -> None:
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            inner = self.record(at, value, field.type)
        elif Secret in (field.type, *get_args(field.type)):
            inner = self.secret(at, value)
        else:
            self._plain(at, value, field, read)
            return
        if inner is not None:
            read[field.name] = inner

    def _plain(self, at: Place, value: object, field: msgspec.structs.FieldInfo, read: dict[str, Any]) -> None:
        try:
            read[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            self._mismatch(at, value, field, str(error))

    def _mismatch(self, at: Place, value: object, field: msgspec.structs.FieldInfo, message: str) -> None:
        found = _AT.search(message)
        inside = _inside(found[1] if found else "")
        message = _AT.sub("", message)
        place = (*at, *inside)
        if message.startswith("Invalid enum value"):
            choices = _choices(field.type)
            listed = ", ".join(f'"{choice}"' for choice in choices)
            self.flaw(place, f"must be one of {listed}", did_you_mean(_dig(value, inside), choices))
            return
        if "regex" in message:
            self.flaw(place, f"must be {_described(field.type)}")
            return
        self.flaw(place, _worded(message), _example(field))

    def _secret_text(self, at: Place, value: object) -> str | None:
        if isinstance(value, str):
            if not self.source.private:
                name = self.source.file
                self.flaw(at, "is a secret in a file that others can read", f"chmod 600 {name}, or write {_FORMS}")
                return None
            return value
        if not isinstance(value, dict) or len(value) != 1 or not isinstance(next(iter(value.values())), str):
            self.flaw(at, "must be a secret", f"write {_FORMS}")
            return None
        ((kind, name),) = value.items()
        if kind == "env":
            return self._variable((*at, kind), name)
        if kind == "file":
            return self._file((*at, kind), name)
        self.flaw((*at, kind), "is not a known key", did_you_mean(kind, ("env", "file")) or f"write {_FORMS}")
        return None

    def _variable(self, at: Place, name: str) -> str | None:
        text = self.source.environ.get(name, "").strip()
        if text:
            return text
        shown = f"variable {name}" if _VARIABLE.fullmatch(name) else "variable named here"
        self.flaw(at, f"the environment {shown} is not set", "export it before the start, or name another")
        return None

    def _file(self, at: Place, name: str) -> str | None:
        shown = f"file {name}" if _PATH.fullmatch(name) else "file named here"
        try:
            with self.path(name).open("rb") as file:
                data = file.read(MAX_SECRET_BYTES + 1)
            if len(data) > MAX_SECRET_BYTES:
                self.flaw(at, f"the {shown} is too large for a secret", "name a file that holds the key alone")
                return None
            return data.decode().strip()
        except UnicodeDecodeError:
            self.flaw(at, f"the {shown} is not text", "name a file that holds the key alone")
        except FileNotFoundError:
            self.flaw(at, f"the {shown} does not exist", "create it, readable by its owner alone, or name another")
        except (OSError, ValueError) as error:  # the latter for a NUL in the name
            self.flaw(at, f"the {shown} cannot be read ({_reason(error)})", "check its path and mode")
        return None


def _title(at: Place) -> str:
    return f"[{dotted(at)}]" if at and not isinstance(at[-1], int) else dotted(at) or "the file"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "not a usable path"


def _inside(path: str) -> Place:
    """Turn msgspec's `[1].model` into a place; `[...]`, the value of some key, ends it."""
    parts: list[str | int] = []
    for index, key in re.findall(r"\[(\d+|\.\.\.)\]|\.(\w+)", path):
        if index == "...":
            break
        parts.append(int(index) if index else key)
    return tuple(parts)


def _dig(value: Any, place: Place) -> object:
    for part in place:
        value = value[part]
    return value


def _choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(choice for inner in get_args(annotation) for choice in _choices(inner))


def _described(annotation: Any) -> str:
    """Find the description that a type carries in its msgspec.Meta."""
    for part in get_args(annotation):
        found = part.description if isinstance(part, msgspec.Meta) else _described(part)
        if found:
            return str(found)
    return ""


def _worded(message: str) -> str:
    """Put msgspec's "Expected `int | null`, got `str`" into words of TOML."""

    def word(found: re.Match[str]) -> str:
        name = found[1].removesuffix(" | null")
        return _WORDS.get(name, f"a {name}")

    text = re.sub(r"`([^`]+)`", word, message)
    return "must be " + text.removeprefix("Expected ").replace(", got ", ", not ")


def _example(field: msgspec.structs.FieldInfo) -> str:
    default = field.default
    if isinstance(default, bool):
        return f"for example {field.encode_name} = {str(default).lower()}"
    if isinstance(default, int | float) or (isinstance(default, str) and default):
        return f"for example {field.encode_name} = {msgspec.json.encode(default).decode()}"
    return ""
