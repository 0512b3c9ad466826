"""The content blocks of a Messages answer."""

import pytest
from msgspec import Raw

from translators.conversation import Receipt
from translators.events import BlockEnd, BlockStart, Citation, Mark
from translators.fault import Refused
from translators.messages.blocks import Open, citation, citations, given_input, outcome, receipt_events, violated

PAGE = b'{"type":"web_search_result_location","url":"https://a.example","title":"A"}'


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"null", ""),
        (b"{}", ""),
        (b"{ }", ""),
        (b'{"b": 1, "a": 2.50}', '{"b":1,"a":2.50}'),
        (b'"text"', '"text"'),
    ],
)
def test_arguments_of_a_start_are_compact(raw, text):
    """Key order and numbers stay as written, an empty object leaves the arguments to fragments."""
    assert text == given_input(Raw(raw))


def test_malformed_arguments_are_a_violation():
    """Arguments that do not parse are the upstream's fault."""
    with pytest.raises(Refused) as caught:
        given_input(Raw(b'{"a":'))
    assert "protocol" == caught.value.fault.cause


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"null", ""),
        (b'"x"', "x"),
        (b'[{"type":"text","text":"a"},{"type":"image"},{"text":"b"}]', "a\n\nb"),
    ],
)
def test_an_outcome_is_text(raw, text):
    """A result's content is a string or a list of texts."""
    assert text == outcome(Raw(raw))


def test_only_web_pages_are_cited():
    """Other citations point at blocks that a client of another protocol does not have."""
    mark = Mark(1, Citation("https://a.example", "A"))
    assert [mark] == list(citation(1, Raw(PAGE)))
    assert [mark] == list(citations(1, Raw(b"[%b,{}]" % PAGE)))
    assert [] == list(citation(1, Raw(b'{"type":"char_location"}')))
    assert [] == list(citation(1, Raw(b"")))
    assert [] == list(citations(1, Raw(b"null")))


def test_a_receipt_is_a_block_of_its_own():
    """A receipt opens, is marked and closes at once."""
    receipt = Receipt("m", "s", "n", "{}", "ok")
    assert (BlockStart(3, "receipt", "m", "n"), Mark(3, receipt), BlockEnd(3)) == receipt_events(3, receipt)


def test_a_violation_is_the_upstreams():
    """A broken protocol is HTTP 502."""
    fault = violated("m").fault
    assert ("m", 502, "protocol") == (fault.message, fault.status, fault.cause)


def test_a_block_begins_empty():
    """A block has no arguments, no signature and no call of its own at first."""
    opened = Open("mcp")
    assert ("mcp", "", False, False, []) == (
        opened.kind,
        opened.signature,
        opened.whole,
        opened.filled,
        opened.fragments,
    )
    assert "{}" == opened.call.arguments
