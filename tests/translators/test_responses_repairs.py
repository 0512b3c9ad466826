"""Repairs: noted, refused or quiet."""

import pytest

from translators.fault import Refused
from translators.responses.repairs import Repairs


@pytest.mark.invariant("I1")
def test_strict_mode_refuses_what_lenient_mode_notes():
    """A repair is a note in lenient mode and a broken protocol in strict mode."""
    lenient = Repairs(strict=False)
    lenient.made("usage", "token counts decrease")
    assert [("usage", "changed")] == [(note.field, note.kind) for note in lenient.notes.kept]
    with pytest.raises(Refused) as caught:
        Repairs(strict=True).made("usage", "token counts decrease")
    assert ("api", "protocol") == (caught.value.fault.kind, caught.value.fault.cause)


def test_quiet_repairs_leave_no_trace():
    """A whole body misses no events, in either mode."""
    repairs = Repairs(strict=True)
    repairs.quiet = True
    repairs.made("usage", "x")
    assert 0 == repairs.notes.count


def test_equal_omissions_are_noted_once():
    """One note per type is enough."""
    repairs = Repairs(strict=True)
    repairs.once("event x", "ignored")
    repairs.once("event x", "ignored")
    assert 1 == repairs.notes.count
    assert (True, False) == (repairs.first("y"), repairs.first("y"))
