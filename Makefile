# Two commands matter: `make lab` and `make test`. Everything else is listed by `make help`.
# What these two do, and what is installed, is written in scripts/setup.py, which runs without make as well.

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8888
IP ?= localhost
WORKERS ?= 4
N ?= 200
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help lab test test-all binder-front fuzz sweeps ulp gradients wrong-results right-results mutation calls crafted invariants processors demo check format notebooks release clean clean-cache

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

lab:  ## open the course in JupyterLab (prints its address; PORT=8888, IP=localhost, TORCH=cuda)
	@$(PYTHON) scripts/setup.py lab --venv $(VENV) --port $(PORT) --ip $(IP)

test:  ## run the first tests and two notebooks, about ten minutes, on all cores but no more than WORKERS=4
	@$(PYTHON) scripts/setup.py test --venv $(VENV) --workers $(WORKERS)

test-all:  ## run all tests, then every notebook; REST=1 leaves out what `make test` runs
	@$(PYTHON) scripts/setup.py test-all --venv $(VENV) --workers $(WORKERS) $(if $(REST),--rest)

binder-front:  ## install the JupyterLab of mybinder beside ours: the browser tests then drive both
	@$(PYTHON) scripts/setup.py front --venv $(VENV)-front

fuzz: installed-test  ## compare N random programs, and their training steps, with PyTorch (N=200); failures are shrunk and printed
	$(BIN)/python -m tests.fuzz $(N)
	$(BIN)/python -m tests.fuzz $(N) --train
	$(BIN)/python -m tests.fuzz $(N) --train --conv

sweeps: installed-test  ## run the sweeps of the tests whole; `make test-all` runs a part of each
	$(BIN)/python -m pytest -n logical --maxprocesses $(WORKERS) --disable-warnings --whole -m sweep tests

ulp: installed-test  ## measure the errors of every operator in units in the last place; writes docs/ulp.md
	$(BIN)/python -m tests.ulp

gradients: installed-test  ## compare the gradients of every family with PyTorch's and with differences; writes docs/gradients.md
	$(BIN)/python -m tests.gradients

wrong-results: installed-test  ## make every operator's results wrong in four ways, and see that the check notices
	$(BIN)/python -m tests.wrong_results

right-results: installed-test  ## draw the tensors of every operator anew, 12 times, and see that right results pass the check
	$(BIN)/python -W ignore -m tests.right_results

mutation: installed-test  ## make 120 lines of our own sources wrong, one at a time, and see that tests notice (an hour)
	$(BIN)/python -m tests.mutation

calls: installed-test  ## call every public name N times with wrong values (N=200); only errors of our own may come back
	$(BIN)/python -m tests.calls $(N)

crafted: installed-test  ## craft N journeys and N other files (N=200): each opens and shows everything, or is one told error
	$(BIN)/python -W ignore -m tests.crafted $(N)
	$(BIN)/python -W ignore -m tests.crafted $(N) --texts
	$(BIN)/python -W ignore -m tests.crafted.other_files $(N)

invariants: installed-test  ## simulate N random programs on random machines (N=200), and hold them against all invariants
	$(BIN)/python -m tests.simulator.random_programs $(N)

processors: installed-test  ## compare every operator in every type with PyTorch, for each level of processor this one has
	$(BIN)/python -m tests.processors

demo: installed-lab  ## walk one journey through the five stages in the terminal
	$(BIN)/python scripts/demo.py

doctor: installed-lab  ## look the installation over, and say what to do about what is wrong
	$(BIN)/workbench doctor

check: installed-check  ## lint, arrows between packages, circles, sizes, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_house.py
	$(BIN)/python scripts/rooms.py
	$(BIN)/python scripts/write_options.py --check
	$(BIN)/python scripts/write_units.py --check
	$(BIN)/python scripts/torch_inside_page.py --check
	$(BIN)/python scripts/way_of_an_op.py --check
	$(BIN)/python scripts/make_typings.py
	$(BIN)/pyright

format: installed-check  ## let ruff fix and format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

notebooks: installed-test  ## run the notebooks; draw and write what the docs show; record the journeys in notebooks/recorded
	$(BIN)/python scripts/run_notebooks.py
	$(BIN)/python scripts/make_readme_pictures.py
	$(BIN)/python scripts/make_operators.py
	$(BIN)/python scripts/make_recorded.py

release: installed-check installed-test  ## check everything, build wheel and source distribution in dist, and print the tag; publishes nothing
	$(BIN)/python scripts/release.py

clean:  ## remove what the other targets made here; compiled kernels lie elsewhere: make clean-cache
	rm -rf $(VENV) $(VENV)-front typings/torch_mlir build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Needs no environment: after `make clean` there is none.
clean-cache:  ## remove compiled kernels and the compiled simulator from the user's cache; they are made again
	$(PYTHON) scripts/clean_cache.py

# What a target needs is an extra of pyproject.toml. Where it is installed already, this takes a tenth of a second.
installed-%:
	@$(PYTHON) scripts/setup.py install --venv $(VENV) $*
