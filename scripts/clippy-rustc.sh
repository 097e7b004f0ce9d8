#!/usr/bin/env bash
# In place of rustc for the crates of this workspace (cargo's RUSTC_WORKSPACE_WRAPPER): clippy's driver compiles as rustc does and lints
# as it goes, so that what is linted is what the tests run, and nothing is compiled twice. A warning is an error.
# Not in sh: dash loses variables with a dash in their names, as CARGO_BIN_EXE_.. has.
set -euo pipefail
# What tests call is optimised where that pays (Cargo.toml's profiles); the tests themselves are not, which takes a quarter of the time for compiling. Those of the simulator compute for minutes.
if [[ " $* " == *" --test "* && " $* " != *" crates/sim/"* ]]; then
    set -- "$@" -C opt-level=0
fi
exec clippy-driver "$@" --deny warnings
