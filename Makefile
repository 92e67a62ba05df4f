# The targets for users and developers. Everything that a target needs besides a Rust toolchain is downloaded into a
# cache folder by tests/servers/fetch; nothing is installed on the machine.

CARGO  ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=

# Folder for the files of tests and servers: in memory if 4 GiB are free. After a build, or while another program writes
# much, a flush to a disk can take seconds, which would disturb the tests.
SCRATCH := $(shell [ "$$(df --output=avail -B1G /dev/shm 2>/dev/null | tail -n 1)" -ge 4 ] 2>/dev/null && \
	[ -w /dev/shm ] && echo /dev/shm || echo $${TMPDIR:-/tmp})
test chaos stress: export TMPDIR := $(SCRATCH)

.PHONY: help all check demo test model static chaos stress lint deny bench generated install clean

all: ## Build the release program
	$(CARGO) build --release --locked

help: ## List the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# The inner loop: it starts no server, and takes less than a minute after an edit of one file.
check: ## Check format and lints, and run the unit tests
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --test model -- --deny warnings
	$(CARGO) test --locked --quiet --lib

demo: all ## Let three replicas race for one action on a private server
	examples/demo

# All tests, on MariaDB and MySQL. A test mostly waits, so more tests run at the same time than there are processors.
test: static ## Run all tests, on MariaDB and MySQL
	tests/servers/fetch mariadb mysql faketime
	$(CARGO) build --locked --features mutants --bin dlock-mutant
	$(CARGO) test --locked -- --test-threads=8
	$(CARGO) test --locked --profile model --test model

model: ## Check the model of the protocol
	$(CARGO) test --locked --profile model --test model -- --nocapture --test-threads=1

# dlock as a static program, for one of the tests. It has its own target folder, because other flags would recompile
# everything in the shared one.
static: HOST = $(shell rustc -vV | sed -n 's/^host: //p')
static: ## Build a static program for one of the tests
	RUSTFLAGS='-C target-feature=+crt-static -C relocation-model=static' CARGO_PROFILE_DEV_DEBUG=0 \
		$(CARGO) build --locked --bin dlock --target $(HOST) --target-dir $${CARGO_TARGET_DIR:-target}/static

# Contenders and random faults on real servers, evaluated by checkers; a short run is one of the tests. An example:
# make chaos SECONDS=1800 SEED=7 FLAVOUR=mysql ONLY=kill-parent,…. By default both flavours run at the same time. Before
# that, SEQUENCES random sequences of requests run on the model's server and on both real ones, with the same results.
chaos: SECONDS = 300
chaos: SEQUENCES = 20000
chaos: ## Random faults on real servers (SECONDS=300 SEED= FLAVOUR= ONLY= SEQUENCES=20000)
	tests/servers/fetch mariadb mysql faketime
	DLOCK_SEQUENCES=$(SEQUENCES) DLOCK_SEED=$(SEED) $(CARGO) test --locked --test compare -- do_the_same
	$(CARGO) test --locked --test chaos -- --seconds=$(SECONDS) --seed=$(SEED) --flavour=$(FLAVOUR) --only=$(ONLY)

# Counts how often 30 replicas that start at the same time, and a crontab on 10 machines, get what dlock promises; a
# short run is one of the tests. An example: make stress ROUNDS=20 TICKS=50 SEED=7 TTL=30. Durations are checked too, so
# run it on an idle machine.
stress: ROUNDS = 20
stress: TICKS = 50
stress: TTL = 5
stress: ## Count successes of 30 replicas and of a crontab (ROUNDS=20 TICKS=50 SEED= TTL=5)
	tests/servers/fetch mariadb mysql
	$(CARGO) test --locked --test stress -- --timed --rounds=$(ROUNDS) --ticks=$(TICKS) --seed=$(SEED) --ttl=$(TTL)

# The checks of CI besides the tests.
lint: deny ## Run the checks of CI besides the tests
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --test model -- --deny warnings
	$(CARGO) clippy --locked --features mutants -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --locked --no-deps --document-private-items

# The first run compiles cargo-deny, which takes a minute or two. deny.toml has the rules.
deny: ## Check licences, versions and sources of dependencies
	deny=$$(tests/servers/fetch --path cargo-deny) && \
		"$$deny" --locked check --deny warnings bans licenses sources

# dlock compared with etcdctl, flock and a program without a lock: the cost of one exec, the queue, and dlock status.
bench: ## Measure dlock beside etcdctl and flock
	tests/servers/fetch mariadb mysql etcd
	$(CARGO) bench --locked --bench exec --bench queue --bench status

# Renders man/ and completions/ from the command-line grammar, and the walk-through of a stuck lock in README.md and
# dlock(7) from a real run.
generated: ## Render man pages, completions and the walk-through
	tests/servers/fetch mariadb mysql
	DLOCK_UPDATE=1 $(CARGO) test --locked --test it -- generated walkthrough

install: all ## Install program, man pages and completions below PREFIX
	install -D -m 755 target/release/dlock $(DESTDIR)$(PREFIX)/bin/dlock
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man7
	install -m 644 man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 man/*.7 $(DESTDIR)$(PREFIX)/share/man/man7
	install -D -m 644 completions/dlock.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/dlock
	install -D -m 644 completions/_dlock $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_dlock
	install -D -m 644 completions/dlock.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/dlock.fish

clean: ## Remove what was built
	$(CARGO) clean
