"""The response object of lifecycle events."""

import json

import pytest

from tests.translators.grammar_responses import RESPONSE_KEYS
from translators.dialect import Reply
from translators.events import Start, Usage
from translators.fault import broken
from translators.responses.lifecycle import Lifecycle

REPLY = Reply("alias", created=7, seed="5eed")


START = Start("msg_1", "up", 9)


def objects(reply=REPLY, start=START):
    made = Lifecycle(reply, start)
    ended = [made.ended(stop, [b'{"a":1}'], Usage(1))[1] for stop in ("end", "length")]
    return [json.loads(one) for one in (made.begun(), *ended, made.failed(broken("x"), [b"{}"], Usage()))]


def test_all_objects_have_all_keys():
    """Strict readers find every key in every object, created_at a whole number."""
    for one in objects():
        assert RESPONSE_KEYS <= one.keys()
        assert ("resp_1", 9, "alias", "response") == (one["id"], one["created_at"], one["model"], one["object"])


def test_only_status_output_and_usage_change():
    """The rest stays the same through an answer's life."""
    changing = {"status", "output", "usage", "error", "incomplete_details"}
    rest = [{name: value for name, value in one.items() if name not in changing} for one in objects()]
    assert rest[0] == rest[1] == rest[2] == rest[3]


def test_states():
    """Each state says what it has to."""
    begun, completed, incomplete, failed = objects()
    assert ("in_progress", [], None) == (begun["status"], begun["output"], begun["usage"])
    assert ("completed", [{"a": 1}], None) == (
        completed["status"],
        completed["output"],
        completed["incomplete_details"],
    )
    assert {"reason": "max_output_tokens"} == incomplete["incomplete_details"]
    assert ("failed", [{}], {"code": "server_error", "message": "x"}, None) == (
        failed["status"],
        failed["output"],
        failed["error"],
        failed["usage"],
    )


def test_times_and_ids_of_ours_fill_in():
    """Without the upstream's id and time, the gateway's are used."""
    one = objects(start=Start())[0]
    assert ("resp_5eed", 7) == (one["id"], one["created_at"])


@pytest.mark.parametrize(("name", "value"), [("model", "other"), ("store", True)])
def test_what_cannot_be_echoed(name, value):
    """The model is the alias, and nothing is stored, whatever the request said."""
    one = objects(Reply("alias", echo={name: value}))[0]
    assert ("alias", False) == (one["model"], one["store"])
