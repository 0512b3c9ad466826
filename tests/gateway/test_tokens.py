"""Counts learn from what upstreams report, quickly upwards, slowly downwards, within bounds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tokens import EAGER, HIGHEST, LOWEST, MAX_BYTES, SPARSE, Tokens
from tests.gateway.cline import answer, ask, served
from tests.streams import Say
from translators.messages.count import estimate

BODY = json.dumps({"messages": [{"role": "user", "content": "words " * 500}]}).encode()
HIGH = estimate(BODY)


def test_begins_with_the_estimate():
    """Nothing learned is the estimate, which errs upwards."""
    assert (HIGH, False) == Tokens().count("u", "m", BODY)


def test_learns_the_truth():
    """After some answers the count is near what the upstream reports, and another model's is not touched."""
    tokens = Tokens()
    for _ in range(40):
        tokens.learn("u", "m", BODY, HIGH // 2)
    count, learned = tokens.count("u", "m", BODY)
    assert learned
    assert HIGH / 2 <= count < HIGH * 0.8
    assert (HIGH, False) == tokens.count("u", "other", BODY)


def test_too_low_is_mended_at_once():
    """An estimate below the truth rises by half the gap with one answer."""
    tokens = Tokens()
    tokens.learn("u", "m", BODY, HIGH * 2)
    assert pytest.approx(HIGH * 1.5, abs=2) == tokens.count("u", "m", BODY)[0]


@given(st.lists(st.integers(0, 10**9)))
def test_stays_within_bounds(reports):
    """Whatever is reported, the factor stays between its bounds."""
    tokens = Tokens()
    for reported in reports:
        tokens.learn("u", "m", BODY, reported)
    assert int(HIGH * LOWEST) <= tokens.count("u", "m", BODY)[0] <= HIGH * HIGHEST + 1


def test_learns_little_from_little():
    """No report, a short prompt and a huge body teach nothing; after the first answers only some do."""
    tokens = Tokens()
    tokens.learn("u", "m", BODY, None)
    tokens.learn("u", "m", BODY, 199)
    tokens.learn("u", "m", b" " * (MAX_BYTES + 1), 100)
    assert 0 == len(tokens)
    for _ in range(EAGER + 2 * SPARSE):
        tokens.learn("u", "m", BODY, HIGH)
    assert EAGER + 2 == tokens._learned["u", "m"].lessons


def test_models_are_bounded():
    """The model that taught longest ago is forgotten first."""
    tokens = Tokens(models=2)
    for name in ("a", "b", "a", "c"):
        tokens.learn("u", name, BODY, HIGH // 2)
    assert [True, False, True] == [tokens.count("u", name, BODY)[1] for name in "abc"]


async def test_count_tokens_learns_over_the_wire():
    """The endpoint always says that it estimates; once an answer reported its prompt the estimate is nearer."""
    question = ask("messages", said="words " * 500)
    counted = {name: question[name] for name in ("model", "messages")}
    turn = answer(Say("ok"))
    reported = [
        part.replace(b'"prompt_tokens": 11', b'"prompt_tokens": 600') if isinstance(part, bytes) else part
        for part in turn
    ]
    async with served([reported]) as (_, stage):
        seen = []
        for asked in (counted, question, counted):
            path = "/count_tokens" if asked is counted else ""
            async with stage.post("messages", asked, path=path) as reply:
                if path:
                    seen.append(((await reply.json())["input_tokens"], reply.headers["x-dragoman-token-count"]))
                else:
                    await reply.read()
    assert ["estimate", "estimate"] == [how for _, how in seen]
    assert seen[1][0] < seen[0][0]
