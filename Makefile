# Two commands matter: `make lab` and `make test`. Everything else is listed by `make help`.

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8888
IP ?= localhost
WORKERS ?= 4
N ?= 200
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help lab test fuzz invariants demo check format notebooks clean clean-cache

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-11s %s\n", $$1, $$2 }'

lab: $(INSTALLED)  ## open the course in JupyterLab (prints its address; PORT=8888, IP=localhost)
	$(BIN)/workbench lab --port $(PORT) --ip $(IP)

test: $(INSTALLED)  ## run the tests, then every notebook, on all cores but no more than WORKERS=4
	$(BIN)/python -m pytest -n logical --maxprocesses $(WORKERS) --dist worksteal tests
	$(BIN)/python -m pytest -n logical --maxprocesses $(WORKERS) --dist loadfile -p no:cacheprovider -x \
		--nbval-lax --nbval-cell-timeout=300 notebooks

fuzz: $(INSTALLED)  ## compare N random programs with PyTorch (N=200); failures are shrunk and printed
	$(BIN)/python -m tests.fuzz $(N)

invariants: $(INSTALLED)  ## simulate N random programs on random machines (N=200), and hold them against all invariants
	$(BIN)/python -m tests.simulator.random_programs $(N)

demo: $(INSTALLED)  ## walk one journey through the five stages in the terminal
	$(BIN)/python scripts/demo.py

doctor: $(INSTALLED)  ## look the installation over, and say what to do about what is wrong
	$(BIN)/workbench doctor

check: $(INSTALLED)  ## lint, arrows between packages, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/make_typings.py
	$(BIN)/pyright

format: $(INSTALLED)  ## let ruff fix and format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

notebooks: $(INSTALLED)  ## run the notebooks, and draw and write what the docs show: picture, list of operators
	$(BIN)/python scripts/run_notebooks.py
	$(BIN)/python scripts/make_readme_picture.py
	$(BIN)/python scripts/make_operators.py

clean:  ## remove what the other targets made here; compiled kernels lie elsewhere: make clean-cache
	rm -rf $(VENV) typings/torch_mlir build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Needs no environment: after `make clean` there is none.
clean-cache:  ## remove compiled kernels and the compiled simulator from the user's cache; they are made again
	$(PYTHON) scripts/clean_cache.py

# The stamp is keyed on the files that say what to install: a second run costs nothing.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing into $(VENV); the first time this takes some minutes'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[lab,test]'
	@touch $@
