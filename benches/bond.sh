#!/usr/bin/env bash
# Bonds between null ports, 64-byte frames, one core: DPDK's net_bonding and ours, A B A B: `benches/bond.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of frames a second that the bond took (broadcast sends each twice).
#
# DPDK's side is testpmd in its `io` mode, from one net_null device to a bond of two others. Before that it sends in its `txonly` mode for a
# moment, so that UDP frames of 256 flows stand in the buffers, as ours have them: net_null itself writes nothing.
# Ours is a network that is up, with one worker: a null device sends to 256 others, from one switch over a bond of two links to another switch, so
# each frame crosses three links, is looked up twice and comes by a bond as well; `none` has one link between the switches. Bonds of hosts
# (balance-tlb, balance-alb) are between switches not to be had. The last column is the choosing alone, without ports: the example `speed`.
# Needs jq and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-1}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-${CARGO_TARGET_DIR:-$here/target}/release/heddle}
core=${CORE:-$(($(nproc) - 1))}
other=$(((core + 1) % $(nproc)))
work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-bond.XXXXXX")
export XDG_RUNTIME_DIR=$work
finish() {
    "$heddle" down bond-bench >"$work/down" 2>&1 || true
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
cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml" -p heddle-bond --example speed
speed=${CARGO_TARGET_DIR:-$here/target}/release/examples/speed

# Mpps of DPDK in its mode $1, or without a bond.
dpdk() {
    local ports="2,3" bond=(--vdev "net_bonding0,mode=$1,slave=net_null0,slave=net_null1,xmit_policy=l34")
    if [ "$1" = none ]; then
        ports="2,0" bond=()
    fi
    {
        printf '%s\n' 'set fwd txonly' start
        sleep 0.2
        printf '%s\n' stop 'set fwd io' start
        sleep 0.2
        echo 'show port stats 2'
        sleep "$seconds"
        printf '%s\n' 'show port stats 2' stop quit
    } | dpdk-testpmd -l "$other,$core" --main-lcore "$other" --no-pci --no-huge --no-shconf --no-telemetry -m 256 \
        --vdev net_null0,size=64,no-rx=1 --vdev net_null1,size=64,no-rx=1 --vdev net_null2,size=64 "${bond[@]}" \
        -- -i --portlist="$ports" --nb-cores=1 --burst=32 --total-num-mbufs=8192 --txonly-multi-flow >"$work/testpmd" 2>&1 || {
        cat "$work/testpmd" >&2
        echo "testpmd failed in mode $1" >&2
        return 1
    }
    if ! awk '/Rx-pps:/ { pps = $2 } END { if (pps > 0) printf "%.2f\n", pps / 1e6; else exit 1 }' "$work/testpmd"; then
        cat "$work/testpmd" >&2
        echo "testpmd forwarded nothing in mode $1" >&2
        return 1
    fi
}

# A source at one switch, 256 sinks at another, and a bond of mode $1 between them.
fabric() {
    echo "name: bond-bench"
    echo "nodes:"
    echo "  s1: switch"
    echo "  s2: switch"
    echo "  source: { kind: host, devices: ['null:64'] }"
    seq -f "  sink%g: { kind: host, devices: ['null:'] }" 256
    echo "links:"
    echo "  - { between: [source, s1] }"
    seq -f "  - { between: [sink%g, s2] }" 256
    echo "  - { between: [s1, s2] }"
    [[ $1 != none ]] || return 0
    local policy=""
    [[ $1 != balance-xor ]] || policy=", xmit_hash_policy: layer3+4"
    printf '%s\n' "  - { between: [s1, s2] }" "bonds:" "  - { between: [s1, s2], mode: $1$policy }"
}

# Frames that have come from the source, and when, in nanoseconds.
sent() {
    local frames
    frames=$("$heddle" show counters bond-bench -o json | jq '[.[] | select(.from == "source" and .to == "s1") | .packets] | add')
    echo "$frames $(date +%s%N)"
}

ours() {
    fabric "$1" >"$work/bond.fabric.yaml"
    HEDDLE_WORKERS=1 taskset -c "$core" "$heddle" up "$work/bond.fabric.yaml" --name bond-bench >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
    sleep 0.5
    local before after
    before=$(sent)
    sleep "$seconds"
    after=$(sent)
    "$heddle" down bond-bench >/dev/null 2>&1
    echo "$before $after" | awk '{ printf "%.2f\n", ($3 - $1) / ($4 - $2) * 1e3 }'
}

choosing() {
    taskset -c "$core" "$speed" "$1" "$seconds" | awk '{ print $2 }'
}

# DPDK's mode, our case.
cases=(none:none 0:balance-rr 1:active-backup 2:balance-xor 3:broadcast)

echo "$(date -u +%F), $(nproc) CPUs, $(dpkg-query -W -f 'DPDK ${Version}' dpdk-dev 2>/dev/null || echo DPDK), load $(cut -d' ' -f1 /proc/loadavg), $rounds rounds of $seconds s"
for _ in $(seq "$rounds"); do
    for case in "${cases[@]}"; do
        dpdk "${case%%:*}" >>"$work/${case#*:}.dpdk"
        ours "${case#*:}" >>"$work/${case#*:}.ours"
        choosing "${case#*:}" >>"$work/${case#*:}.choosing"
    done
done

# Median, least and most of a file of numbers.
summary() {
    sort -n "$1" | awk '{ x[NR] = $1 } END { m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2; print m, x[1], x[NR] }'
}
printf '%-16s %24s %24s %8s %24s\n' 'Mpps' 'DPDK' 'Heddle' ratio 'the choosing alone'
for case in "${cases[@]}"; do
    read -r a a_least a_most < <(summary "$work/${case#*:}.dpdk")
    read -r b b_least b_most < <(summary "$work/${case#*:}.ours")
    read -r c c_least c_most < <(summary "$work/${case#*:}.choosing")
    awk -v name="${case#*:}" -v a="$a" -v a0="$a_least" -v a1="$a_most" -v b="$b" -v b0="$b_least" -v b1="$b_most" -v c="$c" -v c0="$c_least" \
        -v c1="$c_most" \
        'BEGIN { printf "%-16s %8.1f (%5.1f - %5.1f) %8.1f (%5.1f - %5.1f) %8.2f %8.1f (%5.1f - %5.1f)\n", name, a, a0, a1, b, b0, b1, b / a, c, c0, c1 }'
done
