# Two commands for a newcomer: `make demo` and `make test`. Each prepares .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.prepared

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-lane test-formats test-logs test-spark coverage check format docs bench soak fuzz golden dist lock clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  \1\t/' | expand -t 12

setup: $(STAMP)  ## prepare .venv with everything: runtime, tests, developer tools

# uv is taken from the path, else from PyPI into .venv; nothing is installed outside it. Byte code is
# compiled here, once: where Python may not write it, importing numba would take three times as long.
$(STAMP): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: install it, or name it with make PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null || test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv
	@PATH="$(CURDIR)/$(BIN):$$PATH"; \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r constraints.txt && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

java:
	@{ "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])'; } \
	  || { echo "Java 17 or newer is needed: install a JDK (Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME." >&2; exit 1; }

demo: java setup  ## decode a real broker's directory, and compact one, on Spark too
	@$(BIN)/python -m tests.golden.demo

test: java setup  ## lint, types, contracts and all tests
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m tests.oracle.prepare
	@echo "all tests, in two lanes side by side: about a quarter of an hour"
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-lane test-spark
	@echo "branch coverage of kafka_format, in percent (95 at least):"
	@$(BIN)/coverage report --include='kafka_format/*' --fail-under=95 --format=total

# Two cores, two lanes as long as each other; Spark is in one of them alone. Tracing costs, so only the
# tests of formats are traced.
SPARK := tests/hostile tests/jobs tests/pipelines tests/system tests/test_notebooks.py

test-lane:
	@$(MAKE) --no-print-directory test-formats
	@$(MAKE) --no-print-directory test-logs

test-formats:
	@$(BIN)/python -m pytest --cov=kafka_format --cov-report= $(addprefix --ignore=,tests/kafka_log $(SPARK)) tests

test-logs:
	@$(BIN)/python -m pytest tests/kafka_log

test-spark:
	@$(BIN)/python -m pytest $(SPARK)

coverage: java setup  ## all tests, with the branch coverage of every package (twice as long)
	@$(BIN)/python -m pytest --cov --cov-report=term

check: setup  ## lint, types, import contracts and docs
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/docs

format: setup  ## format and sort imports
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: java setup  ## ours against Apache Kafka's own classes, on the same files, in one run
	@$(BIN)/python -m benchmarks

soak: java setup  ## the long tests: more seeds, more damage
	@$(BIN)/python -m pytest -m soak

fuzz: setup  ## coverage-guided fuzzing of the decoders for FUZZ_SECONDS (60)
	@$(BIN)/python -m tests.fuzz

golden: java setup  ## remake the golden directories with real brokers
	@$(BIN)/python -m tests.golden.make all

# A wheel is a zip. Spark takes zips alone for its workers, so it is there under that name as well.
dist: setup  ## the wheel, and the same as a zip for spark-submit's --py-files
	@rm -rf dist
	@$(BIN)/hatchling build -t wheel
	@cp dist/kafka_forensics-*.whl dist/kafka_forensics.zip

lock:  ## pin every dependency anew into constraints.txt
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate --group dev --group fuzz pyproject.toml -o constraints.txt

clean:  ## remove .venv and what tools left behind
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage dist
