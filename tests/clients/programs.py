"""How each client program is run headless: its command, environment and files, and where it puts its final text.

A new version of a client is a new pin in package.json and, at most, a change in its function here.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("DRAGOMAN_CLIENTS_DIR", ROOT / ".cache" / "clients")) / "bin"


@dataclass(frozen=True, slots=True)
class Job:
    """What a client shall do, and where."""

    base_url: str  # without /v1
    key: str
    model: str
    prompt: str
    home: Path  # empty, its own
    work: Path


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a client, and how to find its final text in its standard output."""

    argv: list[str]
    env: dict[str, str]
    text: Callable[[str], str]
    files: dict[str, str] = field(default_factory=dict)  # below the home folder


def last(out: str, kind: str, pick: Callable[[Any], str]) -> str:
    """What `pick` takes out of the last event of a kind, in a program's lines of JSON."""
    found = ""
    for line in out.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            found = pick(event) if event.get("type") == kind else found
    return found


def claude(job: Job) -> Command:
    return Command(
        argv=["claude", "-p", job.prompt, "--output-format", "json", "--dangerously-skip-permissions"],
        env={
            "ANTHROPIC_BASE_URL": job.base_url,
            "ANTHROPIC_AUTH_TOKEN": job.key,
            "ANTHROPIC_MODEL": job.model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": job.model,
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",  # it refuses to skip permissions for root anywhere else
        },
        text=lambda out: json.loads(out.splitlines()[-1])["result"],
    )


def codex(job: Job) -> Command:
    config = f"""
        model = {json.dumps(job.model)}
        model_provider = "gateway"
        check_for_update_on_startup = false
        [analytics]
        enabled = false
        [features]
        plugins = false
        [model_providers.gateway]
        name = "gateway"
        base_url = "{job.base_url}/v1"
        env_key = "GATEWAY_KEY"
        wire_api = "responses"
    """
    options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", str(job.work)]
    return Command(
        argv=["codex", "exec", *options, job.prompt],
        env={"CODEX_HOME": str(job.home / ".codex"), "GATEWAY_KEY": job.key},
        text=lambda out: last(out, "item.completed", lambda event: event["item"].get("text", "")),
        files={".codex/config.toml": config},
    )


def grok(job: Job, backend: str) -> Command:
    config = f"""
        [cli]
        auto_update = false
        [features]
        telemetry = false
        [models]
        default = "gateway"
        session_summary = "gateway"
        [model.gateway]
        model = {json.dumps(job.model)}
        name = "gateway"
        base_url = "{job.base_url}/v1"
        api_key = "{job.key}"
        api_backend = "{backend}"
        context_window = 200000
        max_retries = 2
    """
    quiet = (
        "GROK_FEEDBACK_ENABLED GROK_PROMPT_SUGGESTIONS GROK_TELEMETRY_ENABLED GROK_TELEMETRY_TRACE_UPLOAD "
        "GROK_TRACE_UPLOAD"
    )
    return Command(
        argv=["grok", "-p", job.prompt, "--output-format", "json", "--always-approve"],
        env=dict.fromkeys(quiet.split(), "false")
        | {
            "DISABLE_TELEMETRY": "1",
            "GROK_DISABLE_AUTOUPDATER": "1",
            "GROK_HOME": str(job.home / ".grok"),
            "GROK_INSTRUMENTATION": "disabled",
            "GROK_TURN_SUMMARY": "0",
            "GROK_TURN_TRANSIENT_RETRY": "0",
            "OTEL_SDK_DISABLED": "true",
        },
        text=lambda out: json.loads(out[out.index("{") :]).get("text", ""),
        files={".grok/config.toml": config},
    )


def opencode(job: Job) -> Command:
    model = {"name": job.model, "tool_call": True, "limit": {"context": 200_000, "output": 32_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "gateway",
        "options": {"baseURL": f"{job.base_url}/v1", "apiKey": job.key},
        "models": {job.model: model},
    }
    config = {
        "model": f"gateway/{job.model}",
        "small_model": f"gateway/{job.model}",
        "share": "disabled",
        "autoupdate": False,
        "permission": "allow",
        "provider": {"gateway": provider},
    }
    off = "AUTOUPDATE DEFAULT_PLUGINS LSP_DOWNLOAD MODELS_FETCH SHARE"
    return Command(
        argv=["opencode", "run", "--format", "json", "--title", "test", job.prompt],
        env={f"OPENCODE_DISABLE_{name}": "1" for name in off.split()},
        text=lambda out: last(out, "text", lambda event: event["part"]["text"]),
        files={".config/opencode/opencode.json": json.dumps(config)},
    )


def cline(job: Job) -> Command:
    name = "openai-compatible"  # the only entry that takes an address
    settings = {"provider": name, "apiKey": job.key, "model": job.model, "baseUrl": f"{job.base_url}/v1", "headers": {}}
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: entry}}
    return Command(
        argv=["cline", "--json", "-P", name, "-m", job.model, job.prompt],
        env={"CLINE_NO_AUTO_UPDATE": "1"},
        text=lambda out: last(out, "run_result", lambda event: event["text"]),
        files={
            ".cline/data/settings/providers.json": json.dumps(providers),
            ".cline/data/settings/global-settings.json": '{"telemetryOptOut": true, "autoUpdateEnabled": false}',
        },
    )


@dataclass(frozen=True, slots=True)
class Program:
    """A client as the tests name it: the dialect that it speaks and the model that it asks for."""

    name: str
    dialect: str
    command: Callable[[Job], Command]
    model: str = "scripted"


PROGRAMS = {
    program.name: program
    for program in (
        Program("claude", "messages", claude, model="claude-sonnet-5-5"),
        Program("codex", "responses", codex),
        Program("grok-responses", "responses", lambda job: grok(job, "responses")),
        Program("grok-chat", "chat", lambda job: grok(job, "chat_completions")),
        Program("grok-messages", "messages", lambda job: grok(job, "messages")),
        Program("opencode", "chat", opencode),
        Program("cline", "chat", cline),
    )
}


def missing(program: Program) -> str:
    """Why a program cannot be run here, or an empty text."""
    name = program.name.partition("-")[0]
    return "" if (FOLDER / name).exists() else f"{name} is not installed: run `make clients`"
