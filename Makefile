# On a fresh machine with python3, python3-venv and make, without root:
#
#   make demo      installs thpdiag into .venv and diagnoses the first story
#   make test      installs what the tests need, checks the code and the rules, runs all tests (about 16 minutes on 2 cores)
#   make proof     the tests again with the full counts of fault points and mutants (long), and what commands answer with
#                  the lowest versions of all dependencies, on each Python: make proof PYTHONS='python3.11 python3.13'
#   make fuzz      20,000 damaged inputs through all parsers; what fails is written to build/fuzz
#   make accuracy  how often the diagnosis is right, over all fixtures and with less of their input
#   make lab KERNEL=6.1 CASE=fault-compaction    one case on one kernel, in a guest (docs/how-to/kernel-lab.md)
#   make lab-all   every case on every kernel that is not there yet: hours; make lab-score  scores what there is
#   make docs      builds the documentation site into build/site and checks its links
#   make bench     what reading a bundle costs, beside the programs that people use today
#   make clean     removes the environment and everything made from the sources

PYTHON ?= python3
PYTHONS ?= $(PYTHON)
WORKERS ?= 6 # three per core: many tests wait for a server, a browser or a killed process

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
BASE := $(VENV)/.base-installed
PACKAGE := $(VENV)/.package-installed
TESTS := $(VENV)/.tests-installed

DEMO := fixtures/stories/hadoop-centos62/bundle
PAGE := thpdiag-demo.html
LAB_SET ?= $(or $(LAB_FOLDER),build/lab)/set

.DEFAULT_GOAL := demo
.PHONY: demo test unit check style types rules bytecode proof fuzz accuracy lab lab-all lab-score docs bench clean

demo: $(PACKAGE)
	@$(BIN)/thpdiag analyze $(DEMO) -o html=$(PAGE) --no-progress
	@echo
	@echo "The same as one page for a browser: $(CURDIR)/$(PAGE)"

test: $(TESTS)
	@$(MAKE) --no-print-directory --jobs 2 bytecode style
	@$(MAKE) --no-print-directory --jobs 3 unit types rules # the types take one core for half a minute

unit: $(TESTS)
	@$(PYTEST) -n $(WORKERS) --dist worksteal --randomly-seed=1 # the same in each run; `make proof` takes another order and other examples

check: style types rules

style: $(TESTS)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: $(TESTS)
	@$(BIN)/mypy --no-error-summary

rules: $(TESTS)
	@$(BIN)/thpdiag rules fmt --check rules packs/*/
	@$(BIN)/thpdiag rules lint packs/*/
	@$(BIN)/thpdiag rules test $(patsubst %,--rules %,$(wildcard packs/*/))

# What pytest makes of the tests, it makes once, not in each of its processes; and hundreds of programs are started.
bytecode: $(TESTS)
	@$(BIN)/python -m compileall -q thpdiag
	@$(PYTEST) --collect-only -q >/dev/null || true # a test that cannot be collected is told by the run itself

proof: $(TESTS)
	@THPDIAG_PROOF=1 $(PYTEST) -n $(WORKERS)
	@$(BIN)/python tests/support/dependencies.py $(PYTHONS)

fuzz: $(TESTS)
	@$(BIN)/python tests/support/fuzz.py --folder build/fuzz

accuracy: $(TESTS)
	@$(BIN)/python tests/support/accuracy.py

lab: $(PACKAGE)
	@$(BIN)/python lab/lab.py run --kernel $(KERNEL) --case $(CASE)

lab-all: $(PACKAGE)
	@$(BIN)/python lab/lab.py all

lab-score: $(TESTS)
	@$(BIN)/python lab/labels.py $(LAB_SET)
	@$(BIN)/python lab/score.py $(LAB_SET) $(SCORE)

docs: $(TESTS)
	@$(BIN)/python -m mkdocs build --strict --quiet
	@echo "$(CURDIR)/build/site/index.html"

bench: $(TESTS)
	@$(BIN)/python bench/intake.py
	@$(BIN)/python bench/vmstat.py
	@$(BIN)/python bench/sosreport.py
	@$(BIN)/python bench/perf_data.py
	@$(BIN)/python bench/perf_script.py
	@$(BIN)/python bench/collectl.py
	@$(BIN)/python bench/sysstat.py
	@$(BIN)/python bench/rules.py
	@$(BIN)/python bench/scale.py
	@$(BIN)/python bench/page.py
	@$(BIN)/python bench/store.py
	@$(BIN)/python bench/triage.py --bundles 300 --rounds 3
	@$(BIN)/python bench/fleet.py
	@$(BIN)/python bench/reading_ease.py

clean:
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis thpdiag-*.html
	@find thpdiag tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment with pip in it. Debian ships venv without pip inside unless python3-venv is installed: then an installed
# virtualenv does as well, and so does the pip of the system, which can install one into an environment that has none.
$(BASE):
	@if $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
	  || $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null \
	  || virtualenv --quiet --python $(PYTHON) $(VENV) 2>/dev/null \
	  || { $(PYTHON) -m venv --without-pip $(VENV) 2>/dev/null \
	       && $(PYTHON) -m pip --quiet --python $(BIN)/python install pip 2>/dev/null; }; \
	then touch $@; \
	else echo "$(PYTHON) cannot make an environment; install one package: apt install python3-venv" >&2; exit 1; fi

$(PACKAGE): $(BASE) pyproject.toml
	@echo "installing thpdiag into $(VENV)" >&2
	@$(PIP) install --editable .
	@touch $@

# Dependency groups need a pip that is newer than that of Debian 12.
$(TESTS): $(PACKAGE) pyproject.toml
	@echo "installing what the tests need into $(VENV)" >&2
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group test --group lint
	@touch $@
