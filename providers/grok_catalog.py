"""Which models the Grok CLI's upstream has and which reasoning efforts they take (spec/grok.md 5).

Pure: `parse` reads the upstream's list, `Catalog` answers from it, or from the list that was known when this was
written. It says when to ask again; the provider does the asking.
"""

from typing import Any

import msgspec

from translators.jsonio import ERRORS

__all__ = ["REFRESH_S", "Catalog", "Entry", "parse"]

REFRESH_S = 6 * 3600.0
RETRY_S = 60.0
"""After a list that could not be had, or a model that it does not have."""
MAX_MODELS = 1000


class Entry(msgspec.Struct, frozen=True):
    """One model: its wire id, the efforts it takes (() for none), and its context in tokens if known."""

    id: str
    efforts: tuple[str, ...] = ()
    context: int | None = None


_THREE = ("low", "medium", "high")
_KNOWN = {
    entry.id: entry
    for entry in (
        Entry("grok-4.6", (*_THREE, "xhigh"), 500_000),
        Entry("grok-4.5", _THREE, 500_000),
        Entry("grok-build-0.1", (), 256_000),
        Entry("grok-4.3", ("none", *_THREE), 1_000_000),
        Entry("grok-4.20-0309-reasoning", _THREE, 2_000_000),
        Entry("grok-4.20-0309-non-reasoning", (), 2_000_000),
        Entry("grok-4.20-multi-agent-0309", _THREE, 2_000_000),
        Entry("grok-3-mini", ("low", "high")),
        Entry("grok-3-mini-fast", ("low", "high")),
        Entry("grok-composer-2.5-fast", (), 200_000),
    )
}


def parse(body: bytes) -> dict[str, Entry] | None:
    """Return the models of a list by id, None when it is none. Members may be camelCase and lie under `_meta`."""
    try:
        document = msgspec.json.decode(body)
    except ERRORS:
        return None
    listed = document.get("data", document.get("models")) if isinstance(document, dict) else document
    if not isinstance(listed, list):
        return None
    found: dict[str, Entry] = {}
    for item in listed[:MAX_MODELS]:
        if isinstance(item, dict):
            meta = item.get("_meta")
            members = {**item, **meta} if isinstance(meta, dict) else item
            for name in (members.get("id"), members.get("model")):
                if isinstance(name, str) and name:
                    found[name] = _entry(name, members)
    return found or None


def _entry(name: str, item: dict[str, Any]) -> Entry:
    supported = item.get("supportsReasoningEffort", item.get("supports_reasoning_effort"))
    listed = item.get("reasoningEfforts", item.get("reasoning_efforts"))
    values = [one.get("value") if isinstance(one, dict) else one for one in listed] if isinstance(listed, list) else []
    efforts = tuple(value for value in values if isinstance(value, str))
    known = _KNOWN.get(name)
    if supported is False:
        efforts = ()
    elif not efforts:
        efforts = known.efforts if known else _THREE if supported else ()
    context = item.get("contextWindow", item.get("context_window"))
    if not isinstance(context, int) or context <= 0:
        context = known.context if known else None
    return Entry(name, efforts, context)


class Catalog:
    """The list as last heard. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.etag = ""
        self._models: dict[str, Entry] = {}
        self._heard = 0.0
        self._asked = -RETRY_S
        self._seen = ""

    @property
    def known(self) -> bool:
        """Tell whether the upstream's list was ever had."""
        return bool(self._models)

    def names(self) -> tuple[str, ...]:
        """Return the models of the upstream's list, without one those that were known when this was written."""
        return tuple(self._models or _KNOWN)

    def context(self, model: str) -> int | None:
        """Return a model's context in tokens if known."""
        entry = self._models.get(model) or _KNOWN.get(model)
        return entry.context if entry is not None else None

    def efforts(self, model: str) -> tuple[str, ...]:
        """Return the efforts of a model; one that nobody knows is taken for an ordinary reasoning model."""
        entry = self._models.get(model) or _KNOWN.get(model)
        if entry is not None:
            return entry.efforts
        return () if "composer" in model or "non-reasoning" in model else _THREE

    def wanted(self, seen_etag: str, now: float, *, unknown_model: bool = False) -> bool:
        """Tell whether to ask for the list: another ETag was seen, it is old, or a model was not found."""
        if now - self._asked < RETRY_S:
            return False
        old = bool(self._models) and now - self._heard >= REFRESH_S
        return unknown_model or old or bool(seen_etag and seen_etag not in (self.etag, self._seen))

    def asked(self, seen_etag: str, now: float) -> None:
        """Note that the list is being asked for; an ETag that replies name need not be the list's own header."""
        self._asked = now
        self._seen = seen_etag or self._seen

    def heard(self, status: int, etag: str, body: bytes, now: float) -> bool:
        """Take the answer; True when it was of use. 304 confirms what is known."""
        if status == 304 and self._models:
            self._heard = now
            return True
        models = parse(body) if status == 200 else None
        if models is None:
            return False
        self._models, self.etag, self._heard = models, etag, now
        return True
