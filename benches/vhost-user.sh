# What benches with DPDK programs behind vhost-user sockets share; they source it in place of benches/testpmd.sh, which it sources. Sets `has_ovs`: whether Open vSwitch with
# DPDK is there (and huge pages can be reserved for it, as root).
# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=benches/testpmd.sh
source "$here/benches/testpmd.sh"
macs=(02:00:00:00:00:01 02:00:00:00:00:02)
eal=(--no-pci --no-huge --no-shconf --no-telemetry)

# 32 frames of 64 bytes from the first host to the second, UDP from 32 ports, as a file of libpcap's.
frames() {
    python3 - "$1" "${macs[@]}" <<'EOF2'
import struct, sys
path, source, destination = sys.argv[1:]
of = lambda mac: bytes.fromhex(mac.replace(":", ""))
with open(path, "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for port in range(32):
        udp = struct.pack("!HHHH", 1024 + port, 9, 30, 0) + bytes(22)
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), port, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
        total = sum(struct.unpack("!10H", header))
        total = (total & 0xFFFF) + (total >> 16)
        header = header[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + header[12:]
        frame = of(destination) + of(source) + b"\x08\x00" + header + udp
        file.write(struct.pack("<IIII", 0, port, len(frame), len(frame)) + frame)
EOF2
}

# front SECONDS SOCKET...: M frames a second that come to the last socket, of those that a source sends into the first as fast as they are taken. Between them are the ingress
# and egress of each function. Source, functions and sink are ports of one testpmd in its `io` mode, on one core.
front() {
    local seconds=$1 number=0 socket
    shift
    [[ -e $work/frames.pcap ]] || frames "$work/frames.pcap"
    local devices=(--vdev "net_pcap0,rx_pcap=$work/frames.pcap,infinite_rx=1")
    for socket in "$@"; do
        devices+=(--vdev "net_virtio_user$number,path=$socket,mac=$(printf '02:00:00:00:00:%02x' $((number == $# - 1 ? 2 : number == 0 ? 1 : number + 2))),queue_size=1024")
        number=$((number + 1))
    done
    {
        echo 'set fwd io'
        # Until links are up.
        sleep 1
        echo start
        # Until functions are up: they let probes pass.
        sleep 1
        echo "show port stats $number"
        sleep "$seconds"
        printf '%s\n' "show port stats $number" stop quit
    } | dpdk-testpmd -l "$core,$other" --main-lcore "$core" "${eal[@]}" --file-prefix "front$$" -m 512 "${devices[@]}" --vdev net_null0,no-rx=1 \
        -- -i --nb-cores=1 --burst=32 --txd=1024 --rxd=1024 --total-num-mbufs=32768 >"$work/program" 2>&1 || { cat "$work/program" >&2; return 1; }
    # The last of two.
    awk '/Rx-pps:/ { pps[++n] = $2 } END { if (n < 2 || pps[n] == 0) exit 1; printf "%.3f\n", pps[n] / 1e6 }' "$work/program" || { cat "$work/program" >&2; return 1; }
}

# heddle_up MORE: Heddle with one worker: two hosts at vhost-user sockets, a switch between them, and what else its file has. Sets `sockets`.
heddle_up() {
    sockets=("$work/a.sock" "$work/b.sock")
    cat >"$work/bench.fabric.yaml" <<EOF2
name: bench
nodes:
  s1: switch
  a: { kind: host, mac: '${macs[0]}', devices: ['vhost-user:$work/a.sock'] }
  b: { kind: host, mac: '${macs[1]}', devices: ['vhost-user:$work/b.sock'] }
links:
  - { between: [a, s1] }
  - { between: [b, s1] }
$1
EOF2
    HEDDLE_WORKERS=1 taskset -c "$core" "$heddle" up "$work/bench.fabric.yaml" --name bench >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
}

# await SOCKET
await() {
    local _
    for _ in $(seq 100); do
        [[ ! -S $1 ]] || return 0
        sleep 0.1
    done
    echo "$1 does not come up" >&2
    return 1
}

# with_relay FUNCTIONS COMMAND...: the limit. Another testpmd's net_vhost ports in place of a switch, in its `io` mode, which looks at nothing. The command gets the sockets behind its other arguments.
with_relay() {
    local ports=$((2 * $1 + 2)) fifo=$work/fifo pid status=0 number devices=() sockets=()
    shift
    for number in $(seq 0 $((ports - 1))); do
        devices+=(--vdev "net_vhost$number,iface=$work/relay$number")
        sockets+=("$work/relay$number")
    done
    mkfifo "$fifo"
    dpdk-testpmd -l "$other,$core" --main-lcore "$other" "${eal[@]}" --file-prefix "relay$$" -m 512 "${devices[@]}" \
        -- -i --nb-cores=1 --burst=32 --total-num-mbufs=32768 <"$fifo" >"$work/relay" 2>&1 &
    pid=$!
    {
        printf '%s\n' 'set fwd io' start >&3
        for number in "${sockets[@]}"; do await "$number" || status=1; done
        "$@" "${sockets[@]}" || status=1
        printf '%s\n' stop quit >&3
    } 3>"$fifo"
    wait "$pid" || true
    rm -f "$fifo" "${sockets[@]}"
    return "$status"
}

# relay SECONDS FUNCTIONS
relay() {
    with_relay "$2" front "$1"
}

# ovs_up FUNCTIONS: OVS-DPDK with one PMD thread, and a flow for each port. Sets `sockets`.
ovs_up() {
    local run=$work/ovs schema=/usr/share/openvswitch/vswitch.ovsschema ports=$((2 * $1 + 2)) number
    sockets=()
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
    for number in $(seq 0 $((ports - 1))); do
        "${vsctl[@]}" add-port br0 "p$number" -- set Interface "p$number" type=dpdkvhostuser
        sockets+=("$run/p$number")
    done
    ovs-ofctl del-flows "$run/br0.mgmt"
    for number in $(seq 0 2 $((ports - 1))); do
        ovs-ofctl add-flow "$run/br0.mgmt" "in_port=p$number,actions=output:p$((number + 1))"
        ovs-ofctl add-flow "$run/br0.mgmt" "in_port=p$((number + 1)),actions=output:p$number"
    done
}

# with_ovs FUNCTIONS COMMAND...: what the command finds at its sockets, which it gets behind its other arguments.
with_ovs() {
    local status=0 sockets
    ovs_up "$1"
    shift
    "$@" "${sockets[@]}" || status=1
    end_ovs
    return "$status"
}

# ovs SECONDS FUNCTIONS
ovs() {
    with_ovs "$2" front "$1"
}

end_ovs() {
    local pid
    for pid in "$work/ovs/vswitchd.pid" "$work/ovs/ovsdb.pid"; do
        [[ ! -e $pid ]] || kill -TERM "$(cat "$pid")"
        while [[ -e $pid ]]; do sleep 0.1; done
    done
}

# Its buffers are on huge pages, which are given back.
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
has_ovs=false
if [[ -n $vswitchd && $("$vswitchd" --version 2>/dev/null) == *DPDK* ]]; then
    if [[ $pages_before -ge 400 ]] || echo 400 2>/dev/null >"$pages"; then has_ovs=true; fi
fi
