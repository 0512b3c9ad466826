"""The pool lends, rests, probes and retires keys as its documents promise, whatever order things happen in."""

import math

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.keypool import (
    BUSY_WAIT_S,
    MAX_COOLDOWN_S,
    MAX_MODELS,
    Lease,
    Pool,
    PoolState,
    Rest,
    Resting,
)


def lent(pool, now=0.0, model="m", tried=(), prefer=None):
    """The lease, which has to exist."""
    lease = pool.acquire(now, model, tried, prefer)
    assert isinstance(lease, Lease), lease
    return lease


def limit(pool, now=0.0, wait_s=30.0, model=None, **wish):
    """Lend a key and report it as limited; its name."""
    lease = lent(pool, now, **wish)
    pool.report(lease, "limited", now, wait_s=wait_s, model=model)
    return lease.key


def phases(pool, now=0.0):
    return [key.phase for key in pool.snapshot(now, now).keys]


def flying(pool):
    return [key.in_flight for key in pool.snapshot(0.0, 0.0).keys]


def test_sticky_stays_on_the_first_key():
    """Requests, also at the same time, use the active key as long as it works."""
    pool = Pool(["a", "b", "c"])
    leases = [lent(pool) for _ in range(24)]
    assert {"a"} == {lease.key for lease in leases}
    assert [24, 0, 0] == flying(pool)
    for lease in leases:
        pool.report(lease, "ok", 1.0)
    assert [0, 0, 0] == flying(pool)


@pytest.mark.promise("S36")
def test_limits_of_requests_in_flight_together_advance_once():
    """Sixteen limits on one key move to the second key, and the third gets nothing."""
    pool = Pool(["a", "b", "c"])
    for lease in [lent(pool) for _ in range(16)]:
        pool.report(lease, "limited", 1.0, wait_s=30)
    assert "b" == lent(pool, 1.0).key
    assert "b" == pool.snapshot(1.0, 1.0).active


@pytest.mark.promise("S36")
@pytest.mark.parametrize("outcome", ["ok", "failed", "cancelled"])
def test_nothing_but_a_limit_or_a_rejection_moves_a_request(outcome):
    """A failed, cancelled or good request leaves the key in use."""
    pool = Pool(["a", "b"])
    pool.report(lent(pool), outcome, 0.0)
    assert "a" == lent(pool).key
    assert 1 == pool.snapshot(0.0, 0.0).keys[0].outcomes[outcome]


def test_recovered_key_does_not_take_over_again():
    """After a failover the pool stays where it is."""
    pool = Pool(["a", "b"])
    assert "a" == limit(pool, wait_s=30)
    assert "b" == lent(pool, 31.0).key


def test_failover_in_one_request_reaches_each_key_once():
    """With all keys limited a request makes one attempt a key, then learns when the earliest is back."""
    pool = Pool(["a", "b", "c"])
    tried = set()
    for wait in (30.0, 10.0, 20.0):
        tried.add(limit(pool, wait_s=wait, tried=tried))
    assert {"a", "b", "c"} == tried
    assert Resting(10.0, "limited") == pool.acquire(0.0, "m", tried)
    assert Resting(8.0, "limited") == pool.acquire(2.0, "m", ())


def test_unknown_names_in_wishes_are_harmless():
    """Names of keys from before a reload do no harm."""
    pool = Pool(["a"])
    assert "a" == lent(pool, tried={"gone"}, prefer="gone").key


def test_tried_key_that_is_free_again_asks_for_a_short_wait():
    """A request that has used up its keys is told to come again soon, never at once."""
    pool = Pool(["a"])
    limit(pool, wait_s=0.0)
    assert Resting(BUSY_WAIT_S) == pool.acquire(0.0, "m", {"a"})


def test_prefer_wins_while_the_key_is_usable():
    """Session affinity is served without moving the active key."""
    pool = Pool(["a", "b", "c"])
    assert "c" == lent(pool, prefer="c").key
    assert "a" == lent(pool).key


