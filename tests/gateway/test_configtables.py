"""The rules between keys and tables: names, keys, routes, plugins, headers and addresses."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from gateway.config import Config, Credential, Key, Model, Provider, Route
from gateway.configfile import load
from providers.headers import OWNED
from providers.secret import Secret

DIGEST = Secret("key-canary").sha256()
LOCAL = '[providers.local]\nplugin = "openai"\n'


class Options(msgspec.Struct, frozen=True):
    """The keys of a plugin of the tests."""

    region: str
    retries: int = 3
    token: Secret | None = None
    base_url: str = ""
    """The gateway's own key of that name comes first."""


@pytest.fixture
def read(tmp_path):
    """Load a text as a config file of mode 0600."""

    def read(text: str, **environ: str) -> Config | list:
        path = tmp_path / "c.toml"
        path.write_text(text)
        path.chmod(0o600)
        return load(
            path,
            environ,
            plugins=("openai", "cline", "grok-cli", "own"),
            options_type=lambda name: Options if name == "own" else None,
        )

    return read


def said(found) -> list[tuple[int, str, str]]:
    assert isinstance(found, list), found
    return [(problem.line, problem.key, f"{problem.what} | {problem.mend}") for problem in found]


def agree(wanted, found):
    """Compare line and key path exactly, and look for the words in what is said."""
    texts = said(found)
    assert [(line, key) for line, key, _ in wanted] == [(line, key) for line, key, _ in texts]
    for (_, _, words), (_, _, text) in zip(wanted, texts, strict=True):
        assert words in text
        assert "canary" not in text


def test_client_keys_are_kept_as_digests(read):
    """A key and its digest give the same client; only the scrubber has the key."""
    by_key = read('[[clients]]\nname = "a"\nkey = "key-canary"\n')
    by_digest = read(f'[[clients]]\nname = "a"\nkey_sha256 = "{DIGEST.upper()}"\n')
    assert DIGEST == by_key.clients[0].key_sha256
    assert by_key.clients == by_digest.clients
    assert ((Secret("key-canary"),), ()) == (by_key.secrets, by_digest.secrets)


def test_clients_that_clash_or_lack_a_key(read):
    """Names and keys are each used once; a client has either a key or a digest; both lines are named."""
    text = f"""
[[clients]]
name = "a"
key = {{ env = "K" }}
[[clients]]
name = "a"
key_sha256 = "{DIGEST}"
[[clients]]
name = "b"
[[clients]]
name = "c"
key = {{ env = "K2" }}
key_sha256 = "x"
[[clients]]
name = "d d"
key_sha256 = "x"
[[clients]]
key = {{ env = "GONE" }}
models = ["a", "b*c"]
requests_per_minute = -1
"""
    wanted = [
        (5, "clients[1]", "has the key of another client, on line 2"),
        (6, "clients[1].name", "is the name of another client, on line 3"),
        (8, "clients[2]", "has no key"),
        (10, "clients[3]", "has both key and key_sha256"),
        (15, "clients[4].name", "must be 1 to 64 letters"),
        (16, "clients[4].key_sha256", "64 hexadecimal digits"),
        (17, "clients[5].name", "is missing"),
        (18, "clients[5].key.env", "variable GONE is not set"),
        (19, "clients[5].models[1]", "at its end only"),
        (20, "clients[5].requests_per_minute", ">= 0"),
    ]
    agree(wanted, read(text, K="key-canary", K2="other-canary"))


@pytest.mark.promise("S04")
def test_the_admin_key_is_no_client_key(read):
    """The admin table takes a key or a digest, and not one that a client has."""
    assert DIGEST == read(f'[admin]\nkey_sha256 = "{DIGEST}"').admin
    assert DIGEST == read('[admin]\nkey = { env = "K" }', K="key-canary").admin
    text = f'[[clients]]\nname = "a"\nkey_sha256 = "{DIGEST}"\n[admin]\nkey = "key-canary"\nkye = 1'
    wanted = [
        (4, "admin", "has the key of a client, on line 1"),
        (6, "admin.kye", 'did you mean "key"?'),
    ]
    agree(wanted, read(text))
    agree([(1, "admin", "must be a table")], read("admin = 1"))
    agree([(1, "admin", "has no key")], read("[admin]"))


