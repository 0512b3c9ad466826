"""The model list has the names that an upstream recommends where an alias passes names through."""

import asyncio
import json

import msgspec

from gateway import discovery
from gateway.config import Model, Route
from providers.api import Card
from tests.gateway.cline import CLIENT_KEY, config, served, stage
from tests.upstream import Upstream, reply_json


class Runtime:
    """Of a runtime what discovery looks at."""

    def __init__(self, models: dict[str, Model], **lists) -> None:
        self.config = msgspec.structs.replace(config("http://127.0.0.1:9"), models=models)
        self.upstreams = {name: type("U", (), {"provider": type("P", (), ask)()}) for name, ask in lists.items()}


def lists(*names: str) -> dict:
    async def models(_) -> tuple[str, ...]:
        return names

    return {"models": models}


def through(provider: str = "up") -> Model:
    return Model(routes=(Route(provider),))


async def test_names_behind_pass_through_prefixes():
    """The longest prefix that fits a name lends it its settings; configured aliases stay as they are."""
    wide, narrow, fixed = through(), through("other"), Model(routes=(Route("up", "m"),))
    runtime = Runtime(
        {"*": wide, "z/*": narrow, "a": fixed, "b*": fixed}, up=lists("a", "z/1", "c"), other=lists("z/1", "y")
    )
    found = (await discovery.discovered(runtime)).models
    assert {"z/1": narrow, "a": fixed, "c": wide} == {name: model for name, model in found.items() if "*" not in name}
    assert {"*", "z/*", "b*"} < found.keys()


async def test_cards_come_from_the_provider_of_the_route():
    """Asked for under the upstream's name; nothing is known of other names, nor by providers without cards."""
    knows = {"card": lambda _, model: Card(len(model))}
    models = {"a": Model(routes=(Route("up", "model"),)), "b*": through(), "c": through("other")}
    runtime = Runtime(models, up=knows, other={})
    assert [Card(5), Card(3), None, None] == [
        discovery.card_of(runtime, runtime.config, name) for name in ("a", "b12", "c", "d")
    ]


async def test_nothing_to_discover(monkeypatch):
    """Without a pass-through prefix, or a list in time, the configuration is the same."""
    fixed = Runtime({"*": Model(routes=(Route("up", "m"),))}, up=lists("x"))
    assert fixed.config is await discovery.discovered(fixed)
    without = Runtime({"*": through()}, up={})
    assert without.config is await discovery.discovered(without)
    monkeypatch.setattr(discovery, "WAIT_S", 0.01)

    async def never(_) -> None:
        await asyncio.Event().wait()

    slow = Runtime({"*": through()}, up={"models": never})
    assert slow.config is await discovery.discovered(slow)


async def test_recommended_models_are_listed():
    """What Cline recommends is in the list of a client that may use it, and each is found by its name."""
    answer = reply_json({"recommended": [{"id": "z-ai/glm-5.3-flash"}]})
    async with Upstream(lambda _: answer) as upstream, stage(upstream.url) as made:
        models = {"*": Model(routes=(Route("cline"),))}
        made.runtime.config = msgspec.structs.replace(made.runtime.config, models=models)
        headers = {"authorization": f"Bearer {CLIENT_KEY}-a"}
        async with made.session.get(made.listening.url + "/v1/models", headers=headers) as reply:
            listed = json.loads(await reply.read())
        url = made.listening.url + "/v1/models/z-ai/glm-5.3-flash"
        async with made.session.get(url, headers=headers) as reply:
            one = reply.status
        assert 1 == len(upstream.requests)
    assert (["z-ai/glm-5.3-flash"], 200) == ([entry["id"] for entry in listed["data"]], one)


async def test_fixed_routes_ask_nobody():
    """A list without pass-through aliases costs the upstream no request."""
    async with served([]) as (upstream, made):
        headers = {"authorization": f"Bearer {CLIENT_KEY}-a"}
        async with made.session.get(made.listening.url + "/v1/models", headers=headers) as reply:
            assert 200 == reply.status
        assert [] == upstream.requests