def test_prefer_leaves_a_resting_or_tried_key():
    """Affinity is a wish: a session goes on with another key rather than wait."""
    pool = Pool(["a", "b"])
    limit(pool, prefer="b")
    assert "a" == lent(pool, prefer="b").key
    assert "b" == lent(pool, 30.0, prefer="b", tried={"a"}).key


def test_first_use_after_a_rest_is_a_single_probe():
    """Of 32 requests for a half-open key one gets it, the others are asked to wait a moment."""
    pool = Pool(["a"])
    limit(pool, wait_s=30)
    answers = [pool.acquire(30.0, "m", ()) for _ in range(32)]
    assert [True] == [answer.probe for answer in answers if isinstance(answer, Lease)]
    assert [Resting(BUSY_WAIT_S, "busy")] * 31 == answers[1:]
    assert ["probing"] == phases(pool, 30.0)


def test_others_get_the_next_key_during_a_probe():
    """A probe holds nobody back while another key works."""
    pool = Pool(["a", "b"])
    limit(pool, wait_s=30)
    assert lent(pool, 30.0, prefer="a").probe
    assert "b" == lent(pool, 30.0, prefer="a").key


def test_accepted_probe_opens_the_key_at_once():
    """When the upstream's headers say 2xx the key is healthy, long before the stream ends."""
    pool = Pool(["a"])
    limit(pool, wait_s=30)
    probe = lent(pool, 30.0)
    pool.accept(probe)
    assert ["healthy"] == phases(pool, 30.0)
    assert not lent(pool, 31.0).probe
    pool.accept(probe)
    pool.report(probe, "failed", 32.0)
    pool.accept(probe)
    assert ["healthy"] == phases(pool, 32.0)


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [("ok", "healthy"), ("failed", "half-open"), ("cancelled", "half-open"), ("limited", "cooling")],
)
def test_probe_outcome_decides_the_phase(outcome, phase):
    """Only success makes a key healthy, and a probe that proved nothing is given to the next request."""
    pool = Pool(["a"])
    limit(pool, wait_s=30)
    pool.report(lent(pool, 30.0), outcome, 31.0)
    assert [phase] == phases(pool, 31.0)


def test_success_from_before_the_limit_does_not_end_the_rest():
    """A long stream that began before the limit proves nothing about now."""
    pool = Pool(["a"])
    old = lent(pool)
    limit(pool, 1.0, wait_s=30)
    pool.report(old, "ok", 2.0)
    assert ["cooling"] == phases(pool, 2.0)


def test_late_limit_takes_the_key_from_its_prober():
    """A limit reported during a probe lets the key rest, and the probe's success no longer counts."""
    pool = Pool(["a"])
    old = lent(pool)
    limit(pool, wait_s=30)
    probe = lent(pool, 30.0)
    pool.report(old, "limited", 31.0, wait_s=30)
    pool.report(probe, "ok", 32.0)
    assert ["cooling"] == phases(pool, 32.0)


def test_lost_probe_clears_nothing_for_the_next_prober():
    """A probe that was overtaken by a limit cannot vouch for the key while somebody else probes it anew."""
    pool = Pool(["a"])
    old = lent(pool)
    limit(pool, wait_s=30)
    overtaken = lent(pool, 30.0)
    pool.report(old, "limited", 31.0, wait_s=30)
    assert lent(pool, 61.0).probe
    pool.report(overtaken, "ok", 62.0)
    assert ["probing"] == phases(pool, 62.0)


def test_each_key_is_back_at_its_own_time():
    """The end of one rest opens no other."""
    pool = Pool(["a", "b"])
    limit(pool, wait_s=30.0)
    limit(pool, wait_s=30.5)
    assert ["half-open", "cooling"] == phases(pool, 30.0)


