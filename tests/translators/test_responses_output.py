"""Output items by themselves: what each keeps, and the bytes that it is done with."""

import json

import pytest

from translators.conversation import Receipt
from translators.dialect import Reply
from translators.events import BlockStart, Carried, Citation, Logprob
from translators.responses.output import Item, Message, Reasoning, Receipted, ToolItem


def names(events):
    return [name.decode().removeprefix("response.") for name, _ in events]


def members(event):
    return json.loads(b"{" + event[1] + b"}")


def test_done_bytes_are_the_items_own():
    """The last event of an item has the very bytes that the final response will have."""
    item = Message("resp_1", 3, "text")
    item.begun()
    item.ended("a", complete=True)
    closing = item.closed(complete=True)
    assert closing[-1][1].endswith(item.done)
    assert "msg_1_3" == json.loads(item.done)["id"]


def test_parts_keep_their_own_marks():
    """Citations and log probabilities belong to the part that they were given for."""
    item = Message("resp_1", 0, "text")
    item.begun()
    item.mark(Citation("https://x"))
    item.mark(Carried("th", "sig"))
    item.logprobs((Logprob("a", -1.0),))
    item.ended("a", complete=True)
    assert ["output_text.annotation.added", "output_text.done", "content_part.done", "content_part.added"] == names(
        item.next_part("text")
    )
    item.ended("b", complete=True)
    item.closed(complete=True)
    one, two = json.loads(item.done)["content"]
    assert (1, 1) == (len(one["annotations"]), len(one["logprobs"]))
    assert ([], []) == (two["annotations"], two["logprobs"])


def test_reasoning_opens_its_part_with_the_first_text():
    """Without text there is no summary part."""
    item = Reasoning("resp_1", 0, Reply("a", origin="here"))
    assert ["output_item.added"] == names(item.begun())
    assert ["reasoning_summary_part.added"] == names(item.first_delta())
    assert [] == item.mark(Citation("https://x"))
    item.ended("", complete=True)
    assert ["output_item.done"] == names(item.closed(complete=True))
    assert "encrypted_content" not in json.loads(item.done)


@pytest.mark.parametrize(
    ("form", "kind", "field"),
    [("function", "function_call", "arguments"), ("custom", "custom_tool_call", "input")],
)
def test_calls_close_with_their_whole_text(form, kind, field):
    """The done event and the done item both have the text."""
    item = ToolItem("resp_1", 0, BlockStart(1, "tool", "c", "f", form=form), 1)
    assert {"type": kind, "call_id": "c", "name": "f", field: ""}.items() <= members(item.begun()[0])["item"].items()
    assert [] == item.ended("{}", complete=True)
    done, last = item.closed(complete=True)
    assert "{}" == members(done)[field] == members(last)["item"][field]


def test_receipt_is_told_once():
    """A second receipt, and state that is none, add nothing."""
    item = Receipted("resp_1", 0)
    assert [] == item.mark(Carried("th", "x"))
    assert [] == item.closed(complete=True)
    assert 1 == len(item.mark(Receipt("mcp_9", "s", "n", "")))
    assert [] == item.mark(Receipt("mcp_8", "s", "n", ""))
    item.closed(complete=True)
    assert "mcp_9" == json.loads(item.done)["id"]


def test_bare_item_says_nothing():
    """What a kind of item does not do, it does silently."""
    item = Item(0)
    assert [[]] * 5 == [
        item.begun(),
        item.first_delta(),
        item.mark(Carried("th", "x")),
        item.ended("", complete=True),
        item.closed(complete=True),
    ]
    assert b"[]" == item.logprobs(())
