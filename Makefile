# Every target sets up what it needs: the virtual environment .venv, what pyproject.toml lists, the Rust toolchain
# that rust-toolchain.toml names, and the extension module. Stamps record what is done.

PYTHON ?= python3

# The requested Python if there is one; otherwise any that is new enough.
PYTHONS = $(PYTHON) $(if $(filter file,$(origin PYTHON)),python3.14 python3.13 python3.12 python3.11 python3.10)
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
LAKE := $(VENV)/lake/bin
# The extension module is up to date: RELEASE as users get it, QUICK in that profile or better, ANY in any profile.
RELEASE := $(STAMPS)/release
QUICK := $(STAMPS)/quick
ANY := $(STAMPS)/any
RUST := $(shell find src crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock rust-toolchain.toml
# The toolchain in use is written to a file, since it is unknown until its recipe has run.
WITH_RUST = RUSTUP_TOOLCHAIN="$$(cat "$(CURDIR)/$(STAMPS)/toolchain")"
FUZZ ?= $(notdir $(basename $(wildcard fuzz/fuzz_targets/*)))
FUZZ_SECONDS ?= 60
# Tests of the kernels that Miri interprets.
MIRI ?= simd:: kernels:: memory::
WITH_MIRI := MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=8 RUST_BACKTRACE=0
# Of each room, so many mutants, which SEED draws.
MUTANTS ?= 150
MUTANTS_SEED ?= 1
# How long tests in Python run on each mutant. GO_ON=1 with more seconds than before tries again what was missed.
MUTANTS_SECONDS ?= 30
ROOMS ?= window slice operator/stream aggregate
# Installed by cargo.
CARGO_MUTANTS := 27.1.0
HUNTS ?= 5
SIMULATION_SECONDS ?= 180
STREAM_SECONDS ?= 600
# The profile of Cargo by which `make wheel` compiles.
WHEEL ?= release
# Processes that run tests; each one that runs Spark tests has its own session.
WORKERS ?= 2
INSTALL := python -m pip install --quiet --disable-pip-version-check
PIP := $(BIN)/$(INSTALL)
# Files in the order of their names, so that Spark's, which take longest, come before the others.
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
CLIPPY = $(WITH_RUST) PYO3_PYTHON="$(CURDIR)/$(BIN)/python" cargo clippy --locked --features windowkit/python
WITH_VENV = VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(BIN):$$PATH"
DEVELOP = $(WITH_RUST) $(WITH_VENV) maturin develop --locked

.PHONY: help demo live test lake check hunt hunt-streams miri threads cross fuzz coverage mutants bench bench-full lint format docs wheel \
	release-check deny audit advisories locks third-party clean java
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do \
		printf '  make %-14s%s\n' "$$name" "$$text"; done

demo: java $(QUICK)  ## New York's flights of 2013 in windows: windowkit beside Spark's own functions
	@$(BIN)/python examples/flights.py

live: java $(QUICK)  ## flights replayed into Kafka, and a Spark stream over them that is killed and resumes: live.png grows
	@$(BIN)/python examples/live.py

test: java $(QUICK) $(STAMPS)/spark.jsa  ## all tests of the Rust core, the Python package and Spark
	$(WITH_RUST) cargo test --locked --workspace
	$(BIN)/python -m pytest $(PARALLEL)

lake: java $(QUICK) $(STAMPS)/lake  ## the tests of Delta and Iceberg tables, with the pyspark and the jars that these need: some minutes
	PYTHONPATH="$(CURDIR)/python" $(LAKE)/python -m pytest -o addopts=--import-mode=importlib tests/lake

check: $(STAMPS)/toolchain $(STAMPS)/python  ## format, lints, types and quick tests, after each edit: no Spark, no random examples
	$(WITH_RUST) cargo fmt --all --check
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --quiet --check
	$(BIN)/mypy
	$(CLIPPY) --lib -- -D warnings
	@# Without optimisations, tests of the SIMD kernels take as long as all others, and so do those of all techniques.
	$(WITH_RUST) cargo test --locked --quiet --lib --workspace -- --skip simd:: --skip all_are_the_definition
	@$(MAKE) --no-print-directory $(ANY)
	$(BIN)/python -m pytest -q $(PARALLEL) -m 'not slow and not hypothesis' --ignore tests/spark

hunt: $(QUICK)  ## new simulations for SIMULATION_SECONDS (180), and the property tests HUNTS (5) times over new examples
	cd tests && ../$(BIN)/python -m support.simulation --seconds $(SIMULATION_SECONDS)
	@for hunt in $$(seq $(HUNTS)); do \
		$(BIN)/python -m pytest -q -m hypothesis --ignore tests/spark --hypothesis-profile=hunt tests || exit 1; \
	done

hunt-streams: java $(QUICK)  ## a Spark stream that is killed at random moments, over and over for STREAM_SECONDS (600)
	cd tests && ../$(BIN)/python -m support.killed_streams --seconds $(STREAM_SECONDS)

miri: $(STAMPS)/miri  ## code with `unsafe` interpreted by Miri, which finds undefined behaviour: some minutes; MIRI=memory:: fewer
	@# Interpreted, a case of a property test takes seconds, and so does a backtrace.
	$(WITH_RUST) $(WITH_MIRI) cargo miri test --locked --lib -p windowkit-kernels -- $(MIRI)
	$(WITH_RUST) $(WITH_MIRI) cargo miri test --locked --lib -p windowkit -- import:: shared::

threads: $(STAMPS)/miri  ## what threads share, under ThreadSanitizer, which finds races: some minutes
	@# The standard library is compiled with it, too: what that synchronises would otherwise be taken for races.
	$(WITH_RUST) bash -euc '\
		export RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/threads; \
		cargo -Zbuild-std test --locked --profile edit --target "$$(rustc -vV | sed -n "s/^host: //p")" \
			-p windowkit --lib --test threads -- shared:: interrupt:: several share'

cross: $(STAMPS)/cross  ## the Rust core for 64-bit Arm, whose vectors are NEON: checked by the compiler, not run
	$(WITH_RUST) cargo check --locked --lib --target aarch64-unknown-linux-gnu

fuzz: $(STAMPS)/fuzz  ## each fuzz target for FUZZ_SECONDS (60); FUZZ="sums simd" names some
	@for target in $(FUZZ); do \
		if [ -e "fuzz/fuzz_targets/$$target.py" ]; then run="$(BIN)/python fuzz/fuzz_targets/$$target.py"; \
		else \
			mkdir -p "fuzz/found/$$target" "fuzz/corpus/$$target"; \
			run="cargo fuzz run $$target $(CURDIR)/fuzz/found/$$target $(CURDIR)/fuzz/corpus/$$target --"; \
		fi; \
		echo "$$run"; \
		$(WITH_RUST) $(WITH_VENV) $$run -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

# The module that is measured is slow, and is replaced when another target wants one.
coverage: java $(STAMPS)/coverage  ## lines of Rust and Python that tests run, those of Spark included: an hour or two
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { \
		echo "error: coverage needs Python 3.12 or newer: make clean, then make coverage PYTHON=python3.12" >&2; exit 1; }
	@rm -f $(RELEASE) $(QUICK) $(ANY) .coverage.*
	$(WITH_RUST) $(WITH_VENV) bash -euc '\
		eval "$$(cargo llvm-cov show-env --sh)"; \
		cargo llvm-cov clean --workspace; \
		cargo test --locked --profile edit --workspace --exclude windowkit-baselines; \
		maturin develop --locked --profile edit --skip-install; \
		coverage run -m pytest $(PARALLEL); \
		cargo llvm-cov report --profile edit --ignore-filename-regex "baselines|fuzz" > target/coverage-rust.txt'
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report --show-missing > target/coverage-python.txt
	@tail -n 1 target/coverage-rust.txt target/coverage-python.txt

mutants: $(STAMPS)/mutants  ## MUTANTS (150) changes of Rust in each of ROOMS that the quick tests should notice: an hour or two
	cd tests && $(WITH_RUST) $(WITH_VENV) ../$(BIN)/python -m support.mutants \
		--count $(MUTANTS) --seed $(MUTANTS_SEED) --rooms $(ROOMS) --workers $(WORKERS) \
		--seconds $(MUTANTS_SECONDS) $(if $(GO_ON),--go-on)

bench: java $(RELEASE) $(STAMPS)/bench  ## a quick run of the benchmarks, some ten minutes; pages and pictures in target/bench
	$(WITH_RUST) cargo bench --locked --workspace
	$(BIN)/python benchmarks/local_grid.py --keys 16,1024 --output target/bench/local.md
	$(WITH_RUST) $(BIN)/python benchmarks/kernels.py --quick --output target/bench/kernels.md
	$(WITH_RUST) $(BIN)/python benchmarks/slicing.py --quick --output target/bench/slicing.md
	$(WITH_RUST) $(BIN)/python benchmarks/disorder.py --quick --output target/bench/disorder.md
	$(BIN)/python benchmarks/spark_grid.py --cells '16 keys*' '1024 keys*' --sides spark windowkit --repeats 1 --record \
		--skip-spark-over 10 --output target/bench/spark.md

bench-full: java $(RELEASE) $(STAMPS)/bench  ## every cell of the Python benchmarks, recorded in docs/benchmarks: some hours
	$(BIN)/python benchmarks/local_grid.py
	$(WITH_RUST) $(BIN)/python benchmarks/kernels.py
	$(WITH_RUST) $(BIN)/python benchmarks/slicing.py
	$(WITH_RUST) $(BIN)/python benchmarks/disorder.py
	$(BIN)/python benchmarks/partition.py
	$(BIN)/python benchmarks/spark_grid.py --record
	$(BIN)/python benchmarks/rolling_spark.py --record
	$(BIN)/python benchmarks/joins_spark.py --record
	$(BIN)/python benchmarks/planning.py --record
	$(BIN)/python benchmarks/spark_stages.py
	$(BIN)/python benchmarks/spark_memory.py
	$(BIN)/python benchmarks/partition_spark.py
	$(BIN)/python benchmarks/spark_streams.py --record

lint: $(STAMPS)/toolchain $(STAMPS)/python  ## formatting, lints and types, warnings denied
	$(WITH_RUST) cargo fmt --all --check
	@# Apart from each other: the extension module has an allocator, and so have the benchmarks of the baselines.
	$(WITH_RUST) cargo clippy --locked --workspace --all-targets -- -D warnings
	$(CLIPPY) --lib -- -D warnings
	@# A workspace of its own. The targets are not linked, so libFuzzer, which is in C++, need not be compiled.
	$(WITH_RUST) cargo fmt --manifest-path fuzz/Cargo.toml --check
	$(WITH_RUST) CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a CARGO_TARGET_DIR=target/fuzz \
		cargo clippy --locked --manifest-path fuzz/Cargo.toml -- -D warnings
	$(WITH_RUST) RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(STAMPS)/toolchain $(STAMPS)/python  ## format Rust and Python, and apply ruff's fixes
	$(WITH_RUST) cargo fmt --all
	$(WITH_RUST) cargo fmt --manifest-path fuzz/Cargo.toml
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(STAMPS)/docs  ## the documentation as a site, in site; a broken link is an error
	$(BIN)/zensical build --clean --strict
	@if grep -rlE '(src|<link[^>]* href)="?(https?:)?//' --include '*.html' site; then \
		echo "error: these pages load something from elsewhere" >&2; exit 1; fi

wheel: $(STAMPS)/toolchain $(STAMPS)/python  ## a wheel for every Python from 3.10 on, in dist
	@rm -rf dist
	$(WITH_RUST) $(WITH_VENV) maturin build --profile $(WHEEL) --locked --compression-level 9 --out dist

# What the release workflow does for one system: the wheel is compiled from the source distribution alone.
release-check: java $(STAMPS)/toolchain $(STAMPS)/release-tools  ## a wheel for glibc 2.28 and a source distribution, in dist, checked and tried
	@rm -rf dist target/sdist && mkdir -p target/sdist
	$(WITH_RUST) $(WITH_VENV) maturin sdist --out dist
	tar -xzf dist/*.tar.gz --strip-components 1 -C target/sdist
	cd target/sdist && $(WITH_RUST) $(WITH_VENV) CARGO_TARGET_DIR="$(CURDIR)/target/zig" \
		maturin build --release --locked --compression-level 9 --zig --compatibility manylinux_2_28 --out "$(CURDIR)/dist"
	$(BIN)/twine check --strict dist/*
	$(BIN)/abi3audit --strict --report dist/*.whl
	$(BIN)/auditwheel show dist/*.whl
	for python in $(PYTHONS); do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue; \
		.ci/smoke "$$python" dist/*.whl oldest && .ci/smoke "$$python" dist/*.whl || exit 1; \
	done
	for spark in 4.0 4.1 4.2 4.3; do \
		.ci/smoke $(BIN)/python dist/*.whl "pyspark[connect]==$$spark.*" "pandas>=2.2,<3" || exit 1; \
	done

deny: $(STAMPS)/audit $(STAMPS)/toolchain  ## licences, bans and sources of the Rust crates, as deny.toml has them
	$(WITH_RUST) cargo fetch --quiet --locked
	$(WITH_RUST) $(WITH_VENV) cargo deny --offline --locked check licenses bans sources

# An advisory that cannot be looked up fails: a release says that there is none.
audit: deny  ## what is known against crates and locked Python packages: both databases are fetched
	@$(WITH_RUST) $(WITH_VENV) cargo deny --locked fetch db || { \
		echo "error: the advisories of Rust cannot be fetched; they have not been checked" >&2; exit 1; }
	$(WITH_RUST) $(WITH_VENV) cargo deny --offline --locked check advisories
	@for lock in .ci/locks/*.txt; do \
		echo "pip-audit -r $$lock"; \
		$(BIN)/pip-audit --progress-spinner off --strict --disable-pip --require-hashes -r $$lock || { \
			echo "error: packages of $$lock have advisories, or these cannot be fetched; see the lines above" >&2; \
			exit 1; }; \
	done

advisories: $(STAMPS)/audit  ## the same for Python packages alone, as far as their database can be reached
	@$(BIN)/python .ci/advisories.py

locks: $(STAMPS)/audit  ## the hashed versions that releases are made with, .ci/locks, anew: the newest that fit
	$(PIP) uv
	@# The oldest Python that each may run with.
	for lock in dist:3.10 release:3.10 audit:3.10 docs:3.11; do \
		$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url \
			--python-version "$${lock#*:}" --group "$${lock%:*}" --output-file ".ci/locks/$${lock%:*}.txt" || exit 1; \
	done

third-party: $(STAMPS)/toolchain  ## the licences of what is compiled in, THIRD-PARTY.txt, after changes to Cargo.lock
	cd tests && RUSTUP_TOOLCHAIN="$$(cat ../$(STAMPS)/toolchain)" ../$(BIN)/python -m support.crates

clean:  ## remove everything that make has made, the environment included
	rm -rf $(VENV) target dist site .cache python/windowkit/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log flights.png live.png .coverage*
	find python tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

# Set-up.

$(STAMPS):
	@for python in $(PYTHONS); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then \
			echo "$$python -m venv $(VENV)"; \
			"$$python" -m venv $(VENV) && mkdir -p $@ && exit; \
			echo "error: no virtual environment could be made; on Debian: apt-get install python3-venv" >&2; \
			exit 1; \
		fi; \
	done; \
	echo "error: no Python 3.10 or newer is among: $(PYTHONS); make PYTHON=/path/to/python3 names one" >&2; exit 1

$(STAMPS)/maturin: pyproject.toml | $(STAMPS)/toolchain
	$(PIP) --upgrade 'pip>=26.2'
	$(PIP) --group build
	@touch $@

# maturin tells pip what windowkit and its extras need, which compiles nothing; then the tools, so that they fit it.
# Compiling needs maturin alone: where a target wants a PROFILE, that is compiled meanwhile. What fails there fails
# again, and is reported, in the recipe of the target.
$(STAMPS)/python: pyproject.toml | $(STAMPS)/maturin
	@$(if $(PROFILE),$(DEVELOP) $(PROFILE) --skip-install &) \
	echo "$(PIP) ..."; \
	$(WITH_RUST) $(WITH_VENV) $(PIP) --only-deps '.[spark,plot]' && $(PIP) --group dev; \
	installed=$$?; wait; exit $$installed
	@touch $@

# Classes of Spark as JVMs of the tests load them, many of which run a query or two: they start in two thirds of the time.
$(STAMPS)/spark.jsa: tests/support/spark_classes.py | $(STAMPS)/python
	$(BIN)/python $< $@

# An environment of its own, as its pyspark is another one.
$(STAMPS)/lake: pyproject.toml | $(STAMPS)/toolchain $(STAMPS)/maturin
	$(BIN)/python -m venv $(VENV)/lake
	$(LAKE)/$(INSTALL) --upgrade 'pip>=26.2'
	$(LAKE)/$(INSTALL) --group lake
	$(WITH_RUST) $(WITH_VENV) $(LAKE)/$(INSTALL) --only-deps '.[spark]'
	@touch $@

$(STAMPS)/bench: $(STAMPS)/python
	$(PIP) --group bench
	@touch $@

$(STAMPS)/release-tools: .ci/locks/release.txt $(STAMPS)/python
	$(PIP) --require-hashes -r $<
	@touch $@

$(STAMPS)/docs: .ci/locks/docs.txt $(STAMPS)/python
	$(PIP) --require-hashes -r $<
	@touch $@

$(STAMPS)/audit: .ci/locks/audit.txt | $(STAMPS)
	$(PIP) --require-hashes -r $<
	@touch $@

$(STAMPS)/miri: $(STAMPS)/toolchain
	rustup component add --toolchain "$$(cat $(STAMPS)/toolchain)" miri rust-src
	@touch $@

$(STAMPS)/cross: $(STAMPS)/toolchain
	rustup target add --toolchain "$$(cat $(STAMPS)/toolchain)" aarch64-unknown-linux-gnu
	@touch $@

$(STAMPS)/fuzz: $(ANY)
	$(PIP) --group fuzz
	@touch $@

$(STAMPS)/coverage: $(STAMPS)/python
	$(PIP) --group coverage
	rustup component add --toolchain "$$(cat $(STAMPS)/toolchain)" llvm-tools
	@touch $@

$(STAMPS)/mutants: $(STAMPS)/python
	$(PIP) --group mutants
	command -v cargo-mutants >/dev/null || \
		$(WITH_RUST) cargo install --quiet --locked --root $(VENV) cargo-mutants@$(CARGO_MUTANTS)
	@touch $@

# Where the pinned nightly cannot be fetched, the installed one is used.
$(STAMPS)/toolchain: rust-toolchain.toml | $(STAMPS)
	@command -v rustup >/dev/null || { \
		echo "error: rustup, Rust's installer, is missing; https://rustup.rs says how to get it" >&2; exit 1; }
	@pinned=$$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml); \
	complete() { \
		rustup run "$$1" cargo fmt --version && rustup run "$$1" cargo clippy --version; \
	} >/dev/null 2>&1; \
	if complete "$$pinned" || { \
		rustup toolchain install "$$pinned" --profile minimal --component rustfmt --component clippy \
		&& complete "$$pinned"; }; \
	then echo "$$pinned" > $@; \
	elif complete nightly; then \
		echo "warning: Rust $$pinned cannot be fetched; the installed nightly is used" >&2; \
		echo nightly > $@; \
	else \
		echo "error: Rust $$pinned cannot be fetched, and no other nightly is installed; see the lines above" >&2; \
		exit 1; \
	fi

$(RELEASE): PROFILE = --release
$(RELEASE): $(STAMPS)/toolchain $(STAMPS)/python $(RUST)
	$(DEVELOP) $(PROFILE)
	@touch $@ $(QUICK) $(ANY)

$(QUICK): PROFILE = --profile quick
$(QUICK): $(STAMPS)/toolchain $(STAMPS)/python $(RUST)
	@rm -f $(RELEASE)
	$(DEVELOP) $(PROFILE)
	@touch $@ $(ANY)

$(ANY): PROFILE = --profile edit
$(ANY): $(STAMPS)/toolchain $(STAMPS)/python $(RUST)
	@rm -f $(RELEASE) $(QUICK)
	$(DEVELOP) $(PROFILE)
	@touch $@

java:
	@java=java; if [ -n "$$JAVA_HOME" ]; then java="$$JAVA_HOME/bin/java"; fi; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	[ "$${version:-0}" -ge 17 ] || { \
		echo "error: Spark needs Java 17 or newer; on Debian: apt-get install openjdk-17-jre-headless" >&2; \
		exit 1; }
