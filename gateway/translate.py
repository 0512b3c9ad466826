"""`dragoman translate`: what a client's request, or an upstream's recorded stream, becomes; no network."""

import argparse
import sys
from pathlib import Path
from typing import cast

from gateway.cli import EXIT_OK, EXIT_PROBLEM
from translators.conversation import DialectName
from translators.dialect import Dialect, Reply, Source, Target
from translators.dialects import DIALECTS
from translators.fault import Fault, Refused
from translators.notes import KEPT, Notes
from translators.pair import Asked, Pair, Prepared, TranslatedStream
from translators.traits import traits_for

__all__ = ["translate"]

SEED = "0" * 24
"""Ids that an upstream did not give are made from this, so that the same input gives the same output."""
CREATED = 1_735_689_600
"""For the same reason the time of an answer whose upstream names none is always this, the first second of 2025."""


def translate(options: argparse.Namespace) -> int:
    """Print the translation of the input; 1 when it is refused or the recorded stream is broken."""
    try:
        data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    except OSError as error:
        print(f"dragoman: cannot read {options.file}: {error.strerror}", file=sys.stderr)
        return EXIT_PROBLEM
    source = DIALECTS[cast(DialectName, options.source)]
    target = DIALECTS[cast(DialectName, options.target)]
    if options.stream:
        return _stream(data, source, target, options)
    return _request(data, source, target, options)


def _request(data: bytes, client: Dialect, upstream: Dialect, options: argparse.Namespace) -> int:
    try:
        peek = client.peek(data)
    except Refused as refused:
        return _refused(refused.fault)
    model = options.model or peek.model
    target = Target(model=model, traits=traits_for(model), strict=options.strict)
    prepared = Pair(client, upstream).request(data, peek, target, Asked(alias=peek.model, seed=SEED))
    if isinstance(prepared, Fault):
        return _refused(prepared)
    _tell(prepared.notes)
    sys.stdout.buffer.write(prepared.body + b"\n")
    return EXIT_OK


def _stream(data: bytes, upstream: Dialect, client: Dialect, options: argparse.Namespace) -> int:
    """Translate a recorded stream: `--from` is the dialect of the recording, `--to` the client's."""
    notes = Notes(strict=options.strict)
    prepared = Prepared(
        body=b"",
        stream=True,
        native=False,
        reply=Reply(options.model or "model", CREATED, SEED, include_usage=True, notes=notes),
        source=Source(strict=options.strict, notes=notes),
        notes=notes,
    )
    machine = TranslatedStream(Pair(client, upstream), prepared)
    out = machine.feed(data) + machine.finish()
    if machine.fault is not None and not machine.begun:
        out = machine.failure(machine.fault)
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    _tell(prepared.notes)
    return EXIT_OK if machine.fault is None else _refused(machine.fault)


def _tell(notes: Notes) -> None:
    for note in notes.kept:
        print(f"{note.kind}: {note.field}: {note.message}", file=sys.stderr)
    if notes.count > KEPT:
        print(f"and {notes.count - KEPT} more", file=sys.stderr)


def _refused(fault: Fault) -> int:
    where = f" ({fault.param})" if fault.param else ""
    print(f"dragoman: {fault.kind}{where}: {fault.message}", file=sys.stderr)
    return EXIT_PROBLEM
