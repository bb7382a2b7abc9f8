# Set-up is part of every target: a fresh machine needs only Python >= 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test lint types imports unit benchmark pages format clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $(STAMP)

setup: $(STAMP)  ## make the virtual environment in .venv

demo: $(STAMP)  ## solve the main example on the bundled prices
	$(BIN)/shardwise solve examples/llama-3.1-70b-chat.yaml

test: lint types imports unit  ## lint, types, import arrows, tests

lint: $(STAMP)  ## ruff, rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

imports: $(STAMP)  ## the arrows between packages
	$(BIN)/lint-imports

unit: $(STAMP)  ## the tests, on all cores
	$(BIN)/pytest -n auto --dist loadfile

benchmark: $(STAMP)  ## measured figures of speed and growth
	$(BIN)/python -m tests.benchmarks

pages: $(STAMP)  ## rewrite what commands print in the pages; read the difference
	$(BIN)/pytest -q tests/documents --refresh-golden

format: $(STAMP)  ## rewrite the sources as ruff would have them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .benchmarks dist
