# Everything that is done more than once. `make help` lists it. CARGO_TARGET_DIR is honoured.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Builds use the versions of Cargo.lock. `make CARGO_FLAGS= test` lets cargo change it.
CARGO_FLAGS ?= --locked
PREFIX ?= /usr/local
DESTDIR ?=
# Seconds for each fuzz target.
SECONDS_EACH ?= 60

target := $(or $(CARGO_TARGET_DIR),target)
heddle := $(target)/release/heddle
# Lints while it compiles.
linted := RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/clippy-rustc.sh

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

.PHONY: demo
demo: ## Install what is missing, build, run the quickstart live and simulated
	@scripts/demo.sh

.PHONY: setup
setup: ## Install what is missing (root), or say what to ask for
	@scripts/setup.sh

# Status 3 says that live runs are not possible here: tests that need them say so themselves.
.PHONY: test
test: ready format clippy ## Format, lints, all tests
	@# Examples are no tests: clippy has compiled them.
	$(linted) scripts/test.sh $(CARGO_FLAGS)

.PHONY: ready
ready:
	@scripts/setup.sh --quiet || [[ $$? -eq 3 ]]

.PHONY: lint
lint: ready format clippy ## Format, lints, licences, advisories, spelling, scripts
	@PATH="$$(scripts/tools.sh):$$PATH"; scripts/lint.sh

.PHONY: format
format:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check

.PHONY: clippy
clippy:
	$(linted) $(CARGO) test $(CARGO_FLAGS) --workspace --all-targets --no-run

.PHONY: where-to-add
where-to-add: ## Add one of each thing that docs/architecture.md says where to add, and test it
	$(linted) scripts/where-to-add.sh

.PHONY: build
build: ## Build the program with optimisation
	$(CARGO) build $(CARGO_FLAGS) --release --package heddle

.PHONY: bench
bench: ## Run the benchmarks of the parts (criterion); docs/benchmarks.md has those of the whole
	$(CARGO) bench $(CARGO_FLAGS) --workspace --benches

.PHONY: twin
twin: ready ## Hold simulated hosts against live ones: 30 files, some forty minutes
	@# One file in twelve may lie apart by chance: five runs cannot tell.
	$(CARGO) run $(CARGO_FLAGS) --profile demo --package heddle -- compare fabrics/twin --overwrite --apart-max 2

.PHONY: fuzz
fuzz: ## Run each fuzz target for SECONDS_EACH=60 seconds
	scripts/fuzz.sh $(SECONDS_EACH)

.PHONY: doc
doc: ## Build the documentation of the crates
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(CARGO_FLAGS) --workspace --no-deps

.PHONY: book
book: build ## Make a book of the docs, with the reference of commands and of the file
	@HEDDLE=$(heddle) scripts/book.sh

.PHONY: python
python: ## Test the Python package, with networks that run
	@scripts/python.sh

.PHONY: dist
dist: ## Make what is handed out, in target/dist: static program, Debian package, OCI image, wheel
	@scripts/dist.sh

.PHONY: dist-try
dist-try: ## Try each of those where nothing else of Heddle is
	@scripts/dist-try.sh

.PHONY: install
install: build ## Install program, manual pages and completions below PREFIX=/usr/local
	install -Dm755 $(heddle) $(DESTDIR)$(PREFIX)/bin/heddle
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	$(heddle) man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(heddle) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/heddle
	$(heddle) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_heddle
	$(heddle) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/heddle.fish

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
	rm -rf fuzz/target fuzz/corpus fuzz/artifacts
