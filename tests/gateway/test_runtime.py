"""Everything that one configuration stands for, and what a reload takes over."""

import time

import msgspec
import pytest

from gateway import runtime as module
from gateway.config import Config, Credential, Key, Model, Pool, Provider, Route
from gateway.runtime import PAIRS, Runtime, Upstreams, build_provider
from providers.secret import Secret
from tests.gateway.live import config, provider


def made(*providers, models=None):
    return config(*providers, models=models)


UP = provider("http://127.0.0.1:1", keys=2)


async def test_every_pair_is_there():
    """Three dialects on either side."""
    assert 9 == len(PAIRS)
    assert all((pair.client.name, pair.upstream.name) == key for key, pair in PAIRS.items())


async def test_a_table_becomes_a_provider_with_pool_and_timers():
    """Keys by name, waits, retries and timers as configured."""
    keys = (Key("a", Secret("x" * 10), 1), Key("b", Secret("y" * 10)))
    table = msgspec.structs.replace(UP, keys=keys, pool=Pool(strategy="spread", retries=2, fallback_cooldown_s=9.0))
    up = Runtime(made(table)).upstreams["up"]
    assert ("up", ("a", "b"), 2) == (up.provider.name, up.provider.key_names, up.retries)
    assert (20, 180, 180, 120, 180) == (
        table.timeouts.connect_s,
        up.timeouts.first_event_s,
        up.timeouts.first_meaning_s,
        up.timeouts.idle_s,
        up.timeouts.meaning_idle_s,
    )
    assert ["a", "b"] == [key.name for key in up.pool.snapshot(0, 0).keys]


async def test_a_plugins_options_and_files_reach_it():
    """The table's own keys as its Struct, credentials as paths, headers as they are."""
    table = Provider("c", "anthropic", "https://h/v1", keys=(Key("k", Secret("x" * 10)),), options={"auth": "bearer"})
    assert build_provider(table)._bearer
    grok = Provider("g", "grok-cli", credentials=(Credential("me", "/nowhere/auth.json"), Credential("other")))
    assert {"me", "other"} <= set(build_provider(grok).key_names)


async def test_the_plugins_address_is_the_default():
    """A table without base_url and dialect takes the plugin's."""
    table = Provider("c", "anthropic", keys=(Key("k", Secret("x" * 10)),))
    assert "https://api.anthropic.com/v1/messages" == str(build_provider(table)._url)


async def test_a_target_has_the_aliases_settings():
    """Strictness, effort, cap and traits of the alias; the provider's origin."""
    settings = Model(
        routes=(Route("up"),),
        translation="strict",
        default_effort="high",
        max_output_tokens=9,
        traits={"image_input": False},
    )
    runtime = Runtime(made(UP, models={"m1": settings}))
    resolved, up = runtime.resolve("m1"), runtime.upstreams["up"].provider
    target = runtime.target(resolved, up, "gpt-5")
    assert ("gpt-5", True, "high", 9, False) == (
        target.model,
        target.strict,
        target.default_effort,
        target.max_output_tokens,
        target.traits.image_input,
    )
    assert up.origin("gpt-5") == target.origin
    assert target is runtime.target(resolved, up, "gpt-5")
    assert runtime.resolve("m2") is None


@pytest.mark.promise("S24")
async def test_targets_are_bounded(monkeypatch):
    """Model names that clients choose do not fill the memory."""
    monkeypatch.setattr(module, "TARGETS_KEPT", 10)
    runtime = Runtime(made(UP, models={"*": Model(routes=(Route("up"),))}))
    for number in range(1000):
        name = f"m{number}"
        runtime.target(runtime.resolve(name), runtime.upstreams["up"].provider, name)
        assert len(runtime._targets) <= 10


async def test_ready_while_one_key_can_serve():
    """All keys resting or rejected is not ready; one of one provider is enough."""
    runtime = Runtime(made(UP))
    assert runtime.ready()
    pool = runtime.upstreams["up"].pool
    for outcome in ("limited", "rejected"):
        assert runtime.ready()
        now = time.monotonic()
        pool.report(pool.acquire(now, "m", set(), None), outcome, now)
    assert not runtime.ready()
    assert not Runtime(Config()).ready()