@pytest.mark.promise("S06")
@pytest.mark.parametrize("table", ["[[clients]]\nname = 'a'", "[admin]"])
@pytest.mark.parametrize("key", ["", "KEY", "local", "password", "changeme", "your-api-key", None])
def test_keys_of_examples_are_refused(read, table, key):
    """Everybody knows them, in plain text or as a digest; what is no digest of any key is an example too."""
    digest = "0" * 64 if key is None else hashlib.sha256(key.encode()).hexdigest()
    at = "clients[0].key_sha256" if "clients" in table else "admin.key_sha256"
    line = table.count("\n") + 2
    agree([(line, at, "is the key of an example")], read(f'{table}\nkey_sha256 = "{digest.upper()}"'))
    if key in ("KEY", "local", "password"):
        agree([(line, at.removesuffix("_sha256"), "is the key of an example")], read(f'{table}\nkey = "{key}"'))


@pytest.mark.promise("S06")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "192.168.1.2", "gateway.example"])
def test_an_open_gateway_is_refused(read, host):
    """An address that others can reach needs at least one client."""
    agree([(2, "server.host", "there are no [[clients]]")], read(f'[server]\nhost = "{host}"'))
    agree([(2, "server.host", "there are no [[clients]]")], read(f'clients = []\nserver.host = "{host}"'))
    client = f'[[clients]]\nname = "a"\nkey_sha256 = "{DIGEST}"'
    assert host.strip("[]") == read(f'[server]\nhost = "{host}"\n{client}').server.host


def test_allowed_hosts_are_plain_lower_case(read):
    """Host names are compared in lower case and without the root's dot."""
    hosts = read('[server]\nallowed_hosts = ["Gateway.Example.", "[::1]", "10.0.0.1"]').server.allowed_hosts
    assert ("gateway.example", "[::1]", "10.0.0.1") == hosts
    bad = '["a/b", "u@h", "h?x", "h#x", "http://h", "*", "h:1", ""]'
    # msgspec stops at the first of a list
    agree([(2, "server.allowed_hosts[0]", "without scheme")], read(f"[server]\nallowed_hosts = {bad}"))
    for host in ("u@h", "h?x", "h#x", "http://h", "*", "h:1", ""):
        agree([(1, "server.allowed_hosts[0]", "without scheme")], read(f'server.allowed_hosts = ["{host}"]'))


def test_plugin_is_implied_by_the_tables_name(read):
    """A table named like a plugin needs no plugin key; any other does."""
    assert "cline" == read("[providers.cline]").providers["cline"].plugin
    assert "openai" == read('[providers.cline]\nplugin = "openai"').providers["cline"].plugin
    installed = "installed: cline, grok-cli, openai, own"
    agree([(1, "providers.x.plugin", installed)], read("[providers.x]"))
    agree(
        [(1, "providers.grok.plugin", f'did you mean "grok-cli"? {installed}')],
        read("[providers.grok]"),
    )
    agree(
        [(2, "providers.x.plugin", "names no plugin that is installed")],
        read('[providers.x]\nplugin = ["openai"]'),
    )


def test_no_plugin_at_all(tmp_path):
    """Where nothing is installed, the list says so."""
    path = tmp_path / "c.toml"
    path.write_text("[providers.x]")
    ((_, _, text),) = said(load(path, {}, plugins=()))
    assert text.endswith("| installed: none")


def test_a_provider_with_everything(read, tmp_path):
    """Keys, credentials, headers and address come out ready for use."""
    text = """
[providers.local]
plugin = "openai"
base_url = "https://api.example/v1/chat/completions"
dialect = "responses"
keys = [{ name = "a", value = { env = "A" } }, { name = "b", value = "b-canary", max_in_flight = 4 }]
credentials = [{ name = "me", file = "~/auth.json" }, { name = "you", file = "you.json" }, { name = "it" }]
headers = { User-Agent = "agent/1", x-title = "" }
timeouts = { idle_s = 0 }
pool.strategy = "spread"
trust_env = true
"""
    provider = read(text, A="a-canary", HOME="/home/me").providers["local"]
    assert (Key("a", Secret("a-canary")), Key("b", Secret("b-canary"), 4)) == provider.keys
    assert (
        Credential("me", "/home/me/auth.json"),
        Credential("you", str(tmp_path / "you.json")),
        Credential("it"),
    ) == provider.credentials
    assert {"user-agent": "agent/1", "x-title": ""} == provider.headers
    assert ("https://api.example/v1", "responses") == (provider.base_url, provider.dialect)
    assert (0, 20, "spread", True) == (
        provider.timeouts.idle_s,
        provider.timeouts.connect_s,
        provider.pool.strategy,
        provider.trust_env,
    )


