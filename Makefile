# `make` alone prints the targets. Everything runs in .venv, which `set-up` makes.
VENV   ?= .venv
PYTHON := $(VENV)/bin/python
MLGO   := $(VENV)/bin/mlgo
SHELL  := /bin/bash

.DEFAULT_GOAL := help
.PHONY: help set-up set-up-tests quickstart check format test test-full bench train-inliner native clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

set-up: ## LLVM 22, a virtual environment and the package
	@scripts/set-up

set-up-tests: ## as set-up, with LLVM 19 and what the tests need
	@scripts/set-up --tests

quickstart: set-up ## from real projects' sources to a policy, measured on projects it has not seen
	@$(PYTHON) examples/quickstart.py

check: set-up-tests ## format, lint, types, layers
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	@scripts/check-native

format: ## rewrite the sources in the house's format
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

test: check ## everything that CI runs
	$(PYTHON) -m pytest -n 2 --dist loadgroup -m "not full"

test-full: check ## also what takes long: whole corpora, recipes, training runs
	$(PYTHON) -m pytest -n 2 --dist loadgroup

bench: set-up-tests ## ours against the peer, in one run; prints ratios
	@for each in bench/bench_*.py; do echo "== $$each"; $(PYTHON) $$each || exit 1; done

train-inliner: set-up-tests ## train the package's inliner again; CORPORA="DIR ..." or the programs of the recipes
	@scripts/train-inliner $(CORPORA)

native: ## rebuild the C++ core and the plugins after a change
	@scripts/set-up --native

clean: ## remove what was built, but not the virtual environment
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
