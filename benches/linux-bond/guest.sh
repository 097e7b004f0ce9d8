#!/bin/bash
# In the guest: bond0 over N links, then what is asked on standard input, a command a line; `== STATUS` ends each answer.
#
#   guest.sh N ADDRESS/PREFIX MAC BOND-OPTION...
#
# A guest's vec0 has neither speed nor carrier, which 802.3ad needs. So each member is a veth, b0, whose other end, p0, hands every frame
# to vec0 and takes every frame from it, as a media converter does. A cable is pulled by taking p0 down: b0 loses its carrier.
set -eu
members=$1 address=$2 mac=$3
shift 3

hand_over() {
    tc filter add dev "$1" ingress matchall action mirred egress redirect dev "$2"
}

for ((i = 0; i < members; i++)); do
    ip link add "b$i" type veth peer name "p$i"
    for device in "b$i" "p$i" "vec$i"; do echo 1 >"/proc/sys/net/ipv6/conf/$device/disable_ipv6"; done
    for device in "p$i" "vec$i"; do
        ip link set "$device" up promisc on
        tc qdisc add dev "$device" clsact
    done
    # Several large segments at once are more than the switch's links take.
    ethtool -K "b$i" tso off gso off gro off >/dev/null 2>&1 || true
    hand_over "p$i" "vec$i"
    hand_over "vec$i" "p$i"
done
ip link add bond0 type bond "$@"
echo 1 >/proc/sys/net/ipv6/conf/bond0/disable_ipv6
ip link set bond0 address "$mac"
for ((i = 0; i < members; i++)); do ip link set "b$i" master bond0; done
ip link set bond0 up
ethtool -K bond0 tso off gso off gro off >/dev/null 2>&1 || true
ip addr add "$address" dev bond0
set +e
echo "== ready"
while read -r line; do
    eval "$line"
    echo "== $?"
done
