"""The Structs, the example file and the reader agree, and each broken config is reported where it is broken."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from gateway import config
from gateway.config import (
    Client,
    Config,
    Credential,
    Key,
    Log,
    Model,
    Pool,
    Provider,
    Route,
    Server,
    State,
    Timeouts,
    is_loopback,
)
from gateway.configfile import load
from gateway.plugins import options_type
from gateway.problems import dotted
from providers.secret import Secret
from translators.traits import EFFORTS

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
ENVIRON = {
    "DRAGOMAN_KEY": "client-canary",
    "DRAGOMAN_ADMIN_KEY": "admin-canary",
    "LOCAL_API_KEY": "local-canary",
    "CLINE_API_KEY": "cline-canary",
    "VALKEY_PASSWORD": "valkey-canary",
}
FREE = {"options", "name"}
"""Fields that no key sets: a plugin's own keys stand beside the others, and a table's name is its name."""


def every_option() -> str:
    """The example with its #key lines switched on, save the alternative to another key."""
    return re.sub(r"^#(?!key_sha256)(?=\w+ = )", "", EXAMPLE.read_text(), flags=re.MULTILINE)


def dig(text: str, place: tuple) -> dict:
    table = tomllib.loads(text)
    for part in place:
        table = table[part]
    return table


def test_the_example_loads_cleanly():
    """The example is a valid config as soon as its variables are set."""
    read = load(EXAMPLE, ENVIRON, options_type=options_type)
    assert isinstance(read, Config)
    assert (Client("alice-laptop", Secret("client-canary").sha256()),) == read.clients
    assert Secret("admin-canary").sha256() == read.admin
    assert (Server(), State(), Log()) == (read.server, read.state, read.log)
    assert [Timeouts()] * 3 == [provider.timeouts for provider in read.providers.values()]
    assert (Key("k1", Secret("local-canary")),) == read.providers["local"].keys
    assert Model(routes=(Route("cline", "z-ai/glm-5.3-flash"),)) == read.models["claude-sonnet-4-6"]
    assert ["local", "cline"] == [route.provider for route in read.models["gpt-*"].routes]
    assert {value for name, value in ENVIRON.items() if name != "VALKEY_PASSWORD"} == {
        secret.reveal() for secret in read.secrets
    }


def test_the_example_loads_with_every_option_on(tmp_path):
    """The keys that the example leaves off are valid too."""
    path = tmp_path / "c.toml"
    path.write_text(every_option().replace('"file:"', '"valkey://127.0.0.1:6379/0"'))
    read = load(path, ENVIRON, options_type=options_type)
    assert isinstance(read, Config), read
    model = read.models["claude-sonnet-4-6"]
    assert ("high", 16_384, 200_000) == (model.default_effort, model.max_output_tokens, model.context_window)
    assert {"image_input": True} == model.traits
    assert Secret("valkey-canary") == read.state.password


@pytest.mark.parametrize(
    ("struct", "places"),
    [
        (Server, [("server",)]),
        (Client, [("clients", 0)]),
        (Provider, [("providers", "local")]),
        (Key, [("providers", "local", "keys", 0)]),
        (Timeouts, [("providers", "local", "timeouts")]),
        (Pool, [("providers", "local", "pool")]),
        (Model, [("models", "claude-sonnet-4-6"), ("models", "gpt-*")]),
        (Route, [("models", "gpt-*", "routes", 0)]),
        (State, [("state",)]),
        (Log, [("log",)]),
    ],
)
def test_the_example_has_every_key_with_its_default(struct, places):
    """Each field of each Struct stands in the example; a line that is on gives the default where there is one."""
    written = EXAMPLE.read_text()
    on = {name: value for place in places for name, value in dig(written, place).items()}
    shown = {name for place in places for name in dig(every_option(), place)} | {"key_sha256"}
    fields = {field.name: field for field in msgspec.structs.fields(struct) if field.name not in FREE}
    assert set() == set(fields) - shown
    for name in (on.keys() & fields.keys()) - {"keys", "timeouts", "pool"}:
        default = fields[name].default
        if default not in (None, msgspec.NODEFAULT):
            value = on[name]
            assert default == (tuple(value) if isinstance(value, list) else value), name
    assert "#key_sha256 = " in written


