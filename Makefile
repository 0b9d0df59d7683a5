# make demo    install what it needs, train, fork, intervene, report: minutes on two cores
# make test    format check, lint, types, tests: whole, in minutes
# make docs    the documentation in docs/_build/html, its notebooks executed, without a network
# make quick   format check, lint and the fast tests, for every save
# make bench   supple beside its peers; an hour or two on an idle machine
# make dist    sdist and wheel in dist/, and the whole suite against the wheel, away from this folder
PYTHON ?= python3
BIN := .venv/bin
# those of pyproject.toml, and `package`, which is `supple` itself
ROOMS := package $(shell $(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['tool']['supple']['rooms'])")
EXTRAS := mujoco,atari,minatar,minigrid,box2d,language,dev,docs
SPREAD := -n 2 --dist loadscope --no-loadscope-reorder  # files stay whole, so that what their tests share is made once

.PHONY: demo test quick docs bench dist install clean

demo: .venv/base
	rm -rf runs/demo
	$(BIN)/supple compare ppo --preset gym-control-small --out runs/demo

test: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p supple
	$(BIN)/pytest $(SPREAD)

quick: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pytest $(SPREAD) -m "not slow"

bench: install
	$(BIN)/python benchmarks/beside/race.py

# The unpacked sdist holds the tests; `supple` itself comes from the wheel.
dist: install
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	away=$$(mktemp -d) && wheel=$$(realpath dist/*.whl) \
	&& tar -xzf dist/*.tar.gz -C $$away --strip-components 1 \
	&& $(PYTHON) -m venv $$away/.venv \
	&& $$away/.venv/bin/pip install --quiet --constraint constraints.txt torch \
	&& $$away/.venv/bin/pip install --quiet --constraint constraints.txt "supple[$(EXTRAS)] @ file://$$wheel" \
	&& cd $$away && .venv/bin/pytest $(SPREAD) && rm -rf $$away

# -W: a warning is an error; -n: a reference to a missing name is a warning
docs: install
	$(BIN)/sphinx-build --builder html --jobs 2 -W --keep-going -n -q docs docs/_build/html
	$(BIN)/python docs/check.py docs/_build/html

install: .venv/extras

# torch first: an unpinned one drags in gigabytes of CUDA. The editable install links file by file (setup.py), so a file
# that comes or goes asks for a new install.
define installed
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.$(1)'
endef

SOURCES := pyproject.toml setup.py constraints.txt $(shell find $(ROOMS) -type d -not -name __pycache__)

# what the demo needs
.venv/base: $(SOURCES)
	$(call installed,)
	touch $@

# what the tests, the pages and the benchmarks need besides
.venv/extras: $(SOURCES)
	$(call installed,[$(EXTRAS)])
	touch .venv/base $@

clean:
	rm -rf .venv build dist *.egg-info docs/_build docs/reference/generated
