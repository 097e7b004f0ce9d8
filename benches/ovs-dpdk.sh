# What benches beside OVS-DPDK share; they source it behind testpmd.sh. Sets `has_dpdk`, 0 where there is none or its buffers find no huge pages; those are given back in the end.
# shellcheck shell=bash disable=SC2034,SC2154
pages=/proc/sys/vm/nr_hugepages
pages_before=$(cat "$pages")
end_all() {
    end_ovs || true
    [[ $(cat "$pages") = "$pages_before" ]] || echo "$pages_before" >"$pages" || true
    finish
}
trap end_all EXIT
vswitchd=$(command -v ovs-vswitchd || true)
[[ ! -x /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk ]] || vswitchd=/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
has_dpdk=$([[ -n $vswitchd ]] && "$vswitchd" --version 2>/dev/null | grep -c DPDK || true)
has_dpdk=${has_dpdk:-0}
if [[ $has_dpdk != 0 && $pages_before -lt 400 ]]; then
    echo 400 2>/dev/null >"$pages" || has_dpdk=0
fi

# start_ovs PORT..: a bridge br0 without flows, with these vhost-user ports at sockets of their names below $work/ovs, and one PMD thread on $core.
start_ovs() {
    local run=$work/ovs schema=/usr/share/openvswitch/vswitch.ovsschema port
    mkdir -p "$run"
    export OVS_RUNDIR=$run OVS_LOGDIR=$run OVS_DBDIR=$run
    rm -f "$run/conf.db"
    ovsdb-tool create "$run/conf.db" "$schema" 2>/dev/null
    ovsdb-server "$run/conf.db" --remote="punix:$run/db.sock" --pidfile="$run/ovsdb.pid" --detach --log-file="$run/ovsdb.log" 2>/dev/null
    local vsctl=(ovs-vsctl --db="unix:$run/db.sock" --timeout=30)
    "${vsctl[@]}" --no-wait init
    "${vsctl[@]}" --no-wait set Open_vSwitch . other_config:dpdk-init=true other_config:dpdk-extra="--no-pci" other_config:dpdk-socket-mem=512 \
        other_config:pmd-cpu-mask="$(printf '0x%x' $((1 << core)))" other_config:dpdk-lcore-mask="$(printf '0x%x' $((1 << other)))"
    "$vswitchd" "unix:$run/db.sock" --pidfile="$run/vswitchd.pid" --detach --log-file="$run/vswitchd.log" >"$run/out" 2>&1 || { cat "$run/out" >&2; return 1; }
    "${vsctl[@]}" add-br br0 -- set bridge br0 datapath_type=netdev
    for port in "$@"; do
        "${vsctl[@]}" add-port br0 "$port" -- set Interface "$port" type=dpdkvhostuser
    done
    ovs-ofctl del-flows "$run/br0.mgmt"
}

# both_ways PORT PORT: what comes in by the one leaves by the other.
both_ways() {
    ovs-ofctl add-flow "$work/ovs/br0.mgmt" "in_port=$1,actions=output:$2"
    ovs-ofctl add-flow "$work/ovs/br0.mgmt" "in_port=$2,actions=output:$1"
}

end_ovs() {
    local pid
    for pid in "$work/ovs/vswitchd.pid" "$work/ovs/ovsdb.pid"; do
        [[ ! -e $pid ]] || kill -TERM "$(cat "$pid")"
        while [[ -e $pid ]]; do sleep 0.1; done
    done
}

# The median of a file of numbers, with the least and the most.
shown() {
    summary "$1" | awk '{ printf "%8.2f (%6.2f - %6.2f)\n", $1, $2, $3 }'
}
