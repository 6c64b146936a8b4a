# Everything goes through here: each target makes the virtual environment it needs, once, and then does its work.
# A stamp file under .venv/stamps says which requirement file was installed; a changed file is installed again.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=

BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check
PINNED := --constraint requirements/torch.txt

# Small graphs are faster on one thread a process; several processes share the cores.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check bench docs clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMPS)/runtime ## Train ERM and GOODFormer on a reduced GOOD-Motif, show a table, draw test graphs.
	$(BIN)/goodformer quickstart $(ARGS)

test: $(STAMPS)/dev ## Run the tests on two processes; make test ARGS="-k draw" picks some.
	$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(STAMPS)/dev ## Style and types: ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMPS)/runtime ## Measure speed and memory; writes benchmarks/latest.json and the table in the docs.
	$(BIN)/goodformer bench --out benchmarks/latest.json --page docs/benchmarks.md $(ARGS)

docs: $(STAMPS)/docs ## Compute the tables from results/ and build the pages into site/.
	$(BIN)/goodformer runs table --write docs/results.md
	$(BIN)/goodformer reproduce --page docs/reproduce.md
	$(BIN)/goodformer reproduce --page README.md
	$(BIN)/zensical build --clean

clean: ## Remove the environment, caches and built pages; never runs, results or the data cache.
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "goodformer needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/torch: requirements/torch.txt | $(STAMPS)/venv
	$(PIP) install --quiet --requirement requirements/torch.txt
	@touch $@

$(STAMPS)/runtime: requirements/runtime.txt pyproject.toml $(STAMPS)/torch
	$(PIP) install --quiet $(PINNED) --requirement requirements/runtime.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMPS)/dev: requirements/dev.txt $(STAMPS)/runtime
	$(PIP) install --quiet $(PINNED) --requirement requirements/dev.txt
	@touch $@

$(STAMPS)/docs: requirements/docs.txt $(STAMPS)/runtime
	$(PIP) install --quiet $(PINNED) --requirement requirements/docs.txt
	@touch $@
