"""Write docs/configuration.md from the Structs of gateway.config and the comments of config.example.toml.

python docs/configuration.py        (a test compares the file with what this makes)
"""

import re
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gateway import config  # noqa: E402  the checkout comes first
from gateway.plugins import names, options_type  # noqa: E402
from translators.traits import Traits  # noqa: E402

HEAD = """\
# Configuration

Made by `python docs/configuration.py` from the code and from [config.example.toml](../config.example.toml), which is
a whole file with every key. `dragoman init` writes a short one, `dragoman check` finds what is wrong.

The file is the one of `--config`, else `$DRAGOMAN_CONFIG`, else `$XDG_CONFIG_HOME/dragoman/config.toml` (`~/.config`
when unset), else `/etc/dragoman/config.toml`. Unknown keys are errors. A secret is `{ env = "NAME" }`,
`{ file = "PATH" }`, or plain text in a file that only its owner can read (0600). Relative paths begin at the file's
folder. SIGHUP, or a change of the file, loads it anew: the whole new configuration is built and swapped in, running
requests end on the old one, and a broken file changes nothing and is reported. What only counts at the start: `host`,
`port`, `workers`, `[state]` and `[log]`.
"""
TABLES = (
    ("[server]", "server", config.Server, ()),
    ("[[clients]]", "clients", config.Client, ()),
    ("[providers.NAME]", "providers", config.Provider, ("name", "timeouts", "pool", "options")),
    ("[providers.NAME.timeouts]", "providers", config.Timeouts, ()),
    ("[providers.NAME.pool]", "providers", config.Pool, ()),
    ('[models."ALIAS"]', "models", config.Model, ()),
    ("[state]", "state", config.State, ()),
    ("[log]", "log", config.Log, ()),
)
NAMED = {"name": "in logs and metrics"}
ELEMENTS = (
    (
        "An element of `keys`",
        config.Key,
        NAMED | {"value": "the key, a secret", "max_in_flight": "requests at once; 0 = no limit"},
    ),
    (
        "An element of `credentials`",
        config.Credential,
        NAMED | {"file": "of the login; absent: where `dragoman login` puts it"},
    ),
    (
        "An element of `routes`",
        config.Route,
        {"provider": "a table of `[providers]`", "model": "the upstream's name; absent: the name that the client sent"},
    ),
)
DEFAULTS = {"plugin": "the table's name"}
MORE = {
    ("clients", "key_sha256"): "SHA-256 of the key that the client sends, 64 hexadecimal digits; or `key`, a secret",
    ("models", "routes"): "list of routes in order of preference; or `provider` and `model` for a single one",
    ("models", "traits"): "what differs from the model's family, see below",
}
ADMIN = """
## [admin]

| key | type | default | means |
|---|---|---|---|
| `key` | secret | none | for /metrics, /admin and the status page's data; without it loopback may read them |
| `key_sha256` | string | none | the same, as 64 hexadecimal digits |
"""
PLUGIN_MORE = {"auth": "`x-api-key` or `bearer`: the header that carries the key"}
ENTRY = re.compile(r"^#?(\w+) = [^#]*(?:#\s*(.*))?$")


def described(text: str) -> dict[tuple[str, str], str]:
    """Collect the comments of the example file by (top-level table, key)."""
    found: dict[tuple[str, str], str] = {}
    section, last = "", None
    for line in text.splitlines():
        if header := re.match(r"\[+(\w+)", line):
            section, last = header[1], None
        elif entry := ENTRY.match(line):
            last = (section, entry[1]) if entry[2] else None
            if last is not None:
                found.setdefault(last, entry[2])
        elif (more := re.match(r"\s{20,}# (.*)$", line)) and last is not None:
            found[last] += " " + more[1]
        else:
            last = None
    return found


def typed(annotation: Any) -> str:
    """Say a type in words of TOML."""
    if isinstance(annotation, msgspec.Meta):
        return ""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " \\| ".join(f"`{choice}`" if choice else '`""`' for choice in args)
    if origin in (Union, types.UnionType):
        return typed(next(arg for arg in args if arg is not type(None)))
    if origin is tuple:
        return f"list of {typed(args[0])}"
    if origin is dict:
        return "table"
    if hasattr(annotation, "__metadata__"):
        return typed(args[0]) + ranged(annotation.__metadata__[0])
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return "table"
    return {bool: "true \\| false", int: "integer", float: "number", str: "string"}.get(annotation, "secret")


def ranged(meta: msgspec.Meta) -> str:
    """Show the bounds of a number that anybody would meet."""
    low = f" over {meta.gt:g}" if meta.gt is not None else f" from {meta.ge:g}" if meta.ge else ""
    high = f" to {meta.le:,.0f}" if meta.le is not None and meta.le < 2**40 else ""
    return low + high


def default(field: msgspec.structs.FieldInfo) -> str:
    """Show a default as TOML would write it."""
    if field.required:
        return "required"
    value = field.default
    if value is msgspec.NODEFAULT:
        return "`{}`"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:_}`" if isinstance(value, int) else f"`{value}`"


def rows(struct: type[msgspec.Struct], means: Any, hidden: tuple[str, ...] = ()) -> list[str]:
    """Return the lines of a table."""
    lines = ["", "| key | type | default | means |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        if field.name not in hidden:
            text = means(field.encode_name).replace("|", "\\|")
            given = DEFAULTS.get(field.name) or default(field)
            lines.append(f"| `{field.encode_name}` | {typed(field.type)} | {given} | {text} |")
    return lines


def document() -> str:
    """Return the whole text."""
    comments = described((ROOT / "config.example.toml").read_text()) | MORE
    lines = [HEAD]
    for title, section, struct, hidden in TABLES:
        lines += [f"\n## {title}", *rows(struct, lambda key, at=section: comments.get((at, key), ""), hidden)]
        if title == "[[clients]]":
            lines.append(ADMIN)
        if title == "[providers.NAME.pool]":
            for name, element, means in ELEMENTS[:2]:
                lines += [f"\n### {name}", *rows(element, means.__getitem__)]
            lines += plugins(comments)
        if title.startswith("[models"):
            name, element, means = ELEMENTS[2]
            lines += [f"\n### {name}", *rows(element, means.__getitem__)]
            lines += ["\n### `traits`", "\nWhat a model accepts, where it differs from what its name lets expect.", ""]
            lines += ["| key | type |", "|---|---|"]
            lines += [f"| `{field.encode_name}` | {typed(field.type)} |" for field in msgspec.structs.fields(Traits)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def plugins(comments: dict[tuple[str, str], str]) -> list[str]:
    """Return the sections of the plugins that have keys of their own."""
    lines = []
    for name in names():
        struct = options_type(name)
        if struct is not None:
            means = lambda key: PLUGIN_MORE.get(key) or comments.get(("providers", key), "")  # noqa: E731
            lines += [f'\n### Further keys with plugin = "{name}"', *rows(struct, means)]
    return lines


if __name__ == "__main__":
    (ROOT / "docs" / "configuration.md").write_text(document())
