#!/usr/bin/env bash
# 64-byte frames, namespace - switch - namespace, over veth pairs: `benches/xdp.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of frames a second that came to the far namespace, of a bare veth pair, a Linux bridge, and Heddle with its
# ports by AF_PACKET and by AF_XDP, A B A B. One program sends as fast as its device takes frames (crates/live/examples/flood.rs), on a core of its own; the switch has the
# other. The far namespace has no address: its kernel counts what comes and drops it.
# Needs root, jq, and release builds: `cargo build --release -p heddle --bins`, `cargo build --release -p heddle-live --example flood`. HEDDLE and FLOOD say where they are.
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
heddle=${HEDDLE:-$target/release/heddle}
flood=${FLOOD:-$target/release/examples/flood}
for program in "$heddle" "$flood"; do
    [[ -x $program ]] || { echo "no $program. hint: cargo build --release -p heddle --bins; cargo build --release -p heddle-live --example flood" >&2; exit 1; }
done
core=${CORE:-$(($(nproc) - 1))}
other=$(((core + 1) % $(nproc)))
work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-bench.XXXXXX")
export XDG_RUNTIME_DIR=$work
middle=heddle-bench-m$$ left=heddle-bench-a$$ right=heddle-bench-b$$
left_mac=02:00:00:00:00:0a right_mac=02:00:00:00:00:0b

finish() {
    ip netns exec "$middle" "$heddle" down bench >"$work/down" 2>&1 || true
    for namespace in "$left" "$middle" "$right"; do ip netns del "$namespace" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# A device for each end, and what they are plugged into. IPv6 would send frames of its own.
for namespace in "$left" "$middle" "$right"; do
    ip netns add "$namespace"
    ip netns exec "$namespace" sysctl -qw net.ipv6.conf.default.disable_ipv6=1
done
plug() { # NAMESPACE DEVICE MAC, then the other end's NAMESPACE DEVICE
    ip link add name "$2" netns "$1" address "$3" type veth peer name "$5" netns "$4"
    ip -n "$1" link set "$2" up
    ip -n "$4" link set "$5" up
}
plug "$left" direct "$left_mac" "$right" direct
ip -n "$right" link set direct address "$right_mac"
plug "$left" eth0 "$left_mac" "$middle" dev0
plug "$right" eth0 "$right_mac" "$middle" dev1
ip -n "$middle" link add bridge type bridge
ip -n "$middle" link set bridge up

came() { # DEVICE of the far namespace
    ip -n "$right" -s -j link show "$1" | jq '.[0].stats64.rx.packets'
}
# Frames that come by this device of both namespaces. The first half second is not counted.
measure() {
    local before after began ended
    ip netns exec "$left" taskset -c "$other" "$flood" "$1" "$left_mac" 10.0.0.1 "$right_mac" 10.0.0.2 "$(awk -v s="$seconds" 'BEGIN { print s + 1 }')" >"$work/sent" &
    sleep 0.5
    before=$(came "$1") began=$(date +%s%N)
    sleep "$seconds"
    after=$(came "$1") ended=$(date +%s%N)
    wait $!
    awk -v n=$((after - before)) -v ns=$((ended - began)) 'BEGIN { printf "%.3f\n", n / ns * 1e3 }'
}
bridge() {
    for device in dev0 dev1; do ip -n "$middle" link set "$device" master bridge; done
    measure eth0
    for device in dev0 dev1; do ip -n "$middle" link set "$device" nomaster; done
}
switch() { # what stands before the devices' names
    cat >"$work/bench.fabric.yaml" <<FILE
name: bench
nodes:
  a: { kind: host, mac: "$left_mac", ipv4: 10.0.0.1, devices: ["$1dev0"] }
  b: { kind: host, mac: "$right_mac", ipv4: 10.0.0.2, devices: ["$1dev1"] }
  s1: switch
links: [{ between: [a, s1] }, { between: [b, s1] }]
FILE
    HEDDLE_WORKERS=1 ip netns exec "$middle" taskset -c "$core" "$heddle" up "$work/bench.fabric.yaml" --name bench >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
    measure eth0
    "$heddle" down bench >"$work/down" 2>&1
}

echo "$(date -u +%F), $(nproc) CPUs, Linux $(uname -r), load $(cut -d' ' -f1 /proc/loadavg), $rounds rounds of $seconds s"
for _ in $(seq "$rounds"); do
    measure direct >>"$work/veth"
    bridge >>"$work/bridge"
    switch '' >>"$work/packet"
    switch xdp: >>"$work/xdp"
done
shown() {
    sort -n "$work/$1" | awk '{ x[NR] = $1 } END { m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2; printf "%8.3f (%6.3f - %6.3f)\n", m, x[1], x[NR] }'
}
printf '%-28s %s\n' 'veth pair (Mpps)' "$(shown veth)" 'Linux bridge' "$(shown bridge)" 'Heddle, AF_PACKET' "$(shown packet)" 'Heddle, AF_XDP' "$(shown xdp)"
