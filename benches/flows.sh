#!/usr/bin/env bash
# Flows by their headers of layer 4, of 1,024 and of 100,000 conversations: `benches/flows.sh [ROUNDS] [SECONDS]`.
# testpmd's `flowgen` sends frames of 64 bytes both ways between two ports by vhost-user, on one core; what it sends goes to so many addresses. On the other core are, in turns, A B A B: Heddle with one
# worker and two flows (`in_port=a,udp,tp_dst=1001,actions=output:b`, and back), and OVS-DPDK with one PMD thread and the same ones, if it is installed. Prints medians with the least and the most of
# millions of frames a second, both ways together, and cycles of the switch's core for each (the core never sleeps under such load: cycles a second over frames a second).
# Needs jq and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the switch's core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=benches/vhost-user.sh
source "$here/benches/vhost-user.sh"
counts=(1024 100000)

# flowgen FLOWS SECONDS SOCKET SOCKET: M frames a second that come, both ways together.
flowgen() {
    local devices=(--vdev "net_virtio_user0,path=$3,mac=${macs[0]},queue_size=1024" --vdev "net_virtio_user1,path=$4,mac=${macs[1]},queue_size=1024")
    rm -f "$work/program"
    # shellcheck disable=SC2094 # It is read while it is written: that is how one sees that it is ready.
    {
        # What it is asked before it is ready would be answered all at once, with rates of no time at all.
        for _ in {1..200}; do
            ! grep -qas 'testpmd>' "$work/program" || break
            sleep 0.1
        done
        echo start
        sleep 1
        echo 'show port stats all'
        sleep "$2"
        printf '%s\n' 'show port stats all' stop quit
    } | dpdk-testpmd -l "$core,$other" --main-lcore "$core" "${eal[@]}" --file-prefix "front$$" -m 512 "${devices[@]}" \
        -- -i --nb-cores=1 --burst=32 --txd=1024 --rxd=1024 --total-num-mbufs=32768 --forward-mode=flowgen --flowgen-flows="$1" >"$work/program" 2>&1 || { cat "$work/program" >&2; return 1; }
    # Two ports, each twice.
    awk '/Rx-pps:/ { pps[++n] = $2 } END { if (n < 4 || pps[3] + pps[4] == 0) exit 1; printf "%.3f\n", (pps[3] + pps[4]) / 1e6 }' "$work/program" || { cat "$work/program" >&2; return 1; }
}

ours() {
    local sockets
    heddle_up "flows: { s1: ['priority=10,in_port=a,udp,tp_dst=1001,actions=output:b', 'priority=10,in_port=b,udp,tp_dst=1001,actions=output:a'] }"
    flowgen "$@" "${sockets[@]}"
    "$heddle" down bench >/dev/null 2>&1
}

through_ovs() {
    local bridge=$work/ovs/br0.mgmt
    ovs-ofctl del-flows "$bridge"
    ovs-ofctl add-flow "$bridge" priority=10,in_port=p0,udp,tp_dst=1001,actions=output:p1
    ovs-ofctl add-flow "$bridge" priority=10,in_port=p1,udp,tp_dst=1001,actions=output:p0
    flowgen "$@"
}

about "$rounds" "$seconds"
for _ in $(seq "$rounds"); do
    for count in "${counts[@]}"; do
        ours "$count" "$seconds" >>"$work/heddle-$count"
        with_relay 0 flowgen "$count" "$seconds" >>"$work/testpmd-$count"
        ! $has_ovs || with_ovs 0 through_ovs "$count" "$seconds" >>"$work/ovs-$count"
    done
done
mhz=$(awk -F: '/cpu MHz/ { print $2; exit }' /proc/cpuinfo)
row() { # FILE WHAT
    summary "$work/$1" | awk -v what="$2" -v mhz="$mhz" '{ printf "%-36s %6.2f (%5.2f - %5.2f) %8.0f cycles\n", what, $1, $2, $3, mhz / $1 }'
}
for count in "${counts[@]}"; do
    row "testpmd-$count" "testpmd io, $count conversations"
    row "heddle-$count" "Heddle, $count conversations"
    ! $has_ovs || row "ovs-$count" "OVS-DPDK, $count conversations"
done
