"""Per-client limits by a clock that the test moves."""

import pytest

from gateway.admission import Admission
from gateway.auth import Tenant

DAY_S = 86_400.0


def test_a_client_without_limits_is_never_refused():
    """Limits of 0 are none."""
    admission = Admission()
    assert [None] * 100 == [admission.enter(Tenant("a"), 0.0, 0.0) for _ in range(100)]
    assert 100 == admission.running()


def test_concurrency_frees_as_requests_end():
    """One more than allowed is a 429 with a short wait; room comes back with the first that ends."""
    admission, tenant = Admission(), Tenant("a", max_concurrent=2)
    assert [None, None] == [admission.enter(tenant, 0.0, 0.0) for _ in range(2)]
    fault = admission.enter(tenant, 0.0, 0.0)
    assert (429, "rate_limited", "client", 1.0) == (fault.status, fault.kind, fault.cause, fault.retry_after_s)
    admission.leave(tenant, 0, 0.0)
    assert admission.enter(tenant, 0.0, 0.0) is None
    assert 2 == admission.running()


def test_one_client_does_not_use_up_another():
    """Each client has limits of its own."""
    admission = Admission()
    admission.enter(Tenant("a", max_concurrent=1), 0.0, 0.0)
    assert admission.enter(Tenant("b", max_concurrent=1), 0.0, 0.0) is None


def test_requests_per_minute_leak():
    """A burst of a minute's worth passes, then one each time the bucket has leaked that much."""
    admission, tenant = Admission(), Tenant("a", requests_per_minute=2)
    assert [None, None] == [admission.enter(tenant, 10.0, 0.0) for _ in range(2)]
    assert 30.0 == admission.enter(tenant, 10.0, 0.0).retry_after_s
    assert pytest.approx(10.0) == admission.enter(tenant, 30.0, 0.0).retry_after_s
    assert admission.enter(tenant, 40.0, 0.0) is None
    assert 30.0 == admission.enter(tenant, 40.0, 0.0).retry_after_s


@pytest.mark.parametrize("wall", [1000.0, 3 * DAY_S - 100])
def test_tokens_per_day_come_back_at_midnight(wall):
    """The wait is the rest of the UTC day, and the new day begins at nothing."""
    admission, tenant = Admission(), Tenant("a", tokens_per_day=100)
    assert admission.enter(tenant, 0.0, wall) is None
    admission.leave(tenant, 100, wall)
    fault = admission.enter(tenant, 0.0, wall)
    assert DAY_S - wall % DAY_S == fault.retry_after_s
    assert admission.enter(tenant, 0.0, wall + fault.retry_after_s) is None


def test_a_request_over_midnight_counts_for_the_day_it_ends_in():
    """Its tokens are known only then."""
    admission, tenant = Admission(), Tenant("a", tokens_per_day=100)
    admission.enter(tenant, 0.0, DAY_S - 1)
    admission.leave(tenant, 100, DAY_S + 1)
    assert admission.enter(tenant, 0.0, DAY_S + 2) is not None


def test_nothing_runs_at_first():
    """A new admission counts nobody."""
    assert 0 == Admission().running()


@pytest.mark.promise("S24")
def test_the_table_grows_with_clients_and_not_with_requests():
    """A hundred thousand requests of two clients leave two entries."""
    admission = Admission()
    for number in range(100_000):
        tenant = Tenant("ab"[number % 2])
        admission.enter(tenant, number, number)
        admission.leave(tenant, 1, number)
    assert 2 == len(admission._uses)
    assert 0 == admission.running()
