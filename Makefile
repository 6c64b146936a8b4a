# Each target first installs what it needs into the virtual environment. A stamp file in .venv/stamps marks every
# installed requirement file; a changed file is installed again.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=

BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check
AUDIT  := 2.10.1
UV     := 0.13.7
LOCKED := --quiet --require-hashes --no-deps

# One thread per process is fastest for small graphs; several processes share the cores.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check fuzz crash lock audit bench theory docs clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMPS)/runtime ## Train ERM and GOODFormer on a reduced GOOD-Motif, print a table, draw test graphs.
	$(BIN)/goodformer quickstart $(ARGS)

# Tests of HTML pages need a browser (Debian: apt install chromium) and are skipped without one.
test: $(STAMPS)/dev ## Run the tests in two processes; make test ARGS="-k draw" selects some.
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

check: $(STAMPS)/dev ## Check style and types with ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(STAMPS)/dev ## Read thousands of random and damaged files; what fails is saved in fuzz-found/.
	$(BIN)/python -m lab.fuzz $(ARGS)

crash: $(STAMPS)/dev ## Kill commands, fill disks and flip bits; nothing may be lost or silently different.
	$(BIN)/python -m lab.crash $(ARGS)

# --universal writes the files of all platforms; then each common platform must find a wheel of every package.
COMPILE := $(BIN)/uv pip compile --quiet --no-python-downloads --no-annotate --excludes requirements/unlocked.txt
PLATFORMS := x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin
lock: export MACOSX_DEPLOYMENT_TARGET = 14.0
lock: $(STAMPS)/venv ## Write requirements/*.txt with hashes from requirements/*.in; needs the network.
	$(PIP) install --quiet uv==$(UV)
	for name in runtime dev docs; do \
	  $(COMPILE) --universal --python-version 3.11.5 --generate-hashes --custom-compile-command "make lock" \
	    requirements/$$name.in -o requirements/$$name.txt || exit 1; done
	for platform in $(PLATFORMS); do for python in 3.11.5 3.12 3.13; do \
	  $(COMPILE) --python-platform $$platform --python-version $$python --only-binary :all: \
	    -c requirements/dev.txt -c requirements/docs.txt requirements/dev.in requirements/docs.in > /dev/null \
	    || exit 1; done; done

audit: $(STAMPS)/venv ## Compare the pinned packages with known vulnerabilities; needs the network.
	$(PIP) install --quiet pip-audit==$(AUDIT)
	$(BIN)/python -m pip_audit --strict --no-deps --disable-pip \
	  $(foreach file,torch dev docs,--requirement requirements/$(file).txt) $(ARGS) \
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
	$(BIN)/python -m benchmarks.cost --page docs/cluster.md
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

# torch comes last: what it needs is then there, with hashes.
$(STAMPS)/runtime: requirements/runtime.txt requirements/torch.txt pyproject.toml | $(STAMPS)/venv
	$(PIP) install $(LOCKED) --requirement requirements/runtime.txt
	$(PIP) install --quiet --requirement requirements/torch.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/goodformer methods > /dev/null  # fills the catalogue of settings, so that later commands start fast
	@touch $@

$(STAMPS)/dev: requirements/dev.txt $(STAMPS)/runtime
	$(PIP) install $(LOCKED) --requirement requirements/dev.txt
	@touch $@

$(STAMPS)/docs: requirements/docs.txt $(STAMPS)/runtime
	$(PIP) install $(LOCKED) --requirement requirements/docs.txt
	@touch $@
