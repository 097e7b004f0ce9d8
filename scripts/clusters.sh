#!/usr/bin/env bash
# Simulates clusters of controllers, seed after seed, with all checks, and goes on where the last call ended.
#
#   scripts/clusters.sh FILE [UNTIL [SECONDS]]     seeds up to UNTIL (200000), for so many seconds at most (86400); FILE keeps what is done
#
# The program is built for this machine, once a commit, and a second time with what a few hundred seeds have shown of it (profile-guided: 1.7 times as fast; it
# takes `rustup component add llvm-tools` and ten minutes). Both builds must do the same to the last event. Exit status 1: a seed is bad.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${1-} || ! ${2-1} =~ ^[0-9]+$ || ! ${3-1} =~ ^[0-9]+$ ]]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
file=$(realpath "$1")
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD || commit+=-dirty
folder=${CARGO_TARGET_DIR:-$PWD/target}/clusters
program=$folder/cluster-$commit
# Huge pages that are cleared again and again would take half of the time.
export MIMALLOC_ALLOW_THP=0 MIMALLOC_PURGE_DELAY=-1

# NAME LTO UNITS FLAGS: builds the program into a folder of its own.
build() {
    CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=$2 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=$3 RUSTFLAGS="-C target-cpu=native $4" \
        cargo build --locked --release --target-dir "$folder/$1" --package heddle-sim --example cluster
}

if [[ ! -x $program || $commit == *-dirty ]]; then
    profdata=$(rustc --print target-libdir)/../bin/llvm-profdata
    [[ -x $profdata ]] || {
        echo "clusters.sh: $profdata is missing" >&2
        echo "hint: rustup component add llvm-tools" >&2
        exit 3
    }
    rm -rf "$folder/profile"
    build first off 4 "-C profile-generate=$folder/profile"
    "$folder/first/release/examples/cluster" 1000000 300
    "$profdata" merge -o "$folder/profile.profdata" "$folder/profile"
    build second fat 1 "-C profile-use=$folder/profile.profdata"
    for build in first second; do
        "$folder/$build/release/examples/cluster" --fingerprints 0 20 >"$folder/$build.fingerprints"
    done
    cmp "$folder/first.fingerprints" "$folder/second.fingerprints"
    cp "$folder/second/release/examples/cluster" "$program"
fi
exec "$program" --resume "$file" --until "${2-200000}" --for "${3-86400}" --commit "$commit"
