# Every target works in a fresh clone: the first one called makes .venv and installs the project.
# Another interpreter: make PYTHON=/path/to/python demo      Real data: make BAYESNN_DATA=... test

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check notebooks notebooks-store lint docs bench clean check-python

BIN := .venv/bin
STAMP := .venv/.installed

# Sets $$python to an interpreter that really runs, or says what is missing. A name on PATH proves
# nothing (a pyenv shim may stand for a version that is not there), so each candidate is run, and
# each folder of PATH is looked into, since a broken shim hides a good interpreter behind it.
define find_python
runs() { "$$1" -c 'import sys, venv, ensurepip; sys.exit(not ((3, 12) <= sys.version_info[:2] <= (3, 14)))' >/dev/null 2>&1; }; \
candidates() { \
  if [ -n "$(PYTHON)" ]; then command -v "$(PYTHON)"; return; fi; \
  for name in python3.13 python3.14 python3.12 python3 python; do \
    (IFS=:; for folder in $$PATH; do if [ -x "$$folder/$$name" ]; then echo "$$folder/$$name"; fi; done); \
  done; \
  for version in 3.13 3.14 3.12; do \
    for path in "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python3; do \
      if [ -x "$$path" ]; then echo "$$path"; fi; \
    done; \
  done; \
}; \
python=$$(candidates | while read -r path; do if runs "$$path"; then echo "$$path"; break; fi; done); \
if [ -z "$$python" ]; then \
  echo "bayesnn_ppl needs Python 3.12, 3.13 or 3.14 with its venv module, and $(if $(PYTHON),$(PYTHON) is not one,none was found): install one, or name it with 'make PYTHON=/path/to/python demo'." >&2; \
  exit 1; \
fi
endef

help:  ## say what the targets do
	@while IFS= read -r line; do case "$$line" in \
	  [a-z]*:*"## "*) printf '  make %-15s %s\n' "$${line%%:*}" "$${line##*## }";; \
	esac; done < "$(strip $(MAKEFILE_LIST))"

setup: $(STAMP)  ## make .venv and install the project with its development tools

# The stamp holds the Python version asked for: another version means another environment.
$(STAMP): pyproject.toml setup.py constraints.txt .python-version
	@set -eu; \
	if [ -f $@ ] && [ "$$(cat $@)" != "$$(cat .python-version)" ]; then rm -rf .venv; fi; \
	if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then \
	  rm -rf .venv; \
	  if command -v uv >/dev/null 2>&1 && uv venv --quiet --no-python-downloads $(if $(PYTHON),--python "$(PYTHON)") .venv; then :; \
	  else $(find_python); "$$python" -m venv .venv; fi; \
	fi; \
	echo "Installing bayesnn_ppl and its dependencies into .venv; this takes a few minutes."; \
	if $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-input \
	    -c constraints.txt -e '.[dev,docs]'; \
	else \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev,docs]'; \
	fi; \
	cat .python-version > $@

check-python:
	@set -eu; $(find_python); echo "$$python"

demo: $(STAMP)  ## a first posterior in about a minute
	@$(BIN)/bayesnn demo

# Tests run in folders of their own, so the path of the data is made absolute. A worker that crashes
# is not replaced: pytest-xdist then waits for ever.
define run_tests
@if [ -z "$${BAYESNN_DATA-}" ]; then \
  echo "BAYESNN_DATA is not set: the tests that need the data folder are skipped."; \
elif [ -d "$$BAYESNN_DATA" ]; then \
  BAYESNN_DATA=$$(CDPATH= cd "$$BAYESNN_DATA" && pwd); export BAYESNN_DATA; \
else \
  echo "BAYESNN_DATA is $$BAYESNN_DATA, which is not a folder." >&2; exit 1; \
fi; \
$(BIN)/python -m pytest -q -n 2 --dist loadfile --max-worker-restart 0 -m
endef

test: lint  ## lint, types, import contracts, doctests and every behaviour once
	$(run_tests) 'not check and not notebook and not built_docs'

check: lint  ## the same with all tests, as CI runs them; twice as long
	$(run_tests) 'not notebook and not built_docs'

# A worker takes over what is left to the other: dealt out beforehand, all long ones may fall to one.
notebooks: $(STAMP)  ## run every teaching notebook afresh, and check its claims
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/notebooks

# Some of them: make notebooks-store NOTEBOOKS="03 04"
notebooks-store: $(STAMP)  ## run the teaching notebooks, and store their outputs
	@$(BIN)/python -m tests.notebooks.store $(NOTEBOOKS)

lint: $(STAMP)  ## ruff, mypy and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(STAMP)  ## the documentation in docs/_build/html, warnings as errors, tried in a browser
# Every page is written again: one of an earlier build could be without a source, or with an old menu.
	@rm -rf docs/_build/html
	@$(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	@$(BIN)/python -m pytest -q -m built_docs tests/docs

bench: $(STAMP)  ## the benchmarks (long; wants a quiet machine)
	@for name in startup overhead arrangement convolutions memory; do \
	  printf '\n%s\n\n' $$name && $(BIN)/python -m benchmarks $$name || exit 1; \
	done

clean:  ## remove what was built and the caches; .venv and runs/ stay
	@rm -rf build dist docs/_build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
