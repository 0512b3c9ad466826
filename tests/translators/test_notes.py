"""Notes of a conversion: counted without end, kept up to a bound, and refusals in strict mode."""

import pytest

from translators.fault import Refused
from translators.notes import KEPT, Note, Notes


@pytest.mark.invariant("I34")
def test_each_kind_of_note_keeps_its_path():
    """One change or drop is one note with the field's path."""
    notes = Notes()
    notes.changed("a.0", "other form")
    notes.omitted("b", "left out")
    notes.dropped("c", "cannot be said")
    assert [
        Note("a.0", "changed", "other form"),
        Note("b", "omitted", "left out"),
        Note("c", "omitted", "cannot be said"),
    ] == notes.kept
    assert 3 == notes.count


def test_equal_omissions_are_noted_once():
    """What an answer loses again and again is one note."""
    notes = Notes()
    for _ in range(3):
        notes.once("citations", "left out")
    assert ([Note("citations", "omitted", "left out")], 1) == (notes.kept, notes.count)


def test_strict_mode_refuses_a_drop():
    """In strict mode a drop is a refusal that names field and code; the other kinds stay notes."""
    notes = Notes(strict=True)
    notes.changed("a", "m")
    notes.omitted("b", "m")
    with pytest.raises(Refused) as refused:
        notes.dropped("c.1", "cannot be said", "unsupported_tool")
    fault = refused.value.fault
    assert ("c.1: cannot be said", "c.1", "unsupported_tool", 400) == (
        fault.message, fault.param, fault.code, fault.status
    )  # fmt: skip
    assert 2 == notes.count


def test_notes_beyond_the_bound_are_counted_only():
    """The bound keeps memory flat for requests that repeat one oddity (section 8)."""
    notes = Notes()
    for n in range(KEPT + 1):
        notes.omitted(f"f.{n}", "m")
    assert (KEPT, KEPT + 1) == (len(notes.kept), notes.count)
    assert f"f.{KEPT - 1}" == notes.kept[-1].field


@pytest.mark.parametrize(
    ("client", "field", "word"),
    [
        ("messages", "stop", "stop_sequences"),
        ("messages", "response_format", "output_config.format"),
        ("messages", "reasoning_effort", "thinking"),
        ("responses", "verbosity", "text.verbosity"),
        ("responses", "response_format", "text.format"),
        ("responses", "max_tokens", "max_output_tokens"),
        ("chat", "max_output_tokens", "max_tokens"),
        ("chat", "verbosity", "verbosity"),
        ("", "stop", "stop"),
    ],
)
def test_fields_have_the_clients_names(client, field, word):
    """Whoever reads a note looks for the word in the client's own request, and so does a strict refusal."""
    notes = Notes(client=client)
    notes.changed(field, "x")
    notes.omitted(field, "x")
    notes.dropped(field, "x")
    notes.once(field, "x")
    assert [word] * 3 == [note.field for note in notes.kept]
    with pytest.raises(Refused) as caught:
        Notes(strict=True, client=client).dropped(field, "x")
    assert (word, f"{word}: x") == (caught.value.fault.param, caught.value.fault.message)