def test_keys_that_clash(read):
    """Keys and credentials share a pool: names are unique together, and a value counts once."""
    text = f"""{LOCAL}
keys = [
  {{ name = "a", value = "canary-1" }},
  {{ name = "a", value = "canary-2" }},
  {{ name = "b", value = "canary-1" }},
  {{ value = "canary-3" }},
  {{ name = "c" }},
]
credentials = [
  {{ name = "b" }},
  {{ nmae = "d" }},
]
[providers.two]
plugin = "openai"
keys = [ {{ name = "a", value = "canary-1" }} ]
[providers.three]
plugin = "openai"
keys = "canary"
"""
    wanted = [
        (6, "providers.local.keys[1].name", "is the name of another key, on line 5"),
        (7, "providers.local.keys[2].value", "is the same as another key, on line 5"),
        (8, "providers.local.keys[3].name", "is missing"),
        (9, "providers.local.keys[4].value", "is missing"),
        (12, "providers.local.credentials[0].name", "is the name of another key, on line 7"),
        (13, "providers.local.credentials[1].name", "is missing"),
        (13, "providers.local.credentials[1].nmae", 'did you mean "name"?'),
        (20, "providers.three.keys", 'write keys = [ { name = "main", value = { env = "NAME" } } ]'),
    ]
    agree(wanted, read(text))


@pytest.mark.promise("S07")
def test_plain_keys_need_a_private_file(tmp_path):
    """A key in plain text is refused in a file that group or others can read, whichever they can."""
    path = tmp_path / "c.toml"
    path.write_text(f'{LOCAL}keys = [{{ name = "a", value = "canary" }}]')
    for mode in (0o644, 0o640, 0o604, 0o620, 0o601):
        path.chmod(mode)
        agree([(3, "providers.local.keys[0].value", f"chmod 600 {path}")], load(path, {}))
    path.chmod(0o400)
    assert isinstance(load(path, {}), Config)


@pytest.mark.promise("S10")
@pytest.mark.parametrize("name", [*sorted(OWNED), "Authorization", "X_API_KEY", "x-forwarded-for"])
def test_owned_headers_are_refused(read, name):
    """The config cannot set a header that only the gateway sets."""
    agree([(3, f"providers.local.headers.{name}", "only the gateway sets")], read(f'{LOCAL}headers.{name} = "canary"'))


def test_headers_that_cannot_be_sent(read):
    """Names are tokens, values printable ASCII; a name counts once whatever its case."""
    wanted = [
        (4, 'providers.local.headers."a b"', "must be a header name"),
        (5, "providers.local.headers.b", "must be a string of printable ASCII"),
        (6, "providers.local.headers.c", "must be a string of printable ASCII"),
        (8, "providers.local.headers.D", "is set twice in different case"),
    ]
    text = LOCAL + '[providers.local.headers]\n"a b" = "canary"\nb = "x\\r\\ncanary: 1"\nc = 1\nd = "1"\nD = "2"'
    agree(wanted, read(text))
    agree([(3, "providers.local.headers", "must be a table")], read(f"{LOCAL}headers = 1"))


@pytest.mark.promise("S12")
def test_addresses(read):
    """An address is trimmed or refused by the rules of base addresses; http needs leave."""
    assert read(LOCAL).providers["local"].base_url is None
    agree([(3, "providers.local.base_url", "must be a string")], read(f"{LOCAL}base_url = 1"))
    agree(
        [(3, "providers.local.base_url", "user name or password")],
        read(f'{LOCAL}base_url = "https://me:canary@api.example/v1"'),
    )
    http = f'{LOCAL}base_url = "http://vllm.internal/v1/"\n'
    agree([(3, "providers.local.base_url", "unencrypted")], read(http))
    assert "http://vllm.internal/v1" == read(f"{http}allow_http = true").providers["local"].base_url


