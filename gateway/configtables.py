"""Reads the tables of a parsed file into `gateway.config`, with the rules that hold between keys and tables."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from gateway.baseurl import Unfit, base_url
from gateway.config import (
    Alias,
    Client,
    Config,
    Credential,
    Digest,
    Header,
    Key,
    Log,
    Model,
    Name,
    Provider,
    Route,
    Server,
    State,
    is_loopback,
)
from gateway.configread import PLACEHOLDERS, Reader
from gateway.problems import Place, did_you_mean
from providers.headers import owned, usable_value
from translators.traits import Traits

__all__ = ["OptionsType", "read_config"]

OptionsType: TypeAlias = Callable[[str], type[msgspec.Struct] | None]
"""From a plugin's name to the Struct of its own config keys."""

KEYS_FORM = 'keys = [ { name = "main", value = { env = "NAME" } } ]'
CREDENTIALS_FORM = 'credentials = [ { name = "me", file = "PATH" } ]'
ROUTES_FORM = 'routes = [ { provider = "NAME", model = "MODEL" } ]'

_SHOWN = ("", "KEY", "key", "local", "secret", "password", "pwd", "123456", *PLACEHOLDERS)
"""Keys of our documents, and of other gateways' examples (S06)."""
_EXAMPLES = frozenset({"0" * 64, *(hashlib.sha256(key.encode()).hexdigest() for key in _SHOWN)})


class Plugins(NamedTuple):
    """What is known of plugins without importing them, and how to ask one for its keys."""

    names: Collection[str]
    options_type: OptionsType


def read_config(
    reader: Reader, table: Mapping[str, Any], plugins: Collection[str], options_type: OptionsType
) -> Config:
    """Return the configuration of a parsed file; it is worth something only when the reader found no problem."""
    own = ("clients", "admin", "providers", "models")
    read = reader.fields((), table, Config, own=own, hidden=("secrets", "path", "digest"))
    digests: dict[str, Place] = {}
    clients = tuple(_clients(reader, table.get("clients", []), digests))
    providers = table.get("providers", {})
    names = providers if isinstance(providers, dict) else ()
    server = _server(reader, read.get("server", Server()), exposed=not table.get("clients"))
    return Config(
        server=server,
        clients=clients,
        admin=_admin(reader, table["admin"], digests) if "admin" in table else None,
        providers=dict(_providers(reader, providers, Plugins(plugins, options_type))),
        models=dict(_models(reader, table.get("models", {}), names)),
        state=_state(reader, read.get("state", State())),
        log=_log(reader, read.get("log", Log())),
        secrets=tuple(reader.secrets),
    )


def _server(reader: Reader, server: Server, *, exposed: bool) -> Server:
    if exposed and not is_loopback(server.host):
        reader.flaw(
            ("server", "host"),
            "is not a loopback address, and there are no [[clients]]: anybody could use your keys",
            'listen on "127.0.0.1", or make a client key with `dragoman keys new NAME`',
        )
    host = server.host.removeprefix("[").removesuffix("]")
    hosts = tuple(host.lower().removesuffix(".") for host in server.allowed_hosts)
    return msgspec.structs.replace(server, host=host, allowed_hosts=hosts)


def _state(reader: Reader, state: State) -> State:
    kind, _, rest = state.url.partition(":")
    if kind == "file" and rest:
        folder = reader.path(rest.removeprefix("//"))
        return msgspec.structs.replace(state, url=f"file:{folder}")
    if kind == "valkey" and "@" in rest:
        reader.flaw(("state", "url"), "holds a user name or password", 'use password = { env = "NAME" } in [state]')
    elif state.url not in {"memory:", "file:"} and not _is_valkey(state.url):
        reader.flaw(("state", "url"), "is not a place for state", "write memory: | file:DIR | valkey://HOST:PORT/DB")
    return state


