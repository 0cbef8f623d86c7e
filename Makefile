# `make run` and `make test` are all a newcomer needs; each target sets up .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test check bench clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[local,dev]'
	touch $@

run: $(STAMP)  ## the demo: a cluster, Kafka, faults, and the verdict, in under a minute
	$(BIN)/kubecdc demo --seconds 20

test: check  ## everything CI runs
	$(BIN)/python -m pytest --numprocesses 5 --dist loadfile --no-loadscope-reorder --durations 15

check: $(STAMP)  ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## speed and memory, as ratios against limits measured in the same run
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .kubecdc build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