@pytest.mark.parametrize(
    ("waits", "rest_s"),
    [
        ([30.0], 30.0),
        ([None], 600.0),
        ([-1.0], 600.0),
        ([math.nan], 600.0),
        ([math.inf], MAX_COOLDOWN_S),
        ([1e9], MAX_COOLDOWN_S),
        ([30.0, None], 30.0),
        ([None, 30.0], 600.0),
        ([30.0, 60.0], 60.0),
        ([60.0, 30.0], 60.0),
    ],
)
@pytest.mark.promise("S36")
def test_rest_is_as_long_as_told_and_bounded(waits, rest_s):
    """A hint counts, the longest of several; without one the fallback, which never replaces a hint."""
    pool = Pool(["a"], fallback_cooldown_s=600)
    for lease, wait in zip([lent(pool) for _ in waits], waits, strict=True):
        pool.report(lease, "limited", 0.0, wait_s=wait)
    assert Resting(rest_s) == pool.acquire(0.0, "m", ())


def test_model_limit_leaves_other_models():
    """A free quota is per model: the key goes on for the others and stays the active one."""
    pool = Pool(["a", "b"])
    lease = lent(pool, model="m1")
    pool.report(lease, "limited", 0.0, wait_s=30, model="m1")
    assert "a" == lent(pool, model="m2").key
    assert "b" == lent(pool, model="m1").key
    assert "a" == pool.snapshot(0.0, 0.0).active


def test_model_limit_holds_for_the_model_that_was_asked():
    """However an upstream spells the model, the one that the request asked for rests."""
    pool = Pool(["a"])
    pool.report(lent(pool, model="z-ai/glm"), "limited", 0.0, wait_s=30, model="zai/glm-free")
    assert Resting(30.0) == pool.acquire(0.0, "z-ai/glm", ())
    assert "a" == lent(pool, model="zai/glm-free").key


def test_model_rest_ends_with_its_own_probe():
    """After a model's rest one request probes it, and success forgets the model."""
    pool = Pool(["a"])
    pool.report(lent(pool), "limited", 0.0, wait_s=30, model="m")
    probe = lent(pool, 30.0)
    assert probe.probe
    assert Resting(BUSY_WAIT_S, "busy") == pool.acquire(30.0, "m", ())
    assert not lent(pool, 30.0, model="other").probe
    pool.accept(probe)
    assert () == pool.snapshot(30.0, 30.0).keys[0].models


def test_key_is_back_when_both_of_its_rests_are_over():
    """The answer counts the longer of the key's rest and the model's."""
    pool = Pool(["a", "b"])
    first, second = lent(pool), lent(pool, model="other")
    pool.report(first, "limited", 0.0, wait_s=50, model="m")
    pool.report(second, "limited", 0.0, wait_s=30)
    assert "b" == limit(pool, wait_s=70, model="m")
    assert Resting(50.0) == pool.acquire(0.0, "m", ())
    assert Resting(10.0) == pool.acquire(40.0, "m", ())


def test_a_model_stays_on_the_key_it_moved_to():
    """After a limit of one model its requests stay where they went, and the others where they were."""
    pool = Pool(["a", "b", "c"])
    assert "a" == limit(pool, wait_s=30, model="m")
    assert ["b", "b", "a"] == [lent(pool, now, model).key for now, model in ((1, "m"), (31, "m"), (31, "other"))]
    assert "b" == limit(pool, 40.0)
    assert ["c", "a"] == [lent(pool, 41.0, model).key for model in ("m", "other")]


def test_a_model_without_a_key_takes_the_one_that_is_back_first():
    """With all keys limited for a model it stays on the first that works again."""
    pool = Pool(["a", "b"])
    assert ["a", "b"] == [limit(pool, wait_s=wait, model="m") for wait in (30, 90)]
    pool.accept(lent(pool, 31.0))
    assert "a" == lent(pool, 100.0).key


def test_models_move_on_when_their_key_is_refused():
    """A refused key is nobody's active key any more."""
    pool = Pool(["a", "b", "c"])
    limit(pool, wait_s=30, model="m")
    pool.report(lent(pool), "rejected", 1.0)
    assert "c" == lent(pool, 2.0).key
    pool.readmit("b")
    assert "c" == lent(pool, 3.0).key


