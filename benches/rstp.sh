#!/usr/bin/env bash
# RSTP with Open vSwitch as partner: `benches/rstp.sh [ROUNDS]`. A ring of two switches of ours and one bridge of Open vSwitch (its user-space datapath). In the middle of pings, a hundred a
# second from a host of ours to one behind the bridge, each link of the ring is cut once and put back; the last cut leaves our switches joined by the bridge alone. Prints for each how many of 300 pings
# were lost (the median of the rounds, least and most), and whether both agree on the root at the end. Needs Debian's openvswitch-switch, ethtool and iputils-ping, and heddle in PATH or HEDDLE=PROGRAM; as root, and
# everything is in a namespace of its own.
set -euo pipefail
shopt -s inherit_errexit
if [[ ${IN_NAMESPACE:-} != yes ]]; then
    IN_NAMESPACE=yes exec unshare --net --mount "$0" "$@"
fi
rounds=${1:-3}
heddle=${HEDDLE:-heddle}
# shellcheck source=benches/functions.sh
source "$(dirname "$0")/functions.sh"
need ovs-vswitchd:openvswitch-switch ethtool:ethtool ping:iputils-ping
name=rstp$$
begin
export OVS_RUNDIR=$work OVS_LOGDIR=$work OVS_DBDIR=$work
# They are no children of this script.
end_switch() {
    local file pid
    for file in "$work/switch.pid" "$work/db.pid"; do
        if pid=$(cat "$file" 2>/dev/null); then
            kill "$pid" 2>/dev/null || true
            while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
        fi
    done
}
trap '"$heddle" down "$name" >/dev/null 2>&1 || true; end_switch; end' EXIT

cat >"$work/ring.fabric.yaml" <<FABRIC
name: $name
nodes:
  h1: host
  o1: { kind: host, devices: [va] }
  o2: { kind: host, devices: [vb] }
  s1: switch
  s2: switch
switches: { s1: { rstp: true } }
links:
  - { between: [h1, s1] }
  - { between: [s1, s2] }
  - { between: [o1, s1] }
  - { between: [o2, s2] }
FABRIC

ip link set lo up
for end in a b; do
    ip link add "v$end" type veth peer name "w$end"
    ip link set "v$end" up
    ip link set "w$end" up
done
unshare --net sleep 100000 &
guest=$!
pids+=("$guest")
until [[ $(readlink "/proc/$guest/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do sleep 0.05; done
ip link add wh type veth peer name eth0 netns "$guest"
ip link set wh up
# Its user-space datapath does not complete what a kernel leaves to others.
ethtool -K wh tx off >/dev/null
in_guest() { nsenter --target "$guest" --net "$@"; }
in_guest ethtool -K eth0 tx off >/dev/null
in_guest ip addr add 10.0.9.9/8 dev eth0
in_guest ip link set eth0 up

ovsdb-tool create "$work/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server -vconsole:off "$work/conf.db" --remote="punix:$work/db.sock" --pidfile="$work/db.pid" --detach --log-file="$work/db.log" --unixctl="$work/db.ctl"
ovs-vswitchd -vconsole:off "unix:$work/db.sock" --pidfile="$work/switch.pid" --detach --log-file="$work/switch.log" --unixctl="$work/switch.ctl" 2>/dev/null
vsctl() { ovs-vsctl --db="unix:$work/db.sock" "$@"; }
vsctl add-br br0 -- set bridge br0 datapath_type=netdev rstp_enable=true
for port in wa wb wh; do vsctl add-port br0 "$port"; done
"$heddle" up "$work/ring.fabric.yaml" >/dev/null 2>&1

lost() {
    # The change comes when two seconds of pings are over.
    (
        sleep 2
        "$@"
    ) &
    "$heddle" exec -n "$name" h1 -- ping -i 0.01 -c 600 -W 1 10.0.9.9 | awk '/packets transmitted/ { print $1 - $4 }'
    wait $!
}
link() { "$heddle" link --name "$name" "$1" s1 s2 >/dev/null; }

until "$heddle" exec -n "$name" h1 -- ping -c 1 -W 1 10.0.9.9 >/dev/null 2>&1; do sleep 0.2; done
changes=("cut s1-bridge:ip link set va down" "back s1-bridge:ip link set va up" "cut s2-bridge:ip link set vb down" "back s2-bridge:ip link set vb up" "cut s1-s2:link down" "back s1-s2:link up")
for _ in $(seq "$rounds"); do
    for change in "${changes[@]}"; do
        # shellcheck disable=SC2086  # They are words of a command.
        lost ${change#*:} >>"$work/${change%%:*}"
        sleep 2
    done
done
for change in "${changes[@]}"; do
    median_row "${change%%:*}, pings lost of 600" "$work/${change%%:*}"
done
"$heddle" show rstp "$name"
ovs-appctl --target="$work/switch.ctl" rstp/show br0
