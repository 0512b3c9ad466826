"""The command line: what runs, and with which exit code."""

import subprocess
import sys

import pytest

from gateway import cli, commands, demo, translate
from gateway.cli import config_path, main, parser
from providers.identity import VERSION


@pytest.mark.parametrize(
    ("module", "name", "argv"),
    [
        (commands, "serve", ["serve", "--port", "0"]),
        (commands, "check", ["check", "--json"]),
        (commands, "models", ["models"]),
        (commands, "providers", ["providers"]),
        (translate, "translate", ["translate", "--from", "chat", "--to", "messages"]),
    ],
)
def test_each_command_runs_its_function(monkeypatch, module, name, argv):
    """The function gets the options, and its result is the exit code."""
    monkeypatch.setattr(module, name, lambda options: 40 + (options.command == argv[0]))
    assert 41 == main(argv)


def test_demo_gets_port_and_once(monkeypatch):
    """Its two options are passed on."""
    monkeypatch.setattr(demo, "demo", lambda port, *, once: port + once)
    assert 8788 == main(["demo"])
    assert 1 == main(["demo", "--port", "0", "--once"])


def test_version_is_printed(capsys):
    """It is the distribution's."""
    assert 0 == main(["version"])
    assert f"{VERSION}\n" == capsys.readouterr().out


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (BrokenPipeError, 1)])
def test_an_interrupted_command_has_a_code(monkeypatch, error, code):
    """Ctrl-C is 130; a reader that went away is a failure, not a traceback."""

    def stop(options):
        raise error

    monkeypatch.setattr(cli, "run", stop)
    assert code == main(["version"])


def test_the_entry_point_exits(monkeypatch, capsys):
    """Without arguments of its own it takes the process's, and ends the process."""
    monkeypatch.setattr(sys, "argv", ["dragoman", "version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert 0 == ended.value.code


@pytest.mark.parametrize(
    "argv", [[], ["unknown"], ["serve", "--port", "x"], ["translate", "--from", "x", "--to", "chat"]]
)
def test_a_wrong_line_is_a_usage_error(argv, capsys):
    """argparse says what is wrong on stderr and exits with 2."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert 2 == ended.value.code
    assert "usage:" in capsys.readouterr().err


def test_help_names_every_command(capsys):
    """The first lines say how to begin."""
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert "dragoman demo" in out
    assert [] == [
        name for name in ("serve", "demo", "check", "models", "providers", "translate", "version") if name not in out
    ]


def test_the_config_file_is_found_by_option_and_environment(monkeypatch):
    """The option wins over $DRAGOMAN_CONFIG."""
    monkeypatch.setenv("DRAGOMAN_CONFIG", "/from/environment")
    assert "/from/environment" == str(config_path(parser().parse_args(["check"])))
    assert "/from/option" == str(config_path(parser().parse_args(["check", "--config", "/from/option"])))


def test_the_package_runs_as_a_module():
    """`python -m gateway` is the same command."""
    done = subprocess.run([sys.executable, "-m", "gateway", "version"], capture_output=True, text=True, check=True)
    assert f"{VERSION}\n" == done.stdout


def test_help_imports_no_server():
    """A quick answer: neither aiohttp nor the translators are loaded for it."""
    code = "import sys, gateway.cli as c; c.parser(); print({'aiohttp', 'translators'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "set()\n" == done.stdout
