"""What hangs on a Chat answer's text: log probabilities and web citations (spec/translation.md 1.15, 4.6)."""

import msgspec

from translators.events import Citation, Logprob
from translators.jsonio import ERRORS
from translators.notes import Notes

__all__ = ["read_citations", "read_logprobs"]


class _Logprobs(msgspec.Struct):
    content: list[Logprob] | None = None


class _UrlCitation(msgspec.Struct):
    url: str
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class _Annotation(msgspec.Struct):
    url_citation: _UrlCitation | None = None


_logprobs = msgspec.json.Decoder(_Logprobs | None).decode
_annotations = msgspec.json.Decoder(list[_Annotation] | None).decode


def read_logprobs(raw: bytes | msgspec.Raw, notes: Notes) -> tuple[Logprob, ...]:
    """Return the log probabilities of a choice's content; unreadable ones are left out with a note."""
    try:
        found = _logprobs(raw)
    except ERRORS:
        notes.omitted("logprobs", "not readable")
        return ()
    return tuple(found.content or ()) if found else ()


def read_citations(raw: bytes | msgspec.Raw, base: int, notes: Notes) -> list[Citation]:
    """Return the URL citations among a message's annotations, with offsets in the block that begins at `base`."""
    try:
        found = _annotations(raw) or []
    except ERRORS:
        notes.omitted("annotations", "not readable")
        return []
    return [_shifted(annotation.url_citation, base) for annotation in found if annotation.url_citation]


def _shifted(cited: _UrlCitation, base: int) -> Citation:
    start = None if cited.start_index is None else max(0, cited.start_index - base)
    end = None if cited.end_index is None else max(0, cited.end_index - base)
    return Citation(cited.url, cited.title or "", start, end)
