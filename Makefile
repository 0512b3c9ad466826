# Every target prepares .venv by itself; it needs make, Python 3.11 or newer and a package index.
# `make clients` also needs npm.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
EXTRAS := speed,zstd,metrics,otel,tokenizers,valkey
# Three processes for two cores, also on larger machines: many tests wait for sockets and clients, and every run is then
# like the one in CI.
PARALLEL := --numprocesses 3 --dist worksteal
# Without kept bytecode pytest rewrites the asserts of 200 files anew in each process, and each gateway is compiled anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-fast lint format clients bench check
.DEFAULT_GOAL := check

demo: $(INSTALLED)
	@$(BIN)/dragoman demo --once

test: $(INSTALLED)
	@$(BIN)/pytest $(PARALLEL)

test-fast: $(INSTALLED)
	@$(BIN)/pytest $(PARALLEL) -m "not slow and not clients"

lint: $(INSTALLED)
	@$(BIN)/ruff check --quiet --output-format concise
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo

format: $(INSTALLED)
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

clients:
	@bash tests/clients/install.sh

bench: $(INSTALLED)
	@$(BIN)/python -m benchmarks

check: lint test

# pip comes first: dependency groups and build constraints are younger than the pip of Python 3.11.
$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
	    --group test --group lint --editable '.[$(EXTRAS)]'
	@touch $@
