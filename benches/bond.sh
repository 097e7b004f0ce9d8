#!/usr/bin/env bash
# Bonds between null ports, 64-byte frames, one core: DPDK's net_bonding and Heddle, A B A B: `benches/bond.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of frames a second that the bond took (broadcast sends each twice).
#
# DPDK's side is testpmd in its `io` mode, from one net_null device to a bond of two others. Before that it sends in its `txonly` mode for a
# moment, so that UDP frames of 256 flows stand in the buffers, as Heddle has them: net_null itself writes nothing.
# Heddle's side is a network that is up, with one worker: a null device sends to 256 others, from one switch over a bond of two links to another switch, so
# each frame crosses three links, is looked up twice and comes by a bond as well; `none` has one link between the switches. Bonds of hosts
# (balance-tlb, balance-alb) are between switches not to be had. The last column is the choosing alone, without ports: the example `speed`.
# Needs jq and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-1}
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=benches/testpmd.sh
source "$here/benches/testpmd.sh"
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
    echo "name: bench"
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

choosing() {
    taskset -c "$core" "$speed" "$1" "$seconds" | awk '{ print $2 }'
}

# DPDK's mode, our case.
cases=(none:none 0:balance-rr 1:active-backup 2:balance-xor 3:broadcast)

about "$rounds" "$seconds"
for _ in $(seq "$rounds"); do
    for case in "${cases[@]}"; do
        dpdk "${case%%:*}" >>"$work/${case#*:}.dpdk"
        fabric "${case#*:}" | heddle_mpps 1 "$core" "$seconds" >>"$work/${case#*:}.heddle"
        choosing "${case#*:}" >>"$work/${case#*:}.choosing"
    done
done

printf '%-16s %24s %24s %8s %24s\n' 'Mpps' 'DPDK' 'Heddle' ratio 'the choosing alone'
for case in "${cases[@]}"; do
    read -r a a_least a_most < <(summary "$work/${case#*:}.dpdk")
    read -r b b_least b_most < <(summary "$work/${case#*:}.heddle")
    read -r c c_least c_most < <(summary "$work/${case#*:}.choosing")
    awk -v name="${case#*:}" -v a="$a" -v a0="$a_least" -v a1="$a_most" -v b="$b" -v b0="$b_least" -v b1="$b_most" -v c="$c" -v c0="$c_least" \
        -v c1="$c_most" \
        'BEGIN { printf "%-16s %8.1f (%5.1f - %5.1f) %8.1f (%5.1f - %5.1f) %8.2f %8.1f (%5.1f - %5.1f)\n", name, a, a0, a1, b, b0, b1, b / a, c, c0, c1 }'
done