@pytest.mark.promise("S39b")
def test_a_models_key_survives_a_restart():
    """Where a model went is kept with the rests; keys that are gone and endless names are not."""
    before, after = Pool(["a", "b"]), Pool(["a", "b"])
    limit(before, wait_s=30, model="m")
    state = before.export(0.0, 0.0)
    assert {"m": "b"} == state.actives
    after.restore(msgspec.structs.replace(state, actives={"m": "b", "x": "gone", "y" * 513: "b"}), 0.0, 0.0)
    assert {"m": "b"} == after.export(0.0, 0.0).actives
    assert "b" == lent(after, 31.0).key


@pytest.mark.promise("S24")
def test_models_with_a_key_of_their_own_are_bounded():
    """The model that moved first is forgotten."""
    pool = Pool(["a", "b"])
    for index in range(MAX_MODELS + 1):
        pool.report(lent(pool, model=f"m{index}"), "limited", 0.0, wait_s=1000 + index, model="x")
    assert MAX_MODELS == len(pool.export(0.0, 0.0).actives)


def test_busy_is_said_only_where_waiting_helps_this_request():
    """A request that has used the key up is not told to wait for others to give it back."""
    pool = Pool(["a", "b"], max_in_flight=1)
    limit(pool)
    lent(pool)
    assert Resting(BUSY_WAIT_S, "busy") == pool.acquire(0.0, "m", ())
    assert Resting(BUSY_WAIT_S, "limited") == pool.acquire(0.0, "m", {"b"})


@pytest.mark.promise("S24")
def test_models_are_bounded():
    """Beyond the limit the model whose rest ends first is forgotten."""
    pool = Pool(["a"])
    for index in range(MAX_MODELS + 1):
        pool.report(lent(pool, model=f"m{index}"), "limited", 0.0, wait_s=1000 + index, model="x")
    assert MAX_MODELS == len(pool.snapshot(0.0, 0.0).keys[0].models)
    assert "a" == lent(pool, model="m0").key
    assert Resting(1001.0) == pool.acquire(0.0, "m1", ())


@pytest.mark.promise("S36")
def test_rejected_key_is_out_for_later_requests():
    """A key that the upstream refuses is not used again, and the next one becomes active."""
    pool = Pool(["a", "b"])
    pool.report(lent(pool), "rejected", 0.0)
    assert ["rejected", "healthy"] == phases(pool)
    assert "b" == lent(pool, 1e9).key


def test_rejected_key_keeps_no_rests():
    """A refusal forgets the rests, and a limit that arrives later adds none."""
    pool = Pool(["a", "b"])
    old, refused = lent(pool), lent(pool)
    pool.report(lent(pool), "limited", 0.0, wait_s=60, model="m")
    pool.report(lent(pool, model="other"), "limited", 0.0, wait_s=60)
    pool.report(refused, "rejected", 0.0)
    pool.report(old, "limited", 0.0, wait_s=60)
    assert () == pool.export(0.0, 0.0).rests
    limit(pool, wait_s=90)
    assert Resting(90.0) == pool.acquire(0.0, "m", ())


def test_all_rejected_is_said_without_a_wait():
    """When every key is refused, waiting does not help."""
    pool = Pool(["a"])
    pool.report(lent(pool), "rejected", 0.0)
    assert Resting(None, "rejected") == pool.acquire(0.0, "m", ())


def test_rejection_can_be_switched_off():
    """With retire_rejected off a refused key stays in use."""
    pool = Pool(["a"], retire_rejected=False)
    pool.report(lent(pool), "rejected", 0.0)
    assert ["healthy"] == phases(pool)


def test_readmitted_key_serves_again():
    """A key with a new credential comes back; others are left alone."""
    pool = Pool(["a"])
    pool.report(lent(pool), "rejected", 0.0)
    assert pool.readmit("a")
    assert "a" == lent(pool).key
    assert not pool.readmit("a")
    assert not pool.readmit("gone")


def test_probe_that_works_becomes_active_while_the_active_key_rests():
    """The key that came back first keeps the traffic when the old active one recovers."""
    pool = Pool(["a", "b"])
    assert "a" == limit(pool, wait_s=30)
    assert "b" == limit(pool, wait_s=90)
    pool.accept(lent(pool, 30.0))
    assert "a" == lent(pool, 100.0).key


