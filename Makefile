# Everything a newcomer needs: `make demo` and `make test` start from a fresh clone with nothing installed.
#   make demo ARGS="--seed=1"        more flags for the program
#   make test PYTHON=/path/to/python3.12    the interpreter that makes .venv, if there is none yet
#   make demo REQUIREMENTS=requirements-cpu.txt   no GPU libraries even if there is a GPU

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
PY := $(VENV)/bin/python
REQUIREMENTS ?= $(shell if nvidia-smi -L >/dev/null 2>&1; then echo requirements.txt; else echo requirements-cpu.txt; fi)
# Versions up to the newest that the test suite was tried on come first; then whatever is new enough.
CANDIDATES := $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python3.14)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
SUITABLE := import venv, ensurepip; $(NEW_ENOUGH)
# Written last, so an interrupted install is repeated.
INSTALLED := $(VENV)/installed-$(basename $(REQUIREMENTS))

RAW_TABLES := $(wildcard ../shared/data/raw)
ifneq ($(RAW_TABLES),)
export NUMCOKE_DATA ?= $(abspath $(RAW_TABLES))
endif

PROGRAM := $(PY) -m numcoke_jax
SCRIPTS := $(wildcard configs/*.py experiments/*.py experiments/*/*.py)
CHECKED := numcoke_jax tests $(sort $(foreach script,$(SCRIPTS),$(firstword $(subst /, ,$(script)))))

.PHONY: help install demo spotify credit us-cities test test-slow lint format docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED)  ## .venv with the package, its dependencies and the developers' tools

$(INSTALLED): $(REQUIREMENTS) constraints.txt pyproject.toml
	@if ! { $(PY) -c '$(NEW_ENOUGH)' && { $(PY) -m pip --version || $(PY) -m ensurepip; }; } >/dev/null 2>&1; then \
	    for candidate in $(CANDIDATES); do \
	        if "$$candidate" -c '$(SUITABLE)' 2>/dev/null; then found="$$candidate"; break; fi; \
	    done; \
	    if [ -z "$$found" ]; then \
	        echo "make: no Python 3.11 or newer with the venv module among: $(CANDIDATES);" \
	            "install one (Debian: apt-get install python3-venv) or name one: make PYTHON=/path/to/python3" >&2; \
	        exit 1; \
	    fi; \
	    echo "$$found -m venv --clear $(VENV)"; \
	    "$$found" -m venv --clear $(VENV) || exit 1; \
	fi
	$(PY) -m pip install --quiet --disable-pip-version-check -r $(REQUIREMENTS) -c constraints.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: $(INSTALLED)  ## train on the cars table, which comes with a package, in seconds
	$(PROGRAM) train cars $(ARGS)

spotify: $(INSTALLED)  ## train on the Spotify table
	$(PROGRAM) train spotify $(ARGS)

credit: $(INSTALLED)  ## train on the table of credit-card clients
	$(PROGRAM) train credit $(ARGS)

us-cities: $(INSTALLED)  ## train on the table of US cities
	$(PROGRAM) train us_cities $(ARGS)

test: $(INSTALLED)  ## the fast tests
	$(PY) -m pytest -q -n 2 --dist loadfile -m "not slow" $(ARGS)

test-slow: $(INSTALLED)  ## the tests that `make test` leaves out
	$(PY) -m pytest -q -n 2 --dist loadfile -m slow $(ARGS)

lint: $(INSTALLED)  ## ruff, mypy and the directions of imports
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy $(CHECKED)
	$(VENV)/bin/lint-imports

format: $(INSTALLED)  ## let ruff fix layout and import order
	$(PY) -m ruff check --fix-only --quiet .
	$(PY) -m ruff format .

docs: $(INSTALLED)  ## the pages of docs/ with the API, into site/
	$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[docs]" -c constraints.txt
	$(PY) -m mkdocs build --strict

clean:  ## remove .venv and caches; runs/ stays
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find numcoke_jax configs experiments tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
