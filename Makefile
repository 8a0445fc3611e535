# Needs Python 3.11 to 3.14, and make. PYTHON chooses another interpreter, VENV another place for the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Types without a .pyx beside them are those of a Python twin that is compiled as it stands.
TWINS := $(foreach types,$(shell find pybroker -name '*_native.pxd'),$(if $(wildcard $(types:.pxd=.pyx)),,$(types:_native.pxd=_python.py)))
SOURCES := $(shell find pybroker -name '*.pyx' -o -name '*.px[di]' -o -name '*.h') $(TWINS) pyproject.toml setup.py
# Compiles to bytecode, which pip does by itself only for packages that are not editable. A start without bytecode takes half as long
# again, and with PYTHONDONTWRITEBYTECODE every start would.
COMPILE = $(BIN)/python -m compileall -q pybroker
# Installs many packages. pip compiles one after the other on one core; all cores do it in half of the time. Tests of packages are
# left out. A file that does not compile is printed, and left as it is, as pip leaves it.
define INSTALL_MANY
@echo "Installing into $(VENV): $(2)"
$(BIN)/python -m pip install --quiet --no-compile $(1)
-$(BIN)/python -m compileall -q -j 0 -x '/tests/' $(VENV)/lib
endef

# Gives sets of texts the same order every time.
unit random pure test conformance integration spark: export PYTHONHASHSEED ?= 0
# Keeps the bytecode of the tests, whatever the machine's setting is: a process then imports them in half of the time.
unit random pure test conformance integration spark: export PYTHONDONTWRITEBYTECODE :=
# Tests run side by side because many of them mostly wait, and in order because the longest come first. A test that hangs ends its
# worker, and then the run: xdist would give the same test to the next worker, again and again.
SIDE_BY_SIDE = $(BIN)/python -m pytest --ignore integration/containers -n 4 --dist loadfile --no-loadscope-reorder \
  --max-worker-restart 0 --durations 20 -r sR --reruns $(RERUNS)  # shows why a test was skipped: without a container engine, for one
# What runs without native parts: of each room with such a part the tests that reach all of the Python twin and what uses it, because
# a test that reaches no twin comes out the same. `PURE=tests` runs all. Then stock clients with a broker process.
PURE ?= tests/api tests/metrics tests/network tests/replication tests/sharing/turns tests/coordinator/test_commits_of_a_turn.py \
  tests/coordinator/test_offset_loops.py $(addprefix tests/log/test_,append.py append_ways.py cold_lookup.py faults.py files.py log_model.py tail.py) \
  tests/protocol/test_forms.py tests/protocol/test_frames.py tests/records/test_validate.py tests/security/quotas tests/spark/test_columns.py \
  tests/test_native.py tests/test_native_parts.py
# Of the unit tests, which mostly compute. Each begins with a part of the tests, and takes more from the others.
WORKERS ?= 4
STEALING = -n $(WORKERS) --dist worksteal --max-worker-restart 0 --durations 10 -r R --reruns $(RERUNS)
ROUNDS ?= 1
# Further attempts of a test that fails. Without them a change shows all its faults; CI shares its machine, and lists what needed them.
RERUNS ?= 0
ifndef SEED
SEED := $(shell date +%s)
endif

.PHONY: run test browser engine bring spark-classes check native unit pure conformance integration spark random sanitize containers image container-lock sbom audit environment wheel clean

run: $(VENV)/.run  ## a broker on 127.0.0.1:9092, its data under ./data
	$(BIN)/pybroker start --data-dir data

# The checks use one core, tests and downloads wait now and then, so these and the first tiers run beside each other. They need no
# Spark, which is installed meanwhile.
test: $(VENV)/.unit  ## all checks and all tests, stock clients and Spark included
	$(MAKE) --no-print-directory -j 6 --output-sync=target WORKERS=2 engine browser spark-classes bring check unit pure
	$(SIDE_BY_SIDE) integration

check: $(VENV)/.unit  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Downloads come before the tests that need them, as they may take longer than a test may.
bring: $(VENV)/.unit  ## the downloads that the tests compare with, and archives of Kafka's classes
	$(BIN)/python -m testing.process.bring

engine:  ## podman and the base image, on Debian: without an engine, the tests run the Dockerfile's commands in folders
	-testing/containers/install.sh engine
	-$(PYTHON) -m testing.containers.image base

browser:  ## Chromium, on Debian: without it, the tests of the page are skipped
	-testing/browser/install.sh

spark-classes: $(VENV)/.test  ## an archive of Spark's classes: without it, the tests with Spark only take longer
	-$(BIN)/python -m testing.process.class_archive

