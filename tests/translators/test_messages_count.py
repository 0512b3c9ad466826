"""The local estimate of input tokens."""

import json

import pytest

from translators.fault import Refused
from translators.messages.count import IMAGE_TOKENS, TOOLS_TOKENS, estimate

SENTENCE = "How many tokens is this sentence?"


def count(**members):
    return estimate(json.dumps({"model": "m1", "max_tokens": 100_000, **members}).encode())


def said(content):
    return count(messages=[{"role": "user", "content": content}])


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": SENTENCE}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": SENTENCE}]}]},
        {"input": SENTENCE, "instructions": ""},
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": SENTENCE}]}]},
    ],
)
def test_a_sentence_counts_about_as_much_in_every_dialect(body):
    """Seven tokens of text are estimated at a few more, never fewer."""
    assert 7 <= count(**body) <= 40


def test_the_estimate_is_never_one():
    """Claude Code would stop compacting and overflow (section 6)."""
    assert count() >= 5
    assert count(messages=[]) >= 5


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 100, 1000),
        ("def f(x):\n    return {k: v for k, v in x.items()}\n" * 100, 1700),
        ("東京都は日本の首都である。" * 100, 1100),
        ("Привет, как дела сегодня? " * 100, 1000),
    ],
)
def test_the_estimate_errs_upwards(text, least):
    """Prose, code and other scripts count at least what tokenizers make of them, and not twice that."""
    assert least <= said(text) <= 2.5 * least


def test_every_part_of_a_request_counts():
    """System, tools, calls and results are part of the prompt; what the model does not read is not."""
    bare = said("hi")
    long = "word " * 300
    assert count(system=long, messages=[]) > bare + 300
    tool = {"name": "f", "description": long, "input_schema": {"type": "object", "properties": {"a": {"enum": [1]}}}}
    assert count(messages=[], tools=[tool]) > TOOLS_TOKENS + 300
    assert said([{"type": "tool_use", "id": "c", "name": "f", "input": {"a": long}}]) > bare + 300
    assert said([{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": long}]}]) > bare + 300
    assert count(messages=[], metadata={"user_id": long}) == count(messages=[])
    assert said([{"type": "text", "text": "hi", "cache_control": None, "n": True}]) < bare + 20


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}},
        {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}},
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 400_000},
        {"type": "text", "text": "data:image/png;base64," + "A" * 400_000},
    ],
)
def test_a_picture_has_a_flat_cost(part):
    """The size of its data says nothing."""
    assert IMAGE_TOKENS <= said([part]) <= IMAGE_TOKENS + 40


@pytest.mark.parametrize(
    "part",
    [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 400_000}},
        {"type": "input_file", "file_data": "data:application/pdf;base64," + "A" * 400_000},
        {"type": "input_audio", "input_audio": {"data": "A" * 400_000, "format": "wav"}},
    ],
)
def test_a_file_counts_by_its_size(part):
    """Base64 is neither text nor a single picture."""
    assert 15_000 <= said([part]) <= 40_000


@pytest.mark.parametrize(
    "part",
    [
        {"type": "thinking", "thinking": "", "signature": "A" * 8000},
        {"type": "redacted_thinking", "data": "A" * 8000},
        {"type": "reasoning", "encrypted_content": "A" * 8000},
    ],
)
def test_opaque_state_counts_less_than_text(part):
    """Encrypted state is longer than the text that it stands for."""
    assert 1000 <= said([part]) <= 1100


@pytest.mark.parametrize("body", [b"{", b"[]", b"7"])
def test_what_is_no_request_is_refused(body):
    """Malformed JSON is the client's fault."""
    with pytest.raises(Refused) as caught:
        estimate(body)
    assert 400 == caught.value.fault.status
