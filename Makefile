# What a person types. Everything that a target needs and that is not a Rust toolchain is fetched
# by tests/servers/fetch into a cache folder; nothing is installed on the machine.

CARGO  ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=

# Where the tests and their servers put their files: in memory if there is room for 4 GiB. After a build, or beside
# another program that writes much, a flush to a disk can take seconds, and the tests are not about that.
SCRATCH := $(shell [ "$$(df --output=avail -B1G /dev/shm 2>/dev/null | tail -n 1)" -ge 4 ] 2>/dev/null && \
	[ -w /dev/shm ] && echo /dev/shm || echo $${TMPDIR:-/tmp})
test chaos rounds: export TMPDIR := $(SCRATCH)

.PHONY: help all check demo test model static chaos rounds lint bench generated install clean

all: ## Build the release program
	$(CARGO) build --release --locked

help: ## List the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# The inner loop: no server, and under a minute after an edit of one file.
check: ## Check format and lints, and run the unit tests
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --test model -- --deny warnings
	$(CARGO) test --locked --quiet --lib

demo: all ## Let three replicas race for one action on a private server
	examples/demo

# Everything, on MariaDB and MySQL. Most of a test is waiting, so more run at once than there are
# processors.
test: static ## Run all tests, on MariaDB and MySQL
	tests/servers/fetch mariadb mysql faketime
	$(CARGO) build --locked --features twins --bin dlock-twin
	$(CARGO) test --locked -- --test-threads=8
	$(CARGO) test --locked --profile model --test model

model: ## Check the model of the protocol
	$(CARGO) test --locked --profile model --test model -- --nocapture --test-threads=1

# dlock as a static program, for one of the tests. In a folder of its own, since the flags would have everything else
# compiled again.
static: HOST = $(shell rustc -vV | sed -n 's/^host: //p')
static: ## Build a static program for one of the tests
	RUSTFLAGS='-C target-feature=+crt-static -C relocation-model=static' CARGO_PROFILE_DEV_DEBUG=0 \
		$(CARGO) build --locked --bin dlock --target $(HOST) --target-dir $${CARGO_TARGET_DIR:-target}/static

# Contenders and random faults on real servers, judged by checkers; a short run is one of the tests.
# make chaos SECONDS=1800 SEED=7 FLAVOUR=mysql ONLY=kill-front,…; by default both flavours side by side. Before that
# SEQUENCES=20000 random sequences of requests on the model's server and on both real ones, which have to do the same.
chaos: SECONDS = 300
chaos: SEQUENCES = 20000
chaos: ## Random faults on real servers (SECONDS=300 SEED= FLAVOUR= ONLY= SEQUENCES=20000)
	tests/servers/fetch mariadb mysql faketime
	DLOCK_SEQUENCES=$(SEQUENCES) DLOCK_SEED=$(SEED) $(CARGO) test --locked --test compare -- do_the_same
	$(CARGO) test --locked --test chaos -- --seconds=$(SECONDS) --seed=$(SEED) --flavour=$(FLAVOUR) --only=$(ONLY)

# What is promised to 30 replicas that start at once, and to a crontab on 10 machines, counted; a short run is one of
# the tests. make rounds ROUNDS=20 TICKS=50 SEED=7 TTL=30; the time counts too, so give it the machine for itself.
rounds: ROUNDS = 20
rounds: TICKS = 50
rounds: TTL = 5
rounds: ## Count successes of 30 replicas and of a crontab (ROUNDS=20 TICKS=50 SEED= TTL=5)
	tests/servers/fetch mariadb mysql
	$(CARGO) test --locked --test rounds -- --timed --rounds=$(ROUNDS) --ticks=$(TICKS) --seed=$(SEED) --ttl=$(TTL)

# What CI asks beyond the tests.
lint: ## Check what CI checks beside the tests
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --test model -- --deny warnings
	$(CARGO) clippy --locked --features twins -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --locked --no-deps --document-private-items

# dlock beside etcdctl, flock and nothing at all, in one run: what one exec costs, the line, and a look at the locks.
bench: ## Measure dlock beside etcdctl and flock
	tests/servers/fetch mariadb mysql etcd
	$(CARGO) bench --locked --bench exec --bench line --bench status

# Renders man/ and completions/ anew from the grammar, and writes what README.md and dlock(7) show of a stuck lock from
# a real run.
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
