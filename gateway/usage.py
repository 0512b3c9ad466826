"""`dragoman usage`: what the ledger holds. No ledger exists yet, and that is what it says."""

import argparse
import sys

from gateway.cli import EXIT_PROBLEM

__all__ = ["usage"]

ABSENT = "no ledger configured; each request's tokens are in its log record (see [log] file)"


def usage(options: argparse.Namespace) -> int:
    """Say that there is no ledger; 1, because the question has no answer."""
    if options.json:
        sys.stdout.write("null\n")
    sys.stderr.write(f"dragoman: {ABSENT}\n")
    return EXIT_PROBLEM
