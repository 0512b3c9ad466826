"""JSON in and out: every error becomes a Fault, depth is measured without being fooled by strings."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.fault import Refused
from translators.jsonio import (
    MAX_DEPTH,
    canonical,
    compact,
    encode,
    explain,
    is_object,
    nested_too_deep,
    path_of,
    reader,
    size_of,
    text_of,
    unreadable,
)

DEEP = b"[" * 100_000 + b"]" * 100_000
texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


class Message(msgspec.Struct):
    role: str
    content: list[str] = []


class Body(msgspec.Struct):
    messages: list[Message]
    tags: dict[str, int] = {}


def fault_of(document, type_=Body):
    with pytest.raises(Refused) as refused:
        reader(type_)(document)
    return refused.value.fault


@pytest.mark.promise("S21")
@pytest.mark.parametrize(
    ("document", "says", "param"),
    [
        (b'{"messages":[{"role":1}]}', "Expected `str`, got `int` - at `$.messages[0].role`", "messages.0.role"),
        (b'{"messages":[{"content":[]}]}', "missing required field `role`", "messages.0"),
        (b'{"messages":[],"tags":{"a":"b"}}', "Expected `int`", "tags"),
        (b"[]", "Expected `object`, got `array`", None),
        (b"{", "the JSON is malformed", None),
        (b'{"messages":[{"role":"\xff"}]}', "the JSON is malformed", None),
        (b"\xff", "the JSON is malformed", None),
        (b'{"other":' + DEEP + b"}", "the JSON nests deeper than 128 levels", None),
    ],
)
def test_reader_names_what_is_wrong(document, says, param):
    """A client's document that does not decode is a 400 with the field's path where there is one."""
    fault = fault_of(document)
    assert says in fault.message
    assert (400, "client") == (fault.status, fault.cause)
    assert param == fault.param


def test_reader_returns_the_value():
    """A good document becomes the type that was asked for."""
    assert Body([Message("user")]) == reader(Body)(b'{"messages":[{"role":"user","unknown":1}]}')


def test_explain_knows_bad_utf8():
    """Bytes that are no UTF-8 are said to be so."""
    assert "the JSON is not valid UTF-8" == explain(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"))


@pytest.mark.parametrize(
    ("error", "path"),
    [
        ("m - at `$.messages[0].content[12].text`", "messages.0.content.12.text"),
        ("m - at `key in $.tags`", "tags"),
        ("m - at `$`", None),
        ("m - at `$.tags[...]`", "tags"),
        ("m - at `$.tags[...].name`", "tags.name"),
        ("no path", None),
    ],
)
def test_path_is_dotted(error, path):
    """Paths of msgspec become dotted ones, as OpenAI spells `param`."""
    assert path == path_of(ValueError(error))


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@pytest.mark.promise("S21")
@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("excess", [-1, 0, 1])
def test_depth_at_the_limit_and_beyond(pair, excess):
    """128 levels are accepted, 129 are not, whatever stands beside them."""
    levels = MAX_DEPTH + excess
    inner = pair[0] * (levels - 1) + b"1" + pair[1] * (levels - 1)
    assert (excess > 0) == nested_too_deep(b"[" + b"{}," * 200 + inner + b"]")


@pytest.mark.slow
@pytest.mark.promise("S21")
@given(values, texts)
def test_depth_is_not_fooled_by_strings(value, text):
    """Brackets, quotes and backslashes inside strings never count, at any place of a long flat document."""
    document = json.dumps([text, *({"key": text + end} for end in ("\\", '"', "\n", "[", "{" * 200) * 40), value])
    assert (depth(value) + 1 > MAX_DEPTH) == nested_too_deep(document.encode())


def test_small_documents_are_not_scanned():
    """A document with few brackets cannot be deep, not even a broken one."""
    assert not nested_too_deep(b"[" * MAX_DEPTH)
    assert nested_too_deep(b"[" * (MAX_DEPTH + 1))


@given(values)
def test_compact_keeps_the_document(value):
    """White space between tokens goes, order and spelling stay."""
    loose = json.dumps(value, indent=2, ensure_ascii=False).encode()
    assert json.dumps(value, separators=(",", ":"), ensure_ascii=False) == compact(loose)
    assert compact(loose) == compact(msgspec.Raw(loose))


def test_compact_keeps_numbers_as_written():
    """A number is not turned into a float and back."""
    assert '{"b":1.0,"a":100000000000000000000001}' == compact(b'{ "b": 1.0, "a": 100000000000000000000001 }')


def test_compact_refuses_malformed_json():
    """Arguments that are no JSON are a client's fault."""
    with pytest.raises(Refused):
        compact(b'{"a":')


@pytest.mark.parametrize(
    ("document", "verdict"),
    [
        ('{"a":1}', True), (b"{}", True), (" {} ", True), ("[]", False), ("1", False), ("", False), ('{"a":', False),
        ("{}{}", False), ('{"a":"\ud800"}', False), (DEEP, False), (b'{"a":"\xff"}', False),
    ],
)  # fmt: skip
def test_is_object(document, verdict):
    """Only one complete object is one; garbage of any kind is none and raises nothing."""
    assert verdict == is_object(document)


@given(st.dictionaries(texts, values, max_size=4))
def test_canonical_is_one_spelling(value):
    """Equal arguments have one canonical spelling, whatever their order and spaces."""
    turned = dict(reversed(list(value.items())))
    assert canonical(json.dumps(value)) == canonical(json.dumps(turned, indent=1))
    assert value == json.loads(canonical(json.dumps(value)))


@pytest.mark.parametrize("arguments", ["", "{", "no json", '"\ud800"'])
def test_canonical_leaves_what_is_no_json(arguments):
    """Text that does not parse is compared as it is."""
    assert arguments == canonical(arguments)


def test_values_as_text():
    """Encoding is compact and keeps letters outside ASCII."""
    assert '{"a":["ä"]}' == text_of({"a": ["ä"]})
    assert b'"ab"' == encode("ab")


@given(st.text(st.characters()))
def test_size_is_in_bytes(text):
    """The size of a text is that of its UTF-8, with halves of surrogate pairs as they come."""
    assert len(text.encode("utf-8", "surrogatepass")) == size_of(text)


@pytest.mark.invariant("I36")
@pytest.mark.parametrize(
    ("document", "says"), [(b'{"messages":"secret"}', "wrong types"), (b"<html>secret", "malformed JSON")]
)
def test_an_upstreams_text_stays_out_of_the_fault(document, says):
    """What an upstream sent is not quoted; only what is wrong with it is said."""
    with pytest.raises(msgspec.DecodeError) as error:
        msgspec.json.decode(document, type=Body)
    fault = unreadable(error.value)
    assert (f"the upstream sent {says}", 502, "protocol") == (fault.message, fault.status, fault.cause)


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        (r'{"a": "\u00e9"}', '{"a":"é"}'),
        (r'["\ud83d\ude00\u2028"]', '["😀\u2028"]'),
        (r'["\\u00e9\u0022\u005c\u001f\n"]', r'["\\u00e9\u0022\u005c\u001f\n"]'),
        (r'[1.50,"\""]', r'[1.50,"\""]'),
    ],
)
def test_compact_writes_what_is_not_ascii_as_it_is(escaped, plain):
    """Escapes that JSON needs stay, and a backslash in a text is no escape (1.13)."""
    assert plain == compact(escaped.encode())
    assert json.loads(escaped) == json.loads(plain)
