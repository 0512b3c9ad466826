"""The model list: both spellings, its ETag, and when it is asked for."""

import json

from providers.grok_catalog import REFRESH_S, RETRY_S, Catalog, Entry, parse

LISTED = {
    "data": [
        {"id": "a", "model": "a-wire", "reasoningEfforts": ["low", {"value": "high"}], "contextWindow": 5},
        {"id": "b", "_meta": {"supports_reasoning_effort": True, "context_window": 0}},
        {"id": "c", "supportsReasoningEffort": False, "reasoning_efforts": ["low"]},
        {"id": "grok-4.5"},
        {"id": "d"},
        7,
        {"id": 7},
    ]
}


def test_entries():
    """Efforts come as words or values, context as a number; what is not told is taken from what is known."""
    found = parse(json.dumps(LISTED).encode())
    assert found is not None
    assert Entry("a", ("low", "high"), 5) == found["a"]
    assert Entry("a-wire", ("low", "high"), 5) == found["a-wire"]
    assert Entry("b", ("low", "medium", "high")) == found["b"]
    assert [Entry("c"), Entry("d")] == [found["c"], found["d"]]
    assert Entry("grok-4.5", ("low", "medium", "high"), 500_000) == found["grok-4.5"]
    assert {"x": Entry("x")} == parse(b'[{"id":"x"}]') == parse(b'{"models":[{"id":"x"}]}')


def test_what_is_no_list():
    """Anything else is no list, and leaves what is known."""
    assert [None] * 4 == [parse(body) for body in (b"{", b"7", b"{}", b"[]")]


def test_efforts_without_a_list():
    """Known models have theirs, unknown ones the usual three, those that do not reason none."""
    catalog = Catalog()
    assert ("low", "medium", "high", "xhigh") == catalog.efforts("grok-4.6")
    assert [("low", "medium", "high"), (), ()] == [
        catalog.efforts(name) for name in ("grok-9", "grok-composer-9", "grok-9-non-reasoning")
    ]


def test_names_and_contexts():
    """Those of the upstream's list once there is one; a model that nobody knows has no context."""
    catalog = Catalog()
    assert (False, True, 500_000, None) == (
        catalog.known,
        "grok-4.6" in catalog.names(),
        catalog.context("grok-4.6"),
        catalog.context("grok-9"),
    )
    catalog.heard(200, "", b'[{"id":"grok-9","contextWindow":7}]', 0)
    assert (True, ("grok-9",), 7) == (catalog.known, catalog.names(), catalog.context("grok-9"))


def test_when_it_is_asked():
    """Another ETag, an unknown model and age ask for the list, at most once in a while."""
    catalog = Catalog()
    assert not catalog.wanted("", 0)
    assert catalog.wanted("v1", 0)
    assert catalog.wanted("", 0, unknown_model=True)
    catalog.asked("v1", 0)
    assert not catalog.wanted("v1", RETRY_S)
    assert not catalog.wanted("v1", RETRY_S - 1)
    assert catalog.heard(200, "v1", b'[{"id":"grok-9","reasoningEfforts":["max"]}]', 1)
    assert ("max",) == catalog.efforts("grok-9")
    assert not catalog.wanted("v1", RETRY_S)
    assert catalog.wanted("v2", RETRY_S)
    assert catalog.wanted("v1", REFRESH_S + 1)
    assert catalog.heard(304, "v1", b"", REFRESH_S + 1)
    assert not catalog.wanted("v1", REFRESH_S + 2 + RETRY_S)


def test_useless_answers_change_nothing():
    """An error, or a 304 before there was a list, is no list."""
    catalog = Catalog()
    assert not catalog.heard(304, "v1", b"", 0)
    assert not catalog.heard(500, "v1", b'[{"id":"x"}]', 0)
    assert "" == catalog.etag