@pytest.mark.promise("S39")
async def test_a_reload_takes_over_what_was_learned():
    """Cooldowns by key name, sessions' keys, stores and the pepper; not what has another name."""
    old = Runtime(made(UP, msgspec.structs.replace(UP, name="gone")))
    now = time.monotonic()
    pool = old.upstreams["up"].pool
    pool.report(pool.acquire(now, "m", set(), None), "limited", now, wait_s=500.0)
    new = Runtime(made(UP, msgspec.structs.replace(UP, name="fresh")), old)
    assert ["cooling", "healthy"] == [key.phase for key in new.upstreams["up"].pool.snapshot(now, now).keys]
    assert ["healthy", "healthy"] == [key.phase for key in new.upstreams["fresh"].pool.snapshot(now, now).keys]
    assert (old.pepper, old.upstreams["up"].affinity) == (new.pepper, new.upstreams["up"].affinity)
    assert all(getattr(old, name) is getattr(new, name) for name in ("replay", "shadow", "prefixes", "tokens"))
    assert set(new.pools()) == {"up", "fresh"}


@pytest.mark.promise("S39", "S36")
async def test_a_reload_keeps_a_pool_that_is_configured_as_before():
    """A limit that is told after the swap counts for the new configuration too, and so do requests in flight."""
    table = msgspec.structs.replace(UP, keys=tuple(msgspec.structs.replace(key, max_in_flight=1) for key in UP.keys))
    old = Runtime(made(table))
    lease = await old.upstreams["up"].turns.take("m", ())
    new = Runtime(made(msgspec.structs.replace(table, base_url="http://127.0.0.1:2")), old)
    assert "k2" == (await new.upstreams["up"].turns.take("m", ())).key
    old.upstreams["up"].turns.report(lease, "limited", wait_s=60.0)
    assert ["cooling", "healthy"] == [key.phase for key in new.upstreams["up"].pool.snapshot(0, 0).keys]


@pytest.mark.promise("S39")
async def test_a_reload_tries_refused_keys_again():
    """Their values may have been replaced; with other settings there is another pool, which knows the rests."""
    old = Runtime(made(UP))
    turns = old.upstreams["up"].turns
    turns.report(await turns.take("m", ()), "rejected")
    same = Runtime(made(UP), old)
    assert turns is same.upstreams["up"].turns
    assert ["healthy", "healthy"] == [key.phase for key in turns.pool.snapshot(0, 0).keys]
    other = Runtime(made(msgspec.structs.replace(UP, pool=Pool(strategy="spread"))), same)
    assert turns is not other.upstreams["up"].turns


@pytest.mark.promise("S24")
async def test_logins_have_a_limit_of_their_own():
    """One Grok account serves sixteen requests at a time; keys have what is configured (spec/grok.md 10.1)."""
    table = Provider(
        "g", "grok-cli", credentials=(Credential("me", "/nowhere/auth.json"),), keys=(Key("k", Secret("x" * 10), 2),)
    )
    pool = Runtime(Config(providers={"g": table})).upstreams["g"].pool
    leases = [pool.acquire(0.0, "m", ()) for _ in range(19)]
    assert ["me"] * 16 + ["k"] * 2 == [lease.key for lease in leases[:18]]
    assert "busy" == leases[18].reason


async def test_two_gateways_have_two_peppers():
    """Their fingerprints of one session differ."""
    assert Runtime(Config()).pepper != Runtime(Config()).pepper


class Login:
    """A provider whose login was replaced."""

    def __init__(self, names):
        self.names = names

    def readmitted(self):
        return self.names


async def test_a_replaced_login_serves_again():
    """What the provider says was replaced is healthy; a provider that says nothing changes nothing."""
    runtime = Runtime(made(UP))
    up = runtime.upstreams["up"]
    now = time.monotonic()
    up.pool.report(up.pool.acquire(now, "m", set(), None), "rejected", now)
    up.readmit()
    assert "rejected" in [key.phase for key in up.pool.snapshot(now, now).keys]
    Upstreams(Login(("k1",)), up.turns, up.affinity, up.timeouts).readmit()
    assert ["healthy", "healthy"] == [key.phase for key in up.pool.snapshot(now, now).keys]


async def test_closing_closes_every_provider():
    """Each one's connections."""
    closed = []
    runtime = Runtime(made(UP, msgspec.structs.replace(UP, name="two")))
    for name, up in runtime.upstreams.items():

        async def close(name=name):
            closed.append(name)

        up.provider.close = close
    await runtime.close()
    assert ["up", "two"] == closed


@pytest.mark.promise("S01")
async def test_every_secret_is_scrubbed():
    """The scrubber knows all that the configuration read."""
    assert "upstream-key-0002" not in Runtime(made(UP)).scrub("key upstream-key-0002")