def test_healthy_key_becomes_active_while_the_active_key_rests():
    """With the active key's rest restored, the key that serves instead keeps the traffic."""
    pool = Pool(["a", "b"])
    pool.restore(PoolState("a", (Rest("a", 30.0),)), 0.0, 0.0)
    assert "b" == lent(pool, 1.0).key
    assert "b" == lent(pool, 31.0).key


def test_spread_takes_the_least_busy_key():
    """Requests in flight spread evenly, and equals take turns."""
    pool = Pool(["a", "b", "c"], strategy="spread")
    leases = [lent(pool) for _ in range(6)]
    assert ["a", "b", "c", "a", "b", "c"] == [lease.key for lease in leases]
    pool.report(leases[1], "ok", 0.0)
    assert "b" == lent(pool).key
    assert pool.snapshot(0.0, 0.0).active is None


def test_spread_takes_turns_when_quiet():
    """One request after the other goes round, past the keys that rest."""
    pool = Pool(["a", "b", "c"], strategy="spread")
    assert "a" == limit(pool)
    used = []
    for _ in range(4):
        used.append(lent(pool))
        pool.report(used[-1], "ok", 0.0)
    assert ["b", "c", "b", "c"] == [lease.key for lease in used]


@pytest.mark.promise("S24")
def test_full_key_is_passed_over():
    """A key takes no more requests at a time than allowed; the active one stays active."""
    pool = Pool(["a", "b"], max_in_flight=1)
    first = lent(pool)
    assert "b" == lent(pool).key
    assert Resting(BUSY_WAIT_S, "busy") == pool.acquire(0.0, "m", ())
    pool.report(first, "ok", 0.0)
    assert "a" == lent(pool).key


def test_each_key_can_have_its_own_limit():
    """Limits by name leave the other keys without one."""
    pool = Pool(["a", "b"], max_in_flight={"a": 1, "b": 0})
    assert ["a", "b", "b", "b"] == [lent(pool).key for _ in range(4)]


def test_second_report_changes_nothing():
    """A lease counts once, whoever reports it again."""
    pool = Pool(["a"])
    lease = lent(pool)
    pool.report(lease, "ok", 0.0)
    pool.report(lease, "limited", 0.0)
    assert [0] == flying(pool)
    assert ["healthy"] == phases(pool)


def test_snapshot_shows_ends_by_the_wall_clock():
    """The operator sees names, phases, ends and counters, and it encodes as JSON."""
    pool = Pool(["a", "b"])
    pool.report(lent(pool, 100.0, model="x"), "limited", 100.0, wait_s=20, model="x")
    limit(pool, 100.0, wait_s=30)
    lent(pool, 100.0)
    expected = {
        "strategy": "sticky",
        "active": "b",
        "keys": [
            {
                "name": "a",
                "phase": "cooling",
                "until": 5030.0,
                "in_flight": 0,
                "lent": 2,
                "outcomes": {"ok": 0, "limited": 2, "rejected": 0, "failed": 0, "cancelled": 0},
                "models": [{"model": "x", "phase": "cooling", "until": 5020.0}],
            },
            {
                "name": "b",
                "phase": "healthy",
                "until": None,
                "in_flight": 1,
                "lent": 1,
                "outcomes": {"ok": 0, "limited": 0, "rejected": 0, "failed": 0, "cancelled": 0},
                "models": [],
            },
        ],
    }
    assert expected == msgspec.json.decode(msgspec.json.encode(pool.snapshot(100.0, 5000.0)))


@pytest.mark.promise("S39b")
def test_restart_goes_on_with_the_healthy_key():
    """Five resting keys and the active sixth come back so from an export, with other clocks."""
    names = [f"key{index}" for index in range(1, 7)]
    before = Pool(names)
    for index in range(5):
        limit(before, 50.0, wait_s=30_000 + index)
    after = Pool(names)
    after.restore(before.export(100.0, 9000.0), 7.0, 9010.0)
    assert "key6" == lent(after, 7.0).key
    ends = [key.until for key in after.snapshot(7.0, 9010.0).keys]
    assert [38950.0, 38951.0, 38952.0, 38953.0, 38954.0, None] == ends


