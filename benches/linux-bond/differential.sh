# One stream of frames and carrier events through the driver and through Heddle: see crates/live/examples/bond_differential. To be sourced.
# shellcheck shell=bash
# shellcheck disable=SC2154

main() {
    uml --memory 256M -- "${CARGO_TARGET_DIR:-$here/target}/debug/examples/bond_differential" "$@" </dev/null
}
