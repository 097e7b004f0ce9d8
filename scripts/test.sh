#!/usr/bin/env bash
# Runs all tests of the workspace: with cargo-nextest, which does not wait for one program's last test before it starts the next
# program's first (.config/nextest.toml). Where it cannot be had, `cargo test` runs the same tests, and takes longer.
#
#   scripts/test.sh [ARGUMENT...]      the arguments are cargo test's for what to build: --locked
set -euo pipefail
cd "$(dirname "$0")/.."

what=("$@" --workspace --lib --bins --tests)
cores=$(nproc)
if tools=$(scripts/tools.sh) && PATH=$tools:$PATH command -v cargo-nextest >/dev/null; then
    # A core has one test that computes and two that wait.
    export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$((3 * cores))}
    PATH=$tools:$PATH exec cargo nextest run "${what[@]}"
fi
echo "test.sh: without cargo-nextest the tests take longer" >&2
RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * cores))} exec cargo test "${what[@]}"
