#!/usr/bin/env bash
# 64-byte frames through service chains of 1 to 4 functions over vhost-user: `benches/chains.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of hops a second: frames that the switch hands to functions and to the hosts at both ends. All of those are ports of one
# testpmd in its `io` mode, on one core; 256 frames a direction go round and round. On the other core are, in turns, A B A B: Heddle with one worker and a chain; and OVS-DPDK
# with one PMD thread and a flow for each port (`in_port=..,actions=output:..`), if it is installed (and huge pages can be reserved, as root).
# Last, how long it takes until a function that is stopped (SIGSTOP) and one that is killed (SIGKILL) are seen.
# Needs jq and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the switch's core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=benches/testpmd.sh
source "$here/benches/testpmd.sh"
# shellcheck source=benches/ovs-dpdk.sh
source "$here/benches/ovs-dpdk.sh"
macs=(02:00:00:00:00:01 02:00:00:00:00:02)
longest=4

# All ports at the sockets of $@: those of the hosts, then ingress and egress of each function. Its input says how long it runs.
program() {
    local socket number=0 devices=()
    for socket in "$@"; do
        devices+=(--vdev "net_virtio_user$number,path=$socket,mac=$(printf '02:00:00:00:00:%02x' $((number + 1))),queue_size=1024")
        number=$((number + 1))
    done
    dpdk-testpmd -l "$core,$other" --main-lcore "$core" --no-pci --no-huge --no-shconf --no-telemetry --file-prefix "front$$" -m 512 "${devices[@]}" \
        -- -i --nb-cores=1 --portlist="$(seq -s, 0 $((number - 1)))" --burst=32 --txd=1024 --rxd=1024 --total-num-mbufs=32768 --txpkts=64
}

# M hops/s that come to the program's ports.
front() {
    local ports=$#
    {
        printf '%s\n' "set eth-peer 0 ${macs[1]}" "set eth-peer 1 ${macs[0]}" 'set fwd io'
        # Until links are up, and functions are: they let probes pass as soon as the program forwards.
        sleep 1
        echo start
        sleep 1
        printf '%s\n' stop 'start tx_first 8'
        sleep 0.5
        echo 'show port stats all'
        sleep "$seconds"
        printf '%s\n' 'show port stats all' stop quit
    } | program "$@" >"$work/program" 2>&1 || { cat "$work/program" >&2; return 1; }
    awk -v ports="$ports" '/Rx-pps:/ { pps[++n] = $2 } END { for (i = n - ports + 1; i <= n; i++) all += pps[i]; if (n < 2 * ports || all == 0) exit 1; printf "%.2f\n", all / 1e6 }' "$work/program" ||
        { cat "$work/program" >&2; return 1; }
}

ours() {
    local functions='' names='' sockets=("$work/a.sock" "$work/b.sock") number
    for number in $(seq "$1"); do
        functions+="  f$number: { at: s1, timeout: 1s, devices: ['vhost-user:$work/f$number.sock', 'vhost-user:$work/f$number-out.sock'] }"$'\n'
        names+="${names:+, }f$number"
        sockets+=("$work/f$number.sock" "$work/f$number-out.sock")
    done
    cat >"$work/bench.fabric.yaml" <<EOF
name: bench
nodes:
  s1: switch
  a: { kind: host, mac: '${macs[0]}', devices: ['vhost-user:$work/a.sock'] }
  b: { kind: host, mac: '${macs[1]}', devices: ['vhost-user:$work/b.sock'] }
links:
  - { between: [a, s1] }
  - { between: [b, s1] }
functions:
$functions
chains:
  all: { from: a, to: b, functions: [$names] }
EOF
    HEDDLE_WORKERS=1 taskset -c "$core" "$heddle" up "$work/bench.fabric.yaml" --name bench >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
    front "${sockets[@]}"
    "$heddle" down bench >/dev/null 2>&1
}

ovs() {
    # Hosts are p0 and p1, functions p2 and p3, p4 and p5, ..
    local number at=p0 ports=() status=0
    for number in $(seq 0 $((2 * $1 + 1))); do
        ports+=("p$number")
    done
    start_ovs "${ports[@]}"
    for number in $(seq "$1"); do
        both_ways "$at" "p$((2 * number))"
        at=p$((2 * number + 1))
    done
    both_ways "$at" p1
    front "${ports[@]/#/$work/ovs/}" || status=1
    end_ovs
    return "$status"
}

# Milliseconds from the signal $1 to the function's program until packets go past it. One in five milliseconds asks.
seen_after() {
    cat >"$work/watch.fabric.yaml" <<EOF
name: watch
nodes: { h1: host, h2: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }]
functions: { f: { at: s1 } }
chains: { all: { from: h1, to: h2, functions: f, on-failure: bypass } }
EOF
    "$heddle" up "$work/watch.fabric.yaml" --name watch >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
    until "$heddle" exec -n watch h1 ping -4 -c 1 -W 1 h2 >/dev/null 2>&1; do sleep 0.1; done
    "$heddle" exec -n watch h1 ping -4 -D -i 0.005 -c 400 h2 >"$work/asked" 2>&1 &
    local asking=$! at
    sleep 0.5
    at=$(date +%s.%N)
    kill "-$1" "$("$heddle" show programs watch -o json | jq '.[0].pid')"
    wait "$asking" || true
    awk -v at="$at" '/bytes from/ { sub(/^\[/, ""); sub(/\].*/, ""); if ($0 > at && $0 - last > 0.015 && last) { printf "%.0f\n", ($0 - last) * 1e3; exit } last = $0 }' "$work/asked"
    "$heddle" down watch >/dev/null 2>&1
}

about "$rounds" "$seconds"
for _ in $(seq "$rounds"); do
    for length in $(seq "$longest"); do
        ours "$length" >>"$work/heddle-$length"
        [[ $has_dpdk = 0 ]] || ovs "$length" >>"$work/ovs-dpdk-$length"
    done
done
for length in $(seq "$longest"); do
    printf '%-40s %s\n' "Heddle, functions: $length (M hops/s)" "$(shown "$work/heddle-$length")"
    [[ $has_dpdk = 0 ]] || printf '%-40s %s\n' "OVS-DPDK, functions: $length" "$(shown "$work/ovs-dpdk-$length")"
done
for signal in STOP KILL; do
    for _ in $(seq "$rounds"); do
        seen_after "$signal" >>"$work/seen-$signal"
    done
    printf '%-40s %s\n' "ms without an answer after SIG$signal" "$(shown "$work/seen-$signal")"
done
