# Each target first installs what it needs into the virtual environment. A stamp file in .venv/stamps marks every
# installed requirement file; a changed file is installed again.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=

BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check
AUDIT  := 2.10.1
PINNED := --constraint requirements/torch.txt

# One thread per process is fastest for small graphs; several processes share the cores.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check fuzz crash audit bench theory docs clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMPS)/runtime ## Train ERM and GOODFormer on a reduced GOOD-Motif, print a table, draw test graphs.
	$(BIN)/goodformer quickstart $(ARGS)

# Tests of HTML pages need a browser (Debian: apt install chromium) and are skipped without one.
test: $(STAMPS)/dev ## Run the tests in two processes; make test ARGS="-k draw" selects some.
	$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(STAMPS)/dev ## Check style and types with ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(STAMPS)/dev ## Read thousands of random and damaged files; what fails is saved in fuzz-found/.
	$(BIN)/python -m lab.fuzz $(ARGS)

crash: $(STAMPS)/dev ## Kill commands, fill disks and flip bits; nothing may be lost or silently different.
	$(BIN)/python -m lab.crash $(ARGS)

audit: $(STAMPS)/venv ## Compare the pinned packages with known vulnerabilities; needs the network.
	$(PIP) install --quiet pip-audit==$(AUDIT)
	$(BIN)/python -m pip_audit --strict --no-deps --disable-pip \
	  $(foreach file,torch runtime dev,--requirement requirements/$(file).txt) $(ARGS) \
	  || { echo "pip-audit found a vulnerability, or its service cannot be reached (see above)." >&2; exit 1; }

bench: $(STAMPS)/runtime ## Measure speed and memory; write benchmarks/latest.json and docs/benchmarks.md.
	$(BIN)/python -m benchmarks.speed -o benchmarks/latest.json --page docs/benchmarks.md $(ARGS)

theory: $(STAMPS)/runtime ## Rebuild docs/theory.md and its pictures from results/theory.json.
	$(BIN)/python -m lab.theory --from results/theory.json --page docs/theory.md -o docs/images $(ARGS)

docs: $(STAMPS)/docs ## Compute the tables from results/ and build the documentation into site/.
	$(BIN)/goodformer runs table --write docs/results.md
	$(BIN)/goodformer reproduce --page docs/reproduce.md
	$(BIN)/goodformer reproduce --page README.md
	$(BIN)/goodformer reproduce --verdicts docs/verdicts.md
	$(BIN)/goodformer uncertainty --records results/sureness.jsonl --write docs/uncertainty.md
	$(BIN)/python -m lab.notebooks examples/*.ipynb --pages docs
	$(BIN)/zensical build --clean
	$(BIN)/goodformer report results/*.jsonl -o site/runs.html

clean: ## Remove the environment, caches and built pages, but no runs, results or data.
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find $(wildcard src tests lab benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "goodformer needs Python 3.11 or newer; select one with: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/torch: requirements/torch.txt | $(STAMPS)/venv
	$(PIP) install --quiet --requirement requirements/torch.txt
	@touch $@

$(STAMPS)/runtime: requirements/runtime.txt pyproject.toml $(STAMPS)/torch
	$(PIP) install --quiet $(PINNED) --requirement requirements/runtime.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/goodformer methods > /dev/null  # fills the catalogue of settings, so that later commands start fast
	@touch $@

$(STAMPS)/dev: requirements/dev.txt $(STAMPS)/runtime
	$(PIP) install --quiet $(PINNED) --requirement requirements/dev.txt
	@touch $@

$(STAMPS)/docs: requirements/docs.txt $(STAMPS)/runtime
	$(PIP) install --quiet $(PINNED) --requirement requirements/docs.txt
	@touch $@
