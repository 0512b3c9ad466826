"""login: what the person is shown, where the login is put, and how a failure is told."""

from dataclasses import dataclass

import aiohttp
import pytest

from gateway.cli import main
from providers import cline_login, grok_login
from providers.grok_issuer import Declined

TOKEN = "token-canary-0001"


@dataclass
class Device:
    uri: str = "https://login.example/device"
    code: str = "ABCD-EFGH"
    device_code: str = TOKEN


@pytest.fixture
def played(monkeypatch, tmp_path):
    """Replace both logins by one that shows a device and then does what the test wants."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def play(outcome=None):
        async def grok(session, show, *, path):
            show(Device())
            if outcome is not None:
                raise outcome
            return path

        async def cline(session, base_url, show, *, path):
            assert base_url.startswith("https://")
            return await grok(session, show, path=path)

        monkeypatch.setattr(grok_login, "log_in", grok)
        monkeypatch.setattr(cline_login, "log_in", cline)

    return play


@pytest.mark.promise("S01")
@pytest.mark.parametrize(("provider", "plugin"), [("grok", "grok-cli"), ("cline", "cline")])
def test_a_login_is_shown_and_stored(played, tmp_path, capsys, provider, plugin):
    """Address and code on stderr, the file on stdout, and the lines for the configuration."""
    played()
    assert 0 == main(["login", provider, "--name", "me"])
    out, err = capsys.readouterr()
    path = tmp_path / "dragoman" / provider / "me.json"
    assert f"{path}\n" == out
    assert "https://login.example/device" in err
    assert "ABCD-EFGH" in err
    assert f'plugin = "{plugin}"\ncredentials = [ {{ name = "me", file = "{path}" }} ]' in err
    assert TOKEN not in err


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Declined("nobody agreed in time"), "nobody agreed in time"),
        (cline_login.Declined("not registered"), "not registered"),
        (aiohttp.ClientConnectionError("https://secret"), "cannot be reached (ClientConnectionError)"),
        (PermissionError(13, "Permission denied"), "cannot be stored: Permission denied"),
    ],
)
def test_a_failure_is_one_line(played, capsys, outcome, said):
    """1, in words without a traceback."""
    played(outcome)
    assert 1 == main(["login", "grok"])
    err = capsys.readouterr().err
    assert "dragoman: not logged in: " in err
    assert said in err
    assert "secret" not in err


def test_an_odd_name_is_refused(played, capsys):
    """It becomes a file name."""
    played()
    assert 1 == main(["login", "grok", "--name", "../x"])
    assert "letters" in capsys.readouterr().err
