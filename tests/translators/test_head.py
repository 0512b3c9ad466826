"""Before routing, native or not: a body is UTF-8, its messages are a list, and there are not too many of them."""

import json

import pytest

from translators.dialects import DIALECTS
from translators.fault import Refused
from translators.head import MAX_MESSAGES

LISTS = {"chat": "messages", "messages": "messages", "responses": "input"}
ALL = pytest.mark.parametrize("name", LISTS)


def refused(name, body):
    with pytest.raises(Refused) as caught:
        DIALECTS[name].peek(body)
    return caught.value.fault


def body(name, value):
    return json.dumps({"model": "m", LISTS[name]: value}).encode()


@ALL
def test_a_body_is_utf8(name):
    """Other bytes would go upstream in a native request."""
    fault = refused(name, body(name, [{"role": "user", "content": "@"}]).replace(b"@", b"\xff"))
    assert (400, "the JSON is not valid UTF-8") == (fault.status, fault.message)


@ALL
def test_utf8_beyond_ascii_passes(name):
    """What is not ASCII is not wrong."""
    raw = json.dumps({"model": "mü", LISTS[name]: ["汉"]}, ensure_ascii=False).encode()
    assert "mü" == DIALECTS[name].peek(raw).model


@ALL
@pytest.mark.parametrize("wrong", [{"a": 1}, 5])
def test_messages_are_a_list(name, wrong):
    """The field is named."""
    assert (400, LISTS[name]) == ((fault := refused(name, body(name, wrong))).status, fault.param)


@pytest.mark.parametrize("name", ["chat", "messages"])
def test_a_text_is_no_list_of_messages(name):
    """Responses alone takes a string."""
    assert "messages" == refused(name, body(name, "hi")).param
    assert "m" == DIALECTS["responses"].peek(body("responses", "hi")).model


@ALL
def test_messages_are_bounded(name):
    """At the limit a request passes, one more is refused (section 8)."""
    assert "m" == DIALECTS[name].peek(body(name, [0] * MAX_MESSAGES)).model
    assert LISTS[name] == refused(name, body(name, [0] * (MAX_MESSAGES + 1))).param


@ALL
def test_null_and_absent_messages_are_told_later(name):
    """The parser, or the upstream, says what it misses."""
    assert "m" == DIALECTS[name].peek(body(name, None)).model
    assert "m" == DIALECTS[name].peek(b'{"model":"m"}').model


@ALL
@pytest.mark.parametrize("raw", [b"{}", b'{"model":""}', b'{"model":"","messages":[],"input":[]}'])
def test_a_missing_model_is_named(name, raw):
    """Absent or empty, the error says which field."""
    assert (400, "model") == ((fault := refused(name, raw)).status, fault.param)
