# Needs Python 3.11 or newer with pip and venv, git, make. Everything lands in .venv/ and out/.
#
#   make demo     set up .venv and run a small lab on this machine for a minute: real processes, a preemption,
#                 a crash of the server, an audit; nothing is left running
#   make simulate-demo  play a month of the built-in lab; its report lands in out/ai2.html
#   make check    the gate before a commit: format, lint, types, floors, docs, fast tests (under two minutes)
#   make test     everything: the core plain, bounds-checked and compiled, then all tests
#   make bench    the benchmarks: counts asserted, seconds recorded in docs/speed.md
#   make reached  play the scenarios the default policy is judged by, and write docs/reached.md (a few minutes)
#   make ordeals  live through 2,000 seeds of crashes, lost answers and dying nodes (half an hour)
#   make histories  carry 1,000 drawn training runs through whatever can happen to them (some minutes)
#   make kills    kill the server at 600 instants while real work runs (a few minutes)
#   make docs     write the generated parts of docs/ anew
#   make clean    remove what the above made

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help ordeals histories kills demo simulate-demo check format lint types floors test test-plain test-checked test-compiled bench reached docs clean

# The first of these that is new enough; `make PYTHON=/path/to/python3.12 demo` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
# Two workers suit a small machine; `make WORKERS=8 test` uses more.
WORKERS ?= 2
# How often a test that failed is tried again. None, except where a strange machine judges a change (.ci/run): what
# waits for real clusters may be late there once in thousands of tests. Each second try is told with its first failure.
RERUNS ?= 0
# What of pyproject's extras is installed; `make EXTRAS=dev,frameworks test` tests the trainer's adapters too, on
# PyTorch, Lightning and Transformers as they are.
EXTRAS ?= dev
# `make ORDEALS=20000 ordeals` for a night.
ORDEALS ?= 2000
# Several workers on few cores: threads of one worker's algebra only wait for those of the other.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
# A file's tests stay together; tests/longest.py says which files begin first.
PYTEST := $(BIN)/python -m pytest -q --dist loadfile --no-loadscope-reorder
# What the core decides, in worlds small enough to be played without a compiler too.
CORE_TESTS := tests/test_scenarios_of_rules.py $(wildcard tests/test_core_*.py)

help:
	@sed -n '3,$${/^# /s/^# //p;/^$$/q}' Makefile

$(READY): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "Tenure needs Python 3.11 or newer; python3 here is $$(python3 --version 2>&1 || true)." >&2; \
		echo "Install one (Debian 12: apt install python3 python3-venv) or name it: make PYTHON=/path/to/python3.12 demo" >&2; \
		exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Tenure needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "This Python cannot make virtual environments (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) --version) (once; a minute or two) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

demo: $(READY)
	@mkdir -p out
	@$(BIN)/python examples/demo/demo.py out/demo

simulate-demo: $(READY)
	@mkdir -p out
	@echo "Playing the built-in lab ai2: 30 days of 1,024 GPUs after 7 of warm-up."
	@echo "(The first run compiles the scheduler, which takes about a minute; after that it starts at once.)"
	@$(BIN)/tenure simulate ai2 --report out/ai2.html
	@echo "The report: $(CURDIR)/out/ai2.html"

check: format lint types floors
	$(PYTEST) -n $(WORKERS) -m "not slow" tests

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

floors: $(READY)
	$(BIN)/lint-imports --no-logo

# What matters is computed in two ways and must agree: the very same tests, three times over.
test: format lint types floors test-plain test-checked test-compiled

test-plain: $(READY)
	TENURE_PLAIN=1 $(PYTEST) -n $(WORKERS) -m "not slow" $(CORE_TESTS)

test-checked: $(READY)
	NUMBA_BOUNDSCHECK=1 $(PYTEST) -n $(WORKERS) -m "not slow" $(CORE_TESTS)

# One more than compute: a third of the time these wait for servers, clusters and windows.
test-compiled: $(READY)
	$(PYTEST) -n $$(($(WORKERS) + 1)) --reruns $(RERUNS) tests

bench: $(READY)
	$(BIN)/python bench/run.py
	$(BIN)/python bench/plan.py
	$(BIN)/python bench/carrying.py --runs 200 --workers $(WORKERS)

reached: $(READY)
	$(BIN)/python bench/reached.py --workers $(WORKERS)

# Labs that live while everything around them fails; a night's work where it should be more.
ordeals: $(READY)
	WORKERS=$(WORKERS) $(BIN)/python tests/ordeal.py 0-$$(($(ORDEALS) - 1))

# Training runs carried through failures, lost answers, dead controllers and rivals.
HISTORIES ?= 1000
histories: $(READY)
	$(BIN)/python tests/run_histories.py --histories $(HISTORIES) --workers $(WORKERS)

# A server killed at hundreds of instants, over real processes and over a cluster in a file.
kills: $(READY)
	$(BIN)/python tests/kills.py local 300
	$(BIN)/python tests/kills.py fake 300

docs: $(READY)
	$(BIN)/python docs/generate.py

clean:
	rm -rf out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .venv
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