native: $(VENV)/.unit  ## the native parts built in place, after a change of their sources

unit: $(VENV)/.unit  ## no broker process, no Java, no Spark
	$(BIN)/python -m pytest tests $(STEALING)

pure: $(VENV)/.unit  ## without native parts: the unit tests of what has such a part, and stock clients with such a broker
	PYBROKER_PURE=1 $(BIN)/python -m pytest $(PURE) $(STEALING)
	PYBROKER_PURE=1 $(BIN)/python -m pytest integration/clients/test_clients_roundtrip.py -n 2 --max-worker-restart 0 -r R --reruns $(RERUNS)

conformance: bring  ## beside Kafka's own definitions, classes and tools, and other libraries' codecs: no broker runs
	$(SIDE_BY_SIDE) integration/conformance

integration: bring  ## stock clients and Kafka's own tools with broker processes; no Spark
	$(SIDE_BY_SIDE) integration --ignore integration/conformance --ignore integration/spark

spark: spark-classes  ## the jobs and the data source on a real Spark
	$(BIN)/python -m pytest integration/spark --durations 10

random: $(VENV)/.unit  ## the unit tests with other draws, ROUNDS times; SEED=n repeats the round that printed this seed
	for seed in $$(seq $(SEED) $$(($(SEED) + $(ROUNDS) - 1))); do echo "make random SEED=$$seed"; \
	  PYTHONHASHSEED=$$seed $(BIN)/python -m pytest tests -n 2 --hypothesis-profile=random --hypothesis-seed=$$seed || exit 1; done

sanitize: $(VENV)/.unit  ## the unit tests that run native code, with it under AddressSanitizer and UndefinedBehaviorSanitizer
	$(BIN)/python -m tests.sanitize

containers: $(VENV)/.containers  ## the image and docker-compose.yml, built and run for real; installs what that needs on Debian
	testing/containers/install.sh
	$(BIN)/python -m pytest integration/containers --timeout 1800 --durations 10  # the first test of each image builds it

image:  ## the container image, and what it weighs
	$(PYTHON) -m testing.containers.image build

container-lock: $(VENV)/.containers  ## pin the images' dependencies again: the newest versions, with their hashes
	$(BIN)/python -m testing.containers.lock

sbom: $(VENV)/.audit  ## the bill of materials of the image's packages, as build/sbom.json
	$(BIN)/python -m testing.containers.packages sbom

audit: $(VENV)/.audit  ## whether PyPI knows vulnerabilities of the image's packages
	$(BIN)/python -m testing.containers.packages audit

environment: $(VENV)/.test  ## what the tests and benchmarks need, in .venv, the native parts built in place
	$(COMPILE)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Also in an environment that was made by hand. What is installed there already stays as it is.
$(VENV)/.pip: | $(VENV)/bin/python
	@echo "Installing into $(VENV): a pip that knows dependency groups, which are new in 25.1"
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/.run: $(VENV)/bin/python $(SOURCES) | $(VENV)/.pip
	@echo "Installing pybroker into $(VENV) and compiling its native parts: about a minute, and again only when their sources change"
	$(BIN)/python -m pip install --quiet --editable .
	$(COMPILE)
	touch $@

$(VENV)/.unit: $(VENV)/bin/python $(SOURCES) | $(VENV)/.pip
	$(call INSTALL_MANY,--editable . --group unit,pybroker with its native parts and what its tests need (some minutes))
	touch $(VENV)/.run $@

# pybroker is there already: named like this, pip brings what the extra needs, and does not compile the native parts again.
$(VENV)/.test: $(VENV)/.unit
	$(call INSTALL_MANY,'pybroker[spark]',what Spark needs)
	touch $@

$(VENV)/.containers: $(VENV)/.test
	$(call INSTALL_MANY,--group containers,what the container tests need)
	touch $@

$(VENV)/.audit: $(VENV)/bin/python pyproject.toml | $(VENV)/.pip
	@echo "Installing into $(VENV): what makes a bill of materials, and looks for vulnerabilities"
	$(BIN)/python -m pip install --quiet --group audit
	touch $@

wheel: $(VENV)/bin/python  ## a source distribution, of that a wheel with the native parts, and a broker's modules from it in a fresh environment
	$(BIN)/python -m pip install --quiet build
	rm -rf build/dist
	$(BIN)/python -m build --outdir build/dist .
	$(PYTHON) -m venv --clear build/wheel-env
	build/wheel-env/bin/python -m pip install --quiet build/dist/pybroker-*.whl
	cd build && wheel-env/bin/python -m pybroker.native

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
