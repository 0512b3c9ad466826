"""How we name ourselves."""

from importlib.metadata import PackageNotFoundError, version

from providers import identity


def test_the_agent_is_our_name_and_version():
    """Honest and short, with the version of the distribution."""
    assert version("dragoman-gateway") == identity.VERSION
    assert f"dragoman/{identity.VERSION}" == identity.USER_AGENT


def test_a_checkout_has_a_version_too(monkeypatch):
    """Without an installed distribution there is a fixed one."""

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(identity, "version", missing)
    assert "0.1.0" == identity._version()