def test_provider_names_are_plain(read):
    """A provider's name stands in metrics, so it has no blanks."""
    agree([(1, 'providers."a b"', "must be 1 to 64 letters")], read('[providers."a b"]\nplugin = "openai"'))


def test_a_plugins_own_keys(read):
    """Keys of the plugin's Struct are converted for its constructor; a key of the gateway's stays the gateway's."""
    text = '[providers.own]\nregion = "eu"\ntoken = { env = "T" }\nbase_url = "https://api.example/"\n'
    read_config = read(text, T="canary")
    provider = read_config.providers["own"]
    assert Options("eu", 3, Secret("canary")) == Options(**provider.options)
    assert ("https://api.example", (Secret("canary"),)) == (provider.base_url, read_config.secrets)


def test_a_plugins_own_keys_are_checked(read):
    """They are required, typed and hinted at like all others, and no other plugin takes them."""
    wanted = [
        (1, "providers.own.region", "is missing"),
        (2, "providers.own.retries", "for example retries = 3"),
        (3, "providers.own.regoin", 'did you mean "region"?'),
        (6, "providers.local.region", "is not a known key"),
    ]
    agree(wanted, read(f'[providers.own]\nretries = "x"\nregoin = "eu"\n{LOCAL}region = "eu"'))


def test_models_with_one_route_and_with_several(read):
    """The keys provider and model are the short form of a list with one route."""
    text = f"""{LOCAL}
[models.a]
provider = "local"
model = "m"
traits = {{ efforts = ["low", "high"], stop_limit = 2 }}
default_effort = "high"
[models."b*"]
routes = [ {{ provider = "local" }}, {{ provider = "local", model = "m" }} ]
fallback_on = ["rate_limited", "unavailable"]
"""
    assert {
        "a": Model((Route("local", "m"),), traits={"efforts": ("low", "high"), "stop_limit": 2}, default_effort="high"),
        "b*": Model((Route("local"), Route("local", "m")), fallback_on=("rate_limited", "unavailable")),
    } == read(text).models


def test_models_that_cannot_be_routed(read):
    """Routes name configured providers, stand in one form, and do not repeat; each error has its line."""
    text = f"""{LOCAL}
[models.both]
provider = "local"
model = "m"
routes = [ {{ provider = "local" }} ]
[models.none]
routes = []
[models.again]
routes = [
  {{ provider = "local", model = "m" }},
  {{ provider = "lcal" }},
  {{ provider = "local", model = "m" }},
  {{ model = "m" }},
  "canary",
]
[models.kind]
routes = "local"
[models.far]
provider = "zzz"
model = "a b"
[models."a*b"]
provider = "local"
traits = {{ image_inptu = true, efforts = "high", thinking = "no" }}
translation = "strcit"
fallback_on = ["rate_limited", "always"]
default_effort = "hihg"
max_output_tokens = 0
[models.last]
provider = "local"
traits = 1
"""
    both = 'two routes under one alias: "both" has both'
    wanted = [
        (5, "models.both.provider", f"{both} provider and routes"),
        (6, "models.both.model", f"{both} model and routes"),
        (9, "models.none.routes", "is empty"),
        (13, "models.again.routes[1].provider", 'did you mean "local"?'),
        (14, "models.again.routes[2]", 'repeats a route of the alias "again", on line 12'),
        (15, "models.again.routes[3].provider", "is missing"),
        (16, "models.again.routes[4]", "must be a table"),
        (19, "models.kind.routes", "must be a list of tables"),
        (21, "models.far.provider", "configured: local"),
        (22, "models.far.model", "without spaces"),
        (23, 'models."a*b"', "at its end only"),
        (25, 'models."a*b".traits.efforts', "must be a list"),
        (25, 'models."a*b".traits.image_inptu', 'did you mean "image_input"?'),
        (25, 'models."a*b".traits.thinking', '"adaptive", "manual", "none"'),
        (26, 'models."a*b".translation', 'did you mean "strict"?'),
        (27, 'models."a*b".fallback_on[1]', '"rate_limited", "unavailable"'),
        (28, 'models."a*b".default_effort', 'did you mean "high"?'),
        (29, 'models."a*b".max_output_tokens', ">= 1"),
        (32, "models.last.traits", "must be a table"),
    ]
    agree(wanted, read(text))


