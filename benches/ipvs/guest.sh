#!/usr/bin/env bash
# In the guest: plays a script (crates/balance/examples/choose.rs) to IPVS, to all schedulers at once, and writes who got each connection.
#
#   guest.sh FOLDER SCHEDULER...      FOLDER has `script`; `ipvs.SCHEDULER` is written there
#
# Clients have a namespace of their own and so have servers; the balancer between them is the guest's first one, and rewrites addresses (masquerading).
set -euo pipefail
folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
ulimit -n 65536

for space in clients servers; do
    ip netns add "$space"
    ip -n "$space" link set lo up
    ip link add "$space" type veth peer name eth0 netns "$space"
    ip link set "$space" up
    ip -n "$space" link set eth0 up
done
ip addr add 10.0.0.1/32 dev lo
ip addr add 10.254.1.1/30 dev clients
ip addr add 10.254.2.1/30 dev servers
ip -n clients addr add 10.254.1.2/30 dev eth0
ip -n servers addr add 10.254.2.2/30 dev eth0
ip -n clients route add default via 10.254.1.1
ip -n servers route add default via 10.254.2.1
ip -n clients route add local 10.1.0.0/16 dev lo
ip -n servers route add local 10.2.0.0/16 dev lo
ip route add 10.1.0.0/16 via 10.254.1.2
ip route add 10.2.0.0/16 via 10.254.2.2
# A client without a server shall know at once.
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000

ip netns exec servers /usr/bin/python3 "$here/serve.py" &
players=()
for scheduler in "$@"; do
    ip netns exec clients /usr/bin/python3 "$here/play.py" "$scheduler" <"$folder/script" >"$folder/ipvs.$scheduler" &
    players+=($!)
done
for player in "${players[@]}"; do wait "$player"; done
