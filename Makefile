# The commands a person types. Each sets up what it needs, and only when that is out of date.
# Needed: Python 3.11 or newer, a C compiler, make; a JDK 17 or newer and Maven for the Kafka tests.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
ACCIDENTS_S ?= 3600

BIN := $(VENV)/bin
PY := $(BIN)/python
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadgroup
HEADERS := $(shell find kprod -name '*.pxd')
COMPILED := $(HEADERS) $(wildcard $(HEADERS:.pxd=.pyx) $(HEADERS:.pxd=.py))
MODULES := $(subst /,.,$(basename $(shell find kprod -name '*.pyx' | sort)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo spark-test spark-demo chaos chaos-groups test lint lint-style lint-types format docs lock test-quick test-pythons kafka kafka-fetch kerberos fuzz long mutants sim soak \
  timer-stress bench race old-and-new wheel try-wheel changes lowest clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "make %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.built  ## make a virtual environment with kprod, compiled, and every tool

demo: $(VENV)/.built  ## produce 336,776 flights to an embedded broker, read them back, compare
	@$(BIN)/kprod demo $(DEMO)

test: $(VENV)/.built lint  ## run every check, with a real Apache Kafka
	-@$(PY) -m tests.plugins.kafka fetch  # not within a test's time; where it fails, tests say why
	$(PYTEST)
	@$(MAKE) --no-print-directory test-pythons

lint: $(VENV)/.built  ## check style, types, stubs and layers
	@$(MAKE) --no-print-directory -j $(WORKERS) -O lint-style lint-types

lint-style: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/cython-lint kprod  # it calls pycodestyle by name
	$(BIN)/lint-imports --no-logo

lint-types: $(VENV)/.built
	$(PY) -m mypy
	$(PY) -m mypy.stubtest --mypy-config-file pyproject.toml --ignore-disjoint-bases --ignore-unused-allowlist \
	  --allowlist tests/stubtest_allow.txt $(MODULES)

format: $(VENV)/.built  ## write the style that lint asks for, as far as a tool can
	$(BIN)/ruff check --quiet --fix . || true
	$(BIN)/ruff format .

docs: $(VENV)/.built  ## write the generated pages and build the site in out/site
	$(PY) -m tools.generate_configuration
	$(PY) -m tools.generate_settings
	$(PY) -m tools.generate_embedded_settings
	$(PY) -m tools.generate_served
	$(PY) -m tools.generate_metrics
	$(PY) -m tools.generate_errors
	$(PY) -m tools.generate_migrating
	$(PY) -m tools.generate_consumer_migrating
	$(PY) -m tests.sim figures
	$(PY) -m docs.pictures.draw
	$(PY) -m sphinx -W --keep-going --quiet --builder html docs out/site
	@echo "out/site/index.html"

# What a second interpreter is asked: all that may differ there, with few examples each; no Kafka,
# nothing slow, nothing that reads the tree.
test-quick: $(VENV)/.built
	KPROD_HYPOTHESIS_PROFILE=quick $(PYTEST) -q -m "not kafka and not slow and not long" \
	  $(addprefix --ignore tests/,$(OF_THE_TREE)) $(TESTS)
TESTS ?= tests
OF_THE_TREE := docs plugins test_architecture_page.py test_dependencies.py test_doors.py \
  test_import_circles.py test_language.py test_tidy.py

spark-test: $(VENV)/.built  ## two million rows through each kind of Spark into Apache Kafka, and an hour of accidents (ACCIDENTS_S=600)
	-@$(PY) -m tests.plugins.kafka fetch
	KPROD_SPARK_ACCIDENTS_S=$(ACCIDENTS_S) $(PY) -m pytest -n 0 -m spark --timeout 5400 tests/spark

spark-demo: $(VENV)/.built  ## a pipeline on Spark, batch and streaming, checked (SPARK="--bootstrap HOST:PORT")
	@$(PY) examples/spark_pipeline.py $(SPARK)

# Compiled with less optimization, which takes half the time: nothing is measured on these.
test-pythons:  ## run the quick tests on the other installed CPythons (3.11 to 3.13)
	@$(PYTHON) tools/find_pythons.py | while read -r version executable tests; do \
	  echo "== CPython $$version"; \
	  KPROD_CFLAGS="-O1 -g0 -Wall" \
	    $(MAKE) --no-print-directory setup PYTHON="$$executable" VENV=".venv-$$version" </dev/null || exit 1; \
	  if [ "$$KPROD_REQUIRE_KERBEROS" = 1 ]; then \
	    $(MAKE) --no-print-directory kerberos PYTHON="$$executable" VENV=".venv-$$version" </dev/null || exit 1; \
	  fi; \
	  $(MAKE) --no-print-directory test-quick PYTHON="$$executable" VENV=".venv-$$version" TESTS="$$tests" </dev/null || exit 1; \
	done

# It has no wheels; as above, nothing is measured on it. It is not built like kprod, by build.cfg.
kerberos: $(VENV)/.built  ## build what logins by Kerberos need, for their tests (libkrb5-dev, 20 s)
	printf '[build_ext]\nparallel=2\n' > $(VENV)/kerberos.cfg
	DIST_EXTRA_CONFIG=$(abspath $(VENV))/kerberos.cfg CFLAGS="-O1 -g0 -w" $(PY) -m pip install --quiet \
	  --require-hashes --no-build-isolation -r requirements/kerberos.txt

kafka: $(VENV)/.built  ## start an Apache Kafka and print its address
	$(PY) -m tests.plugins.kafka run $(KAFKA)

fuzz: $(VENV)/.built  ## fuzz every decoder in a sanitized build, a minute each (FUZZ="--seconds 600")
	$(PY) -m tests.fuzz $(FUZZ)

long: $(VENV)/.built  ## run the tests that are too long for make test, and 5,000 examples or more each
	$(PYTEST) --timeout 3600 -o faulthandler_timeout=3600 -m long
	KPROD_HYPOTHESIS_PROFILE=long $(PYTEST) --timeout 3600 -o faulthandler_timeout=3600 \
	  $(LONG_PROPERTIES)
# Tests that draw 5,000 examples there, new ones each time; the observers' test draws 20,000.
LONG_PROPERTIES := tests/record $(wildcard tests/_core/test_batch*_properties.py) \
  tests/_core/record/test_message_set_properties.py tests/producer/test_observers_properties.py

mutants: $(VENV)/.built  ## plant faults and see that the tests find each (MUTANTS="--fresh --jobs 4")
	$(PY) tests/mutants/run.py $(MUTANTS)

sim: $(VENV)/.built  ## simulate 20,000 seeds: client and brokers in virtual time (SEEDS=, BASE=)
	$(PY) -m tests.sim run --seeds $(SEEDS) --base $(BASE) -j $(WORKERS) --json out/simulated.json
SEEDS ?= 20000
BASE ?= HEAD

timer-stress: $(VENV)/.built  ## eight threads at one timer for 20 s, threads switched every microsecond
	$(PY) -m tests.timer.system_timer_stress --seconds 20

chaos: $(VENV)/.built  ## kill brokers of an Apache Kafka for ten minutes, then check every record (CHAOS="--security SASL_SSL --compression gzip")
	$(PY) -m tests.chaos $(CHAOS)

chaos-groups: $(VENV)/.built  ## kill, stall and add members of a group of three clients (CHAOS="--seconds 60", CHAOS=--kafka)
	$(PY) -m tests.strangers.chaos $(CHAOS)

soak: $(VENV)/.built  ## load a producer through proxies for MINUTES=10, with faults; nothing may grow
	$(PY) -m tests.soak --minutes $(MINUTES)
MINUTES ?= 10

bench: $(VENV)/.built  ## run the benchmarks, small sizes (BENCH= for the full ones)
	@for program in $$(grep -l '__main__' benchmarks/[a-z]*.py | grep -vE 'old_and_new|timeline'); do \
	  $(PY) $$program $(BENCH) || exit 1; \
	done
BENCH ?= --quick

race: $(VENV)/.built  ## race Kafka producers against each other, sustained (RACE=--quick for a glance)
	$(PY) benchmarks/compare_clients.py --json build/race.json --plot build/race.png $(RACE)

old-and-new: $(VENV)/.built  ## compare this tree's speed with the last commit's (OLD=v1.0, OLD_AND_NEW=--quick)
	$(PY) benchmarks/old_and_new.py --old $(OLD) --json build/old_and_new.json $(OLD_AND_NEW)
OLD ?= HEAD

wheel: $(VENV)/.built  ## build a wheel twice as a release does, compare and check it (WHEEL=--once)
	$(PY) -m tools.build_wheel $(WHEEL)

try-wheel: $(VENV)/.built  ## install dist/*.whl in an empty environment without a compiler, and use it
	$(PY) -m tools.try_wheel $(TRY)

changes: $(VENV)/.built  ## show what the changelog will say of the next release
	@$(BIN)/towncrier build --draft --version "$$($(PY) -c 'import kprod; print(kprod.__version__)')"

lowest: $(VENV)/.built  ## test with the oldest versions of all that kprod requires
	$(PY) -m tools.test_lowest

# Extras that tests use; Kerberos has a file of its own, and logins of clouds are tested with stand-ins.
USED := arrow cli gzip json opentelemetry perf prometheus testing tls
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11

lock: $(VENV)/.built  ## choose new versions of the development tools, and the lowest that users may have
	$(LOCK) $(addprefix --extra ,$(USED) demo spark) --group dev -o requirements/dev.txt pyproject.toml
	$(LOCK) --no-annotate --group install -o requirements/uv.txt
	$(LOCK) --no-annotate --group kerberos -o requirements/kerberos.txt
	$(LOCK) --no-annotate --resolution lowest-direct $(addprefix --extra ,$(USED)) --group lowest \
	  -o requirements/lowest.txt pyproject.toml

clean:  ## remove everything that was made
	rm -rf .venv .venv-* build dist out *.egg-info .mypy_cache .ruff_cache .pytest_cache
	rm -rf .hypothesis .import_linter_cache
	find kprod -name '*.so' -delete
	find kprod -name '*.pxd' | sed 's/pxd$$/c/' | xargs rm -f
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer, please")'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# uv takes a third of pip's time; pip may be set up for an index that uv does not know.
# Where an index tells nothing about caching, uv builds PySpark again for each environment, and keeps
# every build, 1 to 2 GB: `uv cache prune` deletes those that nothing refers to.
$(VENV)/.required: $(VENV)/.made requirements/uv.txt requirements/dev.txt requirements/demo.txt
	$(PY) -m pip install --quiet --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip install --quiet --python $(PY) --require-hashes -r requirements/dev.txt \
	  || $(PY) -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(PY) -m pip install --quiet --require-hashes --no-deps --no-build-isolation -r requirements/demo.txt
	-@$(BIN)/uv cache prune --quiet
	@touch $@

# One place for what is compiled, so that both commands below compile only what changed.
export DIST_EXTRA_CONFIG = $(abspath $(VENV))/build.cfg
BUILD := build/of$(notdir $(VENV))

$(VENV)/build.cfg: $(VENV)/.made
	printf '[build_ext]\nbuild_lib=%s\nbuild_temp=%s\ninplace=1\nparallel=2\n' $(BUILD)/lib $(BUILD)/temp > $@

$(VENV)/.installed: $(VENV)/.required $(VENV)/build.cfg pyproject.toml setup.py
	KPROD_COMPILES_LATER=1 $(PY) -W ignore -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(COMPILED)
	$(PY) -W ignore setup.py --quiet build_ext
	@touch $@
