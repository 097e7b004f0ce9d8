# What benches between null devices share; they source it. Sets `heddle`, `core`, `other` and `work`, where networks have their sockets.
# Callers set `here`, the project's folder.
# shellcheck shell=bash disable=SC2034,SC2154
heddle=${HEDDLE:-${CARGO_TARGET_DIR:-$here/target}/release/heddle}
core=${CORE:-$(($(nproc) - 1))}
other=$(((core + 1) % $(nproc)))
work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-bench.XXXXXX")
export XDG_RUNTIME_DIR=$work
finish() {
    "$heddle" down bench >"$work/down" 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

[[ -x $heddle ]] || { echo "no $heddle. hint: cargo build --release" >&2; exit 1; }
if ! command -v dpdk-testpmd >/dev/null; then
    if ! apt-get install -y dpdk-dev >"$work/apt" 2>&1; then
        cat "$work/apt" >&2
        echo "there is no dpdk-testpmd. hint: install Debian's dpdk-dev" >&2
        exit 1
    fi
fi

# about ROUNDS SECONDS: where and how it is measured.
about() {
    echo "$(date -u +%F), $(nproc) CPUs, $(dpkg-query -W -f 'DPDK ${Version}' dpdk-dev 2>/dev/null || echo DPDK), load $(cut -d' ' -f1 /proc/loadavg), $1 rounds of $2 s"
}

# Frames that have come from hosts that are called source.., and when, in nanoseconds.
sent() {
    local frames
    frames=$("$heddle" show counters bench -o json | jq '[.[] | select(.from | startswith("source")) | .packets] | add')
    echo "$frames $(date +%s%N)"
}

# heddle_mpps WORKERS CORES SECONDS: Mpps that the sources of the fabric file on standard input send.
heddle_mpps() {
    cat >"$work/bench.fabric.yaml"
    HEDDLE_WORKERS=$1 taskset -c "$2" "$heddle" up "$work/bench.fabric.yaml" --name bench >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
    sleep 0.5
    local before after
    before=$(sent)
    sleep "$3"
    after=$(sent)
    "$heddle" down bench >/dev/null 2>&1
    echo "$before $after" | awk '{ printf "%.2f\n", ($3 - $1) / ($4 - $2) * 1e3 }'
}

# Median, least and most of a file of numbers.
summary() {
    sort -n "$1" | awk '{ x[NR] = $1 } END { m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2; print m, x[1], x[NR] }'
}
