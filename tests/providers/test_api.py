"""The plugin contract: values that a plugin author fills in, and protocols that ours keep."""

import inspect

import pytest

from providers.api import Call, Plugin, Provider, Session, Setup, Unreachable, Upstream, Verdict
from providers.registry import BUILT_IN, load
from providers.secret import Secret
from providers.transport import Reply, new_session
from translators.fault import Fault

FAULT = Fault(kind="api", message="told to the client")


def members(protocol):
    return {name for name, value in vars(protocol).items() if inspect.isfunction(value) and not name.startswith("_")}


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_provider_keeps_the_protocol(name):
    """Every built-in provider has the methods and names of the contract, and builds without network or loop."""
    plugin = load(name)
    built = plugin.build(
        Setup(
            name="p",
            base_url=plugin.base_url or "http://127.0.0.1:1/v1",
            dialect=plugin.dialects[0],
            keys={"k": Secret("x" * 10)},
            session=new_session,
            options=plugin.options() if plugin.options else None,
        )
    )
    assert set() == {*members(Provider), "name", "dialect", "native", "key_names"} - set(dir(built))
    assert ("p", True) == (built.name, built.dialect in plugin.dialects)
    assert built.origin("m")
    for member in members(Provider):
        assert (
            list(inspect.signature(getattr(built, member)).parameters)
            == list(inspect.signature(getattr(Provider, member)).parameters)[1:]
        )


def test_a_reply_is_an_upstream():
    """The reply that all HTTP providers return has all that the gateway uses."""
    assert set() == {*members(Upstream), "status", "headers"} - set(dir(Reply))


def test_defaults_ask_for_nothing():
    """A verdict moves and rests nothing by itself; a call has no session; a setup trusts no environment."""
    verdict = Verdict(FAULT)
    assert (False, False, False, None, None, None) == (
        verdict.limited,
        verdict.rejected,
        verdict.renew,
        verdict.wait_s,
        verdict.limited_model,
        verdict.amended,
    )
    assert ("", False, "generate") == ((call := Call(b"", True, "m", "chat")).session, call.native, call.operation)
    assert not Setup("p", "", "chat", {}, new_session).trust_env
    assert Plugin("p", lambda setup: None, ("chat",)).needs_keys
    assert isinstance(Session, type)


@pytest.mark.promise("S01")
def test_a_setup_shows_no_secret():
    """Its text has the names of keys only."""
    assert "canary" not in repr(Setup("p", "", "chat", {"k1": Secret("canary-canary")}, new_session))


@pytest.mark.promise("S01")
def test_an_unreachable_upstream_shows_its_kind_only():
    """The exception's text is the kind, the Fault has the rest."""
    error = Unreachable(FAULT)
    assert ("api", FAULT) == (str(error), error.fault)
