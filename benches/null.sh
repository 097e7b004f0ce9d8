#!/usr/bin/env bash
# 64-byte frames from null devices through one switch to others: `benches/null.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of frames a second. One row has one destination, the others 1,024, each on a port of its
# own; the last two have two sources, which one worker reads, or two, each on a core of its own: the ratio is that of the same round. DPDK's testpmd moves frames from one net_null device to another in its `io` mode, which looks at nothing, in the same rounds, A B A B.
# Needs jq and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-${CARGO_TARGET_DIR:-$here/target}/release/heddle}
core=${CORE:-$(($(nproc) - 1))}
other=$(((core + 1) % $(nproc)))
work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-null.XXXXXX")
export XDG_RUNTIME_DIR=$work
finish() {
    "$heddle" down null-bench >"$work/down" 2>&1 || true
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

# $1 sinks and $2 sources at one switch. Workers get hosts in the file's order: the sources are the first and the last.
fabric() {
    echo "name: null-bench"
    echo "nodes:"
    echo "  s: switch"
    echo "  source1: { kind: host, devices: ['null:64'] }"
    seq -f "  sink%g: { kind: host, devices: ['null:'] }" "$1"
    [[ $2 = 1 ]] || echo "  source2: { kind: host, devices: ['null:64'] }"
    echo "links:"
    seq -f "  - { between: [source%g, s] }" "$2"
    seq -f "  - { between: [sink%g, s] }" "$1"
}

# Frames that have come from the sources, and when, in nanoseconds.
sent() {
    local frames
    frames=$("$heddle" show counters null-bench -o json | jq '[.[] | select((.from | startswith("source")) and .to == "s") | .packets] | add')
    echo "$frames $(date +%s%N)"
}

# Mpps to $1 destinations from $2 sources, with $3 workers on the cores $4.
ours() {
    fabric "$1" "$2" >"$work/null.fabric.yaml"
    HEDDLE_WORKERS=$3 taskset -c "$4" "$heddle" up "$work/null.fabric.yaml" --name null-bench >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
    sleep 0.5
    local before after
    before=$(sent)
    sleep "$seconds"
    after=$(sent)
    "$heddle" down null-bench >/dev/null 2>&1
    echo "$before $after" | awk '{ printf "%.2f\n", ($3 - $1) / ($4 - $2) * 1e3 }'
}

dpdk() {
    {
        echo start
        sleep 0.3
        echo 'show port stats 0'
        sleep "$seconds"
        printf '%s\n' 'show port stats 0' stop quit
    } | dpdk-testpmd -l "$other,$core" --main-lcore "$other" --no-pci --no-huge --no-shconf --no-telemetry -m 256 \
        --vdev net_null0,size=64 --vdev net_null1,size=64,no-rx=1 -- -i --portlist=0,1 --nb-cores=1 --burst=32 \
        --total-num-mbufs=8192 >"$work/testpmd" 2>&1 || { cat "$work/testpmd" >&2; return 1; }
    awk '/Rx-pps:/ { pps = $2 } END { if (pps > 0) printf "%.2f\n", pps / 1e6; else exit 1 }' "$work/testpmd" || { cat "$work/testpmd" >&2; return 1; }
}

echo "$(date -u +%F), $(nproc) CPUs, $(dpkg-query -W -f 'DPDK ${Version}' dpdk-dev 2>/dev/null || echo DPDK), load $(cut -d' ' -f1 /proc/loadavg), $rounds rounds of $seconds s"
for _ in $(seq "$rounds"); do
    dpdk >>"$work/testpmd-io"
    ours 1 1 1 "$core" >>"$work/1"
    ours 1024 1 1 "$core" >>"$work/1024"
    one=$(ours 1024 2 1 "$core")
    two=$(ours 1024 2 2 "$core,$other")
    echo "$one" >>"$work/one"
    echo "$two" >>"$work/two"
    awk -v one="$one" -v two="$two" 'BEGIN { print two / one }' >>"$work/ratio"
done

# Median, least and most of a file of numbers.
summary() {
    sort -n "$1" | awk '{ x[NR] = $1 } END { m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2; printf "%8.2f (%6.2f - %6.2f)\n", m, x[1], x[NR] }'
}
printf '%-32s %s\n' 'testpmd io, null to null (Mpps)' "$(summary "$work/testpmd-io")" \
    'Heddle, 1 destination' "$(summary "$work/1")" 'Heddle, 1,024 destinations' "$(summary "$work/1024")" \
    'Heddle, 2 sources, 1 worker' "$(summary "$work/one")" 'Heddle, 2 sources, 2 workers' "$(summary "$work/two")" \
    'two workers of one' "$(summary "$work/ratio")"
