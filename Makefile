# Two commands do everything on a machine with Python 3.11+, git and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-slow test-papers test-oldest lint docs clean

help:  ## Show this help.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dplateau needs Python 3.11 or later; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[train]'
	@touch $@

$(VENV)/.ready: $(VENV)/.installed papers/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -e papers
	@touch $@

demo: $(VENV)/.installed  ## Train on the bundled Adult rows, print result and certificate, write demo-report.html.
	@$(BIN)/dplateau demo --report demo-report.html

test: $(VENV)/.ready lint  ## Check style, types and layers, then run the quick tests: minutes.
	$(BIN)/python -m pytest -n auto --tests quick

test-slow: $(VENV)/.ready  ## Run the other tests, which take half an hour, and build the documentation strictly.
	$(BIN)/python -m pytest -n auto --tests slow

test-papers: $(VENV)/.ready  ## Test what the papers print.
	$(BIN)/python -m pytest -n auto papers/tests

test-oldest:  ## Run the quick tests with the oldest versions of packages that pyproject.toml declares.
	mkdir -p .cache
	$(PYTHON) -m venv --clear .cache/oldest
	$(PYTHON) tests/oldest_versions.py > .cache/oldest.txt
	.cache/oldest/bin/python -m pip install --quiet --disable-pip-version-check -c .cache/oldest.txt -e '.[train,plots,ui,verify,ledger,test]' -e papers httpx
	.cache/oldest/bin/python -m pytest -n auto --tests quick -W ignore

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: $(VENV)/.ready  ## Build the documentation strictly, into site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove the environment and everything built.
	rm -rf $(VENV) .cache site build dist
