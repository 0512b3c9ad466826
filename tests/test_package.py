"""The distribution as its users get it: files of wheel and sdist, a real installation, a real plugin beside it."""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(*argv: str, env: dict[str, str] | None = None, cwd: Path = ROOT, code: int = 0) -> str:
    """Standard output of a command; it has to end with that code."""
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert code == done.returncode, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def built(folder: Path, target: str, of: Path = ROOT) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder), cwd=of)
    (found,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return found


class Installed:
    """A virtual environment with the wheel in it, and an empty home."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / "bin"
        self.home = folder / "home"
        self.home.mkdir()
        venv.create(folder / "venv", with_pip=True)
        (folder / "wheels").mkdir()
        (folder / "plugin").mkdir()
        self.pip("--constraint", str(ROOT / "constraints.txt"), str(built(folder / "wheels", "wheel")))

    def pip(self, *what: str) -> None:
        run(str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)

    def dragoman(self, *argv: str, code: int = 0, **more: str) -> str:
        env = {"HOME": str(self.home), "PATH": f"{self.bin}:{os.defpath}", "LANG": "C.UTF-8", **more}
        return run(str(self.bin / "dragoman"), *argv, env=env, cwd=self.home, code=code)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.mark.promise("S43")
def test_sdist_holds_what_it_should(tmp_path):
    """The sources, the example configuration, the documents, and what a build needs; no tests, no tools."""
    with tarfile.open(built(tmp_path, "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tops = {name.partition("/")[0] for name in names}
    wanted = {"gateway", "providers", "translators", "docs", "config.example.toml", "LICENSE", "README.md"}
    assert wanted | {"pyproject.toml", "PKG-INFO", ".gitignore"} == tops
    assert {f"{package}/py.typed" for package in ("gateway", "providers", "translators")} <= names


def test_a_wheel_can_be_built_from_the_sdist(tmp_path):
    """Whoever packages it has no repository."""
    (tmp_path / "wheel").mkdir()
    with tarfile.open(built(tmp_path, "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir() and path.name.startswith("dragoman"))
    assert built(tmp_path / "wheel", "wheel", source).name.startswith(f"dragoman_gateway-{VERSION}-")


def test_first_steps_after_an_installation(installed):
    """version, demo, init, check, launch --print: from the wheel alone, in an empty home."""
    assert f"{VERSION}\n" == installed.dragoman("version")
    demo = installed.dragoman("demo", "--once")
    assert 3 == demo.count("Hello from Dragoman")
    path = installed.dragoman("init", "--provider", "demo").strip()
    assert str(installed.home / ".config" / "dragoman" / "config.toml") == path
    assert "fine" in installed.dragoman("check")
    assert "ANTHROPIC_BASE_URL" in installed.dragoman("launch", "claude", "--print")
    found = json.loads(installed.dragoman("doctor", "--offline", "--json"))
    assert {"ok", "note"} == {finding["level"] for finding in found}
    assert [path] == [str(entry) for entry in installed.home.rglob("*") if entry.is_file()]


@pytest.mark.promise("S44")
def test_a_plugin_package_is_found(installed, tmp_path):
    """Installed beside the gateway it is listed, configurable and usable; it takes no built-in's name."""
    wheel = built(tmp_path, "wheel", ROOT / "tests" / "plugin")
    installed.pip("--no-deps", str(wheel))
    rows = {row["plugin"]: row for row in json.loads(installed.dragoman("providers", "--json"))}
    assert ("dragoman-echo", "1.2.3") == (rows["echo"]["distribution"], rows["echo"]["version"])
    config = tmp_path / "echo.toml"
    config.write_text(
        '[providers.echo]\nbase_url = "http://127.0.0.1:1/v1"\nkeys = [{ name = "k", value = "key-0001" }]\n'
    )
    config.chmod(0o600)
    assert "1 providers" in installed.dragoman("check", "--config", str(config))
    config.write_text('[providers.echo]\nbase_url = "http://127.0.0.1:1/v1"\n')
    assert "" == installed.dragoman("check", "--config", str(config), code=78)
    kit = "import asyncio, dragoman_echo\nfrom providers.testing import conform\nasyncio.run(conform(dragoman_echo.plugin))"
    run(str(installed.bin / "python"), "-c", kit, cwd=installed.home)
