"""`doctor`'s look at this machine: files and their modes, who owns our packages, settings that redirect clients."""

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Literal

import msgspec

from gateway.config import Config
from gateway.keeper import default_folder

__all__ = ["Finding", "files", "packages", "redirects"]

OURS = "dragoman-gateway"
PACKAGES = ("gateway", "providers", "translators")
MAX_SETTINGS_BYTES = 1 << 20
VARIABLES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GROK_MODELS_BASE_URL", "GROK_CLI_CHAT_PROXY_BASE_URL")
"""What the clients read their address from."""
SETTINGS = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".grok/config.toml",
    "opencode.json",
    ".config/opencode/opencode.json",
)
ADDRESSES = frozenset({*VARIABLES, "base_url", "baseURL", "openai_base_url", "models_base_url", "api_base_url"})


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `unreachable` is a problem that another exit code tells."""

    level: Literal["ok", "note", "problem", "unreachable"]
    about: str
    what: str
    mend: str = ""


def files(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the modes of the config file, of stored logins, and of the state folder."""
    if config.path is not None:
        yield _mode(config.path, 0o022, "may be changed by others", f"chmod go-w {config.path}")
    for table in config.providers.values():
        for credential in table.credentials:
            if credential.file is None:
                continue
            path = Path(credential.file)
            about = f"providers.{table.name}.credentials"
            if not path.exists():
                yield Finding(
                    "problem",
                    about,
                    f"{path} does not exist",
                    f"dragoman login, or name the file of {credential.name!r}",
                )
            else:
                yield _mode(path, 0o077, "may be read by others", f"chmod 600 {path}")
    kind, _, folder = config.state.url.partition(":")
    if kind == "file":
        place = Path(folder) if folder else default_folder(environ)
        if place.exists():
            yield _mode(place, 0o077, "may be read by others", f"chmod 700 {place}")


def _mode(path: Path, forbidden: int, what: str, mend: str) -> Finding:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return Finding("problem", str(path), f"cannot be looked at: {error.strerror}")
    if mode & forbidden:
        return Finding("problem", str(path), f"{what} (mode {mode:03o})", mend)
    return Finding("ok", str(path), f"mode {mode:03o}")


def packages() -> Iterator[Finding]:
    """Tell whether another distribution installed files into our top-level packages, which would run as ours."""
    owners = packages_distributions()
    for name in PACKAGES:
        strangers = sorted({owner for owner in owners.get(name, ()) if owner.lower().replace("_", "-") != OURS})
        if strangers:
            mend = "install Dragoman into an environment of its own: pipx install dragoman-gateway"
            yield Finding("problem", f"package {name}", f"also comes from {', '.join(strangers)}", mend)
    files = (getattr(import_module(name), "__file__", None) for name in PACKAGES)
    places = {str(Path(file).parents[1]) if file else "no folder of its own" for file in files}
    if len(places) == 1:
        yield Finding("ok", "packages", f"{', '.join(PACKAGES)} lie in {places.pop()}")
    else:
        yield Finding("problem", "packages", f"lie in different folders: {', '.join(sorted(places))}")


def redirects(here: Path, home: Path, environ: Mapping[str, str], own: str) -> Iterator[Finding]:
    """Name every setting that leads a client to an address other than `own`: of this folder, the home, the shell.

    A project's file is a problem: whoever wrote the repository gets the prompts (CVE-2026-21852).
    """
    for name in VARIABLES:
        if value := environ.get(name):
            yield _lead("note", f"${name}", value, own, "`dragoman launch` sets its own")
    seen: set[Path] = set()
    for folder in (here, *here.parents, home):
        for relative in SETTINGS:
            path = folder / relative
            if path in seen:
                continue
            seen.add(path)
            level: Literal["note", "problem"] = "note" if folder == home else "problem"
            for key, value in _addresses(_read(path)):
                yield _lead(level, f"{path} {key}", value, own, "remove it, unless you trust whoever wrote it")


def _lead(level: Literal["note", "problem"], about: str, value: str, own: str, mend: str) -> Finding:
    shown = value.partition("?")[0].rpartition("@")[2] if "@" in value else value.partition("?")[0]
    if value.rstrip("/").removesuffix("/v1") == own:
        return Finding("ok", about, "leads to this gateway")
    return Finding(level, about, f"leads a client to {shown[:200]}", mend)


def _read(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_SETTINGS_BYTES:
            return None
        data = path.read_bytes()
        return tomllib.loads(data.decode()) if path.suffix == ".toml" else msgspec.json.decode(data)
    except (OSError, ValueError, RecursionError):  # not there, or not for us to judge
        return None


def _addresses(value: Any, place: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict) or depth > 6:
        return
    for key, inner in value.items():
        at = f"{place}.{key}" if place else str(key)
        if key in ADDRESSES and isinstance(inner, str) and inner:
            yield at, inner
        yield from _addresses(inner, at, depth + 1)


def current_folder() -> Path:
    """Return the current folder, the root when it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.sep)
