#!/usr/bin/env bash
# The controllers' log against raft-engine and against a bare write and fdatasync, A B A B: `benches/log.sh [ROUNDS]`.
# Prints medians over the rounds. Each system has an empty folder and a disk that has nothing else to do when its turn
# begins; turns that other processes disturbed do not count, or are marked if there are too few others. TMPDIR=/a/folder
# chooses the file system; MINUTES=N ends after so long with what there is; WAIT=N waits at most so many seconds before
# each turn for the CPUs to be idle (15).
set -euo pipefail
rounds=${1:-9}
here=$(cd "$(dirname "$0")/.." && pwd)
built=$here/target/log-bench

work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-log.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
if [ "$(stat -f -c %T "$work")" = tmpfs ]; then
    echo "$work is in memory, where syncing costs nothing. hint: TMPDIR=/a/folder/on/disk benches/log.sh" >&2
    exit 1
fi
cargo build --quiet --release --locked --manifest-path "$here/benches/log/Cargo.toml" --target-dir "$built"
echo "$(date -u +%F), $(nproc) CPUs, Linux $(uname -r), $(stat -f -c %T "$work"), load $(cut -d' ' -f1 /proc/loadavg), $rounds rounds"
"$built/release/log-bench" "$work/turn" "$rounds"
