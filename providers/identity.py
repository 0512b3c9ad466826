"""How Dragoman names itself to upstreams: honestly."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["USER_AGENT", "VERSION"]


def _version() -> str:
    try:
        return version("dragoman-gateway")
    except PackageNotFoundError:  # a checkout that is run without being installed
        return "0.1.0"


VERSION = _version()
USER_AGENT = f"dragoman/{VERSION}"
