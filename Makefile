# Two commands matter: `make demo` (fills blanks with the bundled model) and `make test` (everything a change must pass).
# Both make their own environment in $(VENV) on first use and are quick afterwards.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# The tensors of tests and demo are tiny: a thread per core of a large machine would only wait for the others.
export OMP_NUM_THREADS ?= 2
export MKL_NUM_THREADS ?= 2
# Files of tests are dealt to processes, a core each; each has a copy of the models (about 1 GB), so not too many.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -gt 8 ] && echo 8 || echo $$n)

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench docs notebooks

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

demo: $(VENV)/.installed ## fill the blanks of a small program and show how it was decided
	@$(BIN)/anyorder demo

test: lint docs ## all checks: style, types, layers, documentation, tests
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

lint: $(VENV)/.installed-dev ## style, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-dev ## rewrite the files in the house's format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.installed-dev ## seconds a pass against the floor, and against the published algorithm
	@$(BIN)/python -m benchmarks.decode

docs: $(VENV)/.installed-docs ## the documentation site, into site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: docs $(VENV)/.installed-dev ## run the notebooks and render them, into site/notebooks/
	@PYTHONPATH=$(CURDIR) $(BIN)/jupyter nbconvert --to html --execute --output-dir site/notebooks notebooks/*.ipynb

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "anyorder needs Python 3.11 or newer, but $(PYTHON) is %d.%d: use make PYTHON=/path/to/python3.11" % v[:2])'
	@echo "Creating the environment $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# $(BIN)/python is a link to an interpreter of any age, so its time says nothing: order-only.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what inference needs into $(VENV) (once; PyTorch is large)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the tests need into $(VENV) (once; PyTorch is large)"
	@$(PIP) --editable '.[all,dev,docs]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the documentation needs into $(VENV) (once; PyTorch is large)"
	@$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/.installed