def test_credentials_are_shown_in_the_example():
    """The form of a credential stands in a comment, since its file may not exist."""
    assert {"name", "file"} == {field.name for field in msgspec.structs.fields(Credential)}
    assert '[ { name = "me", file = "PATH" } ]' in EXAMPLE.read_text()


def test_a_comment_beside_every_key():
    """Every key of the example has a comment on its line, or is one of those whose meaning its list explains."""
    bare = [
        line
        for line in EXAMPLE.read_text().splitlines()
        if re.match(r"#?\w+ = ", line) and "#" not in line[1:] and not line.startswith("keys = [{")
    ]
    assert [] == bare


def test_efforts_are_those_of_the_translators():
    """The levels that a config may name are the ones that translators know."""
    assert EFFORTS == get_args(config.Effort)


def test_a_config_can_be_built_in_code():
    """The demo needs no file."""
    provider = Provider("demo", "demo", keys=(Key("k", Secret("s")),))
    made = Config(providers={"demo": provider}, models={"*": Model(routes=(Route("demo"),))})
    assert ("127.0.0.1", 8788, "sticky", 180) == (
        made.server.host,
        made.server.port,
        provider.pool.strategy,
        provider.timeouts.first_event_s,
    )
    assert ((), None, (), None, "") == (made.clients, made.admin, made.secrets, made.path, made.digest)


