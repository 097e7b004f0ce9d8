#!/usr/bin/env bash
# 64-byte frames of a DPDK program over vhost-user, through a switch and back to it: `benches/vhost.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of frames a second that came back. The program is testpmd in its `io` mode with two net_virtio_user ports, on one
# core; 256 frames a direction go round and round. On the other core are, in turns, A B A B: another testpmd with two net_vhost ports, which looks at nothing (`io`); Heddle
# with one worker; and OVS-DPDK with one PMD thread and a flow for each port, if it is installed
# (and huge pages can be reserved, as root). Last, the program is killed under load, and started again: Heddle's ports recover.
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
eal=(--no-pci --no-huge --no-shconf --no-telemetry)

# The program with ports at the sockets $1 and $2; its input says how long it runs.
program() {
    dpdk-testpmd -l "$core,$other" --main-lcore "$core" "${eal[@]}" --file-prefix "front$$" -m 256 \
        --vdev "net_virtio_user0,path=$1,mac=${macs[0]},queue_size=1024" --vdev "net_virtio_user1,path=$2,mac=${macs[1]},queue_size=1024" \
        -- -i --nb-cores=1 --portlist=0,1 --burst=32 --txd=1024 --rxd=1024 --total-num-mbufs=8192 --txpkts=64
}

# Mpps that come back to the program.
front() {
    {
        printf '%s\n' "set eth-peer 0 ${macs[1]}" "set eth-peer 1 ${macs[0]}" 'set fwd io'
        # Until links are up.
        sleep 1
        echo 'start tx_first 8'
        sleep 0.5
        echo 'show port stats all'
        sleep "$seconds"
        printf '%s\n' 'show port stats all' stop quit
    } | program "$1" "$2" >"$work/program" 2>&1 || { cat "$work/program" >&2; return 1; }
    # The last two of four.
    awk '/Rx-pps:/ { pps[++n] = $2 } END { if (n < 4 || pps[n] + pps[n - 1] == 0) exit 1; printf "%.2f\n", (pps[n] + pps[n - 1]) / 1e6 }' "$work/program" ||
        { cat "$work/program" >&2; return 1; }
}

await() {
    local _
    for _ in $(seq 100); do
        [[ ! -S $1 ]] || return 0
        sleep 0.1
    done
    echo "$1 does not come up" >&2
    return 1
}

peer() {
    local a=$work/peer0 b=$work/peer1 fifo=$work/fifo pid status=0
    mkfifo "$fifo"
    dpdk-testpmd -l "$other,$core" --main-lcore "$other" "${eal[@]}" --file-prefix "peer$$" -m 256 --vdev "net_vhost0,iface=$a" --vdev "net_vhost1,iface=$b" \
        -- -i --nb-cores=1 --portlist=0,1 --burst=32 --total-num-mbufs=8192 <"$fifo" >"$work/peer" 2>&1 &
    pid=$!
    {
        printf '%s\n' 'set fwd io' start >&3
        { await "$a" && await "$b" && front "$a" "$b"; } || status=1
        printf '%s\n' stop quit >&3
    } 3>"$fifo"
    wait "$pid" || true
    rm -f "$fifo" "$a" "$b"
    return "$status"
}

fabric="name: bench
nodes:
  s1: switch
  a: { kind: host, mac: '${macs[0]}', devices: ['vhost-user:$work/a.sock'] }
  b: { kind: host, mac: '${macs[1]}', devices: ['vhost-user:$work/b.sock'] }
links:
  - { between: [a, s1] }
  - { between: [b, s1] }"

up() {
    echo "$fabric" >"$work/bench.fabric.yaml"
    HEDDLE_WORKERS=1 taskset -c "$core" "$heddle" up "$work/bench.fabric.yaml" --name bench >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
}

ours() {
    up
    front "$work/a.sock" "$work/b.sock"
    "$heddle" down bench >/dev/null 2>&1
}

# Frames that the program has sent since the network is up.
sent_by_program() {
    "$heddle" show counters bench -o json | jq '[.[] | select(.from == "a" or .from == "b") | .packets // 0] | add'
}

# The program is killed under load, three times, and started again.
recovers() {
    local _ pid before after
    up
    for _ in 1 2 3; do
        before=$(sent_by_program)
        { printf '%s\n' "set eth-peer 0 ${macs[1]}" "set eth-peer 1 ${macs[0]}"; sleep 1; echo 'start tx_first 8'; sleep 30; } | program "$work/a.sock" "$work/b.sock" >"$work/killed" 2>&1 &
        sleep 3
        after=$(sent_by_program)
        pid=$(pgrep -f "file-prefix front$$" | head -1)
        kill -KILL "$pid"
        [[ $after -gt $((before + 1000)) ]] || { echo "no frames after a restart: $before, $after" >&2; return 1; }
    done
    front "$work/a.sock" "$work/b.sock" >/dev/null
    "$heddle" down bench >/dev/null 2>&1
}

ovs() {
    local status=0
    start_ovs a b
    both_ways a b
    front "$work/ovs/a" "$work/ovs/b" || status=1
    end_ovs
    return "$status"
}

about "$rounds" "$seconds"
for _ in $(seq "$rounds"); do
    peer >>"$work/testpmd-io"
    ours >>"$work/heddle"
    [[ $has_dpdk = 0 ]] || ovs >>"$work/ovs-dpdk"
done
printf '%-32s %s\n' 'testpmd io, net_vhost (Mpps)' "$(shown "$work/testpmd-io")" 'Heddle, one switch' "$(shown "$work/heddle")"
[[ $has_dpdk = 0 ]] || printf '%-32s %s\n' 'OVS-DPDK, one flow a port' "$(shown "$work/ovs-dpdk")"
recovers
echo 'killed under load three times, and served again each time'
