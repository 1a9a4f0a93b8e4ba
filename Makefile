# Every target works with nothing installed but Python >= 3.11 and make: the first one called makes .venv. Only the
# compiled build, which benchmarks measure unless told PURE=1, needs a C compiler.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := build/compiled
ON_COMPILED := PYTHONPATH='$(CURDIR)/$(COMPILED)'
ARGS ?=
# Manifests that the embedded control plane starts with.
LOAD ?= examples/cluster

# What benchmarks measure.
ifdef PURE
MEASURED := $(STAMP)
else
MEASURED := $(COMPILED)/.built
ON_MEASURED := $(ON_COMPILED)
endif

.DEFAULT_GOAL := help
.PHONY: help run serve test test-compiled check format conformance recordings bench bench-e2e soak compiled clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kubesched needs Python 3.11 or later; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	KUBESCHED_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

$(COMPILED)/.built: $(STAMP) hatch_build.py $(shell find src -name '*.py')
	@echo 'compiling the hot path, which takes a minute or two'
	@$(BIN)/python hatch_build.py $(COMPILED) || { echo 'benchmarks go without it: PURE=1' >&2; exit 1; }
	@touch $@

run: $(STAMP)  ## embedded control plane over HTTP, schedules the example cluster, shows the result, ends
	$(BIN)/kubesched run --embedded --load $(LOAD) --until-settled $(ARGS)

serve: $(STAMP)  ## the same, but stays up and tells how to point kubectl at it
	$(BIN)/kubesched run --embedded --load $(LOAD) $(ARGS)

test: $(STAMP)  ## the whole test suite
	$(BIN)/python -m pytest -n 2 $(ARGS)

test-compiled: $(COMPILED)/.built  ## the same against the compiled build; ARGS="tests/state tests/plugins" for a part
	$(ON_COMPILED) $(BIN)/python -m pytest -n 2 $(ARGS)

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

bench: $(MEASURED)  ## decisions per second and CPU per pod, no API in the way; PURE=1 for the pure build, as below
	$(ON_MEASURED) $(BIN)/python -m benchmarks.decisions $(ARGS)

bench-e2e: $(MEASURED)  ## the scheduler process over HTTP; ARGS="--list", ARGS="basic --kubeconfig FILE", ...
	$(ON_MEASURED) $(BIN)/python -m benchmarks.e2e $(ARGS)

soak: $(MEASURED)  ## an hour of churn: memory flat, cache true; ARGS="--minutes 5" for less
	$(ON_MEASURED) $(BIN)/python -m benchmarks.soak $(ARGS)

compiled: $(COMPILED)/.built  ## the package with its hot path compiled, in build/compiled; needs a C compiler

clean:  ## remove .venv, the compiled build and caches
	rm -rf $(VENV) $(COMPILED) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
