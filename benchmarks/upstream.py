"""A scripted upstream that costs as little as Python can: prebuilt bytes over a raw asyncio protocol.

The path picks the dialect, the model's name the size: `hot-N` streams N events in groups of eight, `slow-N`
one event every 50 ms, anything else answers small.
"""

import asyncio
import json
import re
import sys

GROUP = 8
PAUSE_S = 0.05
GROUP_S = 0.004
"""Between two groups, so that each arrives as a read of its own, as from a real model server."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = "streamed words "


def _chat(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    body = {"id": "chatcmpl-b", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps(body | {"choices": [choice]} | more, separators=(",", ":")).encode() + b"\n\n"


def chat(events: int) -> tuple[bytes, bytes, bytes]:
    """Return (opening, one event, ending) of a Chat stream."""
    usage = {"prompt_tokens": 10, "completion_tokens": events, "total_tokens": 10 + events}
    ending = _chat({}, "stop") + _chat({}, None, choices=[], usage=usage) + b"data: [DONE]\n\n"
    return _chat({"role": "assistant", "content": ""}), _chat({"content": WORD}), ending


def responses(events: int) -> tuple[bytes, bytes, bytes]:
    """Return (opening, one event, ending) of a Responses stream."""

    def event(kind: str, **data: object) -> bytes:
        text = json.dumps({"type": f"response.{kind}", "sequence_number": 0} | data, separators=(",", ":"))
        return f"event: response.{kind}\ndata: {text}\n\n".encode()

    base = {"id": "resp_b", "object": "response", "created_at": 1, "model": "m", "status": "in_progress", "output": []}
    item = {"id": "msg_b", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    at = {"item_id": "msg_b", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    full = {"type": "output_text", "text": WORD * events, "annotations": []}
    done = item | {"status": "completed", "content": [full]}
    usage = {
        "input_tokens": 10,
        "output_tokens": events,
        "total_tokens": 10 + events,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    opening = (
        event("created", response=base)
        + event("output_item.added", output_index=0, item=item)
        + event("content_part.added", part=part, **at)
    )
    ending = (
        event("output_text.done", text=WORD * events, **at)
        + event("content_part.done", part=full, **at)
        + event("output_item.done", output_index=0, item=done)
        + event("completed", response=base | {"status": "completed", "output": [done], "usage": usage})
    )
    return opening, event("output_text.delta", delta=WORD, **at), ending


class Upstream(asyncio.Protocol):
    """One connection: reads whole requests, answers from prebuilt bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._got = b""

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if not found or length is None or len(body) < int(length[1]):
            return
        self._got = b""
        model = re.search(rb'"model":\s*"([^"]*)"', body)
        asyncio.get_running_loop().create_task(self._answer(head, model[1].decode() if model else ""))

    async def _answer(self, head: bytes, model: str) -> None:
        make = responses if b"/responses" in head.split(b"\r\n", 1)[0] else chat
        kind, _, count = model.partition("-")
        if not count:
            self._transport.write(_small(make is chat))
            return
        opening, event, ending = make(int(count))
        self._transport.write(HEAD % b"text/event-stream" + _chunk(opening))
        if kind == "slow":
            for _ in range(int(count)):
                await asyncio.sleep(PAUSE_S)
                self._transport.write(_chunk(event))
        else:
            group = _chunk(event * GROUP)
            for _ in range(int(count) // GROUP):
                self._transport.write(group)
                await asyncio.sleep(GROUP_S)
        self._transport.write(_chunk(ending) + b"0\r\n\r\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _small(is_chat: bool) -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    message = {"role": "assistant", "content": "Hello there"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "chatcmpl-b", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    data = json.dumps(body | {"usage": usage}).encode() if is_chat else b"{}"
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)


async def main(port: int) -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
