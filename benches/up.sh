#!/usr/bin/env bash
# How long `heddle up` of a k = 4 fat-tree takes, and what its process uses while nothing happens: `benches/up.sh [ROUNDS] [SECONDS]`.
# Needs a release build of heddle, and jq.
set -euo pipefail
rounds=${1:-5} seconds=${2:-10}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-$here/target/release/heddle}
XDG_RUNTIME_DIR=$(mktemp -d)
export XDG_RUNTIME_DIR
finish() {
    "$heddle" down --all >/dev/null 2>&1 || true
    rm -rf "$XDG_RUNTIME_DIR"
}
trap finish EXIT

ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
for round in $(seq "$rounds"); do
    begin=$(date +%s%N)
    "$heddle" up "$here/fabrics/fat-tree.fabric.yaml" >/dev/null 2>&1
    end=$(date +%s%N)
    pid=$(jq .pid "$XDG_RUNTIME_DIR/heddle/fat-tree/state.json")
    before=$(ticks "$pid")
    sleep "$seconds"
    after=$(ticks "$pid")
    awk -v r="$round" -v ms=$(((end - begin) / 1000000)) -v t=$((after - before)) -v s="$seconds" -v hz="$(getconf CLK_TCK)" \
        'BEGIN { printf "round %d: up in %d ms, idle CPU %.2f %%\n", r, ms, 100 * t / hz / s }'
    "$heddle" down >/dev/null
done
