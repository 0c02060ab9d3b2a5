# Everything a contributor needs: `make demo`, `make test`, `make check`.
# The first target that needs it creates .venv and installs the core and every plugin there.

.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MANIFESTS := pyproject.toml $(sort $(wildcard plugins/*/pyproject.toml))
PLUGINS := $(patsubst %/pyproject.toml,%,$(filter plugins/%,$(MANIFESTS)))

# The first interpreter on the path that is new enough; override with PYTHON=...
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Every extra of a plugin but Spark, which is large and needs Java, as [one,two].
extras = $(shell $(PYTHON) -c 'import sys, tomllib; \
	found = tomllib.load(open(sys.argv[1], "rb"))["project"].get("optional-dependencies", {}); \
	found.pop("spark", None); print("[" + ",".join(found) + "]" if found else "")' $(1)/pyproject.toml)

# The linear algebra is small: more than one BLAS thread only makes it slower.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

WORKERS ?= 2
DEMO ?= build/demo
PYTEST := $(BIN)/python -m pytest
DATA ?= ../shared/data
QUICK ?=
PAGES := $(if $(QUICK),build/reproduce,docs/reproduce)

.PHONY: help install demo test test-quick reproduce reference lint types layers check gains bench bundle trust bounds lock wheels clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

install: $(STAMP) ## create .venv with the core, every plugin and the tools

$(STAMP): $(MANIFESTS)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-e '.[plot,accounting,polars,postgres,reproduce,dev]' $(foreach p,$(PLUGINS),-e './$(p)$(call extras,$(p))')
	@touch $@

demo: $(STAMP) ## a small pipeline with Laplace, Gaussian and optimal noise side by side
	@mkdir -p $(DEMO)
	$(BIN)/opendp-optimal demo --plot $(DEMO)/demo.png

test: $(STAMP) ## every test: core, plugins, doctests, README
	$(PYTEST) -n $(WORKERS) --dist loadfile --file-times 30

test-quick: $(STAMP) ## the promises of every room, one case each, without processes and long runs
	HYPOTHESIS_PROFILE=quick $(PYTEST) -n $(WORKERS) --dist loadfile --file-times 10 \
		-m "not process and not slow"

lint: $(STAMP) ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy --strict -p opendp_optimal $(patsubst plugins/%,-p opendp_optimal_%,$(PLUGINS)) -p docs.reproduce

layers: $(STAMP) ## the import-layer contracts
	$(BIN)/lint-imports

check: lint types layers ## all static checks

gains: $(STAMP) ## expected losses against OpenDP's own mechanisms, exact and measured
	$(BIN)/python -m docs.reproduce.selvi.gains --draws 1000000

bench: $(STAMP) ## release cost against OpenDP, same machine and run
	$(BIN)/python tests/benchmarks/bench_release.py
	$(BIN)/python tests/benchmarks/bench_keys.py $(if $(wildcard $(DATA)),--data $(DATA))
	$(BIN)/python -m tests.benchmarks.bench_frames
	$(BIN)/python tests/benchmarks/bench_quantiles.py $(if $(wildcard $(DATA)),--data $(DATA))
	$(BIN)/python tests/benchmarks/bench_ledger.py
	$(BIN)/python tests/benchmarks/bench_vectors.py
	$(BIN)/python tests/benchmarks/bench_steps.py
	$(BIN)/python tests/benchmarks/bench_pairs.py
	$(BIN)/python tests/benchmarks/bench_people.py
	$(BIN)/python tests/benchmarks/bench_posterior.py
	$(BIN)/python -m tests.drop_in.requests 300
	$(BIN)/python plugins/warehouse/benchmarks/bench_warehouse.py 5000000
	$(BIN)/python tests/benchmarks/bench_means.py $(if $(wildcard $(DATA)),--data $(DATA))

# Scripts that read data, and those that do not; each writes the page of its name.
FROM_DATA := fernandes.bayes_theorems liang.geo_figures posterior.table_posteriors selvi.naive_bayes selvi.coordinate_descent selvi.honest_budget
FROM_THEORY := selvi.noise_tables selvi.noise_figures goel.multi_selection

reproduce: $(addprefix page-,$(FROM_THEORY) $(FROM_DATA)) ## rewrite the pages of docs/reproduce; DATA=directory, QUICK=--quick for a trial

page-%: $(STAMP)
	@mkdir -p build/reproduce
	$(BIN)/python -m docs.reproduce.$* $(QUICK) $(if $(filter $*,$(FROM_DATA)),--data $(DATA)) \
		--page $(PAGES)/$(subst _,-,$(lastword $(subst ., ,$*))).md

reference: $(STAMP) ## rewrite the reference pages that describe code
	$(BIN)/python tests/docs/reference.py
	$(BIN)/python -m tests.docs.picture

bundle: $(STAMP) ## solve the tables that come with the package again
	OPENDP_OPTIMAL_CACHE=build/bundle $(BIN)/opendp-optimal warm --loss l1 --loss l2 --integer 1 \
		--epsilon 0.01,0.02,0.05,0.1,0.2,0.5,1,2,3,5,10 \
		--delta 1e-3,1e-4,1e-5,1e-6,1e-7,1e-8,1e-9,1e-10
	OPENDP_OPTIMAL_CACHE=build/bundle $(BIN)/opendp-optimal warm --no-real --loss l2 --epsilon 0.5,1,2 \
		--delta 1e-6 --size 2 --size 3 --size 5 --size 10 --size 20 --size 50 --size 100
	OPENDP_OPTIMAL_CACHE=build/bundle $(BIN)/opendp-optimal warm --no-real --loss l2 --epsilon 0.5,1,2 \
		--delta 0 --norm linf --size 2 --size 3 --size 4 --size 5 --size 10
	OPENDP_OPTIMAL_CACHE=build/bundle $(BIN)/opendp-optimal warm --no-real --loss l2 --epsilon 0.5,1,2,3,4 \
		--delta 1e-6 --mean --gap 5e-3
	cp build/bundle/tables-1/*.noise build/bundle/tables-1/*.radial build/bundle/tables-1/*.pair \
		opendp_optimal/table/bundled/

trust: $(STAMP) ## attacks, audits and faults in depth; rewrites the page of evidence
	$(BIN)/python -m tests.attacks.evidence

bounds: $(STAMP) ## the tests at both ends of every run-time bound, and with the lock
	$(BIN)/python -m tests.attacks.bounds

lock: $(STAMP) ## pin what is installed, for environments like this one
	@echo '# Every package the tests were run with, by `make lock`.' > requirements-dev.lock
	$(BIN)/python -m pip freeze --exclude-editable >> requirements-dev.lock

wheels: $(STAMP) ## build the core wheel and every plugin's
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . $(foreach p,$(PLUGINS),./$(p))

clean: ## remove what make created
	rm -rf $(VENV) build dist
