# Every verb sets up what it needs: a virtual environment inside the clone.
PYTHON ?= python3
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "opsdk needs Python >= 3.11: make PYTHON=/path/to/python3.11 ...")'
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The demo needs 23 packages, that of an incident 38, the tests 92. A clone that has all of them uses these.
DEMO_STAMP := $(VENV)/.installed-demo
INCIDENT_STAMP := $(VENV)/.installed-incident
# Each process of a test run would compile all modules and tests anew: collecting takes 18 s so, 9 s with bytecode.
unexport PYTHONDONTWRITEBYTECODE
# What pip does for packages it copies: without it each start compiles anew where PYTHONDONTWRITEBYTECODE is set.
COMPILE = $(BIN)/python -m compileall -q -j 0 opsdk envtest
# What generated files are made from: tools/generate/__main__.py says what each of these is.
OPENAPI ?= tools/generate/sources/openapi
GENERATE = $(BIN)/python -m tools.generate --openapi '$(OPENAPI)' \
  $(if $(KUBERNETES),--kubernetes '$(KUBERNETES)') $(if $(KUBERNETES_VERSION),--kubernetes-version '$(KUBERNETES_VERSION)')
COMPAT := .venv-compat
COMPAT_STAMP := $(COMPAT)/.installed
PEERS := .venv-bench
PEERS_STAMP := $(PEERS)/.installed
RELEASE := .venv-release
RELEASE_STAMP := $(RELEASE)/.installed
# One environment, report and log for each Python, and the chroots that some of them come from.
ALL_PYTHONS := .venv-pythons

$(COMPAT_STAMP): pyproject.toml tests/compat/requirements.txt
	$(PYTHON) -m venv $(COMPAT)
	$(COMPAT)/bin/pip install --quiet --disable-pip-version-check --editable '.[cli,envtest,migrate]' -r tests/compat/requirements.txt
	@touch $@

$(PEERS_STAMP): benchmarks/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	# kubesdk ships a module for Python 3.12, which 3.11 does not compile.
	-$(PEERS)/bin/python -m compileall -qq $(PEERS)/lib
	@touch $@

$(RELEASE_STAMP): tools/release/requirements.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check -r tools/release/requirements.txt
	@touch $@

RUNTIME_TESTS = $(addprefix tests/,aio api apimachinery base builder cache cel children cli client cluster controller \
  event http lifecycle manager pods queue rbac recipes rest structured_merge telemetry webhook)

.PHONY: help test test-slow test-deep test-pythons test-runtime test-webhook test-lifecycle test-migration test-testing test-apiserver test-envtest test-fleet test-norman lint generate types demo demo-incident norman bench bench-quick bench-ratio fuzz sim corpus corpus-scale docs screenshots docs-version changelog release format clean
help: ## list the verbs
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(COMPILE)
	@touch $@

$(DEMO_STAMP): pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[envtest]'
	@touch $@

$(INCIDENT_STAMP): pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[cli,envtest]' pytest
	@touch $@

# worksteal keeps neighbours, which share servers, in one process, and no process idle. ARGS="-n 0" runs serially.
PYTEST = $(BIN)/python -m pytest -q -n auto --dist worksteal --durations=20
test: $(STAMP) ## run the tests, on all cores, except slow ones: over about 0.4 s of CPU for a rare case
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(STAMP) ## run the rest: recordings, kubectl, real processes, long simulations
	$(PYTEST) -m "slow and not deep" $(ARGS)

test-deep: $(STAMP) ## longer searches for what shorter tests prove: before a release
	$(PYTEST) -m deep $(ARGS)

test-pythons: $(STAMP) ## the fast tests on 3.11 to 3.14, those that can be had; PYTHONS="3.13 3.14"; RUNTIME=1 leaves the other products out
	$(BIN)/python -m tools.pythons $(if $(PYTHONS),--pythons '$(PYTHONS)') $(if $(RUNTIME),$(RUNTIME_TESTS) tests/testing) $(ARGS)

# Each product alone, see docs/architecture.md.
test-runtime: $(STAMP) ## the tests of the runtime and the command alone
	$(PYTEST) -m "not slow" $(RUNTIME_TESTS) $(ARGS)

test-webhook: $(STAMP) ## the tests of webhooks alone
	$(PYTEST) -m "not slow" tests/webhook opsdk/webhook $(ARGS)

test-lifecycle: $(STAMP) ## the tests of lifecycles and named handlers alone
	$(PYTEST) -m "not slow" tests/lifecycle opsdk/lifecycle $(ARGS)

test-migration: $(STAMP) ## the tests of the migration from kopf alone
	$(PYTEST) -m "not slow" tests/migration tests/cli/test_migrate.py opsdk/migration opsdk/cli/migrate $(ARGS)

test-testing: $(STAMP) ## the tests of the test kit alone
	$(PYTEST) -m "not slow" tests/testing opsdk/testing $(ARGS)

test-apiserver: $(STAMP) ## the tests of the API server framework alone
	$(PYTEST) -m "not slow" tests/apiserver opsdk/apiserver $(ARGS)

test-envtest: $(STAMP) ## the tests of envtest alone
	$(PYTEST) -m "not slow" tests/envtest envtest $(ARGS)

