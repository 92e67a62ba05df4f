# The targets in this file need a Rust toolchain. tests/servers/fetch downloads all other missing programs into a cache
# folder, and installs nothing on the machine.

CARGO  ?= cargo
# The tests disable safeguards of dlock, one at a time. Releases do not have this feature.
TEST    = $(CARGO) test --locked --features mutants
# The model checker runs the state machines about ten million times, so only this test uses an optimised dlock. An edit of
# dlock compiles more quickly without optimisation. Level 2 for dlock would not make the test faster.
MODEL   = $(CARGO) test --locked --package model --config profile.dev.package.dlock-cli.opt-level=1 \
	--config profile.dev.package.model.opt-level=2
PREFIX ?= /usr/local
DESTDIR ?=

# The folder for the files of tests and servers. The folder is in memory if at least 4 GiB are free in /dev/shm. On a
# disk, a flush can take seconds after a build or while another program writes a lot of data. Such a delay would disturb
# the tests.
SCRATCH := $(shell [ "$$(df --output=avail -B1G /dev/shm 2>/dev/null | tail -n 1)" -ge 4 ] 2>/dev/null && \
	[ -w /dev/shm ] && echo /dev/shm || echo $${TMPDIR:-/tmp})
test chaos migrations failovers clients bench-guard: export TMPDIR := $(SCRATCH)

# All programs that users get are static: they need no C library and no name service in the image or on the machine.
# The flags are here and not in .cargo/config.toml, because they require --target, and because the compiler could not
# load procedural macros with these flags. The flags would cause a full rebuild in the shared target folder, so the
# static programs have their own folder. The program contains no path of this machine, so that builds in different
# folders are identical. With the default of getrandom, a static program reads /dev/urandom, which an empty root
# directory does not contain; linux_getrandom calls the kernel.
TARGET := $(or $(CARGO_TARGET_DIR),target)
STATIC := $(TARGET)/static
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# The platform of the program. RELEASING.md describes how to build the archive for another platform than this machine's.
export TRIPLE ?= $(HOST)
STATIC_FLAGS = -C target-feature=+crt-static -C relocation-model=static --remap-path-prefix=$(CURDIR)=/dlock \
	--remap-path-prefix=$(shell rustc --print sysroot)/lib/rustlib/src/rust=/rust \
	--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src=/registry --cfg getrandom_backend="linux_getrandom"
DIST = $(TARGET)/dist$(if $(filter-out $(HOST),$(TRIPLE)),/$(TRIPLE))
BUILD_STATIC = build --locked --bin dlock --target $(TRIPLE) --target-dir $(STATIC)

.PHONY: help all check demo demo-page test test-programs test-model model static chaos migrations failovers clients lint deny bench bench-guard generated install clean deb archive image packages release-check

# `dlock version` prints this commit.
all static: export DLOCK_COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
all static: export RUSTFLAGS = $(STATIC_FLAGS)
all: ## Build the release program target/dlock, which is static
	$(CARGO) $(BUILD_STATIC) --release
	install $(STATIC)/$(TRIPLE)/release/dlock $(TARGET)/dlock

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# Run this target after each edit. It starts no server, and normally takes less than a minute if one file has changed.
check: ## Check the format and the lints, and run the unit tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features mutants -- --deny warnings
	$(TEST) --quiet --lib

demo: all ## Show three replicas that compete for the same lock, on a private server
	examples/demo

demo-page: all ## Run the demo, and keep the page of dlock serve open
	examples/demo --page

# Sixteen tests run at the same time, even on two processors, because tests mostly wait. The model checker never waits, so
# it runs beside them and gets only the time that they leave. The first command downloads the servers and tools while it
# builds the tests. With RELEASED, the tests of the static program use the one that `make bench-guard` has built.
test: ## Run all tests, on MariaDB and MySQL
	tests/servers/fetch mariadb mariadb-11.8 mysql galera haproxy mysqlrouter faketime alembic django knex typeorm activerecord zsh fish bash-completion \
		kubernetes-validate chromium prometheus go & \
	$(if $(RELEASED),,$(MAKE) static &&) $(TEST) --no-run && $(MODEL) --no-run; built=$$?; wait $$! && exit $$built
	$(MAKE) --no-print-directory --jobs=2 test-programs test-model

