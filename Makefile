# Headrace: `make` lists the targets. `make demo` and `make test` work on a fresh checkout.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup java lint format type unit test all thorough check demo bench kernels clean

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.headrace-stamp
JAVA   := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

# Compiled modules are kept: without them every process that tests start compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

# The tests that start a JVM.
SPARK  := spark or cluster or crash

# Where there is a file system in memory, the files of these tests are there: thousands are written, synced and removed.
# Tests that kill processes keep theirs on the disk.
MEMORY := $(if $(wildcard /dev/shm/.),PYTEST_DEBUG_TEMPROOT=/dev/shm)

# The first interpreter that is really there (pyenv leaves shims that only complain) and new enough.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	"$$p" -c '$(NEW_ENOUGH)' 2>/dev/null && { command -v "$$p"; break; }; done)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## create .venv and install Headrace with its tools

$(STAMP): pyproject.toml
	@if ! "$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null; then \
		echo "Headrace needs Python 3.11 or newer: on Debian 12 or later, sudo apt-get install python3 python3-venv" >&2; \
		exit 1; fi
	@if ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "Headrace needs Python's venv module: on Debian, sudo apt-get install python3-venv" >&2; exit 1; fi
	@if ! $(BIN)/python -c '$(NEW_ENOUGH)' 2>/dev/null || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		echo "Creating $(VENV) with $(PYTHON)"; "$(PYTHON)" -m venv --clear $(VENV); fi
	@echo "Installing Headrace into $(VENV) (the first time downloads about 500 MB, most of it Spark)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@echo "Compiling the kernels"
	@$(BIN)/python -c 'import headrace.operators.kinds, headrace.workloads.linear_road.kernels'
	@touch $@

java:
	@version=$$("$(JAVA)" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	if [ "$${version:-0}" -lt 17 ]; then \
		echo "Headrace needs Java 17 or newer: on Debian, sudo apt-get install default-jre-headless" >&2; exit 1; fi

lint: setup ## check style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup ## rewrite the code in house format (ruff)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: setup ## check types (mypy)
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

unit: setup ## run the tests that need no JVM, in seconds, on all cores
	$(MEMORY) $(BIN)/pytest -n auto --maxprocesses 8 --dist worksteal -m "not ($(SPARK))"

test: java unit ## run the tests without a JVM and a fair sample of those with Spark: ten minutes at most
	$(BIN)/pytest -m "$(SPARK)" --sample 3

all: java unit
	$(BIN)/pytest -m "$(SPARK)"

thorough: java setup ## all tests, with more of what is random and what takes minutes
	HEADRACE_THOROUGH=1 HEADRACE_SEEDS=40 HEADRACE_EXAMPLES=100 HEADRACE_PROPERTY_ROUNDS=8 $(BIN)/pytest

check: lint type all ## lint, types and all tests, what CI runs

demo: java setup ## a minute of several hundred ad-hoc queries over one stream, audited at the end
	$(BIN)/headrace demo

bench: java setup ## measure Headrace against Spark, quickly; `headrace bench --help` tells of more
	$(BIN)/headrace bench --quick

kernels: setup ## time each kernel by itself (pytest-benchmark)
	$(BIN)/pytest bench/kernels --benchmark-sort=name --benchmark-columns=median,stddev,rounds \
		--benchmark-timer=time.process_time

clean: ## remove caches and the demo's warehouse (keeps .venv)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist spark-warehouse demo-warehouse
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
