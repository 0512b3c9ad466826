"""`dragoman translate`: requests and recorded streams on the command line."""

import io
import json
import sys

import pytest

from gateway.cli import main
from tests.streams import STREAM, Say, Turn
from translators.notes import KEPT

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
DIALECTS = tuple(STREAM)


@pytest.fixture
def run(tmp_path, capsysbinary):
    """Run the command over some input; returns code, stdout and stderr."""

    def translate(data, source, target, *more):
        path = tmp_path / "input"
        path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        code = main(["translate", "--from", source, "--to", target, *more, str(path)])
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return translate


def test_a_request_becomes_the_upstreams(run):
    """The body is on stdout and nothing is on stderr when nothing was changed."""
    code, out, err = run(CHAT, "chat", "responses")
    assert (0, "") == (code, err)
    assert ("m", "hi") == (json.loads(out)["model"], json.loads(out)["input"][0]["content"][0]["text"])


def test_the_model_of_the_upstream_can_be_named(run):
    """`--model` is what goes out, and what decides what is accepted."""
    assert "glm" == json.loads(run(CHAT, "chat", "messages", "--model", "glm")[1])["model"]


def test_a_dropped_field_is_told(run):
    """Each note says what became of which field."""
    code, _, err = run(CHAT | {"logit_bias": {"1": 2}}, "chat", "messages")
    assert 0 == code
    assert "omitted: logit_bias: " in err


def test_strict_refuses_what_cannot_be_kept(run):
    """With --strict the same field is an error, and nothing is on stdout."""
    code, out, err = run(CHAT | {"logit_bias": {"1": 2}}, "chat", "messages", "--strict")
    assert (1, b"") == (code, out)
    assert err.startswith("dragoman: invalid_request (logit_bias): ")


def test_further_notes_are_counted(run):
    """Of very many notes the first are shown and the rest is a number."""
    numbers = range(KEPT + 30)
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}} for n in numbers]
    failed = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "x", "is_error": True} for n in numbers]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": failed},
    ]
    code, _, err = run({"model": "m", "max_tokens": 9, "messages": messages}, "messages", "chat")
    assert 0 == code
    lines = err.splitlines()
    assert KEPT + 1 == len(lines)
    assert lines[-1].startswith("and ")


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b"\xff"])
def test_no_request_is_a_message(run, data):
    """What cannot be read ends with 1 and a sentence."""
    code, out, err = run(data, "chat", "messages")
    assert (1, b"") == (code, out)
    assert err.startswith("dragoman: invalid_request")


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
def test_a_recorded_stream_becomes_the_clients(run, source, target):
    """Every pair, and the same input gives the same output but for the time."""
    data = b"".join(STREAM[source](Turn([Say("It is warm.")])))
    code, out, err = run(data, source, target, "--stream")
    assert (0, "") == (code, err)
    deltas = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: {")]
    assert "It is warm." == "".join(text_of(delta) for delta in deltas)


def text_of(event):
    delta = event.get("delta")
    if isinstance(delta, str):
        return delta
    if isinstance(delta, dict):
        return delta.get("text", "")
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))


def test_what_a_recorded_stream_loses_is_told(run):
    """Repairs and omissions of the answer are notes like those of a request; strict takes a repair for an error."""
    data = b"".join(STREAM["chat"](Turn([Say("It is warm.")]))[:-1])
    code, _, err = run(data, "chat", "messages", "--stream")
    assert (0, "changed: stream: missing_done: the stream ended without [DONE]\n") == (code, err)
    code, out, err = run(data, "chat", "messages", "--stream", "--strict")
    assert 1 == code
    assert b"event: error" in out
    assert "[DONE]" in err


@pytest.mark.parametrize("keep", [0, 3])
def test_a_broken_recording_ends_in_an_error(run, keep):
    """A recording without its end is shown as the client would see it, and the code is 1."""
    data = b"".join(STREAM["chat"](Turn([Say("It is warm.")]))[:keep])
    code, out, err = run(data, "chat", "messages", "--stream")
    assert 1 == code
    assert b"event: error" in out
    assert err.startswith("dragoman: api: ")


def test_a_file_that_is_not_there_is_a_sentence(tmp_path, capsys):
    """1 and the reason, no traceback; a folder is no file either."""
    told = {tmp_path / "none": "No such file or directory", tmp_path: "Is a directory"}
    for path, reason in told.items():
        assert 1 == main(["translate", "--from", "chat", "--to", "messages", str(path)])
        assert f"dragoman: cannot read {path}: {reason}\n" == capsys.readouterr().err


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
def test_the_same_recording_gives_the_same_bytes(run, monkeypatch, source, target):
    """Whenever it is translated."""
    stream = b"".join(STREAM[source](Turn([Say("It is warm.")])))
    first = run(stream, source, target, "--stream")
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    assert first == run(stream, source, target, "--stream")


def test_standard_input_is_the_default(monkeypatch, capsysbinary):
    """Without a file the input comes through a pipe."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CHAT).encode())))
    assert 0 == main(["translate", "--from", "chat", "--to", "messages"])
    assert "m" == json.loads(capsysbinary.readouterr().out)["model"]
