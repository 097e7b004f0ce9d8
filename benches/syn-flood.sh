#!/usr/bin/env bash
# Established connections of a service during a flood of first segments: `benches/syn-flood.sh [ROUNDS] [SECONDS]`. One connection of iperf3 to a virtual address, alone and while another
# host sends SYNs from made-up addresses to the same one as fast as it can (hping3), A B A B. Prints medians of throughput with the least and the most, how many SYNs a second came, and
# what has become of them: with flood / without is to be 0.9 at least where the flood has a core of its own. Ends with status 1 if the connection did not live through it.
# With CORE=N the flood has that core to itself, with and without it: all else, the network's process as well, has the others. Else the programs of the flood and those of the connection share all cores, and
# the kernel's scheduler decides as well.
# Needs jq and a release build of heddle in PATH or HEDDLE=PROGRAM. Installs Debian's iperf3 and hping3 if they are missing (as root). Everything is in namespaces.
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-5}
heddle=${HEDDLE:-heddle}
PATH=$PATH:/usr/sbin
# shellcheck source=benches/functions.sh
source "$(dirname "$0")/functions.sh"
need iperf3:iperf3 hping3:hping3 jq:jq
name=flood$$
begin
flooding=() others=()
if [[ -n ${CORE:-} ]]; then
    flooding=(taskset -c "$CORE")
    others=(taskset -c "$(seq -s, 0 $(($(nproc) - 1)) | tr , '\n' | grep -vx "$CORE" | paste -sd,)")
fi
trap '"$heddle" down "$name" >/dev/null 2>&1 || true; end' EXIT
cat >"$work/net.fabric.yaml" <<FABRIC
name: $name
nodes:
  client: host
  attacker: host
  server: { kind: host, programs: { iperf3: { run: [iperf3, --server], restart: always } } }
  leaf: switch
links:
  - between: [client, leaf]
  - between: [attacker, leaf]
  - between: [server, leaf]
services:
  web: { address: 10.1.0.80:5201, servers: [server] }
FABRIC
"${others[@]}" "$heddle" up "$work/net.fabric.yaml" >/dev/null 2>&1
until "$heddle" exec -n "$name" client iperf3 -c 10.1.0.80 -t 1 >/dev/null 2>&1; do sleep 0.1; done

# Frames that the attacker has sent.
sent() { "$heddle" show counters "$name" -o json | jq '[.[] | select(.from == "attacker") | .packets] | add // 0'; }

# Gbit/s of a connection that is there before the flood begins.
measure() { # HOW
    local flood='' before after
    "${others[@]}" "$heddle" exec -n "$name" client iperf3 -c 10.1.0.80 -t $((seconds + 2)) -O 2 -J >"$work/iperf.json" &
    local client=$!
    sleep 1
    if [[ $1 = flood ]]; then
        before=$(sent)
        "${flooding[@]}" "$heddle" exec -n "$name" attacker hping3 --flood --rand-source -q -S -p 5201 10.1.0.80 >/dev/null 2>&1 &
        flood=$!
    fi
    local status=0
    wait "$client" || status=1
    if [[ -n $flood ]]; then
        kill -INT "$flood" 2>/dev/null || true
        wait "$flood" || true
        after=$(sent)
        echo $(((after - before) / (seconds + 1))) >>"$work/rate"
    fi
    if [[ $status != 0 ]]; then
        echo "the connection has ended" >&2
        exit 1
    fi
    jq '.end.sum_received.bits_per_second / 1e9' "$work/iperf.json" >>"$work/$1"
}

for _ in $(seq "$rounds"); do
    measure alone
    measure flood
done
median_row "alone, Gbit/s" "$work/alone"
median_row "during the flood, Gbit/s" "$work/flood"
paste "$work/alone" "$work/flood" | awk '{ print $2 / $1 }' >"$work/ratio"
median_row "with / without" "$work/ratio"
median_row "SYNs a second" "$work/rate"
"$heddle" show services "$name"
