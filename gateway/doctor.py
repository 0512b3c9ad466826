"""`dragoman doctor`: everything that is known to go wrong, looked at once, each with a way to mend it."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway import aim
from gateway.checkup import Finding, current_folder, files, packages, redirects
from gateway.cli import EXIT_CONFIG, EXIT_OK, EXIT_PROBLEM, EXIT_UPSTREAM
from gateway.config import Config
from gateway.probes import Answer, ask, effective_url

__all__ = ["doctor"]

MAX_SKEW_S = 60.0
"""More than that, and logins look expired too early or too late."""
COLORS = {"ok": "32", "note": "33", "problem": "31", "unreachable": "31"}


def doctor(options: argparse.Namespace) -> int:
    """Print findings; 69 when a provider cannot be reached, 1 for any other problem, 78 for a wrong configuration."""
    from gateway.commands import complain, read

    config = read(options)
    if not isinstance(config, Config):
        if options.json:
            sys.stdout.write(msgspec.json.encode(config).decode() + "\n")
            return EXIT_CONFIG
        return complain(config)
    found = [Finding("ok", str(config.path), f"{len(config.providers)} providers, {len(config.models)} aliases")]
    found += _local(config)
    if not options.offline:
        if sys.stderr.isatty():
            print(f"asking {', '.join(config.providers) or 'nobody'} …", file=sys.stderr)
        found += asyncio.run(_asked(config))
    _print(found, as_json=options.json)
    levels = {finding.level for finding in found}
    if "unreachable" in levels:
        return EXIT_UPSTREAM
    return EXIT_PROBLEM if "problem" in levels else EXIT_OK


async def _asked(config: Config) -> list[Finding]:
    """Ask all providers at the same time."""
    answers = await asyncio.gather(*(ask(table) for table in config.providers.values()))
    return [finding for group in answers for finding in judged(group, config)]


def _local(config: Config) -> Iterator[Finding]:
    yield from files(config, os.environ)
    yield from packages()
    own = aim.address(config)
    listing = aim.listing(own, os.environ.get(aim.KEY_NAME, "local"))
    running = (
        "a gateway answers there" if listing.status else "no gateway answers there; start one with `dragoman serve`"
    )
    yield Finding("ok" if listing.status else "note", "gateway", f"{own}: {running}")
    for table in config.providers.values():
        yield Finding("ok", f"providers.{table.name}", f"requests go to {effective_url(table)}")
    yield from redirects(current_folder(), Path(os.environ.get("HOME", "/")), os.environ, own)


def judged(answers: list[Answer], config: Config) -> Iterator[Finding]:
    """Say what a provider's answers mean, and what its clock says."""
    for answer in answers:
        yield _judged(answer, bool(config.providers[answer.provider].credentials))
    skew = next((answer.skew_s for answer in answers if answer.skew_s is not None), None)
    if skew is not None and abs(skew) > MAX_SKEW_S:
        what = f"differs by {abs(skew):.0f} s from the clock of {answers[0].provider}"
        yield Finding("problem", "clock", what, "set this machine's clock; logins and cooldowns depend on it")


def _judged(answer: Answer, logged_in: bool) -> Finding:
    about = f"providers.{answer.provider}" + (f" key {answer.key}" if answer.key else "")
    if answer.status == 0:
        return Finding("unreachable", about, answer.why, "check base_url, the network, and trust_env behind a proxy")
    if answer.status in (401, 403):
        if not answer.key:
            what = (
                "it answers; its logins are tried with the first request"
                if logged_in
                else "it answers, and wants a key"
            )
            return Finding("note" if logged_in else "problem", about, what)
        return Finding("problem", about, f"the key is refused (HTTP {answer.status})", "put a valid key there")
    if answer.status == 429:
        return Finding("note", about, "the key is limited at the moment (HTTP 429)")
    if answer.status >= 500:
        return Finding(
            "problem", about, f"it answers with HTTP {answer.status}", "try again later, or ask the provider"
        )
    if answer.status >= 300:
        return Finding("note", about, f"it answers (HTTP {answer.status}); whether it takes the key is not known")
    return Finding("ok", about, "it answers and takes the key" if answer.key else "it answers")


def _print(found: list[Finding], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for finding in found:
        word = f"\x1b[{COLORS[finding.level]}m{finding.level:<11}\x1b[0m" if color else f"{finding.level:<11}"
        print(f"{word} {_plain(finding.about)}: {_plain(finding.what)}")
        if finding.mend and finding.level != "ok":
            print(f"{'':<11} {_plain(finding.mend)}")


def _plain(text: str) -> str:
    # Foreign files and names could otherwise drive the terminal.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
