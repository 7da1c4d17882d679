# Everything happens in .venv, which the first call makes. PYTHON may name another Python (3.11 or later).
PYTHON ?= python3
BIN := .venv/bin
DEMO := runs/demo-$(shell date +%Y%m%d-%H%M%S)
DEMO_RUN := $(DEMO)/Pendulum-v1/seed-0

MINUTES ?= 60
SEED ?= 0

.PHONY: setup demo test-fast test test-environments soak dist lint format

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/mrq train Pendulum-v1 --preset small --steps 4_000 --evaluate-every 500 --runs $(DEMO)
	$(BIN)/mrq evaluate $(DEMO_RUN) --episodes 2 --video $(DEMO_RUN)/agent.gif --beside-untrained
	@echo "With the paper's hyperparameters: $(BIN)/mrq train Pendulum-v1 --steps 20_000 (minutes on a GPU)"

test-fast: setup lint
	$(BIN)/pytest --numprocesses 2 -m "not slow"

test: setup lint
	$(BIN)/pytest --numprocesses 2

test-environments: setup
	$(BIN)/python -m tests.third_party

soak: setup
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

# The wheel is made from the sdist. Both are made by the tested setuptools, without the network.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
