#!/usr/bin/env bash
# TCP, guest - switch - guest: two machines with a Linux kernel of their own (User-Mode Linux), by vhost-user and Heddle against TAPs and a Linux bridge, A B A B:
# `benches/guests.sh [ROUNDS] [SECONDS]`.
# Needs root (for the bridge), Debian's user-mode-linux, kmod, iperf3, ethtool and jq, and a release build of heddle ($HEDDLE is another one).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-3} seconds=${2:-5}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-${CARGO_TARGET_DIR:-$here/target}/release/heddle}
space=heddle-bench$$ server='' name=guests$$
# Guests see the folder of the network's sockets, but no file system that is mounted behind it.
work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-guests.XXXXXX")
export XDG_RUNTIME_DIR=$work

finish() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    "$heddle" down "$name" >/dev/null 2>&1 || true
    ip netns del "$space" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

for entry in linux.uml:user-mode-linux modprobe:kmod iperf3:iperf3 jq:jq ethtool:ethtool; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${entry%%:*}" >/dev/null || { echo "guests.sh: ${entry%%:*} is missing. hint: apt-get install ${entry#*:}" >&2; exit 3; }
done
[[ -x $heddle ]] || { echo "guests.sh: there is no $heddle. hint: make build" >&2; exit 3; }

# With segments left uncut between TAPs, User-Mode Linux gets 2 Mbit/s: most are lost.
bare='ethtool -K vec0 tso off gso off gro off'

gbit() { jq -r '.end.sum_received.bits_per_second / 1e9'; }

bridge() {
    local tap
    ip netns add "$space"
    ip -n "$space" link add br0 type bridge
    ip -n "$space" link set br0 up
    for tap in t0 t1; do
        ip -n "$space" tuntap add "$tap" mode tap vnet_hdr
        ip -n "$space" link set "$tap" master br0 up
    done
    ip netns exec "$space" "$here/scripts/uml.sh" --tap t1 -- sh -c "ip addr add 10.9.0.2/24 dev vec0; ip link set vec0 up; $bare; iperf3 -s" >/dev/null 2>&1 &
    server=$!
    ip netns exec "$space" "$here/scripts/uml.sh" --tap t0 -- sh -c "ip addr add 10.9.0.1/24 dev vec0; ip link set vec0 up; $bare
        until ping -c 1 -W 1 10.9.0.2 >/dev/null; do sleep 0.2; done; sleep 0.5; iperf3 -c 10.9.0.2 -t $seconds -J" </dev/null >"$work/bridge.json"
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=''
    ip netns del "$space"
    gbit <"$work/bridge.json"
}

ours() {
    cat >"$work/guests.fabric.yaml" <<EOF2
name: guests
nodes:
  s1: switch
  server: { kind: vm, run: iperf3 -s }
  client: { kind: vm, run: 'until ping -4 -c 1 -W 1 server >/dev/null; do sleep 0.2; done; sleep 0.5; iperf3 -4 -c server -t $seconds -J' }
links:
  - { between: [server, s1] }
  - { between: [client, s1] }
EOF2
    "$heddle" up "$work/guests.fabric.yaml" --name "$name" >/dev/null
    local state output
    for _ in $(seq $((seconds + 60))); do
        sleep 1
        state=$("$heddle" show programs "$name" -o json | jq -r '.[] | select(.host == "client") | .state + " " + .output')
        [[ $state != ended* ]] || break
    done
    output=${state#* }
    sed -n '/^{/,/^}/p' "$output" >"$work/ours.json"
    [[ -s $work/ours.json ]] || { cat "$output" >&2; return 1; }
    "$heddle" down "$name" >/dev/null 2>&1
    gbit <"$work/ours.json"
}

summary() {
    sort -n "$1" | awk '{ x[NR] = $1 } END { m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2; printf "%8.2f (%.2f - %.2f)\n", m, x[1], x[NR] }'
}

echo "$(date -u +%F), $(nproc) CPUs, $(basename "$(readlink -f "$(command -v linux.uml)")"), load $(cut -d' ' -f1 /proc/loadavg), $rounds rounds of $seconds s"
for _ in $(seq "$rounds"); do
    bridge >>"$work/bridge"
    ours >>"$work/heddle"
done
printf '%-36s %s\n' 'TAPs and a Linux bridge (Gbit/s)' "$(summary "$work/bridge")" 'vhost-user and Heddle' "$(summary "$work/heddle")"