test-programs:
	$(TEST) -- --test-threads=16

test-model:
	nice -n 19 $(MODEL)

# `make test` searches shorter runs of the model. A search with two threads does not keep two processors busy.
model: export DLOCK_WHOLE_MODEL = yes
model: ## Check the model of the protocol in all its runs, which takes about ten minutes
	$(MODEL) -- --nocapture --test-threads=2

static: export CARGO_PROFILE_DEV_DEBUG = 0
static: ## Build dlock as a static program without optimisation, for the tests
	$(CARGO) $(BUILD_STATIC)

# First runs SEQUENCES random sequences of requests on the simulated server of the protocol model and on both real
# servers. All servers must return the same results. Then runs contenders (dlock processes that want the same lock) on
# real servers under random faults, and checks the history for violations. By default, the servers of both flavours
# (MariaDB and MySQL) run at the same time. `make test` includes a short run.
# An example: make chaos SECONDS=1800 SEED=7 FLAVOUR=mysql ONLY=kill-parent,…
# With TOPOLOGY, the contenders run on several servers, and the simulated server is not compared: on a Galera cluster
# (galera), on a group of MySQL servers with a single primary (group), or on a primary and its asynchronous replica:
# MariaDB behind HAProxy (haproxy), or MySQL behind MySQL Router (router). `make test` includes short runs of galera and
# haproxy.
# An example: make chaos TOPOLOGY=galera SECONDS=1800
chaos: SECONDS = 300
chaos: SEQUENCES = 20000
CHAOS_galera = mariadb galera
CHAOS_group = mysql
CHAOS_haproxy = mariadb haproxy
CHAOS_router = mysql mysqlrouter
chaos: ## Inject random faults on real servers (SECONDS=300 SEED= FLAVOUR= TOPOLOGY= ONLY= SEQUENCES=20000)
	tests/servers/fetch $(if $(TOPOLOGY),$(CHAOS_$(TOPOLOGY)),mariadb mysql faketime)
	$(if $(TOPOLOGY),,DLOCK_SEQUENCES=$(SEQUENCES) DLOCK_SEED=$(SEED) \
		$(TEST) --test compare -- have_the_same_results)
	$(TEST) --test chaos -- --seconds=$(SECONDS) --seed=$(SEED) --flavour=$(FLAVOUR) \
		--topology=$(TOPOLOGY) --only=$(ONLY)

# In each round, three replicas run the recipe of a migration tool, and the holder is killed at a random moment. When the
# next command starts, no statement of the killed command may be alive on the server, and the schema must be complete at
# the end. With ALTERS, the command is the client of the server with an ALTER that takes a minute. This target also checks
# durations, so run it on an idle machine. 30 rounds of the three tools take about half an hour.
# `make test` includes a short run. Examples: make migrations ROUNDS=5 SEED=7 FLAVOUR=mysql ONLY=knex
#                                             make migrations ALTERS=100
migrations: ROUNDS = $(if $(ALTERS),0,30)
migrations: ## Kill the holder of real migrations on real servers (ROUNDS=30 ALTERS= SEED= FLAVOUR= ONLY=)
	tests/servers/fetch mariadb mysql alembic django knex
	$(TEST) --test migrations -- --timed --rounds=$(ROUNDS) --alters=$(ALTERS) --seed=$(SEED) \
		--flavour=$(FLAVOUR) --only=$(ONLY)