test-fleet: $(STAMP) ## the tests of the fleet alone
	$(PYTEST) -m "not slow" tests/fleet opsdk/fleet $(ARGS)

test-norman: $(STAMP) ## the tests of norman alone
	$(PYTEST) -m "not slow" tests/norman opsdk/norman samples/bookshelf/tests $(ARGS)

lint: $(STAMP) ## ruff (all rules), the floors, generated files, and the limits of tools/house.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(GENERATE) --check
	$(BIN)/python tools/house.py --check

generate: $(STAMP) ## make all tables and typed kinds anew; OPENAPI=FOLDER, KUBERNETES=CHECKOUT
	$(GENERATE)

types: $(STAMP) ## strict type check
	$(BIN)/mypy
	$(BIN)/mypy tests/builder/test_types.py

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP)) ## a local API server, the sample operator, and a short story
	PYTHONPATH=samples/website $(BIN)/python -m website.demo

demo-incident: $(if $(wildcard $(STAMP)),$(STAMP),$(INCIDENT_STAMP)) ## a bad night in 20 s: an alert, its recording, the proof of the repair
	PYTHONPATH=samples/website $(BIN)/python -m website.incident

norman: $(STAMP) ## a local API server with samples, and the REST API and web page of opsdk.norman on it
	$(BIN)/opsdk norman --apply samples/website/config/crd --apply samples/website/config/samples $(ARGS)

compat: $(COMPAT_STAMP) ## other Python clients and kopf against the server, in an environment of their own
	$(COMPAT)/bin/python -m pytest -q -n 3 --dist worksteal -W ignore --show-capture=no --confcutdir=tests/compat tests/compat $(ARGS)

# Without the peers the run goes on: their rows say that they are missing.
bench: $(STAMP) ## speed and memory beside other Python clients; ARGS="--only c,g --rounds 3"
	-$(MAKE) --no-print-directory $(PEERS_STAMP)
	$(COMPILE) benchmarks
	$(BIN)/python -m benchmarks $(ARGS)

bench-quick: $(STAMP) ## calls, bytecodes and allocations of the hot paths against benchmarks/quick/counts.json
	$(COMPILE) benchmarks
	$(BIN)/python -m benchmarks.quick $(ARGS)

bench-ratio: $(STAMP) ## CPU and memory of whole processes beside an older commit; ARGS="--only fill,start --rounds 3"
	$(COMPILE) benchmarks
	$(BIN)/python -m benchmarks.ratio $(ARGS)

sim: $(STAMP) ## 2,000 seeded schedules of seven operators, with faults, in virtual time
	$(COMPILE)
	PYTHONPATH=samples/website:samples/application:tests/support $(BIN)/python -m tests.simulation $(ARGS)

# The paths of the samples and of tests/support, as pytest has them.
CORPUS = PYTHONPATH=samples/website:samples/greeter:samples/database:samples/application:samples/secret-copier:tests/support \
  $(BIN)/python -m
corpus: $(STAMP) ## measure published bugs and their repaired twins, write docs/corpus.md; ARGS="--only zookeeper"
	$(COMPILE)
	$(CORPUS) tests.corpus.table $(ARGS)

corpus-scale: $(STAMP) ## 2,380 guided plans and 9,119 generated operations of the corpus; ARGS="plans"
	$(COMPILE)
	$(CORPUS) tests.corpus.scale $(ARGS)
	$(CORPUS) tests.corpus.table --render

fuzz: $(STAMP) ## odd requests and odd bytes for every decoder, for a while; what is found becomes a test
	$(BIN)/python -m tests.fuzz $(ARGS)

docs: $(STAMP) ## run every example in the documentation, and build the site into site/
	$(BIN)/python -m pytest -q tests/docs $(ARGS)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --quiet

screenshots: $(STAMP) ## draw the images of the documentation that are made by programs
	$(BIN)/python -m tools.screenshot

docs-version: $(STAMP) ## commit the site of a version to the branch gh-pages: make docs-version ARGS="0.2 latest"
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. PATH="$(abspath $(BIN)):$$PATH" mike deploy --allow-empty --update-aliases $(ARGS)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. PATH="$(abspath $(BIN)):$$PATH" mike set-default --allow-empty latest

changelog: $(STAMP) ## move the files of docs/changes into a version of CHANGELOG.md; VERSION=X.Y.Z
	@test -n '$(VERSION)' || { echo 'name the version: make changelog VERSION=X.Y.Z'; exit 1; }
	$(BIN)/python -m towncrier build --yes --version '$(VERSION)'

release: $(RELEASE_STAMP) ## check the clone, and write sdist, wheel, SBOM and checksums into dist/release (RELEASE.md)
	$(RELEASE)/bin/python -m tools.release $(ARGS)

format: $(STAMP) ## apply the formatter and the safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean: ## remove the virtual environment and caches
	@# A chroot's mounts end with the test run. One that was made by hand would be removed with its contents.
	@! grep -s ' $(CURDIR)/$(ALL_PYTHONS)/' /proc/self/mounts || { echo 'unmount these first'; exit 1; }
	rm -rf $(ALL_PYTHONS) $(VENV) $(COMPAT) $(PEERS) $(RELEASE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist site
