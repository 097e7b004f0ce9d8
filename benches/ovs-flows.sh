#!/bin/sh
# Random flows, groups and packets, made by a seed, through our tables and through Open vSwitch in user space: what leaves by each port has to be the same, byte for
# byte, in the same order. Packages: openvswitch-switch. Needs no root.
#
#   benches/ovs-flows.sh [SEED [FLOWS [PACKETS]]]
#   benches/ovs-flows.sh SEED ct [PACKETS]        conversations through a firewall that tracks and translates connections
set -eu
cd "$(dirname "$0")/.."
seed=${1:-1} flows=${2:-40} packets=${3:-2000}
ours=${FLOW_OUTPUTS:-$PWD/target/release/examples/flow_outputs}
if [ -z "${FLOW_OUTPUTS:-}" ]; then cargo build --quiet --locked --release -p heddle-vswitch --example flow_outputs; fi
work=$(mktemp -d)
export OVS_RUNDIR="$work" OVS_DBDIR="$work" OVS_LOGDIR="$work" OVS_SYSCONFDIR="$work"
finish() {
    for name in ovs-vswitchd ovsdb-server; do
        if [ -f "$work/$name.pid" ]; then kill "$(cat "$work/$name.pid")" 2> /dev/null || true; fi
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
if [ "$flows" = ct ]; then "$ours" connections "$seed" "$packets" "$work"; else "$ours" generate "$seed" "$flows" "$packets" "$work"; fi
ovsdb-tool create "$work/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --detach --pidfile --log-file --remote="punix:$work/db.sock" "$work/conf.db" 2> /dev/null
ovs-vsctl --db="unix:$work/db.sock" --no-wait init
ovs-vswitchd --detach --pidfile --log-file --enable-dummy=override --disable-system "unix:$work/db.sock" 2> /dev/null
vsctl() { ovs-vsctl --db="unix:$work/db.sock" "$@"; }
vsctl add-br br0 -- set bridge br0 datapath-type=dummy fail-mode=secure protocols=OpenFlow13
for port in 1 2 3 4; do
    vsctl add-port br0 p$port -- set interface p$port type=dummy ofport_request=$port options:tx_pcap="$work/tx-$port.pcap"
done
ovs-ofctl -O OpenFlow13 add-groups "unix:$work/br0.mgmt" "$work/groups.txt"
ovs-ofctl -O OpenFlow13 --bundle add-flows "unix:$work/br0.mgmt" "$work/flows.txt"
# One at a time: of several that come at once, Open vSwitch hands those with the same actions on together.
while read -r port packet; do
    ovs-appctl -t "$work/$(basename "$work"/ovs-vswitchd.*.ctl)" netdev-dummy/receive "$port" "$packet" > /dev/null
done < "$work/packets.txt"
ovs-appctl -t "$work/$(basename "$work"/ovs-vswitchd.*.ctl)" exit > /dev/null
sleep 0.5
"$ours" run "$work"
status=0
for port in 1 2 3 4; do
    "$ours" read "$work/tx-$port.pcap" > "$work/ovs-$port.txt"
    if ! cmp -s "$work/ovs-$port.txt" "$work/out-$port.txt"; then
        echo "port $port differs (< Open vSwitch, > ours):" >&2
        diff "$work/ovs-$port.txt" "$work/out-$port.txt" | head -"${DIFFERENCES:-6}" >&2 || true
        status=1
    fi
done
echo "seed $seed: $flows flows, $packets packets, $(cat "$work"/out-*.txt | wc -l) left by our ports, $(cat "$work"/ovs-*.txt | wc -l) by those of Open vSwitch"
if [ -n "${KEEP:-}" ]; then cp -r "$work" "$KEEP"; fi
[ "$status" -eq 0 ]
