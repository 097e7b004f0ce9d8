#!/usr/bin/env bash
# A million connections: `benches/million.sh [ROUNDS] [SECONDS]`. A service for TCP, whose requests are measured on connections that last, beside one for UDP, to which 1,000,000 datagrams come, each from an
# address and port of its own (a connection for 30 s). Prints the memory of the network's process and requests a second, without and with those connections, in turn. Needs jq, python3 and a release
# build of heddle in PATH or HEDDLE=PROGRAM. Everything is in namespaces.
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-3} seconds=${2:-4}
heddle=${HEDDLE:-heddle}
# shellcheck source=benches/functions.sh
source "$(dirname "$0")/functions.sh"
need jq:jq python3:python3
name=million$$
count=${COUNT:-1000000}
begin
trap '"$heddle" down "$name" >/dev/null 2>&1 || true; end' EXIT

cat >"$work/sink.py" <<'PYTHON'
import socket, time
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(("", 9))
while True:
    sink.recv(64)
PYTHON
cat >"$work/fill.py" <<'PYTHON'
import socket, struct, sys, time
# Datagrams of one byte from 172.16.0.0/24, a subnet behind this router: IP's header is written here, its checksum by the kernel.
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
to = socket.inet_aton("10.1.0.90")
for number in range(int(sys.argv[1])):
    source = struct.pack("!I", 0xAC100000 + 2 + number // 50000)
    udp = struct.pack("!HHHHB", 10000 + number % 50000, 9, 9, 0, 0)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 29, 0, 0, 64, 17, 0, source, to)
    while True:
        try:
            out.sendto(header + udp, ("10.1.0.90", 0))
            break
        except OSError:
            pass
    # The host's device drops what finds no room, and says nothing: no more at once than it holds.
    if number % 250 == 0:
        time.sleep(0.002)
PYTHON
cat >"$work/net.fabric.yaml" <<FABRIC
name: $name
nodes:
  client: host
  filler: { kind: host, forward: true, interfaces: { leaf: { ipv4: 10.0.9.9/8 }, far: { ipv4: 172.16.0.1/24 } } }
  s1: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"] } } }
  s2: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"] } } }
  s3: { kind: host, programs: { sink: { run: [python3, $work/sink.py] } } }
  leaf: switch
  far: switch
links:
  - between: [client, leaf]
  - between: [filler, leaf]
  - between: [filler, far]
  - between: [s1, leaf]
  - between: [s2, leaf]
  - between: [s3, leaf]
services:
  web: { address: 10.1.0.80:80, servers: [s1, s2] }
  sink: { address: 10.1.0.90:9, protocol: udp, servers: [s3] }
FABRIC
measure() { # WHAT
    awk '/VmRSS/ { print $2 / 1024 }' "/proc/$daemon/status" >>"$work/$1.memory"
    "$heddle" show services "$name" -o json | jq '[.. | .active? // 0 | numbers] | add' >>"$work/$1.active"
    "$heddle" exec -n "$name" client -- "$heddle" load 10.1.0.80:80 --clients 32 --for "${seconds}s" --warm-up 1s -o json 2>/dev/null | jq '.["per-second"]' >>"$work/$1.rate"
}
for _ in $(seq "$rounds"); do
    "$heddle" up "$work/net.fabric.yaml" >/dev/null 2>&1
    until "$heddle" exec -n "$name" client -- "$heddle" load 10.1.0.80:80 --clients 8 --for 1s >/dev/null 2>&1; do sleep 0.1; done
    daemon=$("$heddle" list -o json | jq -r --arg name "$name" '.[] | select(.name == $name) | .pid')
    measure without
    "$heddle" exec -n "$name" filler -- python3 "$work/fill.py" "$count"
    measure with
    "$heddle" down "$name" >/dev/null
done
for what in without with; do
    median_row "$what: connections" "$work/$what.active"
    median_row "$what: memory, MiB" "$work/$what.memory"
    median_row "$what: requests a second" "$work/$what.rate"
done
