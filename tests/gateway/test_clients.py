"""How clients are pointed at a gateway: addresses, keys, models and windows, and nothing of the user's."""

import json
import tomllib

import pytest

from gateway.clients import KEY_VARIABLE, Aim, wire
from gateway.options import CLIENTS

AIM = Aim("http://127.0.0.1:1", "the-key", 'm"odel', "/private", window=150_000, max_output=9_000)
BARE = Aim("http://127.0.0.1:1", "the-key", "m", "/private", listed=False)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("aim", [AIM, BARE])
def test_a_key_stands_in_no_argument(client, aim):
    """Arguments are visible to everybody on the machine."""
    wiring = wire(client, aim)
    assert "the-key" not in " ".join(wiring.flags)
    assert "the-key" in json.dumps([wiring.env, wiring.files])


@pytest.mark.parametrize("client", CLIENTS)
def test_files_lie_in_the_private_folder(client):
    """Names are relative, and flags and variables that name a file name it there."""
    wiring = wire(client, BARE)
    assert [] == [name for name in wiring.files if name.startswith(("/", "."))]
    named = [part for part in (*wiring.flags, *wiring.env.values()) if "/private/" in part]
    assert len(wiring.files) <= len(named)


def test_claude_gets_variables_and_settings():
    """The settings file repeats the variables, since a project's own `env` wins over the environment."""
    wiring = wire("claude", AIM)
    assert "http://127.0.0.1:1" == wiring.env["ANTHROPIC_BASE_URL"]
    assert {'m"odel'} == {value for name, value in wiring.env.items() if name.endswith("_MODEL")}
    assert "150000" == wiring.env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == wiring.env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"]
    assert "9000" == wiring.env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]
    assert ("--settings", "/private/claude.json") == wiring.flags
    settings = json.loads(wiring.files["claude.json"])["env"]
    assert wiring.env == {name: value for name, value in settings.items() if value}
    assert "ANTHROPIC_API_KEY" in wiring.unset
    assert "" == settings["ANTHROPIC_API_KEY"]


def test_claude_takes_no_unknown_window_for_a_million():
    """Without a configured window it is told a usual one."""
    env = wire("claude", BARE).env
    assert "200000" == env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"]
    assert "CLAUDE_CODE_AUTO_COMPACT_WINDOW" not in env


def test_codex_gets_toml_by_flags():
    """Each -c value is TOML; the provider names the variable of the key."""
    wiring = wire("codex", AIM)
    assert {"-c"} == set(wiring.flags[::2])
    settings = tomllib.loads("\n".join(wiring.flags[1::2]))
    assert 'm"odel' == settings["model"]
    assert "dragoman" == settings["model_provider"]
    assert 150_000 == settings["model_context_window"]
    assert 135_000 == settings["model_auto_compact_token_limit"]
    provider = settings["model_providers"]["dragoman"]
    assert ("http://127.0.0.1:1/v1", KEY_VARIABLE, "responses") == (
        provider["base_url"],
        provider["env_key"],
        provider["wire_api"],
    )
    assert "model_context_window" not in " ".join(wire("codex", BARE).flags)


@pytest.mark.parametrize("aim", [AIM, BARE])
def test_grok_does_not_find_a_login(aim):
    """Its token would be sent to the gateway in place of the key."""
    assert wire("grok", aim).env["GROK_AUTH_PATH"].startswith("/private/")


def test_grok_takes_a_listed_model_from_the_gateway():
    """Then variables are enough, and the user's own home stays in use."""
    wiring = wire("grok", AIM)
    assert {} == wiring.files
    assert ("http://127.0.0.1:1/v1", "the-key") == (wiring.env["GROK_MODELS_BASE_URL"], wiring.env["XAI_API_KEY"])
    assert 'm"odel' == wiring.env["GROK_DEFAULT_MODEL"] == wiring.env["GROK_SESSION_SUMMARY_MODEL"]


def test_grok_gets_a_home_for_another_model():
    """A model that no list has can only stand in a config file."""
    wiring = wire("grok", BARE)
    assert "/private/grok" == wiring.env["GROK_HOME"]
    model = tomllib.loads(wiring.files["grok/config.toml"])["model"]["dragoman"]
    assert ("m", "http://127.0.0.1:1/v1", 200_000) == (model["model"], model["base_url"], model["context_window"])
    assert wiring.env[model["env_key"]] == "the-key"


def test_cline_keeps_its_data_apart():
    """Its key can only stand in a file of its data folder."""
    wiring = wire("cline", AIM)
    assert ("--data-dir", "/private/cline", "-P", "openai-compatible", "-m", 'm"odel') == wiring.flags
    entry = json.loads(wiring.files["cline/settings/providers.json"])["providers"]["openai-compatible"]["settings"]
    assert ("the-key", "http://127.0.0.1:1/v1", 'm"odel') == (entry["apiKey"], entry["baseUrl"], entry["model"])


def test_opencode_gets_its_configuration_inline():
    """Model, small model, limits; the key by its variable."""
    content = json.loads(wire("opencode", AIM).env["OPENCODE_CONFIG_CONTENT"])
    assert 'dragoman/m"odel' == content["model"] == content["small_model"]
    provider = content["provider"]["dragoman"]
    assert {"baseURL": "http://127.0.0.1:1/v1", "apiKey": "{env:" + KEY_VARIABLE + "}"} == provider["options"]
    assert {"context": 150_000, "output": 9_000} == provider["models"]['m"odel']["limit"]
