# Everything lives in .venv, which `make` fills as needed and refreshes when pyproject.toml,
# CMakeLists.txt or the C++ sources change, or a Python file moves. A second run needs no network.

PYTHON ?= python3
PYTEST_FLAGS ?= -q -n auto --dist worksteal

VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/done
SAN := build/sanitize
CXX_FILES := $(wildcard onkel/core/src/*.cpp onkel/core/src/*.hpp)
CORE_FILES := pyproject.toml CMakeLists.txt $(CXX_FILES) onkel/core/layout.py onkel/core/density_table.py onkel/core/src/generate.py
SAN_TESTS := $(wildcard tests/core tests/learner/test_agreement.py tests/learner/test_single_rows.py \
  tests/learner/test_second_order_rows.py tests/learner/test_coded_rows.py tests/rules/test_rules.py \
  tests/expansions/test_budget_agreement.py tests/expansions/test_centers.py tests/expansions/test_trees.py \
  tests/files/test_hostile.py)
COMPILER := $(shell command -v $(CXX) || command -v c++ || command -v clang++)

# -qq: errors only. The build tools are in .venv, so that a rebuild needs no network either.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-build-isolation
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Tests start many processes: each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: FORCE help setup setup-all demo test test-all test-lowest lint format bench bench-quick reproduce reproduce-quick docs dist sanitize clean

help:
	@echo "make demo       set up, run the demonstration, write its report"
	@echo "make test       the suite, quickly (four minutes of processor time)"
	@echo "make test-all   all of it at full length: both cores, Spark, browser (not make test once more)"
	@echo "make test-lowest  what rests on other packages, with the lowest versions of them (four minutes)"
	@echo "make setup      .venv with onkel and what the demonstration needs"
	@echo "make setup-all  .venv with every extra"
	@echo "make lint       formatting, style, types, direction of imports, private names"
	@echo "make format     format Python and C++"
	@echo "make bench      the benchmarks, to reports/ (twenty minutes; bench-quick: two minutes)"
	@echo "make reproduce  the papers' figures, published numbers, streams under drift: one page, to reports/"
	@echo "                (fifteen minutes; reproduce-quick: two minutes)"
	@echo "make docs       the documentation, to docs/_build/html"
	@echo "make dist       source distribution and wheel, to dist/"
	@echo "make sanitize   tests of the core under the address and undefined-behaviour sanitizers"
	@echo "make clean      remove what was built (.venv stays)"

# ---------------------------------------------------------------- the environment

$(DONE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "onkel needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	@echo "== $(VENV): a new environment for $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "$(PYTHON) cannot make environments (Debian: apt-get install python3-venv)"; exit 1; }
	@mkdir -p $(DONE) && touch $@

$(DONE)/tools: pyproject.toml | $(DONE)/venv
	@echo "== build tools"
	@$(BIN)/python -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	  > $(DONE)/tools.txt
	@$(PIP_INSTALL) -r $(DONE)/tools.txt "cmake>=3.20" ninja build
	@touch $@

# Python is read in place, but an installation knows its modules by the names of their files: where
# one was moved, added or removed, all is installed anew. This changes only if the list does.
$(DONE)/modules: FORCE | $(DONE)/venv
	@find onkel -name '*.py' | LC_ALL=C sort > $@.now
	@cmp -s $@.now $@ && rm $@.now || mv $@.now $@

FORCE:

$(DONE)/core: $(CORE_FILES) $(DONE)/modules | $(DONE)/tools
	@echo "== onkel and its core$(if $(COMPILER),, (no C++ compiler here: plain NumPy))"
	@$(PIP_INSTALL) -e '.[cli,report]'
	@$(BIN)/python -W ignore -c 'from onkel.core import BACKEND; print("   core:", BACKEND); \
	  import sys; sys.exit(3 if BACKEND == "numpy" and sys.argv[1] else 0)' "$(COMPILER)" \
	  || { [ $$? = 3 ] || exit 1; \
	       echo "   THE CORE DID NOT COMPILE, plain NumPy takes its place. To see why:"; \
	       echo "   $(BIN)/python -m pip install -v --no-build-isolation --no-deps -e ."; }
	@touch $@

$(DONE)/test $(DONE)/lint $(DONE)/docs $(DONE)/bench: $(DONE)/%: pyproject.toml | $(DONE)/core
	@echo "== what $* needs"
	@$(PIP_INSTALL) -e '.[$*]'
	@touch $@

# LIBSVM's own package comes as source; without it, and a compiler, its lines say "not installed".
$(DONE)/libsvm: | $(DONE)/core
	@$(BIN)/python -m pip install -qq libsvm-official \
	  || echo "   LIBSVM could not be installed: the benchmarks go without it"
	@touch $@

# pyspark comes as source, and is built by the setuptools that is here: an older one needs `wheel`.
$(DONE)/all: pyproject.toml | $(DONE)/core
	@echo "== every extra"
	@$(BIN)/python -m pip install -qq "setuptools>=70.1"
	@$(PIP_INSTALL) -e '.[all]'
	@touch $@ $(addprefix $(DONE)/,test lint docs bench)

setup: $(DONE)/core
	@echo "== $(VENV) is ready"

setup-all: $(DONE)/core $(DONE)/all
	@echo "== $(VENV) is ready, with every extra"

# ---------------------------------------------------------------- use

demo: $(DONE)/core
	@$(BIN)/python -m onkel.app.demo

# Which core runs, in words; ONKEL_PURE in the environment is not what these commands are asked for.
CORE_NAME = $$(env -u ONKEL_PURE $(BIN)/python -W ignore -c \
  'from onkel.core import BACKEND; print("core:", BACKEND)')

test: $(DONE)/core $(DONE)/test
	@echo "== tests, $(CORE_NAME)"
	@env -u ONKEL_PURE -u ONKEL_LONG $(BIN)/python -m pytest $(PYTEST_FLAGS)

# What compares the core with plain loops. Whatever rests on it has its long run beside the compiled one.
TWINS := tests/core tests/expansions tests/kernels tests/learner tests/naive tests/rules

# Without `test`: it would run first what then runs at full length. .ci/run asks for both.
test-all: $(DONE)/core $(DONE)/all
	@echo "== all tests at full length, $(CORE_NAME)"
	@env -u ONKEL_PURE ONKEL_LONG=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)
	@echo "== $(TWINS) at full length, core: numpy"
	@ONKEL_LONG=1 ONKEL_PURE=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) $(TWINS)
	@echo "== all others, quickly, core: numpy"
	@env -u ONKEL_LONG ONKEL_PURE=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) $(TWINS:%=--ignore=%)

lint: $(DONE)/core $(DONE)/lint
	@echo "== ruff"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@echo "== mypy"
	@$(BIN)/mypy
	@echo "== imports point one way"
	@$(BIN)/lint-imports --no-logo
	@echo "== private names stay at home"
	@$(BIN)/python tools/private_names.py
	@echo "== clang-format"
	@$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)

format: $(DONE)/core $(DONE)/lint
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(CXX_FILES)

bench: $(DONE)/core $(DONE)/bench $(DONE)/libsvm
	@$(BIN)/python benchmarks/run.py

reproduce: $(DONE)/core $(DONE)/bench
	@$(BIN)/python experiments/reproduce.py

reproduce-quick: $(DONE)/core $(DONE)/bench
	@$(BIN)/python experiments/reproduce.py --quick

bench-quick: $(DONE)/core $(DONE)/bench $(DONE)/libsvm
	@$(BIN)/python benchmarks/run.py --quick

docs: $(DONE)/core $(DONE)/docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "== docs/_build/html/index.html"

dist: $(DONE)/tools
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --skip-dependency-check --outdir dist . > $(DONE)/dist.log 2>&1 \
	  || { cat $(DONE)/dist.log; exit 1; }
	@ls -1 dist/*
	@if ls dist/*-none-any.whl > /dev/null 2>&1; then cat $(DONE)/dist.log; \
	  echo "The wheel has no compiled core (see above)."; exit 1; fi

# ---------------------------------------------------------------- the lowest versions

# An environment of its own with just the lower bounds of pyproject.toml, and a core built with the
# lowest build tools. Not tried: gpu and spark, gigabytes each. River comes last, on its own: it
# asks for a newer NumPy than we do.
LOW := build/lowest
LOW_PIP := $(LOW)/venv/bin/python -m pip install -qq --only-binary :all:
LOW_TESTS := tests/app tests/estimators/test_sklearn.py tests/estimators/test_inputs.py tests/files \
  tests/judge tests/packaging tests/series tests/streams tests/core onkel
LOW_RUN := env -u ONKEL_PURE -u ONKEL_LONG $(LOW)/venv/bin/python -m pytest -p no:cacheprovider $(PYTEST_FLAGS)

$(LOW)/done: $(CORE_FILES) tools/lowest.py | $(DONE)/venv
	@echo "== an environment with the lowest versions"
	@rm -rf $(LOW) && mkdir -p $(LOW)
	@$(BIN)/python -m venv $(LOW)/venv
	@$(BIN)/python tools/lowest.py build cli arrow zstd kafka report serve test > $(LOW)/pins.txt
	@$(BIN)/python tools/lowest.py river | grep '^river' > $(LOW)/river.txt
	@$(LOW_PIP) -r $(LOW)/pins.txt "cmake>=3.20" ninja
	@SKBUILD_BUILD_DIR=$(LOW)/cmake $(LOW)/venv/bin/python -m pip install -qq --no-build-isolation --no-deps -e .
	@touch $@

test-lowest: $(LOW)/done
	@$(LOW)/venv/bin/python -m pip uninstall -qq -y river
	@$(LOW_PIP) -r $(LOW)/pins.txt
	@echo "== tests with $$(tr '\n' ' ' < $(LOW)/pins.txt)"
	@$(LOW_RUN) $(LOW_TESTS)
	@$(LOW_PIP) -r $(LOW)/river.txt
	@echo "== tests with $$(cat $(LOW)/river.txt)"
	@$(LOW_RUN) tests/river onkel/river

# ---------------------------------------------------------------- sanitizers

# An environment of its own for the sanitized core; all else comes from .venv through a .pth file
# (whose own .pth files are then not read: the core installed there stays out of the way).
$(SAN)/done: $(CORE_FILES) $(DONE)/modules | $(DONE)/core $(DONE)/test
	@echo "== a core with sanitizers"
	@rm -rf $(SAN)/venv && mkdir -p $(SAN)
	@$(BIN)/python -m venv --without-pip $(SAN)/venv
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $(SAN)/shared.pth
	@cp $(SAN)/shared.pth "$$($(SAN)/venv/bin/python -c \
	  'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@SKBUILD_BUILD_DIR=$(SAN)/cmake SKBUILD_CMAKE_DEFINE=ONKEL_SANITIZE=ON \
	  SKBUILD_CMAKE_BUILD_TYPE=RelWithDebInfo \
	  $(SAN)/venv/bin/python -m pip install -qq --no-build-isolation --no-deps --ignore-installed -e .
	@touch $@

# Python itself is not sanitized, hence the preloading; libstdc++ with it, for its exceptions.
# --capture=sys, because a sanitizer writes its report to the file descriptor and then exits.
SANITIZED = ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
  LD_PRELOAD="$$($(COMPILER) -print-file-name=libasan.so) $$($(COMPILER) -print-file-name=libstdc++.so)" \
  env -u ONKEL_PURE -u ONKEL_LONG $(SAN)/venv/bin/python

ifeq ($(COMPILER),)
sanitize:
	@echo "== sanitize: skipped, no C++ compiler here"
else ifeq ($(SAN_TESTS),)
sanitize: $(SAN)/done
	@echo "== sanitize: the core builds; no tests for it yet"
else
sanitize: $(SAN)/done
	@$(SANITIZED) -c 'import onkel.core._native as n; \
	  assert "$(SAN)" in n.__file__ and b"__asan_init" in open(n.__file__, "rb").read(), n.__file__'
	@echo "== $(SAN_TESTS), address and undefined-behaviour sanitizers"
	@$(SANITIZED) -m pytest -p no:cacheprovider --capture=sys $(PYTEST_FLAGS) $(SAN_TESTS)
endif

clean:
	@rm -rf build dist docs/_build .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	@rm -f onkel/core/*.so
	@find onkel tests -name __pycache__ -type d -prune -exec rm -rf {} +
