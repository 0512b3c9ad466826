"""`GET /v1/models` in the shapes that clients read."""

import pytest

from gateway.auth import Tenant
from gateway.catalog import find, listing
from gateway.config import Config, Model, Route
from providers.api import Card

ROUTES = (Route("up"),)
CONFIG = Config(
    models={
        "sonnet": Model(routes=ROUTES, context_window=1000),
        "grok-build": Model(routes=ROUTES),
        "gpt-*": Model(routes=ROUTES),
        "*": Model(routes=ROUTES),
    }
)
ANTHROPIC = {"anthropic-version": "2023-06-01"}
ALL = Tenant("a")


def test_openai_lists_exact_aliases():
    """Prefix aliases stand for names that only clients know, and are not listed."""
    told = listing(CONFIG, ALL, {}, {})
    assert {"object": "list", "data": told["data"]} == told
    assert ["sonnet", "grok-build"] == [entry["id"] for entry in told["data"]]
    assert {"model"} == {entry["object"] for entry in told["data"]}


def test_codex_finds_its_list():
    """Codex decodes `models`, and would fail without it."""
    assert [] == listing(CONFIG, ALL, {}, {"client_version": "1"})["models"]


def test_grok_build_reads_backend_window_and_efforts():
    """Efforts are offered where Grok Build may send them: not for its own models."""
    sonnet, build = listing(CONFIG, ALL, {}, {})["data"]
    assert ("responses", 1000, True) == (sonnet["api_backend"], sonnet["context_window"], sonnet["supported_in_api"])
    assert ["low", "medium", "high"] == [effort["value"] for effort in sonnet["reasoning_efforts"]]
    assert 200_000 == build["context_window"]
    assert "reasoning_efforts" not in build


def test_anthropic_lists_with_its_pages():
    """`anthropic-version` asks for Anthropic's shape, ends of the page included."""
    told = listing(CONFIG, ALL, ANTHROPIC, {})
    assert ("sonnet", "grok-build", False) == (told["first_id"], told["last_id"], told["has_more"])
    sonnet, build = told["data"]
    assert {"type": "model", "id": "sonnet", "display_name": "sonnet", "max_input_tokens": 1000} == {
        name: value for name, value in sonnet.items() if name != "created_at"
    }
    assert "max_input_tokens" not in build


@pytest.mark.parametrize("headers", [{}, ANTHROPIC])
def test_a_tenant_sees_what_it_may_use(headers):
    """Others' models are neither listed nor found, and an empty list is a list."""
    tenant = Tenant("b", models=("grok-*",))
    assert ["grok-build"] == [entry["id"] for entry in listing(CONFIG, tenant, headers, {})["data"]]
    assert find(CONFIG, tenant, headers, "sonnet") is None
    assert [] == listing(CONFIG, Tenant("c", models=()), headers, {})["data"]


def test_an_empty_anthropic_page_has_no_ends():
    """Without models both ends are null."""
    told = listing(Config(), ALL, ANTHROPIC, {})
    assert (None, None) == (told["first_id"], told["last_id"])


def test_one_model_in_either_shape():
    """A single entry is as in the list."""
    assert "model" == find(CONFIG, ALL, {}, "sonnet")["object"]
    assert "model" == find(CONFIG, ALL, ANTHROPIC, "sonnet")["type"]


@pytest.mark.parametrize("headers", [{}, ANTHROPIC])
def test_a_name_behind_a_prefix_has_an_entry(headers):
    """The gateway serves it, so whoever asks for it finds it, under the name that was asked for."""
    config = Config(models={"c-*": Model(routes=ROUTES, context_window=77), "c-x-*": Model(routes=ROUTES)})
    found = find(config, ALL, headers, "c-foo")
    assert ("c-foo", 77) == (found["id"], found["max_input_tokens" if headers else "context_window"])
    assert "max_input_tokens" not in find(config, ALL, ANTHROPIC, "c-x-foo")
    assert find(config, Tenant("b", models=("d-*",)), headers, "c-foo") is None
    assert find(config, ALL, headers, "d-foo") is None


@pytest.mark.parametrize("name", ["gpt-*", "*", ""])
def test_no_entry_for_what_no_client_can_mean(name):
    """Patterns are no models."""
    assert find(CONFIG, ALL, {}, name) is None


def test_what_a_provider_knows_of_a_model():
    """Its window and efforts are told where the configuration says nothing else."""

    def card(name):
        return Card(500_000, ("low", "xhigh")) if name != "gpt-9" else Card()

    sonnet, build = listing(CONFIG, ALL, {}, {}, card)["data"]
    assert (1000, 500_000) == (sonnet["context_window"], build["context_window"])
    assert [{"value": "low"}, {"value": "xhigh"}] == build["reasoning_efforts"]
    assert [1000, 500_000] == [entry["max_input_tokens"] for entry in listing(CONFIG, ALL, ANTHROPIC, {}, card)["data"]]
    one = find(CONFIG, ALL, {}, "gpt-9", card)
    assert (200_000, False) == (one["context_window"], "reasoning_efforts" in one)