@pytest.mark.promise("S39b")
@pytest.mark.parametrize(
    ("until", "phase", "end"),
    [
        (999.0, "half-open", 999.0),
        (1000.0, "half-open", 1000.0),
        (1030.0, "cooling", 1030.0),
        (1e12, "cooling", 1000.0 + MAX_COOLDOWN_S),
        (math.inf, "cooling", 1000.0 + MAX_COOLDOWN_S),
        (math.nan, "healthy", None),
    ],
)
def test_restored_ends_are_checked(until, phase, end):
    """Ends in the past ask for a probe, ends too far away are cut, and nonsense is dropped."""
    pool = Pool(["a"])
    pool.restore(PoolState(rests=(Rest("a", until),)), 5.0, 1000.0)
    view = pool.snapshot(5.0, 1000.0).keys[0]
    assert (phase, end) == (view.phase, view.until)


def test_restore_drops_what_it_does_not_know():
    """Keys and active names that are gone, and absurd model names, are ignored."""
    pool = Pool(["a"])
    state = PoolState("gone", (Rest("gone", 50.0), Rest("a", 50.0, "x" * 513), Rest("a", 50.0, "m")))
    pool.restore(state, 0.0, 0.0)
    assert PoolState("a", (Rest("a", 50.0, "m"),)) == pool.export(0.0, 0.0)


def test_spread_exports_no_active_key():
    """A pool without a sticky key has none to remember."""
    assert PoolState() == Pool(["a"], strategy="spread").export(0.0, 0.0)


def test_revision_grows_only_with_what_is_exported():
    """Good requests leave the revision alone; a limit, a rejection and a passed probe raise it."""
    pool = Pool(["a", "b"])
    for _ in range(3):
        pool.report(lent(pool), "ok", 0.0)
    assert 0 == pool.revision
    limit(pool, wait_s=30)
    assert 1 == pool.revision
    pool.accept(lent(pool, 30.0, prefer="a"))
    assert 2 == pool.revision
    pool.report(lent(pool, 30.0), "rejected", 30.0)
    assert 3 == pool.revision


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_pool_refuses_names_that_cannot_work(names):
    """A pool without keys or with one name twice is a bug of the caller."""
    with pytest.raises(ValueError, match="distinct"):
        Pool(names)


NAMES = ("a", "b")
MODELS = ("m1", "m2")
FALLBACK_S = 40.0


