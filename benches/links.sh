#!/usr/bin/env bash
# Whether live links carry what they should, and no more: TCP over three links, over a bond, UDP as fast as it goes.
#
#   benches/links.sh       needs a release build, iperf3, and nothing else running; HEDDLE names another program
#
# Exit status 1: an expectation of a file in benches/links was missed.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-$here/target/release/heddle}
[[ -x $heddle ]] || { echo "no $heddle. hint: cargo build --release" >&2; exit 3; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
status=0
for file in "$here"/benches/links/*.fabric.yaml; do
    echo "== $(basename "$file")"
    "$heddle" run "$file" --quiet || status=$?
done
exit "$status"
