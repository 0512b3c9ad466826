"""Finds and reads the config file: a whole `Config`, or every problem at once, each with file and line.

Reading needs no network, writes nothing, and imports no plugin unless `options_type` does.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from gateway.config import Config
from gateway.configread import Reader, Source
from gateway.configtables import OptionsType, read_config
from gateway.problems import Problem
from gateway.tomllines import parse
from providers import registry

__all__ = ["find", "load"]

MAX_CONFIG_BYTES = 4 << 20
SYSTEM_PATH = Path("/etc/dragoman/config.toml")


def find(explicit: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the config file to use: the one that is named, else the first that exists, else None.

    A file named by option or by $DRAGOMAN_CONFIG is returned whether it exists or not, so that a slip is
    an error and not another configuration.
    """
    named = explicit or environ.get("DRAGOMAN_CONFIG")
    if named:
        return Path(named)
    places = [folder / "dragoman" / "config.toml" for folder in _user_folders(environ)]
    return next((path for path in (*places, SYSTEM_PATH) if path.is_file()), None)


def load(
    path: str | Path,
    environ: Mapping[str, str],
    *,
    plugins: Collection[str] | None = None,
    options_type: OptionsType = lambda _: None,
) -> Config | list[Problem]:
    """Return the configuration of a file, or all that is wrong with it in the order of its lines.

    `plugins` are the known plugin names, those of the registry when None; `options_type` says which keys of
    its own a plugin takes.
    """
    path, file = Path(path), str(path)
    try:
        with path.open("rb") as opened:
            private = os.fstat(opened.fileno()).st_mode & 0o077 == 0
            data = opened.read(MAX_CONFIG_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return [Problem(file, line, "", "is not UTF-8 text", "save the file as UTF-8")]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a usable path"
        return [Problem(file, 0, "", f"cannot be read: {reason}", "make one with `dragoman init`, or name another")]
    if len(data) > MAX_CONFIG_BYTES:
        return [Problem(file, 0, "", f"is larger than {MAX_CONFIG_BYTES} bytes", "name a config file")]
    source = Source(file, path.absolute().parent, private, environ)
    names = registry.entries() if plugins is None else plugins
    read = _read(text, source, names, options_type)
    if isinstance(read, list):
        return read
    return msgspec.structs.replace(read, path=path, digest=hashlib.sha256(data).hexdigest())


def _read(text: str, source: Source, plugins: Collection[str], options_type: OptionsType) -> Config | list[Problem]:
    parsed = parse(text)
    reader = Reader(source, parsed.lines)
    problems = [Problem(source.file, *flaw) for flaw in parsed.flaws]
    config = read_config(reader, parsed.table, plugins, options_type) if parsed.table is not None else Config()
    problems += reader.problems
    return sorted(problems, key=lambda problem: (problem.line, problem.key)) or config


def _user_folders(environ: Mapping[str, str]) -> list[Path]:
    # The XDG specification says to ignore a relative path.
    folder = environ.get("XDG_CONFIG_HOME", "")
    if folder.startswith("/"):
        return [Path(folder)]
    home = environ.get("HOME")
    return [Path(home, ".config")] if home else []