class Traffic(RuleBasedStateMachine):
    """Requests, outcomes and time in any order, against the plainest possible account of every rest."""

    @initialize(strategy=st.sampled_from(["sticky", "spread"]), limit=st.sampled_from([0, 0, 1, 2]))
    def start(self, strategy, limit):
        self.pool = Pool(NAMES, strategy=strategy, fallback_cooldown_s=FALLBACK_S, max_in_flight=limit)
        self.limit = limit or math.inf
        self.now = 0.0
        self.rests = {}  # (key, model or None) -> end, until a probe has succeeded
        self.probes = {}  # (key, model or None) -> the lease that probes it
        self.rejected = set()
        self.requests = []  # (model, keys tried)
        self.out = []

    @rule(model=st.sampled_from(MODELS), prefer=st.sampled_from([None, *NAMES]))
    def request(self, model, prefer):
        """A new request makes its first attempt."""
        self.requests.append((model, set()))
        self.attempt(*self.requests[-1], prefer)

    @precondition(lambda self: self.requests)
    @rule(which=st.integers(0, 99), prefer=st.sampled_from([None, *NAMES]))
    def retry(self, which, prefer):
        """Some request makes another attempt."""
        self.attempt(*self.requests[which % len(self.requests)], prefer)

    def attempt(self, model, tried, prefer):
        free = {name for name in NAMES if name not in tried and self.free(name, model)}
        answer = self.pool.acquire(self.now, model, tried, prefer)
        if isinstance(answer, Resting):
            assert set() == free
            self.check_wait(answer, model)
            return
        assert answer.key in free
        assert prefer not in free or prefer == answer.key
        scopes = [scope for scope in ((answer.key, None), (answer.key, model)) if scope in self.rests]
        assert bool(scopes) is answer.probe
        self.probes |= dict.fromkeys(scopes, answer)
        tried.add(answer.key)
        self.out.append(answer)

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 99))
    def accept(self, which):
        lease = self.out[which % len(self.out)]
        self.pool.accept(lease)
        self.passed(lease)

    @precondition(lambda self: self.out)
    @rule(
        which=st.integers(0, 99),
        outcome=st.sampled_from(["ok", "limited", "limited", "limited", "failed", "cancelled", "rejected"]),
        wait=st.sampled_from([None, 0.0, 5.0, 60.0, -1.0]),
        scoped=st.booleans(),
    )
    def report(self, which, outcome, wait, scoped):
        lease = self.out.pop(which % len(self.out))
        self.pool.report(lease, outcome, self.now, wait_s=wait, model=lease.model if scoped else None)
        if outcome == "ok":
            self.passed(lease)
        self.probes = {scope: prober for scope, prober in self.probes.items() if prober is not lease}
        if outcome == "rejected":
            self.rejected.add(lease.key)
            self.forget(lambda key, model: key == lease.key)
        elif outcome == "limited" and lease.key not in self.rejected:
            self.rest((lease.key, lease.model if scoped else None), wait)

    @rule(seconds=st.sampled_from([1.0, 5.0, 39.0, 60.0]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def restart(self):
        """A restart without requests in flight keeps every rest."""
        if not self.out:
            state = self.pool.export(self.now, self.now + 1000)
            self.pool.restore(state, self.now, self.now + 1000)

    @rule(name=st.sampled_from(NAMES))
    def readmit(self, name):
        assert (name in self.rejected) is self.pool.readmit(name)
        self.rejected.discard(name)

    @invariant()
    def counters_are_true(self):
        if not hasattr(self, "pool"):
            return
        view = self.pool.snapshot(self.now, self.now)
        assert [sum(lease.key == name for lease in self.out) for name in NAMES] == [key.in_flight for key in view.keys]
        exported = self.pool.export(self.now, self.now).rests
        assert self.rests == {(rest.key, rest.model): rest.until for rest in exported}

    def teardown(self):
        for lease in getattr(self, "out", ()):
            self.pool.report(lease, "cancelled", self.now)
        if hasattr(self, "pool"):
            assert [0] * len(NAMES) == [key.in_flight for key in self.pool.snapshot(self.now, self.now).keys]

    def free(self, name, model):
        full = sum(lease.key == name for lease in self.out) >= self.limit
        scopes = ((name, None), (name, model))
        resting = any(self.rests.get(scope, 0.0) > self.now or scope in self.probes for scope in scopes)
        return not full and not resting and name not in self.rejected

    def check_wait(self, answer, model):
        ends = [
            max(self.rests.get((name, None), 0.0), self.rests.get((name, model), 0.0))
            for name in NAMES
            if name not in self.rejected
        ]
        if not ends:
            assert Resting(None, "rejected") == answer
        elif min(ends) > self.now:
            assert min(ends) - self.now == answer.retry_after_s
        else:
            assert 0 < answer.retry_after_s <= BUSY_WAIT_S

    def passed(self, lease):
        self.forget(lambda key, model: self.probes.get((key, model)) is lease)

    def forget(self, gone):
        for scope in [scope for scope in self.rests if gone(*scope)]:
            del self.rests[scope]
            self.probes.pop(scope, None)

    def rest(self, scope, wait):
        hinted = wait is not None and wait >= 0
        known = self.rests.get(scope, 0.0)
        if known > self.now and not hinted:
            return
        self.probes.pop(scope, None)
        self.rests[scope] = max(self.now + (wait if hinted else FALLBACK_S), known if known > self.now else 0.0)


TestTraffic = pytest.mark.timeout(600)(pytest.mark.promise("S36")(Traffic.TestCase))  # a failure takes time to shrink
TestTraffic = pytest.mark.slow(TestTraffic)
TestTraffic.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
