#!/usr/bin/env bash
# Runs the fuzz targets one after the other. It needs a stable compiler and a C++ compiler (for libFuzzer), nothing else.
#
#   scripts/fuzz.sh SECONDS [TARGET...]      each target for so long; all targets if none is named
#
# What is found lies in fuzz/artifacts/TARGET. To run one input again:
#   scripts/fuzz.sh --replay TARGET FILE
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

host=$(rustc -vV | sed -n 's/^host: //p')
output=${CARGO_TARGET_DIR:-fuzz/target}/fuzz

# libFuzzer sees what a run covers through counters that the compiler puts in (as cargo-fuzz does with -s none).
# --target keeps them out of build scripts and macros.
build() {
    RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code --cfg fuzzing -Ccodegen-units=1" \
        cargo build --manifest-path fuzz/Cargo.toml --target-dir "$output" --target "$host" --release --bins
}

[[ $# -ge 1 ]] || usage
if [[ $1 == --replay ]]; then
    [[ $# -eq 3 ]] || usage
    build
    exec "$output/$host/release/$2" "$3"
fi

seconds=$1
[[ $seconds =~ ^[1-9][0-9]*$ ]] || usage
shift
if [[ $# -gt 0 ]]; then targets=("$@"); else mapfile -t targets < <(basename -s .rs fuzz/targets/*.rs); fi

build
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    corpus=fuzz/corpus/$target
    artifacts=fuzz/artifacts/$target
    mkdir -p "$corpus" "$artifacts"
    seeds=()
    [[ -d fuzz/seeds/$target ]] && seeds+=("fuzz/seeds/$target")
    options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1)
    options+=(-artifact_prefix="$artifacts/")
    [[ -f fuzz/$target.dict ]] && options+=(-dict="fuzz/$target.dict")
    # The examples are the best seeds that a parser of files can have.
    [[ $target == fabric_file ]] && seeds+=(fabrics)
    log=$(mktemp)
    status=0
    "$output/$host/release/$target" "${options[@]}" "$corpus" "${seeds[@]}" >"$log" 2>&1 || status=$?
    if [[ $status -ne 0 ]]; then
        tail -n 60 "$log" >&2
        rm -f "$log"
        echo "$target: failed; the input lies in $artifacts" >&2
        exit 1
    fi
    grep -E 'DONE|stat::(number_of_executed_units|average_exec_per_sec|new_units_added)' "$log"
    rm -f "$log"
done
