"""`dragoman tail`: the feed of summaries, one line a request, over restarts of the gateway."""

import argparse
import asyncio
import os
import sys
from fnmatch import fnmatchcase

import msgspec

from gateway.cli import EXIT_OK, EXIT_PROBLEM
from gateway.follow import Refused, follow
from gateway.lines import request_line
from gateway.record import Record
from gateway.target import Target, refusal, target

__all__ = ["tail", "wanted"]

FAILED = "failed"
"""The outcome filter that stands for all that is not an answer."""


def tail(options: argparse.Namespace) -> int:
    """Follow until stopped; 1 when the gateway refuses."""
    asked = target(options)
    return asked if isinstance(asked, int) else asyncio.run(_follow(asked, options))


async def _follow(asked: Target, options: argparse.Namespace) -> int:
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    url = f"{asked.url}/admin/events?newest={max(0, options.last)}"

    def lost() -> None:
        print(f"dragoman: {asked.url} is gone; waiting for it", file=sys.stderr, flush=True)

    def found() -> None:
        print(f"dragoman: {asked.url} is back", file=sys.stderr, flush=True)

    try:
        async for item in follow(url, asked.headers, lost=lost, found=found):
            if isinstance(item, int):
                print(f"dragoman: {item} requests were missed", file=sys.stderr, flush=True)
            elif wanted(item, options):
                line = msgspec.json.encode(item).decode() if options.json else request_line(item, color=color)
                print(line, flush=True)
    except Refused as refused:
        print(f"dragoman: {refusal(refused.status, asked.url)}", file=sys.stderr)
        return EXIT_PROBLEM
    return EXIT_OK


def wanted(record: Record, options: argparse.Namespace) -> bool:
    """Tell whether a record passes the filters; names may hold * and ?."""
    if options.client and not fnmatchcase(record.client or "", options.client):
        return False
    if options.alias and not fnmatchcase(record.alias or "", options.alias):
        return False
    if not options.outcome:
        return True
    failed = record.outcome not in ("complete", "incomplete")
    return record.outcome in options.outcome or (failed and FAILED in options.outcome)
