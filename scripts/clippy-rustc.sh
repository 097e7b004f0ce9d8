#!/usr/bin/env bash
# In place of rustc for the crates of this workspace (cargo's RUSTC_WORKSPACE_WRAPPER): clippy's driver compiles as rustc does and lints
# as it goes, so that what is linted is what the tests run, and nothing is compiled twice. A warning is an error.
# Not in sh: dash loses variables with a dash in their names, as CARGO_BIN_EXE_.. has.
set -euo pipefail
arguments=" $* "
if [[ $arguments == *" --test "* ]]; then
    # What tests call is optimised where that pays (Cargo.toml's profiles); the tests themselves are not, which takes a quarter of the time for compiling. Those of the simulator compute for minutes.
    if [[ $arguments != *" crates/sim/tests/"* ]]; then
        set -- "$@" -C opt-level=0
    fi
elif [[ $arguments == *" --crate-type lib "* ]]; then
    # Each library is compiled once more with its unit tests in it, and linted there: clippy's lints are a seventh of what it costs.
    exec "$@" --deny warnings
fi
exec clippy-driver "$@" --deny warnings