# In each round, the server of a holder fails over, right after the grant, to a replica that lacks the grant. No waiter may
# start its command beside the holder, and a mutant without this rule must do so in some rounds. `make test` includes a
# short run.
failovers: ROUNDS = 200
failovers: ## Fail over to replicas that lack the latest grant (ROUNDS=200)
	tests/servers/fetch mariadb mysql
	DLOCK_FAILOVERS=$(ROUNDS) $(TEST) --test it -- --nocapture that_a_fail_over_has_lost

# In each round, `dlock hold` is frozen or killed, and the example client must say that its lock is invalid before the lease
# ends. This target also prints durations, so run it on an idle machine. `make test` includes one round.
clients: ROUNDS = 100
clients: ## Freeze and kill the holds of the example clients, and measure valid() (ROUNDS=100)
	tests/servers/fetch mariadb mysql go
	DLOCK_CLIENT_ROUNDS=$(ROUNDS) $(TEST) --test it -- --nocapture lock_is_invalid_in_time

# cargo-auditable adds the list of all packages to the program. packaging/build describes the packages.
deb archive image: export DLOCK_COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
deb archive image: export RUSTFLAGS = $(STATIC_FLAGS)
deb archive image:
	auditable=$$(tests/servers/fetch --path cargo-auditable) && "$$auditable" auditable $(BUILD_STATIC) --release
	env --unset=RUSTFLAGS packaging/build $@ $(STATIC)/$(TRIPLE)/release/dlock $(DIST)

packages: deb archive image ## Build a .deb, an archive and an image in target/dist, and check them
	packaging/check $(DIST)

release-check: packages ## Build the packages in two folders, check and compare them
	packaging/reproducible $(DIST)

# The first clippy reads the code with both features, and the second one reads the code without them.
lint: ## Check the format, the lints and the documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features mutants -- --deny warnings
	$(CARGO) clippy --locked --no-default-features -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --locked --no-deps --document-private-items

# The first run compiles cargo-deny, which takes one or two minutes. deny.toml contains the rules.
deny: ## Check the licences, versions and sources of the dependencies
	deny=$$(tests/servers/fetch --path cargo-deny) && \
		"$$deny" --locked check --deny warnings bans licenses sources

# Measures the cost of one exec, the queue, dlock status, and the page of dlock serve. Compares dlock with etcdctl, with
# flock and with a program that acquires no lock. The measured dlock is the program that `make` builds.
bench bench-guard: export RUSTFLAGS = $(STATIC_FLAGS)
bench: ## Compare the speed of dlock, etcdctl and flock
	tests/servers/fetch mariadb mysql etcd zookeeper kazoo curator zsh fish bash-completion chromium
	$(CARGO) bench --locked --target $(HOST) --target-dir $(STATIC) --bench exec --bench queue --bench status --bench serve

# Measures at most three times, for less than a minute each. With DLOCK_EARLIER=PATH, it measures once, and also measures
# the program at that path.
bench-guard: ## Fail if dlock has become slow in comparison with etcdctl
	tests/servers/fetch mariadb mysql etcd
	$(CARGO) bench --locked --target $(HOST) --target-dir $(STATIC) --bench queue -- guard

# Renders man/*.1 and completions/ from the command-line grammar. Renders the sample output of the section *A lock is
# stuck* in docs/operations.md and dlock-operations(7) from real runs.
generated: ## Render the man pages, the completions and the sample output
	tests/servers/fetch mariadb mysql
	DLOCK_UPDATE=1 $(TEST) --test it -- generated walkthrough

install: all ## Install the program, the man pages and the completions below PREFIX
	install -D -m 755 $(TARGET)/dlock $(DESTDIR)$(PREFIX)/bin/dlock
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man7
	install -m 644 man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 man/*.7 $(DESTDIR)$(PREFIX)/share/man/man7
	install -D -m 644 completions/dlock.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/dlock
	install -D -m 644 completions/_dlock $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_dlock
	install -D -m 644 completions/dlock.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/dlock.fish

clean: ## Remove the build results
	$(CARGO) clean
