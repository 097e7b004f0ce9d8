#!/usr/bin/env bash
# The kernel's TCP against the simulated one, segment by segment (docs/tcp.md).
#
#   benches/segments.sh [NAME [PLAYS]]      all scripts, or those whose names begin so; three plays each
#   benches/segments.sh FILE.txt [PLAYS]    scripts of another file
#   benches/segments.sh trace NAME          one play, both traces side by side
#   benches/segments.sh random SEED COUNT   prints so many scripts by chance, of paths that lose packets
#
# Needs root, `ip` and /dev/net/tun; other programs that want all cores make live plays late. Exit status 1: a script differs in most of its plays.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cargo build --release --quiet --locked --manifest-path "$here/Cargo.toml" --package heddle-live --bin heddle-live-testbed
testbed=${CARGO_TARGET_DIR:-$here/target}/release/heddle-live-testbed
case ${1:-} in
trace) exec "$testbed" trace "${2:?which script?}" ;;
random) exec "$testbed" random "${2:?which seed?}" "${3:?how many?}" ;;
*) exec "$testbed" segments "$@" ;;
esac