def _is_valkey(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    database = parts.path.removeprefix("/")
    plain = not database or (database.isascii() and database.isdigit())
    return parts.scheme == "valkey" and bool(host) and plain and not parts.query and not parts.fragment


def _log(reader: Reader, log: Log) -> Log:
    return msgspec.structs.replace(log, file=str(reader.path(log.file))) if log.file else log


def _clients(reader: Reader, value: object, digests: dict[str, Place]) -> Iterator[Client]:
    names: dict[str, Place] = {}
    for at, table in reader.tables(("clients",), value, "[[clients]]"):
        read = reader.fields(at, table, Client, own=("key", "key_sha256"))
        digest = _digest(reader, at, table)
        if "name" in read:
            _once(reader, names, read["name"], (*at, "name"), "is the name of another client")
        if digest:
            _once(reader, digests, digest, at, "has the key of another client")
        if digest and "name" in read:
            yield Client(**read, key_sha256=digest)


def _admin(reader: Reader, value: object, digests: dict[str, Place]) -> str | None:
    table = reader.table(("admin",), value)
    if table is None:
        return None
    reader.unknown(("admin",), table, ("key", "key_sha256"))
    digest = _digest(reader, ("admin",), table)
    if digest:
        _once(reader, digests, digest, ("admin",), "has the key of a client")
    return digest


def _digest(reader: Reader, at: Place, table: Mapping[str, Any]) -> str | None:
    """Return the digest of a key that is given as a secret or as its SHA-256."""
    if ("key" in table) == ("key_sha256" in table):
        what = "has both key and key_sha256" if "key" in table else "has no key"
        reader.flaw(at, what, 'write either key = { env = "NAME" } or key_sha256 = "…"')
        return None
    given = "key" if "key" in table else "key_sha256"
    digest: str | None = None
    if given == "key":
        secret = reader.secret((*at, "key"), table["key"])
        digest = secret.sha256() if secret else None
    elif reader.fits((*at, "key_sha256"), table["key_sha256"], Digest):
        digest = table["key_sha256"].lower()
    if digest in _EXAMPLES:
        reader.flaw(
            (*at, given), "is the key of an example, which everybody knows", "`dragoman keys new NAME` makes one"
        )
        return None
    return digest


def _once(reader: Reader, seen: dict[str, Place], value: str, at: Place, what: str) -> None:
    first = seen.setdefault(value, at)
    if first != at:
        reader.flaw(at, f"{what}, on line {reader.line(first)}", "give each its own")


def _providers(reader: Reader, value: object, plugins: Plugins) -> Iterator[tuple[str, Provider]]:
    for at, name, table in reader.named(("providers",), value):
        reader.fits(at, name, Name)
        plugin = _plugin(reader, at, name, table, plugins.names)
        struct = plugins.options_type(plugin) if plugin else None
        options = {field.encode_name for field in msgspec.structs.fields(struct)} if struct else set()
        options.difference_update(Provider.__struct_fields__)
        own = ("plugin", "base_url", "keys", "credentials", "headers", *sorted(options))
        read = reader.fields(at, table, Provider, own=own, hidden=("name", "options"))
        if struct is not None:
            read["options"] = reader.fields(at, {key: table[key] for key in table if key in options}, struct)
        if "base_url" in table:
            read["base_url"] = _base_url(reader, (*at, "base_url"), table, read)
        if "headers" in table:
            read["headers"] = _headers(reader, (*at, "headers"), table["headers"])
        yield name, Provider(name=name, plugin=plugin or "", **read, **_pool(reader, at, table))


def _plugin(reader: Reader, at: Place, name: str, table: Mapping[str, Any], known: Collection[str]) -> str | None:
    plugin = table.get("plugin", name)
    if isinstance(plugin, str) and plugin in known:
        return plugin
    what = "names no plugin that is installed" if "plugin" in table else "names no plugin, and its own name is none"
    listed = ", ".join(sorted(known)) or "none"
    hint = did_you_mean(plugin, known)
    reader.flaw((*at, "plugin"), what, f"{hint} installed: {listed}".strip())
    return None


def _base_url(reader: Reader, at: Place, table: Mapping[str, Any], read: Mapping[str, Any]) -> str | None:
    value = table["base_url"]
    if not isinstance(value, str):
        reader.flaw(at, "must be a string", 'for example base_url = "https://HOST/v1"')
        return None
    found = base_url(value, allow_http=read.get("allow_http", False))
    if isinstance(found, Unfit):
        reader.flaw(at, found.what, found.mend)
        return None
    return found


def _headers(reader: Reader, at: Place, value: object) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, text in (reader.table(at, value) or {}).items():
        place = (*at, name)
        if not reader.fits(place, name, Header):
            continue
        if owned(name):
            reader.flaw(place, "is a header that only the gateway sets", "remove it; upstream keys go into keys")
        elif not isinstance(text, str) or not usable_value(text):
            reader.flaw(place, "must be a string of printable ASCII")
        elif name.lower() in made:
            reader.flaw(place, "is set twice in different case", "keep one of the two")
        else:
            made[name.lower()] = text
    return made


def _pool(reader: Reader, at: Place, table: Mapping[str, Any]) -> dict[str, Any]:
    """Read keys and credentials. They share one pool, so their names are unique together."""
    names: dict[str, Place] = {}
    values: dict[str, Place] = {}
    keys, credentials = [], []
    for place, inner in reader.tables((*at, "keys"), table.get("keys", []), KEYS_FORM):
        key = reader.record(place, inner, Key)
        if key is not None:
            _once(reader, names, key.name, (*place, "name"), "is the name of another key")
            _once(reader, values, key.value.sha256(), (*place, "value"), "is the same as another key")
            keys.append(key)
    for place, inner in reader.tables((*at, "credentials"), table.get("credentials", []), CREDENTIALS_FORM):
        credential = reader.record(place, inner, Credential)
        if credential is not None:
            _once(reader, names, credential.name, (*place, "name"), "is the name of another key")
            file = str(reader.path(credential.file)) if credential.file else None
            credentials.append(msgspec.structs.replace(credential, file=file))
    return {"keys": tuple(keys), "credentials": tuple(credentials)}


def _models(reader: Reader, value: object, providers: Collection[str]) -> Iterator[tuple[str, Model]]:
    for at, alias, table in reader.named(("models",), value):
        reader.fits(at, alias, Alias)
        plain = _without_split_aliases(reader, at, alias, table)
        if not plain and table:
            continue
        read = reader.fields(at, plain, Model, own=("provider", "model", "routes", "traits"))
        if read.get("tokenizer"):
            read["tokenizer"] = str(reader.path(read["tokenizer"]))
        traits = reader.table((*at, "traits"), plain["traits"]) if "traits" in plain else None
        if traits is not None:
            read["traits"] = reader.fields((*at, "traits"), traits, Traits)
        yield alias, Model(routes=tuple(_routes(reader, at, plain, providers)), **read)


def _without_split_aliases(reader: Reader, at: Place, alias: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Take out what TOML made of an alias whose dots were not quoted: a table in the table of its first part."""
    plain = {}
    for key, value in table.items():
        if isinstance(value, dict) and key not in {*Model.__struct_fields__, "provider", "model"}:
            mend = f'write [models."{alias}.{key}"]' if alias else ""
            reader.flaw((*at, key), "is a table inside a model: a dot in an alias needs quotes", mend)
        else:
            plain[key] = value
    return plain


def _routes(reader: Reader, at: Place, table: Mapping[str, Any], providers: Collection[str]) -> Iterator[Route]:
    single = {key: table[key] for key in ("provider", "model") if key in table}
    if "routes" not in table:
        yield from _route(reader, at, single, providers)
        return
    for key in single:
        what = f'two routes under one alias: "{at[-1]}" has both {key} and routes'
        reader.flaw((*at, key), what, "keep routes, and put this one into the list, or remove routes")
    seen: dict[str, Place] = {}
    place = (*at, "routes")
    if table["routes"] == []:
        reader.flaw(place, "is empty", ROUTES_FORM)
    for inside, inner in reader.tables(place, table["routes"], ROUTES_FORM):
        for route in _route(reader, inside, inner, providers):
            _once(reader, seen, repr(route), inside, f'repeats a route of the alias "{at[-1]}"')
            yield route


def _route(reader: Reader, at: Place, table: Mapping[str, Any], providers: Collection[str]) -> Iterator[Route]:
    route = reader.record(at, table, Route)
    if route is None:
        return
    if route.provider not in providers:
        listed = f"configured: {', '.join(providers) or 'none'}"
        reader.flaw(
            (*at, "provider"),
            "names a provider that is not configured",
            did_you_mean(route.provider, providers) or listed,
        )
    yield route
