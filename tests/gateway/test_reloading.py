"""Reload under load: fifty streams, twenty reloads, every second one broken, and not one request notices."""

import asyncio
import json

import pytest

from gateway.lifecycle import Reloads
from tests.gateways import gateway
from tests.streams import Say, Turn, chat
from tests.upstream import Upstream, sse

CONFIG = """
[server]
port = 0

[providers.up]
plugin = "openai"
base_url = "{url}/v1"
keys = [ {{ name = "k", value = "upstream-key-0001" }} ]

[models."m*"]
provider = "up"

[models."generation-{number}"]
provider = "up"
"""
TEXT = "word " * 40
STREAMS, RELOADS = 50, 20


async def streamed(served, number: int) -> str:
    """The text of one stream, which ended as it should."""
    body = {"model": "m1", "stream": True, "max_tokens": 100, "messages": [{"role": "user", "content": f"hi {number}"}]}
    async with served.session.post(served.url + "/v1/messages", json=body) as reply:
        assert 200 == reply.status
        lines = (await reply.text()).splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert "message_stop" == events[-1]["type"]
    deltas = (event["delta"] for event in events if event["type"] == "content_block_delta")
    return "".join(delta["text"] for delta in deltas)


@pytest.mark.slow
@pytest.mark.promise("S39")
async def test_streams_do_not_notice_reloads(tmp_path):
    """All streams give the whole text while the configuration is swapped and refused around them."""
    async with Upstream(lambda _: sse(chat(Turn([Say(TEXT)]))), gap_s=0.02) as upstream:

        def text(number: int) -> str:
            broken = "" if number % 2 == 0 else "\n[server\n"
            return CONFIG.format(url=upstream.url, number=number) + '\n[state]\nurl = "memory:"\n' + broken

        async with gateway(tmp_path, text(0)) as served:
            reloads = Reloads(served.listening.gateway)
            streams = [asyncio.create_task(streamed(served, number)) for number in range(STREAMS)]
            await upstream.received(STREAMS, within_s=20)
            for number in range(1, RELOADS + 1):
                (tmp_path / "config.toml").write_text(text(number))
                reloads.now()
                generation = number - number % 2
                assert f"generation-{generation}" in served.listening.gateway.runtime.config.models
                assert bool(number % 2) == bool(served.listening.gateway.reload_problems)
                if number % 5 == 0:
                    assert TEXT == await streamed(served, number)
            assert [] == [task for task in streams if task.done() and task.exception()]
            assert [TEXT] * STREAMS == await asyncio.gather(*streams)
            records = await served.records(STREAMS + RELOADS // 5)
    assert {"complete"} == {record["outcome"] for record in records}
