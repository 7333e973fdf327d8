# demo, test, check, docs and dist need nothing but Python 3.11 or newer: each makes .venv and installs the pinned versions first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check docs dist format clean

# One thread: several wait for each other, minutes long where other work runs on the same cores.
demo: $(INSTALLED)  ## train the default preset on embedded data; under two minutes on two cores
	$(BIN)/gradcast run --threads 1
	$(BIN)/gradcast report runs

test: $(INSTALLED)  ## the whole test suite; GRADCAST_DATA and GRADCAST_GOLDEN enable the tests that need real files
	$(BIN)/pytest --numprocesses 2 --dist loadfile

check: $(INSTALLED)  ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## the documentation site in build/site; search needs a server: python3 -m http.server -d build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/.package  ## wheel and source archive in dist; every tracked file is in the archive, and the description renders
	rm -rf dist
	test ! -e .git || $(BIN)/check-manifest --no-build-isolation
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gradcast needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + "; run make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	@touch $(INSTALLED)

$(VENV)/.docs: $(INSTALLED)
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.package: $(INSTALLED)
	$(PIP) --editable '.[package]'
	@touch $@
