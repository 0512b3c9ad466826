"""How each coding agent is pointed at a gateway: environment, flags, private files (spec/clients.md, grok.md 15). Pure.

What is set here was tried with the real programs; nothing of it touches a file of the user's.
"""

import json

import msgspec

__all__ = ["KEY_VARIABLE", "Aim", "Wiring", "wire"]

KEY_VARIABLE = "DRAGOMAN_CLIENT_KEY"
"""Variable that clients are told to take the key from, where they can be told."""
DEFAULT_WINDOW = 200_000
OUTPUT_TOKENS = 32_000
COMPACT_AT = 0.9
"""Part of the context window at which Codex compacts; its own default needs a model that it knows."""


class Aim(msgspec.Struct, frozen=True):
    """What a client shall ask: the gateway's address without /v1, its key, the model, and what is known of that.

    `listed` tells whether GET /v1/models has the model: Grok Build takes no other from there. `folder` is a
    private one, where files for the client may lie.
    """

    url: str
    key: str
    model: str
    folder: str
    window: int | None = None
    max_output: int | None = None
    listed: bool = True


class Wiring(msgspec.Struct, frozen=True):
    """What to run a client with: variables set and removed, flags before the user's own, files in the folder."""

    env: dict[str, str]
    unset: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    files: dict[str, str] = {}


def wire(client: str, aim: Aim) -> Wiring:
    """Return how a client of that name is pointed at the gateway."""
    return {"claude": claude, "codex": codex, "grok": grok, "cline": cline, "opencode": opencode}[client](aim)


def claude(aim: Aim) -> Wiring:
    """Claude Code: variables, and the same once more as settings.

    A user's or project's settings file may have an `env` of its own, which wins over the environment; only the
    file that --settings names wins over that (CVE-2026-21852 is about such a project file).
    """
    env = {
        "ANTHROPIC_BASE_URL": aim.url,
        "ANTHROPIC_AUTH_TOKEN": aim.key,
        "ANTHROPIC_MODEL": aim.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": aim.model,  # what subagents and /model choose by family
        "ANTHROPIC_DEFAULT_SONNET_MODEL": aim.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": aim.model,  # titles and other small work
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    # For names that it does not know: it would take them to hold 1 million tokens.
    env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(aim.window or DEFAULT_WINDOW)
    if aim.window:
        env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(aim.window)
    if aim.max_output:
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(aim.max_output)
    settings = f"{aim.folder}/claude.json"
    # Another key beside ours would be sent too, and two different keys are a 401.
    unset = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
    document = json.dumps({"env": env | dict.fromkeys(unset, "")}, indent=1)
    return Wiring(env, unset, ("--settings", settings), {"claude.json": document})


def codex(aim: Aim) -> Wiring:
    """Codex: a provider of its own by -c flags, without WebSockets; the built-in one cannot be overridden."""
    provider = (
        f'{{ name = "Dragoman", base_url = {_quoted(aim.url + "/v1")}, env_key = "{KEY_VARIABLE}", '
        'wire_api = "responses" }'
    )
    settings = {"model": _quoted(aim.model), "model_provider": '"dragoman"', "model_providers.dragoman": provider}
    if aim.window:
        settings["model_context_window"] = str(aim.window)
        settings["model_auto_compact_token_limit"] = str(int(aim.window * COMPACT_AT))
    flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return Wiring({KEY_VARIABLE: aim.key}, flags=tuple(flags))


def grok(aim: Aim) -> Wiring:
    """Grok Build: variables where the gateway lists the model, else a home folder of its own.

    GROK_CONFIG cannot define a model: it is confined to a list of soft settings. GROK_AUTH_PATH leads away from a
    stored login, whose token would be sent to the gateway in place of the key.
    """
    env = {
        "GROK_AUTH_PATH": f"{aim.folder}/grok-auth.json",
        "GROK_DEFAULT_MODEL": aim.model,
        "GROK_SESSION_SUMMARY_MODEL": aim.model,  # else titles ask for a model of xAI's
        "GROK_TELEMETRY_ENABLED": "false",
        "GROK_TRACE_UPLOAD": "false",
    }
    if aim.listed:
        return Wiring(
            env | {"GROK_MODELS_BASE_URL": f"{aim.url}/v1", "XAI_API_KEY": aim.key}, ("GROK_MODELS_LIST_URL",)
        )
    lines = [
        "[cli]",
        "auto_update = false",
        "[models]",
        'default = "dragoman"',
        'session_summary = "dragoman"',
        "[model.dragoman]",
        f"model = {_quoted(aim.model)}",
        f"name = {_quoted(aim.model)}",
        f"base_url = {_quoted(aim.url + '/v1')}",
        f'env_key = "{KEY_VARIABLE}"',
        'api_backend = "responses"',
        f"context_window = {aim.window or DEFAULT_WINDOW}",
    ]
    own = env | {"GROK_HOME": f"{aim.folder}/grok", KEY_VARIABLE: aim.key}
    own |= {"GROK_DEFAULT_MODEL": "dragoman", "GROK_SESSION_SUMMARY_MODEL": "dragoman"}
    return Wiring(own, ("GROK_MODELS_BASE_URL",), files={"grok/config.toml": "\n".join(lines) + "\n"})


def cline(aim: Aim) -> Wiring:
    """Cline: a data folder of its own, as its key can only stand in a file; one run's state, no background hub."""
    name = "openai-compatible"  # the only entry that takes an address
    settings = {"provider": name, "apiKey": aim.key, "model": aim.model, "baseUrl": f"{aim.url}/v1", "headers": {}}
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: entry}}
    flags = ("--data-dir", f"{aim.folder}/cline", "-P", name, "-m", aim.model)
    files = {"cline/settings/providers.json": json.dumps(providers, indent=1)}
    return Wiring({"CLINE_NO_AUTO_UPDATE": "1"}, flags=flags, files=files)


def opencode(aim: Aim) -> Wiring:
    """opencode: its configuration as one variable, laid over the user's."""
    limit = {"context": aim.window or DEFAULT_WINDOW, "output": aim.max_output or OUTPUT_TOKENS}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Dragoman",
        "options": {"baseURL": f"{aim.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": {aim.model: {"name": aim.model, "tool_call": True, "limit": limit}},
    }
    model = f"dragoman/{aim.model}"
    content = json.dumps({"model": model, "small_model": model, "provider": {"dragoman": provider}})
    return Wiring({"OPENCODE_CONFIG_CONTENT": content, KEY_VARIABLE: aim.key})


def _quoted(text: str) -> str:
    """Return a TOML string; JSON's escapes are TOML's too."""
    return json.dumps(text, ensure_ascii=False)
