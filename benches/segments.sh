#!/usr/bin/env bash
# The kernel's TCP against the simulated one, segment by segment (docs/tcp.md).
#
#   benches/segments.sh [NAME [PLAYS]]      all scripts, or those whose names begin so; three plays each
#   benches/segments.sh trace NAME          one play, both traces side by side
#
# Needs root, `ip` and /dev/net/tun; other programs that want all cores make live plays late. Exit status 1: a script differs in most of its plays.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cargo build --release --quiet --locked --manifest-path "$here/Cargo.toml" --package heddle-live --bin heddle-live-testbed
testbed=${CARGO_TARGET_DIR:-$here/target}/release/heddle-live-testbed
if [[ ${1:-} == trace ]]; then
    exec "$testbed" trace "${2:?which script?}"
fi
exec "$testbed" segments "$@"
