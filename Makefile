# headrace: every target sets up what it needs. `make help` lists them.
#
# The environment in .venv is made once: the stamp below is newer than what it was made from, so that a second run
# installs nothing. `make fresh` removes it. PYTHON=/path/to/python chooses the interpreter.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
# Old pips warn of packages that come as source in their old form, which their reader can do nothing about.
PIP   := $(BIN)/python -W ignore -m pip --disable-pip-version-check

# Test processes of a stage. Each begins with its half of the tests in order, and takes some of the other's when done.
WORKERS ?= 2

# Arguments for `make bench`, e.g. make bench NAME=gate ARGS="--full --json gate.json"
NAME ?= all
ARGS ?=

# What `make notebooks` runs; parameters in ARGS, e.g. make notebooks NOTEBOOKS=notebooks/00_first_stream.ipynb ARGS="-p flights_read 336776"
NOTEBOOKS ?= $(wildcard notebooks/*.ipynb)

# Images of containers often set it, and then each of some hundred processes compiles all that it imports, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo tour test check campaign lab bench bench-dashboard pictures doctor fresh setup lock \
        check-lint check-types check-imports check-quick check-project check-unit check-litmus check-datasets check-widgets check-browser check-notebooks dashboard notebooks

help:  ## say what each target does (the default)
	@echo "headrace: make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP)  ## real flights and tweets from Spark through the elastic engine and back, in about a minute
	@$(BIN)/headrace demo $(ARGS)

tour: $(STAMP)  ## two minutes in the terminal and the browser: overload, one thread more, the same results
	@$(BIN)/headrace tour $(ARGS)

test: check-lint check-types check-imports check-project check-unit check-litmus check-datasets check-widgets check-browser check-notebooks  ## check everything, stage by stage
	@echo "== all stages passed"

check: check-lint check-types check-imports check-quick  ## what to run while working, in some four minutes: all but slow tests, browser and notebooks
	@echo "== checked; make test runs the rest too"

lab: $(STAMP)  ## JupyterLab on your copy of the notebooks (ARGS="--no-browser --port 9000"; --here: those of the checkout)
	@$(BIN)/headrace lab $(ARGS)

dashboard: $(STAMP)  ## the dashboard alone, on a live stream, as a page for this machine only, with a token (ARGS=--dark)
	@$(BIN)/python -m headrace_widgets.serve $(ARGS)

notebooks: $(STAMP)  ## run the notebooks and write them as HTML to build/notebooks (NOTEBOOKS=one.ipynb, ARGS="-p name value")
	@mkdir -p build/notebooks
	@for notebook in $(NOTEBOOKS); do \
	  out=build/notebooks/$$(basename "$$notebook"); echo "== notebook: $$notebook"; \
	  $(BIN)/papermill --kernel python3 --cwd "$$(dirname "$$notebook")" --execution-timeout 600 --no-progress-bar --log-level ERROR \
	    $(ARGS) "$$notebook" "$$out"; \
	  pictures="$$(dirname "$$notebook")/images"; if [ -d "$$pictures" ]; then cp -r "$$pictures" build/notebooks/; fi; \
	  $(BIN)/jupyter nbconvert --log-level ERROR --to html "$$out"; \
	done
	@echo "== HTML in build/notebooks"

campaign: $(STAMP)  ## hours: tests too long for every day, and compiled what `make test` runs without the compiler
	@HEADRACE_COMPILED=1 $(BIN)/python -m pytest -q -n $(WORKERS) -m "campaign or logic" tests

bench: $(STAMP)  ## measure the parts (NAME=gate for one of them, ARGS="--full" for the large sizes)
	@$(BIN)/headrace bench $(NAME) $(ARGS)

bench-dashboard: $(STAMP)  ## measure the dashboard in a real browser: updates per second, kernel time of each
	@PYTHONPATH=tests $(BIN)/python -m browser.measure

pictures: $(STAMP)  ## make README's pictures anew: a recorded run, and the dashboard in a real browser
	@$(BIN)/python -m headrace_bench.elasticity notebooks/images/elasticity.svg
	@PYTHONPATH=tests $(BIN)/python -m browser.pictures notebooks/images/dashboard.png

doctor: $(STAMP)  ## say what works on this machine and what to install
	@$(BIN)/headrace doctor $(ARGS)

setup: $(STAMP)  ## make the environment, and nothing else

fresh:  ## remove the environment, every cache and what the demo wrote in this folder
	rm -rf $(VENV) .pytest_cache .hypothesis .ruff_cache .import_linter_cache build dist headrace-demo
	find toolkit widgets datasets tests -name __pycache__ -type d -prune -exec rm -rf {} +

lock:  ## resolve the locked versions again, for every Python and platform (ARGS=--keep: only their hashes)
	@python3 .ci/lock.py $(ARGS)

$(STAMP): requirements.lock pyproject.toml
	@if ! $(BIN)/python -c 'import pip' 2>/dev/null; then \
	  found=; \
	  for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; \
	    then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "No Python 3.11, 3.12 or 3.13 with venv was found on the PATH." >&2; \
	    echo "Debian, Ubuntu: apt install python3 python3-venv. macOS: brew install python@3.13." >&2; \
	    echo "Or name one: make PYTHON=/path/to/python3.12 ..." >&2; \
	    exit 1; \
	  fi; \
	  echo "== environment: $(VENV), from $$("$$found" --version)"; \
	  rm -rf $(VENV); \
	  "$$found" -m venv $(VENV); \
	fi
	@echo "== install: requirements.lock (once; takes a few minutes)"
	@$(PIP) install --quiet --require-hashes --requirement requirements.lock --no-compile
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The stages of `make test`. One pytest run each, so that a stage's closing line tells what it ran.

check-lint: $(STAMP)  ## stage: ruff
	@echo "== lint: ruff"
	@$(BIN)/ruff check .

check-types: $(STAMP)  ## stage: the type checker, on the handles
	@echo "== types: basedpyright"
	@$(BIN)/basedpyright --pythonpath $(BIN)/python

check-imports: $(STAMP)  ## stage: the direction of imports between the rooms
	@echo "== imports: import-linter"
	@$(BIN)/lint-imports

# $(call stage,NAME,FOLDERS,PYTEST ARGUMENTS): tells its ten slowest tests. Its processes take `-p` from here, not from
# pyproject.toml: importing nbmake takes more than a second of each.
define stage
	@echo "== $(1): pytest $(2)"
	@$(BIN)/python -m pytest -q -p no:nbmake --durations=10 --durations-min=1 $(3) $(2)
endef
BOTH := -n $(WORKERS) --dist worksteal
# One process more than cores, where many tests wait: for a thread, another process, or a hang that they planted.
MORE := -n $(shell expr $(WORKERS) + 1) --dist worksteal

check-quick: $(STAMP)  ## stage: the tests that a person runs while working
	$(call stage,quick,tests/project tests/headrace tests/headrace_bench tests/datasets tests/widgets,$(MORE) -m "not slow and not campaign")

check-project: $(STAMP)  ## stage: the project's own files
	$(call stage,project,tests/project,$(MORE))

check-unit: $(STAMP)  ## stage: units, oracles, properties, interleavings
	$(call stage,unit,tests/headrace tests/headrace_bench,$(MORE))

check-litmus: $(STAMP)  ## stage: real threads on real cores, which no other test process shares
	$(call stage,litmus,tests/litmus)

check-datasets: $(STAMP)  ## stage: the generators
	$(call stage,datasets,tests/datasets,$(BOTH))

check-widgets: $(STAMP)  ## stage: the dashboard's callbacks, without a browser
	$(call stage,widgets,tests/widgets,$(MORE))

check-browser: $(STAMP)  ## stage: the dashboard in a real JupyterLab in a real Chromium (skipped without one)
	$(call stage,browser,tests/browser,-n $(WORKERS) --dist loadfile --no-loadscope-reorder)

check-notebooks: $(STAMP)  ## stage: every notebook, stripped of its outputs, and from the top
	@echo "== notebooks: nbstripout"
	@$(BIN)/nbstripout --verify notebooks/*.ipynb
	$(call stage,notebooks,notebooks,-n $(shell expr $(WORKERS) + 1) --dist load -p nbmake --nbmake --nbmake-timeout=600)
