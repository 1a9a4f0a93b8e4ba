# Every target works with nothing installed but Python >= 3.11 and make: the first one called makes .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
# Manifests that the embedded control plane starts with.
LOAD ?= examples/cluster

.DEFAULT_GOAL := help
.PHONY: help run serve test check format conformance recordings bench bench-e2e soak clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kubesched needs Python 3.11 or later; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

run: $(STAMP)  ## embedded control plane over HTTP, schedules the example cluster, shows the result, ends
	$(BIN)/kubesched run --embedded --load $(LOAD) --until-settled $(ARGS)

serve: $(STAMP)  ## the same, but stays up and tells how to point kubectl at it
	$(BIN)/kubesched run --embedded --load $(LOAD) $(ARGS)

test: $(STAMP)  ## the whole test suite
	$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(STAMP)  ## format, lint, types, import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

conformance: $(STAMP)  ## every recorded decision of the real scheduler, pass/fail per family
	$(BIN)/python -m tests.conformance $(ARGS)

recordings: $(STAMP)  ## the embedded API server against recordings of a real one, pass/fail per scenario and exchange
	$(BIN)/python -m tests.recordings $(ARGS)

bench: $(STAMP)  ## decisions per second and CPU per pod, no API in the way
	$(BIN)/python -m benchmarks.decisions $(ARGS)

bench-e2e: $(STAMP)  ## the scheduler process over HTTP; ARGS="--list", ARGS="basic --kubeconfig FILE", ...
	$(BIN)/python -m benchmarks.e2e $(ARGS)

soak: $(STAMP)  ## an hour of churn: memory flat, cache true; ARGS="--minutes 5" for less
	$(BIN)/python -m benchmarks.soak $(ARGS)

clean:  ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