@pytest.mark.promise("S01")
def test_no_secret_in_the_text_of_a_config():
    """Printing a whole configuration shows none of its secrets."""
    assert "canary" not in repr(load(EXAMPLE, ENVIRON, options_type=options_type))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LocalHost.", True),
        ("a.localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("192.168.0.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_loopback_hosts(host, loopback):
    """Only names and addresses that cannot leave the machine count as loopback."""
    assert loopback == is_loopback(host)


GOOD = '[providers.local]\nplugin = "openai"\n'

BROKEN = {
    "unknown table": ("[severs]", [(1, "severs", 'did you mean "server"?')]),
    "unknown key": ("[server]\nport = 1\nprot = 2", [(3, "server.prot", 'did you mean "port"?')]),
    "unknown key far from all": ("[log]\nzzz = 1", [(2, "log.zzz", "known here: format, level, file")]),
    "text for a number": ('[server]\nport = "8788"', [(2, "server.port", "must be an integer, not a string")]),
    "number for a string": ("[log]\nfile = 1", [(2, "log.file", "must be a string, not an integer")]),
    "truth for a number": ("[server]\ndrain_s = true", [(2, "server.drain_s", "for example drain_s = 30")]),
    "number for truth": (
        '[providers.openai]\nbase_url = "http://127.0.0.1/v1"\ntrust_env = 1',
        [(3, "providers.openai.trust_env", "for example trust_env = false")],
    ),
    "port out of range": ("[server]\nport = 65536", [(2, "server.port", "must be an integer <= 65535")]),
    "time below zero": ("[server]\nkeepalive_s = -1", [(2, "server.keepalive_s", ">= 0")]),
    "time without end": ("[server]\ndrain_s = inf", [(2, "server.drain_s", "<= 86400")]),
    "no time at all": ("[server]\ndrain_s = nan", [(2, "server.drain_s", ">= 0")]),
    "no workers": ("[server]\nworkers = 0", [(2, "server.workers", ">= 1")]),
    "a date": ("[log]\nfile = 2026-01-01", [(2, "log.file", "must be a string, not a date")]),
    "host with a space": ('[server]\nhost = "a b"', [(2, "server.host", "must be a string without spaces")]),
    "empty host": ('[server]\nhost = ""', [(2, "server.host", "must be a string without spaces, and not empty")]),
    "table for a list": ('[clients]\nname = "a"', [(1, "clients", "write [[clients]]")]),
    "list for a table": ("[[server]]\nport = 1", [(1, "server", "must be a table")]),
    "value for a table": ("providers = 3", [(1, "providers", "must be a table")]),
    "value in a list of tables": ("clients = [1]", [(1, "clients[0]", "must be a table")]),
    "enum": ('[log]\nlevel = "wrn"', [(2, "log.level", 'must be one of "debug", "info", "warning", "error"')]),
    "enum near miss": ('[log]\nformat = "jsn"', [(2, "log.format", 'did you mean "json"?')]),
    "unsafe bind": ('[server]\nhost = "0.0.0.0"', [(2, "server.host", "no [[clients]]")]),
    "allowed host with a port": (
        '[server]\nallowed_hosts = ["a.example", "b:1"]',
        [(2, "server.allowed_hosts[1]", "without scheme, port or path")],
    ),
    "state elsewhere": ('[state]\nurl = "redis://h"', [(2, "state.url", "memory: | file:DIR")]),
    "timeouts": (
        GOOD + 'timeouts = { idle_s = "x", connect_s = 0, iddle_s = 1 }',
        [
            (3, "providers.local.timeouts.connect_s", "> 0"),
            (3, "providers.local.timeouts.iddle_s", 'did you mean "idle_s"?'),
            (3, "providers.local.timeouts.idle_s", "must be a number, not a string"),
        ],
    ),
    "model without a route": ('[models."m"]\nreasoning = "never"', [(1, "models.m.provider", "is missing")]),
    "model of no provider": (
        GOOD + '[models."m"]\nprovider = "locl"',
        [(4, "models.m.provider", 'did you mean "local"?')],
    ),
    "same alias twice": (
        GOOD + '[models.m]\nprovider = "local"\n[models."m"]\nprovider = "local"',
        [(5, "models.m", 'two routes under one alias: "m" is defined twice: on line 3 and again on line 5')],
    ),
    "same table twice": ("[log]\n\n[log]", [(3, "log", "is defined twice: on line 1 and again on line 3")]),
    "broken TOML": ("[log]\nlevel = loud", [(2, "", "is not valid TOML: Invalid value")]),
}


@pytest.mark.parametrize(("text", "wanted"), BROKEN.values(), ids=BROKEN)
def test_broken_configs_are_reported_where_they_are_broken(tmp_path, text, wanted):
    """Each error has its line, its key path, and words that say what is wrong or how to mend it."""
    path = tmp_path / "c.toml"
    path.write_text(text)
    found = load(path, {})
    assert isinstance(found, list)
    assert [(line, key) for line, key, _ in wanted] == [(problem.line, problem.key) for problem in found]
    for (_, _, words), problem in zip(wanted, found, strict=True):
        assert words in f"{problem.what} | {problem.mend}"
        assert str(path) == problem.file


def test_all_errors_come_at_once(tmp_path):
    """Errors in all tables are reported in one run, in the order of their lines."""
    path = tmp_path / "c.toml"
    tables = (
        "[severs]",
        '[server]\nport = "1"',
        '[log]\nlevel = "wrn"',
        '[models."m"]',
        "[state]\nurl = 1",
        "[[clients]]",
    )
    path.write_text("\n".join(tables))
    wanted = [
        (1, "severs"),
        (3, "server.port"),
        (5, "log.level"),
        (6, "models.m.provider"),
        (8, "state.url"),
        (9, "clients[0]"),
        (9, "clients[0].name"),
    ]
    assert wanted == [(problem.line, problem.key) for problem in load(path, {})]


def test_places_are_quoted_like_toml(tmp_path):
    """An alias that is no bare key is quoted in the key path."""
    path = tmp_path / "c.toml"
    path.write_text('[models."gpt-*"]\n')
    assert [dotted(("models", "gpt-*", "provider"))] == [problem.key for problem in load(path, {})]