def test_no_providers_at_all(read):
    """A route without any configured provider says so, and a wrong table of providers is reported once."""
    agree([(2, "models.a.provider", "configured: none")], read('[models.a]\nprovider = "local"'))
    agree(
        [(1, "providers", "must be a table"), (3, "models.a.provider", "configured: none")],
        read('providers = 1\n[models.a]\nprovider = "local"'),
    )


def test_an_alias_whose_dots_want_quotes(read):
    """TOML splits an unquoted alias at its dots; the problem says how to write it, and nothing else is said."""
    text = f'{LOCAL}[models.gpt-4.1]\nprovider = "local"\n[models.gpt-4]\nprovider = "local"\n'
    agree([(3, "models.gpt-4.1", 'write [models."gpt-4.1"]')], read(text))
    agree([(3, "models.gpt-5.5", 'write [models."gpt-5.5"]')], read(f'{LOCAL}[models.gpt-5.5]\nprovider = "local"\n'))


@pytest.mark.parametrize(
    "url", ["memory:", "file:", "valkey://h:6379/0", "valkey://h", "valkey://127.0.0.1/", "valkey://[::1]:1/15"]
)
def test_places_for_state(read, url):
    """Memory, a folder, and a valkey server are taken as they are."""
    assert url == read(f'state.url = "{url}"').state.url


def test_folders_are_made_absolute(read, tmp_path):
    """A folder for state and a log file begin at the config's folder or the home folder."""
    home = {"HOME": "/home/me"}
    assert f"file:{tmp_path}/state" == read('state.url = "file:state"').state.url
    assert "file:/var/lib/x" == read('state.url = "file:///var/lib/x"').state.url
    assert "file:/home/me/s" == read('state.url = "file:~/s"', **home).state.url
    assert str(tmp_path / "a.jsonl") == read('log.file = "a.jsonl"').log.file


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("valkey://me:canary@h/0", "use password"),
        ("valkey://:canary@h", "use password"),
        ("valkey://h:x", "valkey://HOST:PORT/DB"),
        ("valkey://h:99999", "valkey://HOST:PORT/DB"),
        ("valkey://[::1", "valkey://HOST:PORT/DB"),
        ("valkey://h/canary", "valkey://HOST:PORT/DB"),
        ("valkey://h/0?canary", "valkey://HOST:PORT/DB"),
        ("valkey://h/0#canary", "valkey://HOST:PORT/DB"),
        ("valkey:///0", "valkey://HOST:PORT/DB"),
        ("memory", "valkey://HOST:PORT/DB"),
        ("memory:canary", "valkey://HOST:PORT/DB"),
        ("", "valkey://HOST:PORT/DB"),
    ],
)
def test_places_that_are_none(read, url, words):
    """Anything else is refused, and a password in the address is not shown."""
    agree([(1, "state.url", words)], read(f'state.url = "{url}"'))


def test_the_password_of_the_state_server_is_a_secret(read):
    """It is read like every secret, and the scrubber knows it."""
    read_config = read('[state]\nurl = "valkey://h"\npassword = { env = "P" }', P="canary")
    assert (Secret("canary"), (Secret("canary"),)) == (read_config.state.password, read_config.secrets)


def test_the_contracts_own_example(tmp_path):
    """The config block of the public contract loads as it is printed there."""
    contract = Path(__file__).parents[3] / "shared" / "interface.md"
    if not contract.exists():
        pytest.skip("the contract is not beside this checkout")
    text = contract.read_text().split("```toml\n")[1].split("```")[0].replace('"…" }', '"k-canary" }')
    path = tmp_path / "c.toml"
    path.write_text(text)
    path.chmod(0o600)
    environ = {"DRAGOMAN_KEY": "1", "DRAGOMAN_ADMIN_KEY": "2", "CLINE_API_KEY": "3"}
    found = load(path, environ, plugins=("openai", "cline", "grok-cli", "anthropic"))
    assert isinstance(found, Config), found
    assert Provider("claude", "anthropic", "https://api.anthropic.com") == found.providers["claude"]
