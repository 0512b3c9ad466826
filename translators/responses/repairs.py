"""What a decoder mends in an upstream's stream: a note each in lenient mode, a violation in strict mode (I1)."""

from translators.fault import Refused, broken
from translators.notes import Notes

__all__ = ["Repairs"]


class Repairs:
    """Judge deviations. `quiet` keeps repairs unnoted, for a whole body that has no events to miss."""

    def __init__(self, *, strict: bool, notes: Notes | None = None) -> None:
        self.notes = notes or Notes()
        self.quiet = False
        self._strict = strict
        self._told: set[str] = set()

    def made(self, field: str, message: str) -> None:
        """Note one of the listed repairs; raises Refused instead in strict mode (spec/translation.md 5.2)."""
        if self.quiet:
            return
        if self._strict:
            raise Refused(broken(f"the upstream broke its protocol: {message}"))
        self.notes.changed(field, message)

    def gap(self, message: str) -> None:
        """Raise Refused in strict mode for a hole in the source's numbers, which needs no mending (I6)."""
        if self._strict and not self.quiet:
            raise Refused(broken(f"the upstream broke its protocol: {message}"))

    def once(self, field: str, message: str) -> None:
        """Note the first of many equal omissions, which break nothing."""
        if field not in self._told:
            self._told.add(field)
            self.notes.omitted(field, message)

    def first(self, field: str) -> bool:
        """Tell whether something is to be judged for the first time."""
        if field in self._told:
            return False
        self._told.add(field)
        return True
